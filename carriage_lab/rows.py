# SPDX-License-Identifier: Apache-2.0
"""The counted outcome: tallies while running, rows when done."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from carriage_lab.placement import Placement
    from carriage_lab.trace import StackName


class Key(NamedTuple):
    """What a row is about."""

    stack: StackName
    manager: str
    ours: bool
    placement: Placement
    rho: float


@dataclass(slots=True, kw_only=True)
class Tally:
    """Outcomes of the calls of one key. ``calls = preserved + absent + failed_closed``, always.

    Attributes:
        calls: Recorded model calls judged.
        preserved: Calls made with the policy visible where it counts.
        absent: Calls made without.
        failed_closed: Calls not made, because a drop-in refused.
        over_budget: Calls made whose data, control and system text excluded, exceed the data budget.
        silent_incomplete: Calls made with the policy missing and nobody told. No manager of these stacks
            tells, so it equals ``absent``; a manager that did would differ.
        invalid_transcripts: Calls made whose messages have a defect that the unreduced history does not have.
        control_tokens: The most control tokens any call carried; drop-ins only.
    """

    calls: int = 0
    preserved: int = 0
    absent: int = 0
    failed_closed: int = 0
    over_budget: int = 0
    silent_incomplete: int = 0
    invalid_transcripts: int = 0
    control_tokens: int = 0

    def plus(self, other: Tally) -> Tally:
        """Add the counts, keep the larger maximum."""
        total = {field.name: getattr(self, field.name) + getattr(other, field.name) for field in fields(self)}
        total["control_tokens"] = max(self.control_tokens, other.control_tokens)
        return Tally(**total)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table, in its column order."""

    stack: str
    manager: str
    ours: bool
    placement: str
    rho: float
    calls: int
    preserved: int
    absent: int
    failed_closed: int
    over_budget: int
    silent_incomplete: int
    invalid_transcripts: int


COLUMNS = tuple(field.name for field in fields(Row))


def merged(left: Mapping[Key, Tally], right: Mapping[Key, Tally]) -> dict[Key, Tally]:
    """Add two sets of tallies into a new one; neither is changed, so an interrupt cannot leave half a sum."""
    return {**left, **{key: left[key].plus(tally) if key in left else tally for key, tally in right.items()}}


def rows(tallies: Mapping[Key, Tally]) -> Iterator[Row]:
    """Turn tallies into rows, in the order their keys were first seen."""
    for key, tally in tallies.items():
        yield Row(
            stack=key.stack,
            manager=key.manager,
            ours=key.ours,
            placement=key.placement.value,
            rho=key.rho,
            calls=tally.calls,
            preserved=tally.preserved,
            absent=tally.absent,
            failed_closed=tally.failed_closed,
            over_budget=tally.over_budget,
            silent_incomplete=tally.silent_incomplete,
            invalid_transcripts=tally.invalid_transcripts,
        )
