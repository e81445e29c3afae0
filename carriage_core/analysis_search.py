# SPDX-License-Identifier: Apache-2.0
"""Looks for one point that shows a difference, and says so when there is none (DESIGN 3.11).

Variables get values one at a time. After each, both sides are judged as far as they can be: what they may still come
to is a range. Where the ranges rule the difference out, no value of the other variables is tried; where they make it
certain, the rest is filled in. What remains is a proof: every point was looked at or ruled out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from carriage_core.analysis_attributes import atom_truth
from carriage_core.analysis_strings import UndecidableError
from carriage_core.condition import All, AnyOf, Attribute, Compare, Condition, Not
from carriage_core.schema import Absent

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from carriage_core.analysis_attributes import Variable
    from carriage_core.analysis_points import Point

type Assigned = dict[Variable, Any]
"""What each variable was given: mostly a `Value` or `Absent`."""

type Range = tuple[int, int]
"""The least and the most that something may still come to."""

OPEN = object()
"""Stands for the value of a variable that has none yet."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """What values some variables cannot have together."""

    variables: frozenset[Variable]
    allows: Callable[[Assigned], bool]


class Goal(Protocol):
    """The difference that is looked for."""

    def __call__(self, first: Range, second: Range, /) -> tuple[bool, bool]:
        """Whether it may still be there, and whether it surely is."""
        ...


def exceeds(first: Range, second: Range) -> tuple[bool, bool]:
    """The first side comes to more than the second."""
    return first[1] > second[0], first[0] > second[1]


@dataclass(frozen=True, slots=True)
class BothReach:
    """Both sides come to at least so much."""

    least: int

    def __call__(self, first: Range, second: Range, /) -> tuple[bool, bool]:
        """Whether both may, and whether both surely do."""
        return min(first[1], second[1]) >= self.least, min(first[0], second[0]) >= self.least


class Ranges:
    """What conditions may still come to, with the variables that stand open in them."""

    def __init__(self) -> None:
        """Start with no atom judged."""
        self.open: list[Variable] = []
        self._known: dict[tuple[object, ...], int] = {}
        self._kept: list[Compare] = []

    def of(self, condition: Condition, value: Callable[[str], Any]) -> Range:
        """Judge a condition; `value` gives what an attribute has, or `OPEN` and notes the variable in `open`."""
        match condition:
            case Compare():
                return self._atom(condition, value)
            case Not(part):
                low, high = self.of(part, value)
                return 2 - high, 2 - low
            case All(parts):
                return self._joined(parts, value, 0)
            case AnyOf(parts):
                return self._joined(parts, value, 2)

    def _joined(self, parts: Sequence[Condition], value: Callable[[str], Any], decisive: int) -> Range:
        mark = len(self.open)
        low, high = 2 - decisive, 2 - decisive
        for part in parts:
            one = self.of(part, value)
            low, high = (max(low, one[0]), max(high, one[1])) if decisive else (min(low, one[0]), min(high, one[1]))
            if low == high == decisive:
                break
        if low == high:
            del self.open[mark:]
        return low, high

    def _atom(self, atom: Compare, value: Callable[[str], Any]) -> Range:
        left = value(atom.attribute)
        right = value(atom.operand.name) if isinstance(atom.operand, Attribute) else Absent.UNKNOWN
        if left is OPEN or right is OPEN:
            return 0, 2
        key = (id(atom), type(left), left, type(right), right)
        truth = self._known.get(key)
        if truth is None:
            self._kept.append(atom)  # so that no other atom ever gets its id
            truth = self._known[key] = int(atom_truth(atom, left, right))
        return truth, truth


@dataclass(slots=True)
class Search:
    """One search.

    Attributes:
        domains: What each variable can be, in the order to try.
        judge: Says whether the difference may still be there and whether it surely is, and notes open variables.
        ranges: Where open variables are noted.
        limit: Most points.
        early: Variables to give values to before all others.
        constraints: What cannot be together.
        linked: Variables whose values are interchangeable within a cell, by variable.
        points: How many points were looked at.
    """

    domains: Mapping[Variable, Sequence[Point]]
    judge: Callable[[Assigned], tuple[bool, bool]]
    ranges: Ranges
    limit: int
    early: tuple[Variable, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    linked: Mapping[Variable, tuple[Variable, ...]] = field(default_factory=dict)
    points: int = 0
    _given: Assigned = field(default_factory=dict)
    _cells: dict[Variable, Point] = field(default_factory=dict)

    def run(self) -> Assigned | None:
        """Find values for all variables under which the goal is met; None where there are none.

        Raises:
            UndecidableError: More than `limit` points were needed.
        """
        self.points += 1
        if self.points > self.limit:
            raise UndecidableError(f"more than {self.limit} points")
        for variable in self.early:
            if variable not in self._given:
                return self._each(variable, self.run)
        self.ranges.open.clear()
        possible, certain = self.judge(self._given)
        if not possible:
            return None
        if certain or not self.ranges.open:
            return self._filled()
        return self._each(self.ranges.open[0], self.run)

    def _each(self, variable: Variable, then: Callable[[], Assigned | None], *, last: bool = False) -> Assigned | None:
        domain = self.domains[variable]
        for point in reversed(domain) if last else domain:
            if not self._fresh(variable, point):
                continue
            self._given[variable] = point.value
            self._cells[variable] = point
            found = then() if self._allowed(variable) else None
            if found is not None:
                return found
            del self._given[variable], self._cells[variable]
        return None

    def _fresh(self, variable: Variable, point: Point) -> bool:
        """Whether a value is the first of its cell that nobody has, or one that somebody has.

        Values of a cell that nobody has yet differ in name only, so one of them stands for all.
        """
        others = self.linked.get(variable)
        if others is None or point.rank == 0:
            return True
        taken = {
            held.rank for other in others if (held := self._cells.get(other)) is not None and held.cell == point.cell
        }
        return point.rank in taken or all(rank in taken for rank in range(point.rank))

    def _allowed(self, variable: Variable) -> bool:
        return all(
            constraint.allows(self._given)
            for constraint in self.constraints
            if variable in constraint.variables and constraint.variables <= self._given.keys()
        )

    def _filled(self) -> Assigned | None:
        """Give the variables that do not matter any values that can be together."""
        for variable in self.domains:
            if variable not in self._given:
                # The last value of a record is that there is none.
                return self._each(variable, self._filled, last=variable.startswith("record#") and "." not in variable)
        return dict(self._given)
