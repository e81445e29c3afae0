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
from functools import reduce
from itertools import chain, compress
from operator import or_
from typing import TYPE_CHECKING, Final

from carriage_core.condition import All, Compare, Condition, Operator
from carriage_core.pieces import in_pieces
from carriage_core.policy import ANY_ACTION
from carriage_core.schema import Absent, Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from carriage_core.policy import EvidenceDeclaration, Policy
    from carriage_core.runtime import RuntimeState

_MAX_KNOWN: Final = 1_024
"""Most pairs of action and object type whose buckets are remembered; a shell command may name any word."""

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

    def matching(self, attributes: Mapping[str, Value | Absent]) -> list[Policy]:
        """May name a policy twice."""
        found = self.always
        for name, by_type in self.by_value.items():
            value = attributes.get(name, Absent.MISSING)
            for kind, by_literal in by_type.items():
                if isinstance(value, Absent) or type(value) is not kind:
                    # Unknown: the comparison is not false.
                    found = [*found, *chain.from_iterable(by_literal.values())]
                elif value in by_literal:
                    found = [*found, *by_literal[value]]
        return found


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

    def __init__(self, policies: tuple[Policy, ...]) -> None:
        """Index `policies`, given in capsule order, once; the index never changes."""
        self._policies = policies
        self._buckets: dict[str, dict[str | None, _Bucket]] = {}
        self._known: dict[tuple[str | None, str | None], list[_Bucket]] = {}
        self._declarations: dict[str, dict[str, EvidenceDeclaration]] = {}
        kinds: dict[tuple[str, str | None], list[int]] = {}
        scopes: dict[str, dict[str | None, list[int]]] = {"tenant": {}, "task": {}, "agent": {}}
        carried: list[int] = []
        for position, policy in in_pieces(enumerate(policies)):
            for name, positions in scopes.items():
                positions.setdefault(getattr(policy.scope, name), []).append(position)
            if policy.mediated:
                for action in policy.actions:
                    kinds.setdefault((action, policy.object_type), []).append(position)
                    self._buckets.setdefault(action, {}).setdefault(policy.object_type, _Bucket()).add(policy)
            else:
                carried.append(position)
            for _, declaration in policy.evidence:
                self._declarations.setdefault(declaration.from_tool, {})[declaration.digest] = declaration
        self._kinds = {kind: _mask(positions) for kind, positions in kinds.items()}
        self._scopes = {
            name: {value: _mask(positions) for value, positions in found.items()} for name, found in scopes.items()
        }
        self._carried = _mask(carried)

    @property
    def mediates(self) -> bool:
        """Whether any policy has an action."""
        return bool(self._buckets)

    def declarations(self, tool: str) -> tuple[EvidenceDeclaration, ...]:
        """List the evidence declarations that read results of `tool`, each once."""
        return tuple(self._declarations.get(tool, {}).values())

    def applicable(self, kinds: Iterable[tuple[str, str | None]] | None, runtime: RuntimeState) -> tuple[Policy, ...]:
        """List, in capsule order, what is in scope and carried only, or could govern an action of these kinds.

        Args:
            kinds: Actions with their object types, None where any action is possible.
            runtime: Who will act.
        """
        everything = (1 << len(self._policies)) - 1
        chosen = everything
        if kinds is not None:
            chosen = self._carried
            for action, object_type in kinds:
                chosen |= self._governing(action, object_type)
        agents = runtime.chain or (None,)
        for name, values in (("tenant", (runtime.tenant,)), ("task", (runtime.task,)), ("agent", agents)):
            if None not in values:  # 3.2: what the runtime cannot resolve applies
                masks = self._scopes[name]
                chosen &= masks.get(None, 0) | reduce(or_, (masks.get(value, 0) for value in values))
        if chosen == everything:
            return self._policies
        bits = f"{chosen:b}"[::-1].encode().translate(_TRUTH)
        return tuple(compress(self._policies, bits))

    def _governing(self, action: str, object_type: str | None) -> int:
        found = 0
        for name in (action, ANY_ACTION):
            if object_type is None:
                found |= reduce(or_, (mask for (one, _), mask in self._kinds.items() if one == name), 0)
            else:
                found |= self._kinds.get((name, object_type), 0) | self._kinds.get((name, None), 0)
        return found

    def matching(
        self, action: str | None, object_type: str | None, attributes: Mapping[str, Value | Absent]
    ) -> Iterable[Policy]:
        """List the policies that could govern an action, each once, in no particular order.

        Left out are those whose required value is another one than `attributes` holds.

        Args:
            action: The action, None where it could be any.
            object_type: The type of its object, None where it could be any.
            attributes: What is known of it.
        """
        kind = (action, object_type)
        buckets = self._known.get(kind)
        if buckets is None:
            buckets = self._of(action, object_type)
            if len(self._known) < _MAX_KNOWN:
                self._known[kind] = buckets
        if len(buckets) == 1:
            found = buckets[0].matching(attributes)
            if len(found) < 2:  # noqa: PLR2004  # nothing can be there twice
                return found
        return {id(policy): policy for bucket in buckets for policy in bucket.matching(attributes)}.values()

    def _of(self, action: str | None, object_type: str | None) -> list[_Bucket]:
        found: list[_Bucket] = []
        for name in self._buckets if action is None else (action, ANY_ACTION):
            by_type = self._buckets.get(name, {})
            if object_type is None:
                found.extend(by_type.values())  # an unknown type could be any
            else:
                found.extend(by_type[kind] for kind in (object_type, None) if kind in by_type)
        return found


def _mask(positions: list[int]) -> int:
    """A set of positions as an integer, so that a union over thousands of policies is one operation."""
    bits = bytearray(positions[-1] // 8 + 1 if positions else 0)
    for position in positions:
        bits[position >> 3] |= 1 << (position & 7)
    return int.from_bytes(bits, "little")


_TRUTH: Final = bytes.maketrans(b"01", b"\0\1")
