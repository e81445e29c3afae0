# SPDX-License-Identifier: Apache-2.0
"""Counters: what authorised actions of a policy add up to, per key and window (DESIGN 3.5; resource bounds).

``counter.NAME`` is what the window holds already plus the judged call itself, so "at most 500 a day" reads
``unless counter.NAME <= 500``. A charge is reserved with the decision, before the action runs, and given back only
for an action that was never started.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Context, Decimal, Inexact
from typing import TYPE_CHECKING, Final

from carriage_core.schema import Absent

if TYPE_CHECKING:
    from collections.abc import Iterable

    from carriage_core.policy import CounterDeclaration, Policy
    from carriage_core.runtime import Moment, RuntimeState
    from carriage_core.schema import Value
    from carriage_core.views import View

MAX_CHARGES: Final = 1_000_000
"""Most charges that are kept; past it charging is refused, which denies."""

_ZERO: Final = Decimal(0)
# Sums are exact or unknown: a rounded sum could stay under a limit that was passed.
_EXACT: Final = Context(prec=1_000, traps=[Inexact])

type Account = tuple[object, ...]
"""Which policy's counter of which tenant, whatever the key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """What one action adds to one counter.

    Attributes:
        account: The counter.
        key: The values of its key attributes, None where one is not known: then it counts against every key.
        amount: What to add, None where it is not known: then the sum is unknown while the charge is in the window.
        window: How long it counts.
    """

    account: Account
    key: tuple[object, ...] | None
    amount: Decimal | None
    window: timedelta


def charges_of(policy: Policy, view: View, runtime: RuntimeState) -> dict[str, Charge]:
    """What an action would add to each counter of a policy that governs it."""
    return {name: _charge(policy, name, declaration, view, runtime) for name, declaration in policy.counters}


def _charge(policy: Policy, name: str, declaration: CounterDeclaration, view: View, runtime: RuntimeState) -> Charge:
    key = [_tagged(view[attribute]) for attribute in declaration.key]
    # A new version of a policy goes on counting, unless it counts something else.
    account = (policy.identity, name, declaration, runtime.tenant)
    return Charge(
        account=account,
        key=None if None in key else tuple(key),
        amount=Decimal(1) if declaration.amount is None else _amount(view[declaration.amount]),
        window=timedelta(seconds=declaration.window_seconds),
    )


def _tagged(value: Value | Absent) -> object:
    return None if isinstance(value, Absent) else (type(value).__name__, value)


def _amount(value: Value | Absent) -> Decimal | None:
    # Nobody gets budget back by naming a negative amount.
    return value if isinstance(value, Decimal) and value >= 0 else None


class _Sums:
    """Charges of one counter still in its window, oldest first, with their running sums.

    One counter has one window and the clock never runs backwards while it is trusted, so the oldest charge is always
    the first to leave: adding and reading cost the same however many charges there are (invariant 12).
    """

    __slots__ = ("charges", "sums", "unknown")

    def __init__(self) -> None:
        self.charges: deque[tuple[datetime, str, Charge]] = deque()
        # By key; None holds what counts against every key.
        self.sums: dict[tuple[object, ...] | None, Decimal] = {}
        self.unknown: dict[tuple[object, ...] | None, int] = {}

    def add(self, at: datetime, decision: str, charge: Charge) -> None:
        self.charges.append((at, decision, charge))
        self._count(charge, 1)

    def expire(self, now: datetime) -> int:
        """Drop what left the window and say how many did."""
        gone = 0
        while self.charges and now >= self.charges[0][0] + self.charges[0][2].window:
            self._count(self.charges.popleft()[2], -1)
            gone += 1
        return gone

    def drop(self, decision: str) -> int:
        """Drop the charges of one decision and say how many there were."""
        gone = [charge for _, held, charge in self.charges if held == decision]
        self.charges = deque(entry for entry in self.charges if entry[1] != decision)
        for charge in gone:
            self._count(charge, -1)
        return len(gone)

    def total(self, key: tuple[object, ...]) -> Decimal | None:
        """What counts against a key, None where an amount of it is not known."""
        if self.unknown.get(key) or self.unknown.get(None):
            return None
        return _EXACT.add(self.sums.get(key, _ZERO), self.sums.get(None, _ZERO))

    def _count(self, charge: Charge, sign: int) -> None:
        if charge.amount is None:
            count = self.unknown.get(charge.key, 0) + sign
            if count:
                self.unknown[charge.key] = count
            else:
                self.unknown.pop(charge.key, None)
            return
        amount = charge.amount if sign > 0 else charge.amount.copy_negate()
        total = _EXACT.add(self.sums.get(charge.key, _ZERO), amount)
        if total:
            self.sums[charge.key] = total
        else:
            self.sums.pop(charge.key, None)


class CounterLedger:
    """Charges by account. Safe between threads."""

    def __init__(self) -> None:
        """Start at zero."""
        self._lock = threading.Lock()
        self._accounts: dict[Account, _Sums] = {}
        self._count = 0

    def value(self, charge: Charge, *, pending: Iterable[Charge] = (), moment: Moment) -> Value | Absent:
        """What the counter would stand at with `charge`.

        Args:
            charge: The judged action's own.
            pending: Those of other actions of the same call.
            moment: The decision's sample; with an untrusted clock the sum is unknown.
        """
        if charge.key is None or charge.amount is None or not moment.trusted:
            return Absent.UNKNOWN
        with self._lock:
            sums = self._live(charge.account, moment)
            total = _ZERO if sums is None else sums.total(charge.key)
        for held in pending:
            if held.account == charge.account and held.key in {None, charge.key}:
                total = None if total is None or held.amount is None else _EXACT.add(total, held.amount)
        return Absent.UNKNOWN if total is None else _EXACT.add(total, charge.amount)

    def reserve(self, charges: Iterable[Charge], decision: str, *, moment: Moment) -> bool:
        """Keep the charges of a decision; False, and none kept, where the ledger is full."""
        charges = tuple(charges)
        with self._lock:
            if self._count + len(charges) > MAX_CHARGES:
                for account in list(self._accounts):
                    self._live(account, moment)
                if self._count + len(charges) > MAX_CHARGES:
                    return False
            for charge in charges:
                self._accounts.setdefault(charge.account, _Sums()).add(moment.now, decision, charge)
                self._count += 1
            return True

    def release(self, decision: str, charges: Iterable[Charge]) -> None:
        """Give back the charges of a decision whose action was never started."""
        with self._lock:
            for account in {charge.account for charge in charges}:
                if account in self._accounts:
                    self._count -= self._accounts[account].drop(decision)

    def _live(self, account: Account, moment: Moment) -> _Sums | None:
        """The counter without what left its window; with an untrusted clock nothing leaves."""
        sums = self._accounts.get(account)
        if sums is not None and moment.trusted:
            self._count -= sums.expire(moment.now)
            if not sums.charges:
                del self._accounts[account]
                return None
        return sums
