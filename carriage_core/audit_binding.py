# SPDX-License-Identifier: Apache-2.0
"""Which binding was exchanged: two rules of one shape that differ only in what they are about (DESIGN 3.11).

Both rules have already been found to judge actions differently in both directions. If what differs is nothing but the
actor, tenant, object, action or evidence that stands in the same place, the rule was *misbound*; if a number, an
operator or the shape differs as well, it was changed in meaning, which is *weakened*.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from carriage_core.condition import All, AnyOf, Attribute, Compare, Condition, Not, Operator, canonical_condition
from carriage_core.schema import FilePath, Url, canonical_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from carriage_core.policy import Policy
    from carriage_core.schema import Value

_NAMED: Final = frozenset({"actor", "object", "action", "tenant", "task"})
"""Roots whose constants say whom or what a rule is about; those of evidence and time say in what state."""

MAX_PARTS: Final = 64
"""Most parts of one ``and`` or ``or`` that are matched with each other."""


def exchanged(source: Policy, shown: Policy) -> tuple[str, ...]:
    """Name what `shown` binds to instead of what `source` does; empty where more than that differs."""
    if source.effect is not shown.effect:
        return ()
    kinds: set[str] = set()
    if source.actions != shown.actions:
        if set(source.actions) & set(shown.actions):
            return ()
        kinds.add("action")
    if source.object_type != shown.object_type:
        if source.object_type is None or shown.object_type is None:
            return ()
        kinds.add("object")
    for ours, theirs in ((source.where, shown.where), (source.unless, shown.unless)):
        found = _differs(ours, theirs)
        if found is None:
            return ()
        kinds |= found
    return tuple(sorted(kinds))


def _differs(ours: Condition | None, theirs: Condition | None) -> frozenset[str] | None:
    """Name the bindings that differ between two trees; None where more does."""
    if canonical_condition(ours) == canonical_condition(theirs):  # plain equality takes true for 1
        return frozenset()
    match ours, theirs:
        case Compare(), Compare():
            return _comparisons(ours, theirs)
        case Not(mine), Not(yours):
            return _differs(mine, yours)
        case (All(mine), All(yours)) | (AnyOf(mine), AnyOf(yours)):
            return _parts(mine, yours)
        case _:
            return None


def _parts(ours: Sequence[Condition], theirs: Sequence[Condition]) -> frozenset[str] | None:
    """Match parts in any order: equal ones first, then each with the closest that is left."""
    if len(ours) != len(theirs) or len(ours) > MAX_PARTS:
        return None
    left = list(theirs)
    unmatched: list[Condition] = []
    for part in ours:
        same = next((other for other in left if _differs(part, other) == frozenset()), None)
        if same is None:
            unmatched.append(part)
        else:
            left.remove(same)
    found: frozenset[str] = frozenset()
    for part in unmatched:
        scored = [(kinds, other) for other in left if (kinds := _differs(part, other)) is not None]
        if not scored:
            return None
        kinds, closest = min(scored, key=lambda pair: len(pair[0]))
        left.remove(closest)
        found |= kinds
    return found


def _comparisons(ours: Compare, theirs: Compare) -> frozenset[str] | None:
    direct = _sides(ours, theirs)
    if direct is not None or theirs.operator not in {Operator.EQ, Operator.NE}:
        return direct
    if not isinstance(theirs.operand, Attribute):
        return None
    return _sides(ours, Compare(theirs.operand.name, theirs.operator, Attribute(theirs.attribute)))


def _sides(ours: Compare, theirs: Compare) -> frozenset[str] | None:
    if _family(ours) is not _family(theirs):
        return None
    left = frozenset[str]() if ours.attribute == theirs.attribute else _attributes(ours.attribute, theirs.attribute)
    right = _operands(ours, theirs)
    return None if left is None or right is None else left | right


def _family(comparison: Compare) -> Operator:
    return Operator.IN if comparison.operator is Operator.EQ else comparison.operator


def _attributes(ours: str, theirs: str) -> frozenset[str] | None:
    """Name what another attribute in the same place is about; None where it is of another kind altogether."""
    mine, yours = ours.split("."), theirs.split(".")
    if mine[0] == yours[0] == "evidence":
        return frozenset({"handle" if mine[1:2] != yours[1:2] else "evidence source"})
    if mine[0] == "counter":
        return frozenset({"counter"}) if yours[0] == "counter" else None
    return frozenset({mine[0]}) if mine[0] in _NAMED else None


def _operands(ours: Compare, theirs: Compare) -> frozenset[str] | None:
    mine, yours = ours.operand, theirs.operand
    if isinstance(mine, Attribute):
        if mine == yours:
            return frozenset()
        return _attributes(mine.name, yours.name) if isinstance(yours, Attribute) else frozenset({"value"})
    if isinstance(yours, Attribute):
        return frozenset({"value"})
    if _spelt(mine) == _spelt(yours):
        return frozenset()
    root = ours.attribute.split(".")[0]
    names = all(isinstance(value, str | FilePath | Url) for value in (*_values(mine), *_values(yours)))
    return frozenset({root}) if root in _NAMED and names else None


def _values(operand: Value | tuple[Value, ...] | None) -> tuple[Value, ...]:
    return operand if isinstance(operand, tuple) else () if operand is None else (operand,)


def _spelt(operand: Value | tuple[Value, ...] | None) -> frozenset[str]:
    return frozenset(repr(canonical_value(value)) for value in _values(operand))
