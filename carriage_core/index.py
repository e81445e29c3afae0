# SPDX-License-Identifier: Apache-2.0
"""Finds the policies that could match an action without looking at those that cannot (DESIGN 3.6, invariant 12).

Two steps: by (action, object type), then by one attribute that a rule requires to equal a literal. A rule is
left out only where that comparison is false, so `where` is false whatever the rest says; a value that is missing,
unknown or of another type leaves nothing out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING

from carriage_core.condition import All, Compare, Condition, Operator
from carriage_core.policy import ANY_ACTION
from carriage_core.schema import Absent, Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from carriage_core.policy import EvidenceDeclaration, Policy

_OF_THE_CALL = ("object.", "action.")
"""Attributes that are the same for every member of a delegation chain."""


@dataclass(slots=True)
class _Bucket:
    """The policies of one action and object type: those any call may match, and the rest by a required value."""

    always: list[Policy] = field(default_factory=list)
    by_value: dict[str, dict[type, dict[Value, list[Policy]]]] = field(default_factory=dict)

    def add(self, policy: Policy) -> None:
        required = _required(policy.where)
        if required is None:
            self.always.append(policy)
            return
        name, literals = required
        for literal in literals:
            by_type = self.by_value.setdefault(name, {})
            by_type.setdefault(type(literal), {}).setdefault(literal, []).append(policy)

    def all(self) -> Iterator[Policy]:
        yield from self.always
        for by_type in self.by_value.values():
            for by_literal in by_type.values():
                for policies in by_literal.values():
                    yield from policies

    def matching(self, attributes: Mapping[str, Value | Absent]) -> Iterator[Policy]:
        yield from self.always
        for name, by_type in self.by_value.items():
            value = attributes.get(name, Absent.MISSING)
            for kind, by_literal in by_type.items():
                if isinstance(value, Absent) or type(value) is not kind:
                    for policies in by_literal.values():  # unknown: the comparison is not false
                        yield from policies
                else:
                    yield from by_literal.get(value, ())


def _required(where: Condition | None) -> tuple[str, tuple[Value, ...]] | None:
    """Find an attribute of the call that must equal one of some literals for a rule to apply."""
    for part in where.parts if isinstance(where, All) else (where,):
        if isinstance(part, Compare) and part.attribute.startswith(_OF_THE_CALL):
            if part.operator is Operator.IN and isinstance(part.operand, tuple):
                # Literals of several types: one of them would be unknown against any value.
                if len({type(literal) for literal in part.operand}) == 1:
                    return part.attribute, tuple(dict.fromkeys(part.operand))
            elif part.operator is Operator.EQ and isinstance(part.operand, str | Decimal | bool | datetime):
                return part.attribute, (part.operand,)
    return None


class PolicyIndex:
    """Mediated policies by what they can match, and evidence declarations by the tool they read."""

    def __init__(self, policies: Iterable[Policy]) -> None:
        """Index `policies` once; the index never changes."""
        self._buckets: dict[str, dict[str | None, _Bucket]] = {}
        self._declarations: dict[str, dict[str, EvidenceDeclaration]] = {}
        for policy in policies:
            if policy.mediated:
                for action in policy.actions:
                    self._buckets.setdefault(action, {}).setdefault(policy.object_type, _Bucket()).add(policy)
            for _, declaration in policy.evidence:
                self._declarations.setdefault(declaration.from_tool, {})[declaration.digest] = declaration

    @property
    def mediates(self) -> bool:
        """Whether any policy has an action."""
        return bool(self._buckets)

    def declarations(self, tool: str) -> tuple[EvidenceDeclaration, ...]:
        """List the evidence declarations that read results of `tool`, each once."""
        return tuple(self._declarations.get(tool, {}).values())

    def governing(self, action: str, object_type: str | None) -> Iterable[Policy]:
        """List the policies that could govern an action on an object type, each once, in no particular order."""
        return _once(policy for bucket in self._of(action, object_type) for policy in bucket.all())

    def matching(
        self, action: str, object_type: str | None, attributes: Mapping[str, Value | Absent]
    ) -> Iterable[Policy]:
        """List those of `governing` whose required value is not another one than `attributes` holds."""
        return _once(policy for bucket in self._of(action, object_type) for policy in bucket.matching(attributes))

    def _of(self, action: str, object_type: str | None) -> Iterator[_Bucket]:
        for name in (action, ANY_ACTION):
            by_type = self._buckets.get(name, {})
            if object_type is None:
                yield from by_type.values()  # an unknown type could be any
            else:
                yield from (by_type[kind] for kind in (object_type, None) if kind in by_type)


def _once(policies: Iterator[Policy]) -> Iterable[Policy]:
    return {id(policy): policy for policy in policies}.values()
