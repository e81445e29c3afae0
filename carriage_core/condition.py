# SPDX-License-Identifier: Apache-2.0
"""The condition language: comparisons on attributes under strong Kleene logic (DESIGN 3.3).

A condition is a closed tree of `All`, `AnyOf`, `Not` and `Compare`. There is no code in it, no regular
expression and no way to fail: whatever cannot be decided is `Truth.UNKNOWN`, and the effect says which side
unknown falls on.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, Final, assert_never

from carriage_core.errors import PolicyError
from carriage_core.schema import Absent, FilePath, Url, Value, canonical_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MAX_DEPTH: Final = 16
"""Deepest nesting of all / any / not (DESIGN 3.14)."""

MAX_PATTERN: Final = 512
"""Longest glob, in characters."""


class Truth(IntEnum):
    """Three values ordered so that `all` is min, `any` is max and `not` is the reflection."""

    FALSE = 0
    UNKNOWN = 1
    TRUE = 2


class Operator(StrEnum):
    """Every comparison there is."""

    EQ = "eq"
    NE = "ne"
    LT = "lt"
    LE = "le"
    GT = "gt"
    GE = "ge"
    IN = "in"
    PREFIX = "prefix"
    SUFFIX = "suffix"
    GLOB = "glob"
    CONTAINS = "contains"
    EXISTS = "exists"


ORDER: Final = frozenset({Operator.LT, Operator.LE, Operator.GT, Operator.GE})
_PATTERN: Final = frozenset({Operator.SUFFIX, Operator.GLOB, Operator.CONTAINS})
STRING: Final = frozenset({Operator.PREFIX, Operator.SUFFIX, Operator.GLOB, Operator.CONTAINS})


@dataclass(frozen=True, slots=True)
class Attribute:
    """A reference to another attribute as right operand."""

    name: str


type Operand = Value | Attribute | tuple[Value, ...] | None


@dataclass(frozen=True, slots=True)
class Compare:
    """``attribute operator operand``; the operand of `exists` is None, of `in` a non-empty tuple of literals.

    Raises:
        PolicyError: The operand does not go with the operator.
    """

    attribute: str
    operator: Operator
    operand: Operand = None

    def __post_init__(self) -> None:
        """Refuse a comparison that could never be decided; fail closed at load, not at the call."""
        problem = _operand_problem(self.operator, self.operand)
        if problem is not None:
            raise PolicyError(f"{self.attribute} {self.operator}: {problem[0]}.", mend=problem[1])


def _operand_problem(operator: Operator, operand: Operand) -> tuple[str, str] | None:
    literals = operand if isinstance(operand, tuple) else (operand,)
    if any(isinstance(literal, Decimal) and not literal.is_finite() for literal in literals):
        return "NaN and infinity are not numbers to compare with", "give a finite number"
    if operator is Operator.EXISTS:
        return None if operand is None else ("exists takes no operand", "write {attr: ..., exists: true}")
    if operator is Operator.IN:
        sound = isinstance(operand, tuple) and operand != ()
        return None if sound else ("in needs a list of at least one literal", "list the literals, or remove the rule")
    return _single_problem(operator, operand)


def _single_problem(operator: Operator, operand: Operand) -> tuple[str, str] | None:
    if operand is None or isinstance(operand, tuple):
        return "needs one operand", "give a single literal or {attr: NAME}"
    if operator is Operator.PREFIX and isinstance(operand, FilePath | Url):
        return None  # by segment
    if operator in STRING and not isinstance(operand, str):
        return "needs a literal string", "quote the literal; an attribute or number has no prefix or pattern"
    if operator in ORDER and not isinstance(operand, Decimal | datetime | Attribute):
        return "strings and truth values have no order", "compare a number or a time, or use eq / in"
    if operator is Operator.GLOB and isinstance(operand, str) and len(operand) > MAX_PATTERN:
        return f"a glob has at most {MAX_PATTERN} characters", "shorten it"
    return None


@dataclass(frozen=True, slots=True)
class All:
    """True where every part is; a part that is false makes it false whatever is unknown."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """True where at least one part is."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """Turns true and false round; unknown stays unknown."""

    part: Condition


type Condition = All | AnyOf | Not | Compare
type Lookup = Callable[[str], Value | Absent]


def all_of(*parts: Condition) -> Condition:
    """Join by `all` in normal form: flat, and no `all` of one part.

    Raises:
        PolicyError: No parts: an empty `all` would hold always.
    """
    return _join(All, parts)


def any_of(*parts: Condition) -> Condition:
    """Join by `any` in normal form: flat, and no `any` of one part.

    Raises:
        PolicyError: No parts: an empty `any` would hold never.
    """
    return _join(AnyOf, parts)


def _join(kind: type[All | AnyOf], parts: tuple[Condition, ...]) -> Condition:
    flat = tuple(inner for part in parts for inner in (part.parts if isinstance(part, kind) else (part,)))
    if not flat:
        raise PolicyError("an empty list of conditions decides nothing.", mend="give at least one condition.")
    return flat[0] if len(flat) == 1 else kind(flat)


def normalised(condition: Condition, depth: int = 0) -> Condition:
    """Rebuild a tree in the normal form of `all_of` and `any_of`.

    Raises:
        PolicyError: Nested deeper than `MAX_DEPTH`, or an empty list inside.
    """
    if depth > MAX_DEPTH:
        raise PolicyError(f"conditions nest deeper than {MAX_DEPTH}.", mend="split the policy in two.")
    match condition:
        case Compare():
            return condition
        case Not(part):
            return Not(normalised(part, depth + 1))
        case All(parts):
            return all_of(*(normalised(part, depth + 1) for part in parts))
        case AnyOf(parts):
            return any_of(*(normalised(part, depth + 1) for part in parts))
        case _ as unreachable:
            assert_never(unreachable)


def comparisons(condition: Condition | None) -> Iterator[Compare]:
    """Yield every comparison of a tree, left to right."""
    match condition:
        case None:
            return
        case Compare():
            yield condition
        case Not(part):
            yield from comparisons(part)
        case All(parts) | AnyOf(parts):
            for part in parts:
                yield from comparisons(part)
        case _ as unreachable:
            assert_never(unreachable)


def attributes(condition: Condition | None) -> frozenset[str]:
    """Name every attribute a tree reads, on either side of a comparison."""
    names: set[str] = set()
    for comparison in comparisons(condition):
        names.add(comparison.attribute)
        if isinstance(comparison.operand, Attribute):
            names.add(comparison.operand.name)
    return frozenset(names)


def constants(condition: Condition | None) -> tuple[Value, ...]:
    """List every literal of a tree, left to right."""
    found: list[Value] = []
    for comparison in comparisons(condition):
        operand = comparison.operand
        if isinstance(operand, tuple):
            found.extend(operand)
        elif operand is not None and not isinstance(operand, Attribute):
            found.append(operand)
    return tuple(found)


def evaluate(condition: Condition, lookup: Lookup) -> Truth:
    """Decide a condition; total, and unknown wherever a value is missing, ill-typed or not normal."""
    match condition:
        case Compare():
            return compare(condition, lookup)
        case Not(part):
            return Truth(2 - evaluate(part, lookup))
        case All(parts):
            worst = Truth.TRUE
            for part in parts:
                worst = min(worst, evaluate(part, lookup))
                if worst is Truth.FALSE:
                    break
            return worst
        case AnyOf(parts):
            best = Truth.FALSE
            for part in parts:
                best = max(best, evaluate(part, lookup))
                if best is Truth.TRUE:
                    break
            return best
        case _ as unreachable:
            assert_never(unreachable)


def compare(comparison: Compare, lookup: Lookup) -> Truth:
    """Decide one comparison."""
    left = lookup(comparison.attribute)
    if comparison.operator is Operator.EXISTS:
        if isinstance(left, Absent):
            # 3.3: only `exists` is false on missing; a value that is there but not normal stays unknown.
            return Truth.FALSE if left is Absent.MISSING else Truth.UNKNOWN
        return Truth.TRUE
    if isinstance(left, Absent):
        return Truth.UNKNOWN
    operand = comparison.operand
    if isinstance(operand, Attribute):
        right = lookup(operand.name)
        return Truth.UNKNOWN if isinstance(right, Absent) else _decide(comparison.operator, left, right)
    if isinstance(operand, tuple):
        return max(_decide(Operator.EQ, left, literal) for literal in operand)
    if operand is None:
        return Truth.UNKNOWN
    return _decide(comparison.operator, left, operand)


def _truth(value: bool) -> Truth:  # noqa: FBT001  # the conversion itself
    return Truth.TRUE if value else Truth.FALSE


def _decide(operator: Operator, left: Value, right: Value) -> Truth:  # noqa: PLR0911  # one return a comparison
    if isinstance(left, FilePath | Url) and isinstance(right, str) and operator in _PATTERN:
        left = left.text  # a pattern speaks of the normal form as a whole
    if type(left) is not type(right):  # bool is never a number here
        return Truth.UNKNOWN
    match operator:
        case Operator.EQ | Operator.IN:
            return _truth(left == right)
        case Operator.NE:
            return _truth(left != right)
        case Operator.LT | Operator.LE | Operator.GT | Operator.GE:
            return _ordered(operator, left, right)
        case Operator.PREFIX if isinstance(left, FilePath) and isinstance(right, FilePath):
            return _truth(right.covers(left))
        case Operator.PREFIX if isinstance(left, Url) and isinstance(right, Url):
            return _truth(right.covers(left))
        case _ if not (isinstance(left, str) and isinstance(right, str)):
            return Truth.UNKNOWN
        case Operator.PREFIX:
            return _truth(left.startswith(right))
        case Operator.SUFFIX:
            return _truth(left.endswith(right))
        case Operator.CONTAINS:
            return _truth(right in left)
        case Operator.GLOB:
            return _truth(matches(right, left))
        case _:
            return Truth.UNKNOWN


def _ordered(operator: Operator, left: Value, right: Value) -> Truth:
    sign: int
    if isinstance(left, Decimal) and isinstance(right, Decimal):
        sign = int(left.compare(right))
    elif isinstance(left, datetime) and isinstance(right, datetime):
        sign = (left > right) - (left < right)
    else:
        return Truth.UNKNOWN
    match operator:
        case Operator.LT:
            return _truth(sign < 0)
        case Operator.LE:
            return _truth(sign <= 0)
        case Operator.GT:
            return _truth(sign > 0)
        case _:
            return _truth(sign >= 0)


def glob_pieces(pattern: str) -> tuple[str, ...]:
    r"""Split a glob at its stars; ``\*`` is a literal star and nothing else is special (Cedar's ``like``)."""
    pieces = [""]
    index = 0
    while index < len(pattern):
        if pattern.startswith("\\*", index):
            pieces[-1] += "*"
            index += 2
            continue
        if pattern[index] == "*":
            pieces.append("")
        else:
            pieces[-1] += pattern[index]
        index += 1
    return tuple(pieces)


def matches(pattern: str, text: str) -> bool:
    """Match a whole text against a glob, in time linear in text x stars and without backtracking."""
    return fits(glob_pieces(pattern), text)


def fits(pieces: tuple[str, ...], text: str) -> bool:
    """Match a whole text against the pieces of a glob."""
    first, *rest = pieces
    if not rest:
        return text == first
    last = rest.pop()
    if len(text) < len(first) + len(last) or not text.startswith(first) or not text.endswith(last):
        return False
    position, end = len(first), len(text) - len(last)
    for piece in rest:
        found = text.find(piece, position, end)
        if found < 0:
            return False
        position = found + len(piece)
    return True


def canonical_condition(condition: Condition | None) -> object:
    """Render a tree as RFC 8785 input: nested lists whose first member names the node."""
    match condition:
        case None:
            return None
        case Compare(attribute, operator, operand):
            if isinstance(operand, Attribute):
                right: object = {"attr": operand.name}
            elif isinstance(operand, tuple):
                right = [canonical_value(literal) for literal in operand]
            else:
                right = None if operand is None else {"value": canonical_value(operand)}
            return [operator.value, attribute, right]
        case Not(part):
            return ["not", canonical_condition(part)]
        case All(parts):
            return ["all", *(canonical_condition(part) for part in parts)]
        case AnyOf(parts):
            return ["any", *(canonical_condition(part) for part in parts)]
        case _ as unreachable:
            assert_never(unreachable)
