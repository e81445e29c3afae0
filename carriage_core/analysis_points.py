# SPDX-License-Identifier: Apache-2.0
"""The finite points each attribute ranges over, for attributes that are compared with one another (DESIGN 3.11).

Beside missing and unknown these are: for dense numbers all constants and n values in each gap and ray; for integers,
money and instants the values of their grid within n of a constant; for strings what `analysis_strings` finds; n is the
number of attributes. So however the constants and the other attributes lie, each can take any place among them.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from carriage_core.analysis_languages import LANGUAGES
from carriage_core.analysis_strings import UndecidableError, members, value_of
from carriage_core.condition import Attribute, Compare, Operator, glob_pieces
from carriage_core.schema import MAX_DIGITS, FilePath, Sort, Url, normal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from carriage_core.analysis_languages import Kind

EPOCH: Final = datetime(2026, 1, 1, 12, tzinfo=UTC)
"""An instant for those that no rule names."""

_TICK: Final = timedelta(microseconds=1)
_SCALES: Final = {Sort.INTEGER: 0, Sort.MONEY: 2}
_NUMBERS: Final = frozenset({Sort.NUMBER, Sort.INTEGER, Sort.MONEY})
_EXACT: Final = Context(prec=1_000)

UNDECLARED: Final[frozenset[Kind]] = frozenset({Sort.TEXT, Sort.NUMBER, Sort.BOOL, Sort.TIME, Sort.PATH, Sort.URL})
"""What an attribute may be of which nothing is declared."""

_LOOSE: Final[frozenset[Kind]] = frozenset({Sort.ID, Sort.NUMBER, Sort.BOOL})


def kinds_of(sorts: Iterable[Sort], *, structured: bool = False) -> frozenset[Kind]:
    """What values of declared sorts are; `structured` ones come from a result that may hold instants."""
    found: set[Kind] = set()
    for sort in sorts:
        found |= (_LOOSE | {Sort.TIME} if structured else _LOOSE) if sort is Sort.ANY else {sort}
    return frozenset(found)


@dataclass(frozen=True, slots=True)
class Point:
    """One value of a variable, mostly a `Value` or `Absent`, with the cell it stands for.

    Values of one cell are interchangeable, unless something orders them.
    """

    value: Any
    cell: object
    rank: int


def points(kinds: Mapping[str, frozenset[Kind]], atoms: Iterable[Compare]) -> dict[str, list[Point]]:
    """List what each of some attributes can be, absent values left out.

    Args:
        kinds: The attributes that are compared with one another, and what each may be.
        atoms: Every comparison on them.

    Raises:
        UndecidableError: A limit was met.
    """
    atoms = list(atoms)
    every = frozenset[object]().union(*kinds.values())
    operands = [operand for atom in atoms for operand in _literals(atom)]
    pool: list[tuple[Point, frozenset[Kind]]] = []
    for family in (frozenset(LANGUAGES) - {Sort.PATH, Sort.URL}, frozenset({Sort.PATH}), frozenset({Sort.URL})):
        if strings := family & every:
            pool += _strings(atoms, strings, len(kinds))
    if Sort.BOOL in every:
        pool += [(Point(value, value, 0), frozenset({Sort.BOOL})) for value in (True, False)]
    if Sort.TIME in every:
        instants = {one.astimezone(UTC) for one in operands if isinstance(one, datetime)}
        pool += [(Point(one, one, 0), frozenset({Sort.TIME})) for one in _instants(instants, len(kinds))]
    if numbers := every & _NUMBERS:
        constants = {one for one in operands if isinstance(one, Decimal)}
        for number in _numbers(constants, {Sort(str(kind)) for kind in numbers}, len(kinds)):
            of = frozenset(kind for kind in _NUMBERS & numbers if normal(number, kind) == number)
            pool.append((Point(number, number, 0), of))
    return {name: [point for point, of in pool if of & own] for name, own in kinds.items()}


def _literals(atom: Compare) -> tuple[object, ...]:
    if isinstance(atom.operand, tuple):
        return atom.operand
    return () if atom.operand is None or isinstance(atom.operand, Attribute) else (atom.operand,)


def _globs(atom: Compare, of: type[str | FilePath | Url]) -> Iterable[tuple[str, ...]]:
    """The patterns that tell apart what a comparison tells apart among values of one type."""
    for literal in _literals(atom):
        if isinstance(literal, FilePath | Url) and isinstance(literal, of):
            yield (literal.text,)
            if atom.operator is Operator.PREFIX:
                base = literal.text.rstrip("/")
                yield (f"{base}/", "")
                if isinstance(literal, Url):
                    yield (f"{base}?", "")
        elif isinstance(literal, str):
            match atom.operator:
                case Operator.SUFFIX:
                    yield ("", literal)
                case Operator.CONTAINS:
                    yield ("", literal, "")
                case Operator.GLOB:
                    yield glob_pieces(literal)
                case Operator.PREFIX if of is str:
                    yield (literal, "")
                case _:
                    if of is str:
                        yield (literal,)


def _strings(atoms: list[Compare], kinds: frozenset[Kind], count: int) -> Iterable[tuple[Point, frozenset[Kind]]]:
    """The values of one type: text, paths or URLs."""
    of = FilePath if Sort.PATH in kinds else Url if Sort.URL in kinds else str
    globs = [glob for atom in atoms for glob in _globs(atom, of)]
    for member in members(globs, kinds, count):
        value = value_of(member.text, min(member.kinds))
        if value is not None:
            yield Point(value, (of, member.cell), member.rank), member.kinds


def _instants(constants: set[datetime], count: int) -> list[datetime]:
    found: set[datetime] = set()
    for constant in constants or {EPOCH}:
        for step in range(-count, count + 1):
            try:
                found.add(constant + step * _TICK)
            except OverflowError:
                continue
    return sorted(found)


def _numbers(constants: set[Decimal], sorts: set[Sort], count: int) -> list[Decimal]:
    """Points of every scale, coarse before fine, so that the fine ones have room between the coarse ones."""
    found = {constant for constant in constants if _is_number(constant)}
    anchors = constants or {Decimal(0)}
    for scale in sorted(_SCALES[sort] for sort in sorts if sort in _SCALES):
        unit = Decimal(1).scaleb(-scale)
        for anchor in anchors | found:
            low = anchor.quantize(unit, rounding=ROUND_FLOOR, context=_EXACT)
            high = anchor.quantize(unit, rounding=ROUND_CEILING, context=_EXACT)
            for step in range(count + 1):
                found |= {_EXACT.subtract(low, step * unit), _EXACT.add(high, step * unit)}
        found = set(filter(_is_number, found))
    if Sort.NUMBER in sorts:
        edge = Decimal(10) ** (MAX_DIGITS + 1)
        ordered = sorted(found) or [Decimal(0)]
        found |= {*_beyond(ordered[0], -1, count, edge), *_beyond(ordered[-1], 1, count, edge), *ordered}
        for low, high in itertools.pairwise(ordered):
            found |= _between(low, high, count)
    return sorted(found, key=lambda number: (abs(number), number))


def _beyond(last: Decimal, sign: int, count: int, edge: Decimal) -> set[Decimal]:
    """Pick `count` numbers past the last constant: close to it where they can be written."""
    steps = {_EXACT.add(last, sign * step).normalize(_EXACT) for step in range(1, count + 1)}
    if all(map(_is_number, steps)):
        return {_plain(step) for step in steps}
    return _between(last, edge, count) if sign > 0 else _between(-edge, last, count)


def _is_number(value: Decimal) -> bool:
    return normal(value, Sort.NUMBER) == value


def _between(low: Decimal, high: Decimal, count: int) -> set[Decimal]:
    """Pick `count` numbers between two others, with as few digits as there can be."""
    width = _EXACT.subtract(high, low)
    for exponent in range(width.adjusted() + 1, width.adjusted() - 8 - len(str(count)), -1):
        unit = Decimal(1).scaleb(exponent)
        first = _EXACT.add(low.quantize(unit, rounding=ROUND_FLOOR, context=_EXACT), unit)
        inside: list[Decimal] = []
        value = first
        while value < high and len(inside) < count:
            inside.append(_plain(value))
            value = _EXACT.add(value, unit)
        if len(inside) == count:
            if all(map(_is_number, inside)):
                return set(inside)
            break
    raise UndecidableError(f"there is no room for {count} numbers between {low} and {high}")


def _plain(value: Decimal) -> Decimal:
    """The same number without an exponent of its own; `Fraction` keeps it exact."""
    exact = Fraction(value)
    return Decimal(exact.numerator) if exact.denominator == 1 else value.normalize(_EXACT)


__all__ = ["EPOCH", "UNDECLARED", "Point", "kinds_of", "points"]
