# SPDX-License-Identifier: Apache-2.0
"""How one policy stands to one action: whether it binds, what lifted it, whether it speaks for it (DESIGN 3.2, 3.3).

Deny, confirm and deny-by-default bind unless `where` is false or `unless` is true; a permit, and a confirm that lifts
a default, count only where they surely apply. Which of several prevails is said by `standing`.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from carriage_core.clause import clause_of, quote, render_clause, render_literal
from carriage_core.condition import Truth, attributes
from carriage_core.counters import charges_of
from carriage_core.policy import ANY_ACTION, Effect, Mode, Policy
from carriage_core.prepared import prepared
from carriage_core.schema import Absent, Value
from carriage_core.verdict import Reason
from carriage_core.views import views_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from carriage_core.binding import Action
    from carriage_core.compiled import Decider
    from carriage_core.counters import Charge, CounterLedger
    from carriage_core.prepared import Sieve
    from carriage_core.runtime import EvidenceLedger, EvidenceRecord, Moment, RuntimeState
    from carriage_core.views import View

MAX_ASSIGNMENTS: Final = 4_096
"""Most combinations of evidence records tried for one rule; past it the rule stands."""

MASK: Final = "(secret)"
"""Stands for the value of a secret attribute wherever a verdict would show it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What a decision rests on beside the call: one snapshot, read throughout.

    Attributes:
        runtime: Who acts.
        moment: The decision's one sample of the clock.
        ledger: Read for live evidence and approvals; nothing is taken.
        counters: Read for what counters stand at; nothing is charged.
    """

    runtime: RuntimeState
    moment: Moment
    ledger: EvidenceLedger
    counters: CounterLedger


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """One policy of A* on one action.

    Attributes:
        policy: The policy.
        view: The view a reason shows.
        lifted: Whether `unless` is true, so that a deny, confirm or default does not bind.
        speaks: For a permit or confirm: whether it surely applies, so that it lifts a default.
        records: The evidence that made `unless` true.
        charges: What executing the action adds to the policy's counters.
    """

    policy: Policy
    view: View
    lifted: bool
    speaks: bool
    records: tuple[EvidenceRecord, ...] = ()
    charges: tuple[Charge, ...] = ()

    @property
    def observed(self) -> bool:
        """Whether it only marks."""
        return self.policy.mode is Mode.OBSERVE


def rule_on(
    policy: Policy, action: Action, members: tuple[View, ...], held: Circumstances, pending: Iterable[Charge]
) -> Ruling:
    """Rule on an action that `policy` governs.

    Args:
        policy: A member of A*.
        action: The action.
        members: Its views, one for each member of the chain.
        held: Evidence, counters and the rest.
        pending: Charges of the same call's earlier actions.
    """
    seen = views_of(policy, action, members)
    charges: tuple[Charge, ...] = ()
    if policy.counters:
        seen, charges = _counted(policy, members, seen, held, tuple(pending))
    if policy.effect is Effect.PERMIT:
        unless = prepared(policy).unless
        surely_not = unless is None or all(unless(view) is Truth.FALSE for view in seen)
        speaks = held.moment.trusted and _certain(policy, action, seen) and surely_not
        return Ruling(policy=policy, view=seen[-1], lifted=False, speaks=speaks)
    records = _lifting(policy, seen, held)
    return Ruling(
        policy=policy,
        view=seen[-1],
        lifted=records is not None,
        speaks=policy.effect is Effect.CONFIRM and records is None and _certain(policy, action, seen),
        records=records or (),
        charges=charges,
    )


def _counted(
    policy: Policy, members: tuple[View, ...], seen: tuple[View, ...], held: Circumstances, pending: tuple[Charge, ...]
) -> tuple[tuple[View, ...], tuple[Charge, ...]]:
    """Put what counters stand at into the views, each member's own: nobody's limit is dodged by delegating (3.4)."""
    found: list[View] = []
    charges: list[Charge] = []
    for index, member in enumerate(members):
        own = charges_of(policy, member, held.runtime)
        charges += own.values()
        values: dict[str, Value | Absent] = {
            f"counter.{name}": held.counters.value(charge, pending=pending, moment=held.moment)
            for name, charge in own.items()
        }
        # Several views of one member stand together.
        found += [
            view.extended(values) for view in seen[index * len(seen) // len(members) :][: len(seen) // len(members)]
        ]
    return tuple(found), tuple(dict.fromkeys(charges))


def standing(rulings: Iterable[Ruling]) -> tuple[Ruling, ...]:
    """The rulings on one action that bind, after permits and confirms have lifted defaults (DESIGN 3.1, 3.2)."""
    rulings = tuple(rulings)
    # 3.1: a permit lifts a default of its own or a lower rank, and nothing else.
    speaking = [ruling.policy.issuer.kind.rank for ruling in rulings if ruling.speaks]
    highest = min(speaking) if speaking else None
    return tuple(
        [
            ruling
            for ruling in rulings
            if not ruling.lifted
            and (effect := ruling.policy.effect) is not Effect.PERMIT
            and not (
                effect is Effect.DEFAULT_DENY and highest is not None and highest <= ruling.policy.issuer.kind.rank
            )
        ]
    )


def _certain(policy: Policy, action: Action, seen: tuple[View, ...]) -> bool:
    """Whether the policy applies whatever is unknown: the action and type are known and `where` is true."""
    if action.name is None or (policy.actions != (ANY_ACTION,) and action.name not in policy.actions):
        return False
    if policy.object_type not in {None, action.object_type}:
        return False
    where = prepared(policy).where
    return where is None or _true(where, seen)


def _true(decide: Decider, seen: tuple[View, ...]) -> bool:
    for view in seen:  # noqa: SIM110  # a generator costs more than most conditions
        if decide(view) is not Truth.TRUE:
            return False
    return True


def _lifting(policy: Policy, seen: tuple[View, ...], held: Circumstances) -> tuple[EvidenceRecord, ...] | None:
    """Find records under which `unless` is true in every view; None where the rule stands."""
    ready = prepared(policy)
    if ready.unless is None:
        return None
    choices: list[tuple[Sieve, list[EvidenceRecord]]] = []
    for sieve in ready.sieves:
        passing = [
            record
            for record in held.ledger.live(sieve.declaration, runtime=held.runtime, moment=held.moment)
            if _passes(sieve, record, seen)
        ]
        if passing:
            choices.append((sieve, passing))
        elif sieve.needed:
            return None
    if not choices:
        return () if _true(ready.unless, seen) else None
    for assignment in itertools.islice(_assignments(choices), MAX_ASSIGNMENTS):
        if _true(ready.unless, _with_evidence(seen, assignment)):
            return tuple(record for _, record in assignment)
    return None


def _passes(sieve: Sieve, record: EvidenceRecord, seen: tuple[View, ...]) -> bool:
    if not sieve.parts:
        return True
    extended = _with_evidence(seen, ((sieve, record),))
    for part in sieve.parts:  # noqa: SIM110  # as above
        if not _true(part, extended):
            return False
    return True


def _assignments(
    choices: Sequence[tuple[Sieve, list[EvidenceRecord]]],
) -> Iterator[tuple[tuple[Sieve, EvidenceRecord], ...]]:
    """Yield every choice of one record or none for each handle, fewest records first, so that none is spent idly."""
    for size in range(len(choices) + 1):
        for chosen in itertools.combinations(choices, size):
            for records in itertools.product(*(records for _, records in chosen)):
                yield tuple(zip((sieve for sieve, _ in chosen), records, strict=True))


def _with_evidence(seen: tuple[View, ...], assignment: tuple[tuple[Sieve, EvidenceRecord], ...]) -> tuple[View, ...]:
    if not assignment:
        return seen
    fields = {sieve.names[name]: value for sieve, record in assignment for name, value in record.fields.items()}
    return tuple([view.extended(fields) for view in seen])


def reason_of(ruling: Ruling, secret: frozenset[str]) -> Reason:
    """Say why a ruling binds; values of `secret` attributes are masked here and never leave (DESIGN 3.9)."""
    ready = prepared(ruling.policy)
    if ready.explained is None:
        ready.explained = _explained(ruling.policy)
    clause, names, lift = ready.explained
    return Reason(
        policy_id=ruling.policy.id,
        effect=ruling.policy.effect.value,
        clause=clause,
        values=tuple([(name, MASK if name in secret else _shown(ruling.view[name])) for name in names]),
        lift=lift,
        observed=ruling.observed,
    )


def _explained(policy: Policy) -> tuple[str, tuple[str, ...], str]:
    clause = clause_of(policy)
    names = sorted(
        name for name in attributes(policy.where) | attributes(policy.unless) if not name.startswith("evidence.")
    )
    if policy.effect is Effect.DEFAULT_DENY:
        lift = "It is lifted by a permit for this action of the same or a higher rank"
    elif policy.unless is None:
        return "" if clause is None else render_clause(clause), tuple(names), "Nothing lifts it."
    else:
        lift = "It is lifted once its 'unless' holds"
    sources = sorted({declaration.from_tool for _, declaration in policy.evidence})
    lift += f"; {' and '.join(sources)} provides the evidence." if sources else "."
    return "" if clause is None else render_clause(clause), tuple(names), lift


def _shown(value: Value | Absent) -> str:
    if type(value) is str:
        return quote(value)[:120]
    return value.value if isinstance(value, Absent) else render_literal(value)[:120]
