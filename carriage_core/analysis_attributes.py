# SPDX-License-Identifier: Apache-2.0
"""What each attribute of a question can be: its kinds of value, and the ways it can have none (DESIGN 3.3, 3.11)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from carriage_core.analysis_languages import NAME, WORD
from carriage_core.analysis_points import UNDECLARED, Point, kinds_of, points
from carriage_core.condition import Attribute, Compare, Operator, evaluate
from carriage_core.schema import Absent, Sort

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from carriage_core.analysis_languages import Kind
    from carriage_core.attribute_types import AttributeTypes
    from carriage_core.condition import Truth
    from carriage_core.schema import Value

type Variable = str
"""An attribute, or one of several that share its name: ``actor.id#0``, ``record#1.status``."""

_MISSING, _UNKNOWN = Absent.MISSING, Absent.UNKNOWN
_OWN: Final[dict[str, tuple[Kind, tuple[Absent, ...]]]] = {
    "tenant": (NAME, (_UNKNOWN,)),
    "task": (NAME, (_UNKNOWN,)),
    "actor.id": (NAME, (_UNKNOWN,)),
    "time": (Sort.TIME, (_UNKNOWN,)),
    "action.name": (WORD, (_UNKNOWN,)),
    "action.tool": (NAME, ()),
    "action.external": (Sort.BOOL, ()),
    "object.type": (WORD, (_MISSING,)),
}
"""What every call has, whatever its binding."""


def kinds_and_absences(name: str, types: AttributeTypes | None) -> tuple[frozenset[Kind], tuple[Absent, ...]]:
    """What an attribute may be, as declared, and how it may have no value."""
    if name in _OWN:
        kind, absent = _OWN[name]
        return frozenset({kind}), absent
    if name.startswith("counter."):
        return frozenset({Sort.NUMBER}), (_UNKNOWN,)
    declared = None if types is None else types.sorts.get(name)
    kinds = UNDECLARED if declared is None else kinds_of(declared)
    return kinds, () if name.startswith("evidence.") else (_MISSING, _UNKNOWN)


class Domains:
    """Collects the variables of a question with the comparisons on them, then lists what each can be."""

    def __init__(self) -> None:
        """Start with none."""
        self._kinds: dict[Variable, tuple[frozenset[Kind], tuple[Absent, ...]]] = {}
        self._atoms: dict[Variable, list[Compare]] = {}
        self._leader: dict[Variable, Variable] = {}
        self._ordered: set[Variable] = set()
        self._kept: set[Variable] = set()
        self.linked: dict[Variable, tuple[Variable, ...]] = {}
        """The variables whose equal values are interchangeable, by variable; only where nothing orders them."""

    def add(self, variable: Variable, kinds: frozenset[Kind], absent: tuple[Absent, ...]) -> None:
        """Add a variable."""
        self._kinds.setdefault(variable, (kinds, absent))
        self._atoms.setdefault(variable, [])
        self._leader.setdefault(variable, variable)

    def compare(self, left: Iterable[Variable], atom: Compare, right: Iterable[Variable] = ()) -> None:
        """Note a comparison of some variables with literals, or with other variables."""
        left, right = list(left), list(right)
        if isinstance(atom.operand, Attribute):
            for one in left:
                for other in right:
                    self.link(one, other, ordered=atom.operator not in {Operator.EQ, Operator.NE})
        else:
            for one in left:
                self._atoms[one].append(atom)

    def link(self, one: Variable, other: Variable, *, ordered: bool = False) -> None:
        """Note that two variables are compared, so that their values must be chosen together."""
        self._leader[self._find(one)] = self._find(other)
        self._kept |= {one, other}
        if ordered:
            self._ordered |= {one, other}

    def keep(self, variable: Variable) -> None:
        """Note that whether a variable has a value matters beside its comparisons."""
        self._kept.add(variable)

    def _find(self, variable: Variable) -> Variable:
        while self._leader[variable] != variable:
            variable = self._leader[variable]
        return variable

    def listed(self) -> dict[Variable, list[Point]]:
        """List what each variable can be.

        Raises:
            UndecidableError: A limit was met.
        """
        groups: dict[Variable, list[Variable]] = {}
        for variable in self._kinds:
            groups.setdefault(self._find(variable), []).append(variable)
        found: dict[Variable, list[Point]] = {}
        for group in groups.values():
            atoms = list(dict.fromkeys(atom for variable in group for atom in self._atoms[variable]))
            values = points({variable: self._kinds[variable][0] for variable in group}, atoms)
            if len(group) > 1 and not self._ordered & set(group):
                self.linked |= dict.fromkeys(group, tuple(group))
            for variable in group:
                absent = [Point(one, one, 0) for one in self._kinds[variable][1]]
                if not any(atom.operator is Operator.EXISTS for atom in self._atoms[variable]):
                    del absent[1:]  # only `exists` tells missing from unknown
                own = [*values[variable], *absent]
                found[variable] = own if variable in self._kept else _distinct(own, self._atoms[variable])
        return found


def _distinct(own: list[Point], atoms: list[Compare]) -> list[Point]:
    """Keep one of all points that the comparisons judge alike."""
    found: dict[tuple[Truth, ...], Point] = {}
    for point in own:
        found.setdefault(tuple(atom_truth(atom, point.value) for atom in atoms), point)
    return list(found.values())


def atom_truth(atom: Compare, left: Value | Absent, right: Value | Absent = Absent.UNKNOWN) -> Truth:
    """What the product's own evaluator says of one comparison."""
    values: Mapping[str, Value | Absent] = {atom.attribute: left}
    if isinstance(atom.operand, Attribute):
        values = {atom.operand.name: right, atom.attribute: left}
    return evaluate(atom, values.__getitem__)
