# SPDX-License-Identifier: Apache-2.0
"""The evidence a question can turn on: a few records, each live for some declarations (DESIGN 3.5).

Declarations that file the same fields of the same tool under the same key are one family: what one of them has filed
the others have filed too, and only its life, its single use and its sharing tell them apart. Declarations of different
families are taken as unrelated: either may have a record while the other has none.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

from carriage_core.analysis_points import Point, kinds_of, points
from carriage_core.analysis_search import Constraint
from carriage_core.analysis_strings import UndecidableError
from carriage_core.condition import attributes
from carriage_core.policy import FieldOrigin
from carriage_core.schema import Absent, Sort

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from carriage_core.analysis_attributes import Domains, Variable
    from carriage_core.analysis_search import Assigned
    from carriage_core.policy import EvidenceDeclaration, Policy
    from carriage_core.schema import Value

MAX_RECORDS: Final = 8
"""Most evidence records that one question may need; past it the answer is undecided."""

type _Family = tuple[object, ...]


def _family(declaration: EvidenceDeclaration) -> _Family:
    return declaration.from_tool, declaration.key, declaration.fields


class Records:
    """The records of a question, numbered; each belongs to one family."""

    def __init__(self, lifted: Iterable[Policy], every: Iterable[Policy]) -> None:
        """Provide one record for each handle of each rule that may have to be lifted.

        Raises:
            UndecidableError: These are more than `MAX_RECORDS`.
        """
        self._members: dict[_Family, dict[str, EvidenceDeclaration]] = {}
        self._read: set[Variable] = set()
        self._fields: dict[tuple[int, str, str], Variable] = {}
        for policy in every:
            for _, declaration in policy.evidence:
                self._members.setdefault(_family(declaration), {})[declaration.digest] = declaration
        self._slots: dict[_Family, list[int]] = {}
        self._families: list[_Family] = []
        seen: set[tuple[object, ...]] = set()
        for policy in lifted:
            if (policy.unless, policy.evidence) in seen:
                continue  # lifted by the same records
            seen.add((policy.unless, policy.evidence))
            for _, declaration in policy.evidence:
                self._slots.setdefault(_family(declaration), []).append(len(self._families))
                self._families.append(_family(declaration))
        if len(self._families) > MAX_RECORDS:
            raise UndecidableError(f"more than {MAX_RECORDS} evidence records")
        for policy in every:
            for name in attributes(policy.unless):
                if name.startswith("evidence."):
                    _, handle, inner = name.split(".")
                    declaration = policy.declarations[handle]
                    self._read |= {self.field(slot, declaration, inner) for slot in self.of(declaration)}

    def of(self, declaration: EvidenceDeclaration) -> list[int]:
        """The records that a declaration may have filed."""
        return self._slots.get(_family(declaration), [])

    @staticmethod
    def slot(number: int) -> Variable:
        """The variable that says for which declarations a record is live."""
        return f"record#{number}"

    @staticmethod
    def field(number: int, declaration: EvidenceDeclaration, name: str) -> Variable:
        """The variable of a field; two fields that are read from one place are one."""
        source = dict(declaration.fields)[name]
        return f"record#{number}.{source.origin}.{source.path}.{source.sort}"

    def field_of(self, number: int, digest: str, name: str) -> Variable:
        """The same, by the digest of the declaration."""
        key = number, digest, name
        if key not in self._fields:
            self._fields[key] = self.field(number, self._members[self._families[number]][digest], name)
        return self._fields[key]

    def declare(self, domains: Domains, found: dict[Variable, list[Point]]) -> None:
        """Add the variables of the fields that are read, and of the records themselves."""
        for number, family in enumerate(self._families):
            declarations = self._members[family]
            lives = sorted(_lives(list(declarations.values())), key=lambda live: (-len(live), sorted(live)))
            found[self.slot(number)] = [Point(live, live, 0) for live in lives]
            first = next(iter(declarations.values()))
            for name, source in first.fields:
                variable = self.field(number, first, name)
                structured = source.origin is FieldOrigin.RESULT
                if variable in self._read:
                    domains.add(variable, kinds_of({source.sort}, structured=structured), ())
        for family, slots in self._slots.items():
            keys = self._keys(family)
            if keys is not None:
                for name in keys:
                    for one, other in itertools.pairwise(slots):
                        first = next(iter(self._members[family].values()))
                        domains.link(self.field(one, first, name), self.field(other, first, name))

    def _keys(self, family: _Family) -> tuple[str, ...] | None:
        """The key fields, None where one that no rule reads keeps any two records apart."""
        declaration = next(iter(self._members[family].values()))
        slots = self._slots.get(family, [])
        sources = dict(declaration.fields)
        unread = [name for name in declaration.key if self.field(slots[0], declaration, name) not in self._read]
        if any(sources[name].sort is not Sort.BOOL for name in unread):
            return None
        if unread and len(slots) > 1:
            raise UndecidableError("a key of truth values that no rule reads")
        return declaration.key

    def constraints(self) -> Iterator[Constraint]:
        """Per key only one record is live; and of records that nothing tells apart the first comes first."""
        for family, slots in self._slots.items():
            keys = self._keys(family)
            declaration = next(iter(self._members[family].values()))
            shared = {digest for digest, one in self._members[family].items() if one.shared}
            for one, other in itertools.combinations(slots, 2):
                names = [(self.slot(one), self.slot(other))]
                fields = [
                    (self.field(one, declaration, name), self.field(other, declaration, name)) for name in keys or ()
                ]
                yield Constraint(frozenset(itertools.chain(*names)), _in_order(*names[0]))
                if keys is not None:
                    watched = frozenset(itertools.chain(*names, *fields))
                    yield Constraint(watched, _apart(names[0], fields, frozenset(shared)))

    def filed(self, given: Assigned) -> Iterator[tuple[EvidenceDeclaration, dict[str, Value]]]:
        """The records of a situation, with values for the fields that no rule reads."""
        for number, family in enumerate(self._families):
            for digest in sorted(given[self.slot(number)]):
                declaration = self._members[family][digest]
                fields: dict[str, Value] = {}
                for name, source in declaration.fields:
                    variable = self.field(number, declaration, name)
                    fields[name] = given[variable] if variable in given else _any(source.sort, number)
                yield declaration, fields


def _lives(members: list[EvidenceDeclaration]) -> set[frozenset[str]]:
    """For which declarations of a family a record can be live at once."""
    ages = {0, *(one.expires_seconds for one in members if one.expires_seconds is not None)}
    found: set[frozenset[str]] = {frozenset()}
    for age in ages:
        young = [one for one in members if one.expires_seconds is None or one.expires_seconds > age]
        for whose in (None, True, False):  # filed by the same agent; by another; and then overtaken by another's
            kept = [one for one in young if whose is None or one.shared is whose]
            used = [one.digest for one in kept if one.single_use]
            for size in range(len(used) + 1):
                for spent in itertools.combinations(used, size):
                    found.add(frozenset(one.digest for one in kept) - set(spent))
    return found


def _in_order(one: Variable, other: Variable) -> Callable[[Assigned], bool]:
    def allows(given: Assigned) -> bool:
        return bool(given[one]) or not given[other]

    return allows


def _apart(
    slots: tuple[Variable, Variable], fields: list[tuple[Variable, Variable]], shared: frozenset[str]
) -> Callable[[Assigned], bool]:
    def allows(given: Assigned) -> bool:
        one, other = given[slots[0]], given[slots[1]]
        if not one or not other:
            return True
        # Another agent's record overtakes only where records are shared.
        if not one & other and (one <= shared) != (other <= shared) and not (one & shared and other & shared):
            return True
        return any((type(given[left]), given[left]) != (type(given[right]), given[right]) for left, right in fields)

    return allows


def _any(sort: Sort, number: int) -> Value:
    """Some value of a sort; another for each number, where there are so many."""
    names = [f"v{index}" for index in range(number + 1)]
    kinds = {name: kinds_of({sort}) for name in names}
    values: list[Value] = [point.value for point in points(kinds, ())["v0"] if not isinstance(point.value, Absent)]
    return values[number % len(values)]
