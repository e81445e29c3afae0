# SPDX-License-Identifier: Apache-2.0
"""Counters: what authorised actions of a policy add up to, per key and window (DESIGN 3.5; resource bounds).

``counter.NAME`` is what the window holds already plus the judged call itself, so "at most 500 a day" reads
``unless counter.NAME <= 500``. A charge is reserved with the decision, before the action runs, and given back only
for an action that was never started.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
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


class CounterLedger:
    """Charges by account. Safe between threads."""

    def __init__(self) -> None:
        """Start at zero."""
        self._lock = threading.Lock()
        self._charges: dict[Account, list[tuple[datetime, str, Charge]]] = {}
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
            kept = self._live(charge.account, moment)
            earlier = [held for _, _, held in kept]
        total = charge.amount
        for held in (*earlier, *(other for other in pending if other.account == charge.account)):
            if held.key is None or held.key == charge.key:
                if held.amount is None:
                    return Absent.UNKNOWN
                total += held.amount
        return total

    def reserve(self, charges: Iterable[Charge], decision: str, *, moment: Moment) -> bool:
        """Keep the charges of a decision; False, and none kept, where the ledger is full."""
        charges = tuple(charges)
        with self._lock:
            if self._count + len(charges) > MAX_CHARGES:
                for account in list(self._charges):
                    self._live(account, moment)
                if self._count + len(charges) > MAX_CHARGES:
                    return False
            for charge in charges:
                self._charges.setdefault(charge.account, []).append((moment.now, decision, charge))
                self._count += 1
            return True

    def release(self, decision: str, charges: Iterable[Charge]) -> None:
        """Give back the charges of a decision whose action was never started."""
        with self._lock:
            for account in {charge.account for charge in charges}:
                held = self._charges.get(account, [])
                kept = [entry for entry in held if entry[1] != decision]
                self._count -= len(held) - len(kept)
                self._charges[account] = kept

    def _live(self, account: Account, moment: Moment) -> list[tuple[datetime, str, Charge]]:
        """Drop what left its window; with an untrusted clock nothing does."""
        held = self._charges.get(account, [])
        kept = [entry for entry in held if not moment.trusted or moment.now < entry[0] + entry[2].window]
        if len(kept) != len(held):
            self._count -= len(held) - len(kept)
            self._charges[account] = kept
        return kept
