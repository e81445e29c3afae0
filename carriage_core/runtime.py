# SPDX-License-Identifier: Apache-2.0
"""Trusted runtime state: who acts where, what time it is, and the evidence there is (DESIGN 3.3, 3.5)."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

from carriage_core.errors import EvidenceError
from carriage_core.policy import EvidenceDeclaration, FieldOrigin, FieldSource
from carriage_core.schema import Absent, Value, canonical_value, normal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeState:
    """Who acts: tenant, task, and the delegation chain whose last member makes the call."""

    tenant: str | None = None
    task: str | None = None
    chain: tuple[str, ...] = ()

    @property
    def actor(self) -> str | None:
        """The agent that acts, None where the plane was not told."""
        return self.chain[-1] if self.chain else None


@dataclass(frozen=True, slots=True)
class Moment:
    """One sample of the clock. After the clock went backwards, `trusted` is false for good (DESIGN 3.3)."""

    now: datetime
    trusted: bool


class Clock:
    """Samples that never decrease; safe to share between threads."""

    def __init__(self, source: Callable[[], datetime] | None = None) -> None:
        """Sample `source`, which must return instants with a zone; the system's clock if none is given."""
        self._source = source or partial(datetime.now, UTC)
        self._lock = threading.Lock()
        self._latest = datetime.min.replace(tzinfo=UTC)
        self._trusted = True

    def sample(self) -> Moment:
        """Take the one sample that a decision uses throughout."""
        read = self._source()
        with self._lock:
            if read < self._latest:
                self._trusted = False
            else:
                self._latest = read
            return Moment(self._latest, self._trusted)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceRecord:
    """One thing infrastructure saw: immutable, filed under its declaration and key."""

    id: str
    declaration: str
    fields: Mapping[str, Value | Absent]
    runtime: RuntimeState
    call_id: str | None
    argument_digest: str
    recorded_at: datetime
    expires_at: datetime | None
    single_use: bool

    def live(self, moment: Moment) -> bool:
        """Whether it still counts; with an untrusted clock nothing does (DESIGN 3.3: evidence lapses)."""
        return moment.trusted and (self.expires_at is None or moment.now < self.expires_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """A confirmation of one call: one use, bound to the digest of everything about the call."""

    id: str
    call_digest: str
    by: str
    expires_at: datetime


MAX_RECORDS: Final = 100_000
"""Most evidence records and approvals a ledger holds; past it recording is refused, which denies."""


class EvidenceLedger:
    """Evidence and approvals, with reservation by compare-and-set (DESIGN 3.5). Safe between threads.

    States of a one-use item: free, reserved by a decision, spent. What was never started goes back to free; what
    has an unknown outcome stays spent.
    """

    def __init__(self) -> None:
        """Start empty: nothing has been verified and nothing approved."""
        self._lock = threading.Lock()
        self._records: dict[str, dict[tuple[object, ...], EvidenceRecord]] = {}
        self._approvals: dict[str, Approval] = {}
        self._taken: dict[str, str] = {}
        self._count = 0

    def record(
        self,
        declaration: EvidenceDeclaration,
        *,
        arguments: Mapping[str, object],
        result: object,
        runtime: RuntimeState,
        moment: Moment,
        call_id: str | None,
        argument_digest: str,
    ) -> EvidenceRecord:
        """File what a trusted tool returned for the arguments that were executed.

        The latest record replaces the earlier one of the same key. A result that cannot be filed also removes the
        earlier record: what was verified before is no longer known to hold.

        Raises:
            EvidenceError: The result is not a structured object, a field of it is absent, a key field has no
                normal value, or the ledger is full.
        """
        fields: dict[str, Value | Absent] = {}
        for name, source in declaration.fields:
            origin = arguments if source.origin is FieldOrigin.ARGUMENT else result
            fields[name] = _at(origin, source)
        key = self._key(declaration, fields, runtime)
        with self._lock:
            filed = self._records.setdefault(declaration.digest, {})
            filed.pop(key, None)
            if not isinstance(result, Mapping):
                raise EvidenceError(
                    f"{declaration.from_tool!r} returned a {type(result).__name__}, not a structured object.",
                    mend="return a mapping or a pydantic model with the declared fields.",
                )
            absent = sorted(name for name, value in fields.items() if isinstance(value, Absent))
            if absent:
                raise EvidenceError(
                    f"the evidence field {absent[0]!r} of {declaration.from_tool!r} has no usable value.",
                    mend="return it as a plain string, number or truth value.",
                )
            if self._count >= MAX_RECORDS:
                raise EvidenceError("the evidence ledger is full.", mend="start a new plane for the next task.")
            self._count += 1
            record = EvidenceRecord(
                id=f"evidence-{self._count}",
                declaration=declaration.digest,
                fields=fields,
                runtime=runtime,
                call_id=call_id,
                argument_digest=argument_digest,
                recorded_at=moment.now,
                expires_at=None
                if declaration.expires_seconds is None
                else moment.now + timedelta(seconds=declaration.expires_seconds),
                single_use=declaration.single_use,
            )
            filed[key] = record
            return record

    def forget(
        self, declaration: EvidenceDeclaration, *, arguments: Mapping[str, object], runtime: RuntimeState
    ) -> None:
        """Remove the record of a key, because its tool has just failed and the old answer no longer counts."""
        fields = {
            name: _at(arguments, source) for name, source in declaration.fields if source.origin is FieldOrigin.ARGUMENT
        }
        with self._lock:
            self._records.get(declaration.digest, {}).pop(self._key(declaration, fields, runtime), None)

    def live(
        self, declaration: EvidenceDeclaration, *, runtime: RuntimeState, moment: Moment
    ) -> tuple[EvidenceRecord, ...]:
        """List the records a decision may use: live, unspent, of the same tenant and task.

        And of the same chain, unless the declaration is shared (DESIGN 3.4: evidence crosses only where declared).
        """
        holder = _holder(declaration, runtime)
        with self._lock:
            filed = self._records.get(declaration.digest)
            if not filed:
                return ()
            return tuple(
                [
                    record
                    for record in filed.values()
                    if (record.runtime is runtime or _holder(declaration, record.runtime) == holder)
                    and record.id not in self._taken
                    and record.live(moment)
                ]
            )

    def approve(self, call_digest: str, *, by: str, moment: Moment, life: timedelta) -> Approval:
        """File a confirmation of the call with that digest; good for one execution within `life`."""
        with self._lock:
            self._count += 1
            approval = Approval(
                id=f"approval-{self._count}", call_digest=call_digest, by=by, expires_at=moment.now + life
            )
            self._approvals[call_digest] = approval
            return approval

    def approval(self, call_digest: str, *, moment: Moment) -> Approval | None:
        """Find an unused, unexpired approval of exactly that call."""
        with self._lock:
            approval = self._approvals.get(call_digest)
            if approval is None or approval.id in self._taken:
                return None
            return approval if moment.trusted and moment.now < approval.expires_at else None

    def reserve(self, items: Iterable[str], decision: str) -> bool:
        """Take all one-use `items` for a decision, or none of them and return False."""
        items = tuple(items)
        with self._lock:
            if any(item in self._taken for item in items):
                return False
            self._taken.update(dict.fromkeys(items, decision))
            return True

    def release(self, decision: str) -> None:
        """Give back what a decision reserved; only for an action that was never started."""
        with self._lock:
            for item in [item for item, holder in self._taken.items() if holder == decision]:
                del self._taken[item]

    @staticmethod
    def _key(
        declaration: EvidenceDeclaration, fields: Mapping[str, Value | Absent], runtime: RuntimeState
    ) -> tuple[object, ...]:
        values = (fields.get(name, Absent.MISSING) for name in declaration.key)
        return (
            _holder(declaration, runtime),
            *(
                value if isinstance(value, Absent) else (type(value).__name__, str(canonical_value(value)))
                for value in values
            ),
        )


def _holder(declaration: EvidenceDeclaration, runtime: RuntimeState) -> RuntimeState:
    """Whom a record is filed for: an agent in its place of the chain, or everybody of a tenant and task."""
    return RuntimeState(tenant=runtime.tenant, task=runtime.task) if declaration.shared else runtime


def _at(value: object, source: FieldSource) -> Value | Absent:
    for step in source.path.split("."):
        if not isinstance(value, Mapping) or step not in value:
            return Absent.MISSING
        value = value[step]
    return normal(value, source.sort)
