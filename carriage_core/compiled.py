# SPDX-License-Identifier: Apache-2.0
"""Conditions as functions, made once: what is the same for every call is decided beforehand (DESIGN 3.3).

`compiled(condition)(view)` is `evaluate(condition, view.__getitem__)` for every condition and view, at a third of the
cost. `evaluate` stays the definition; a property test holds the two together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, assert_never

from carriage_core.condition import (
    All,
    AnyOf,
    Attribute,
    Compare,
    Condition,
    Not,
    Operator,
    Truth,
    compare,
    fits,
    glob_pieces,
)
from carriage_core.schema import Absent, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

type View = Mapping[str, Value | Absent]
"""Every attribute by name; one that is not there answers with an `Absent`, as `views.View` does."""

type Decider = Callable[[View], Truth]

# Looked up on the class, a member costs more than the comparison it stands for.
_FALSE: Final = Truth.FALSE
_UNKNOWN: Final = Truth.UNKNOWN
_TRUE: Final = Truth.TRUE
_NEGATED: Final = (_TRUE, _UNKNOWN, _FALSE)


def compiled(condition: Condition) -> Decider:
    """Make the function that decides `condition`; total, as `evaluate` is."""
    match condition:
        case Compare():
            return _comparison(condition)
        case Not(part):
            inner = compiled(part)
            return lambda view: _NEGATED[inner(view)]
        case All(parts):
            return _until(tuple(map(compiled, parts)), _FALSE, _TRUE)
        case AnyOf(parts):
            return _until(tuple(map(compiled, parts)), _TRUE, _FALSE)
        case _ as unreachable:
            assert_never(unreachable)


def _until(parts: tuple[Decider, ...], decisive: Truth, otherwise: Truth) -> Decider:
    """Stop at the first part that is `decisive`; without one, unknown prevails over `otherwise`."""

    def decide(view: View) -> Truth:
        found = otherwise
        for part in parts:
            truth = part(view)
            if truth is decisive:
                return decisive
            if truth is _UNKNOWN:
                found = _UNKNOWN
        return found

    return decide


def _comparison(comparison: Compare) -> Decider:
    operand = comparison.operand
    if comparison.operator in {Operator.EQ, Operator.NE}:
        if isinstance(operand, Attribute):
            return _same(comparison.attribute, operand.name, negated=comparison.operator is Operator.NE)
        if operand is not None and not isinstance(operand, tuple):
            return _equals(comparison.attribute, operand, negated=comparison.operator is Operator.NE)
    if comparison.operator is Operator.IN and isinstance(operand, tuple) and len(set(map(type, operand))) == 1:
        return _among(comparison.attribute, operand)
    if comparison.operator is Operator.GLOB and isinstance(operand, str):
        return _glob(comparison, operand)
    return lambda view: compare(comparison, view.__getitem__)


def _equals(name: str, literal: Value, *, negated: bool) -> Decider:
    kind, met, missed = type(literal), _FALSE if negated else _TRUE, _TRUE if negated else _FALSE

    def decide(view: View) -> Truth:
        value = view[name]
        if type(value) is not kind:  # an absent value too
            return _UNKNOWN
        return met if value == literal else missed

    return decide


def _same(name: str, other: str, *, negated: bool) -> Decider:
    met, missed = _FALSE if negated else _TRUE, _TRUE if negated else _FALSE

    def decide(view: View) -> Truth:
        left, right = view[name], view[other]
        if type(left) is not type(right) or type(left) is Absent:
            return _UNKNOWN
        return met if left == right else missed

    return decide


def _among(name: str, literals: tuple[Value, ...]) -> Decider:
    kind, members = type(literals[0]), frozenset(literals)

    def decide(view: View) -> Truth:
        value = view[name]
        if type(value) is not kind:
            return _UNKNOWN
        return _TRUE if value in members else _FALSE

    return decide


def _glob(comparison: Compare, pattern: str) -> Decider:
    name, pieces = comparison.attribute, glob_pieces(pattern)

    def decide(view: View) -> Truth:
        value = view[name]
        if type(value) is not str:
            # A path or URL, whose pattern speaks of its text, or something that no pattern fits.
            return compare(comparison, view.__getitem__)
        return _TRUE if fits(pieces, value) else _FALSE

    return decide
