# SPDX-License-Identifier: Apache-2.0
"""What type each attribute is declared to have, and literals brought into the same normal form (DESIGN 3.3).

Both sides of a comparison are normalised alike: a literal beside a caseless attribute is folded, one beside a path is
a path. What could never be equal, or only by accident, is refused when the file is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from carriage_core.condition import ORDER, Operator
from carriage_core.errors import PolicyError
from carriage_core.schema import Absent, Sort, Value, folded, normal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from carriage_core.binding import AttributeSource, ToolBinding

type Scalar = str | int | Decimal | bool
"""What a file can write beside an attribute."""

_PATTERN: Final = frozenset({Operator.PREFIX, Operator.SUFFIX, Operator.GLOB, Operator.CONTAINS})
_PLACES: Final = frozenset({Sort.PATH, Sort.URL})
_STRINGS: Final = frozenset({Sort.ANY, Sort.TEXT, Sort.ID, Sort.CASELESS, Sort.HOST, Sort.PATH, Sort.URL})
_FAMILIES: Final = {
    Sort.TEXT: "text",
    Sort.ID: "text",
    Sort.NUMBER: "number",
    Sort.INTEGER: "number",
    Sort.MONEY: "number",
}
"""Sorts whose values may be equal; each other sort is a family of its own."""


@dataclass(frozen=True, slots=True)
class AttributeTypes:
    """The declared sorts of each attribute; one that no tool declares may be of any."""

    sorts: Mapping[str, frozenset[Sort]]

    @classmethod
    def of(cls, bindings: Iterable[ToolBinding]) -> AttributeTypes:
        """Collect what bindings declare."""
        found: dict[str, set[Sort]] = {"time": {Sort.TIME}, "action.external": {Sort.BOOL}}
        for binding in bindings:
            for prefix, sources in (("object", binding.object_attributes), ("action", binding.action_attributes)):
                for name, source in sources:
                    found.setdefault(f"{prefix}.{name}", set()).add(_sort_of(source))
            if binding.shell is not None:
                # Here, since few files bind a shell.
                from carriage_core.shell.effects import VOCABULARY  # noqa: PLC0415

                for known in VOCABULARY.values():
                    for name, sort in known.items():
                        found.setdefault(name, set()).add(sort)
        return cls({name: frozenset(sorts) for name, sorts in found.items()})

    def extended(self, more: Mapping[str, Sort]) -> AttributeTypes:
        """Return the types with further attributes."""
        return AttributeTypes({**self.sorts, **{name: frozenset({sort}) for name, sort in more.items()}})

    def of_attribute(self, name: str) -> frozenset[Sort]:
        """The sorts of one attribute."""
        return self.sorts.get(name, frozenset({Sort.ANY}))

    def literal(self, attribute: str, raw: Scalar, operator: Operator) -> Value:
        """Bring the right side of a comparison into the normal form of the left.

        Raises:
            PolicyError: It has none, or one for each of several tools.
        """
        plain = normal(raw)
        if operator in _PATTERN and not isinstance(raw, str) and not isinstance(plain, Absent):
            return plain  # the comparison itself says what it takes
        sorts = self.of_attribute(attribute)
        found = {value for sort in sorts for value in _read(raw, sort, operator)}
        if len(found) == 1:
            return found.pop()
        declared = " or ".join(sorted(sorts))
        if not found:
            # Of another type it would be unknown at every call, and the rule would stand or fall on nothing.
            raise PolicyError(f"{attribute} is declared {declared}", mend=f"write a literal of type {declared}")
        raise PolicyError(
            f"{attribute} is {declared}, as one tool or another declares it",
            mend="declare it of one type in every tool, or under types",
        )

    def problem(self, left: str, operator: Operator, right: str) -> tuple[str, str] | None:
        """Say why two attributes cannot be compared, with the mend; None where they can."""
        ours, theirs = self.of_attribute(left), self.of_attribute(right)
        if Sort.ANY in ours | theirs:
            return None
        if not {_family(sort) for sort in ours} & {_family(sort) for sort in theirs}:
            message = f"{left} is declared {' or '.join(sorted(ours))} and {right} {' or '.join(sorted(theirs))}"
            return message, "compare attributes of one type"
        if operator in ORDER and not ours & {Sort.NUMBER, Sort.INTEGER, Sort.MONEY, Sort.TIME}:
            return f"{left} has no order", "compare numbers or times, or use eq"
        return None


def _family(sort: Sort) -> str:
    return _FAMILIES.get(sort, sort.value)


def _sort_of(source: AttributeSource) -> Sort:
    """The type an attribute's values have: as declared, or that of its constant."""
    match source.constant:
        case bool():
            return Sort.BOOL
        case Decimal():
            return Sort.NUMBER
        case _:
            return source.sort


def _read(raw: Scalar, sort: Sort, operator: Operator) -> tuple[Value, ...]:
    if operator in _PATTERN and not (operator is Operator.PREFIX and sort in _PLACES):
        # A pattern speaks of the text of the normal form.
        return (folded(raw, sort),) if isinstance(raw, str) and sort in _STRINGS else ()
    if isinstance(raw, str) and sort in {Sort.ANY, Sort.ID, Sort.TEXT}:
        return (raw,)  # percent signs and variables are legal in a literal; the policy checks the rest
    value = normal(raw, sort)
    return () if isinstance(value, Absent) else (value,)
