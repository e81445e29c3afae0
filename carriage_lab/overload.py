# SPDX-License-Identifier: Apache-2.0
"""The overload table: who stops, and who goes on in silence, when control does not fit (paper Table VII).

Outcomes are judged from the messages alone, by `Case.complete`. Whether the active sentences would have fitted is
counted from the sentences. No verdict of the control plane is believed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from carriage_core import Tier
from carriage_lab.overload_baselines import joined, pinning, replay, words
from carriage_lab.overload_capsules import capsule, tier_tokens

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from carriage_core import PolicyRegistry
    from carriage_lab.overload_baselines import Assemble, Messages
    from carriage_lab.overload_cases import Case, Plan


class Outcome(StrEnum):
    """What became of a call."""

    COMPLETE = "complete"
    FAILED_CLOSED = "failed_closed"
    SILENT_INCOMPLETE = "silent_incomplete"


class Counts(NamedTuple):
    """The three columns of the paper's table; no overhead for a system that never refuses."""

    fail_closed: int
    silent_incomplete: int
    raw_fit_overhead: int | None


ACTIVE_PREFLIGHT: Final = "Exact active-policy replay + preflight"
TIERED: Final = "ControlCapsule tiered"

PAPER: Final = {
    "Exact all-policy replay, best effort": Counts(0, 48, None),
    "Exact all-policy replay + preflight": Counts(48, 0, 23),
    "Exact active-policy replay, best effort": Counts(0, 25, None),
    "Exact active replay + extra budget": Counts(0, 20, None),
    ACTIVE_PREFLIGHT: Counts(25, 0, 0),
    "Static pinning, best effort": Counts(0, 25, None),
    "Static pinning + preflight": Counts(25, 0, 0),
    "ControlCapsule verbose": Counts(31, 0, 6),
    "ControlCapsule compact": Counts(27, 0, 2),
}
"""Table VII as printed, out of 48."""


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """One line of the table.

    Attributes:
        name: As the paper names it.
        checks: Whether it checks that all fits; a best effort never refuses.
        assemble: What it sends in a case.
    """

    name: str
    checks: bool
    assemble: Assemble


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What one system did in one case.

    Attributes:
        case: The case.
        system: The system.
        outcome: What became of the call.
        policy_set: The case's policy set.
        budget: Its control budget, in words.
        raw_tokens: Words of the active sentences.
        sent_tokens: Words of control that were sent; None where no call was made.
    """

    case: str
    system: str
    outcome: Outcome
    policy_set: str
    budget: int
    raw_tokens: int
    sent_tokens: int | None

    @property
    def overhead(self) -> bool:
        """Whether the call was refused though the active sentences fit."""
        return self.outcome is Outcome.FAILED_CLOSED and self.raw_tokens <= self.budget


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """The counts of one system, with the rows they come from."""

    system: str
    counts: Counts
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Words of one policy set in every form."""

    policy_set: str
    rules: int
    texts: int
    full: int
    compact: int
    exact: int


def systems(plan: Plan, registry: PolicyRegistry) -> tuple[System, ...]:
    """List the systems, in the paper's order; the last ones of each kind are not in the paper."""
    overhead = {size.policy_set: max(0, size.compact - size.texts) for size in sizes(plan, registry)}

    def extra(case: Case) -> int:
        return overhead[case.set.name]

    def best(name: str, assemble: Assemble) -> System:
        return System(name=name, checks=False, assemble=assemble)

    def checked(name: str, assemble: Assemble) -> System:
        return System(name=name, checks=True, assemble=assemble)

    return (
        best("Exact all-policy replay, best effort", replay(rules=plan.rules, preflight=False)),
        checked("Exact all-policy replay + preflight", replay(rules=plan.rules, preflight=True)),
        best("Exact active-policy replay, best effort", replay(rules=None, preflight=False)),
        best("Exact active replay + extra budget", replay(rules=None, preflight=False, extra=extra)),
        checked("Exact active replay + extra budget + preflight", replay(rules=None, preflight=True, extra=extra)),
        checked(ACTIVE_PREFLIGHT, replay(rules=None, preflight=True)),
        best("Static pinning, best effort", pinning(preflight=False)),
        checked("Static pinning + preflight", pinning(preflight=True)),
        checked("ControlCapsule verbose", capsule(registry, Tier.FULL)),
        checked("ControlCapsule compact", capsule(registry, Tier.COMPACT)),
        checked(TIERED, capsule(registry, Tier.EXACT)),
    )


def measure(systems_: Iterable[System], cases: Sequence[Case]) -> tuple[Line, ...]:
    """Run every system over every case and count."""
    return tuple(_line(system, [_row(system, case) for case in cases]) for system in systems_)


def sizes(plan: Plan, registry: PolicyRegistry) -> tuple[Size, ...]:
    """Measure every policy set in every form."""
    return tuple(
        Size(
            policy_set=each.name,
            rules=len(each.active),
            texts=words(joined(each.active)),
            full=tier_tokens(registry, each, Tier.FULL),
            compact=tier_tokens(registry, each, Tier.COMPACT),
            exact=tier_tokens(registry, each, Tier.EXACT),
        )
        for each in plan.sets
    )


def _row(system: System, case: Case) -> Row:
    messages = system.assemble(case)
    return Row(
        case=case.name,
        system=system.name,
        outcome=_outcome(case, messages),
        policy_set=case.set.name,
        budget=case.budget,
        raw_tokens=words(joined(case.active)),
        sent_tokens=None if messages is None else sum(words(each["content"]) for each in messages[:-1]),
    )


def _outcome(case: Case, messages: Messages | None) -> Outcome:
    if messages is None:
        return Outcome.FAILED_CLOSED
    return Outcome.COMPLETE if case.complete(messages) else Outcome.SILENT_INCOMPLETE


def _line(system: System, rows: Sequence[Row]) -> Line:
    outcomes = [row.outcome for row in rows]
    return Line(
        system=system.name,
        counts=Counts(
            outcomes.count(Outcome.FAILED_CLOSED),
            outcomes.count(Outcome.SILENT_INCOMPLETE),
            sum(row.overhead for row in rows) if system.checks else None,
        ),
        rows=tuple(rows),
    )
