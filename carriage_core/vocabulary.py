# SPDX-License-Identifier: Apache-2.0
"""The words that tools give to policies: a policy that uses another word would never match (DESIGN 3.1, 3.4)."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from carriage_core.condition import attributes
from carriage_core.errors import Fault
from carriage_core.policy import ANY_ACTION, RESPOND, Policy

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from carriage_core.binding import ToolBinding

ALWAYS_DEFINED: Final = frozenset(
    {"action.name", "action.tool", "action.external", "object.type", "actor.id", "tenant", "task", "time"}
)
"""Attributes every call has, whatever its binding."""


@dataclass(frozen=True, slots=True)
class _Deed:
    """One action some tool can do, on one type of object or, for None, on any; and what is known of it."""

    action: str
    object_type: str | None
    attributes: frozenset[str]


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What the tools of a registry can do.

    Attributes:
        bindings: All bindings of each tool.
    """

    bindings: Mapping[str, tuple[ToolBinding, ...]]
    _deeds: tuple[_Deed, ...] = field(init=False, repr=False)
    _defined: dict[tuple[tuple[str, ...], str | None], frozenset[str]] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )

    def __post_init__(self) -> None:
        """List the deeds once."""
        every = (binding for group in self.bindings.values() for binding in group)
        object.__setattr__(self, "_deeds", tuple(deed for binding in every for deed in _deeds(binding)))

    def faults(self, policy: Policy) -> tuple[Fault, ...]:
        """Find what a policy names and no tool provides: it would enforce less than it says.

        Returns:
            Faults whose `path` is relative to the policy (``action``, ``object``, ``unless`` ...); empty if sound.
        """
        if not policy.mediated:
            return ()
        # One kind of fault at a time: with the action misspelt, the attributes mean nothing yet.
        faults = tuple(self._action_faults(policy))
        if not faults and policy.object_type is not None:
            faults = tuple(self._type_faults(policy, policy.object_type))
        return faults or (*self._name_faults(policy), *self._evidence_faults(policy))

    def _governed(self, policy: Policy) -> Iterator[_Deed]:
        wild = policy.actions == (ANY_ACTION,)
        return (deed for deed in self._deeds if wild or deed.action in policy.actions)

    def _action_faults(self, policy: Policy) -> Iterator[Fault]:
        known = {deed.action for deed in self._deeds}
        for action in policy.actions:
            if action not in {*known, ANY_ACTION, RESPOND}:
                message = f"no tool is bound to the action {action!r}"
                yield Fault(path="action", message=message, mend=near(action, known), word=action)

    def _type_faults(self, policy: Policy, object_type: str) -> Iterator[Fault]:
        known = {deed.object_type for deed in self._governed(policy)}
        if not known & {object_type, None}:
            types = {kind for kind in known if kind is not None}
            message = f"no tool bound to {' or '.join(policy.actions)} acts on a {object_type!r}"
            yield Fault(path="object.type", message=message, mend=near(object_type, types), word=object_type)

    def _name_faults(self, policy: Policy) -> Iterator[Fault]:
        key = (policy.actions, policy.object_type)
        defined = self._defined.get(key)
        if defined is None:
            fitting = (
                deed.attributes
                for deed in self._governed(policy)
                if policy.object_type in {None, deed.object_type} or deed.object_type is None
            )
            defined = self._defined[key] = ALWAYS_DEFINED.union(*fitting)
        places = [("where", attributes(policy.where)), ("unless", attributes(policy.unless))]
        for name, declaration in policy.counters:
            counted = {*declaration.key, *(() if declaration.amount is None else (declaration.amount,))}
            places.append((f"counters.{name}", frozenset(counted)))
        for place, names in places:
            for name in sorted(names - defined):
                if not name.startswith(("evidence.", "counter.")):  # the policy itself has checked those
                    message = f"the attribute {name!r} is not defined"
                    yield Fault(path=place, message=message, mend=near(name, defined), word=name)

    def _evidence_faults(self, policy: Policy) -> Iterator[Fault]:
        for handle, declaration in policy.evidence:
            path, tool = f"evidence.{handle}", declaration.from_tool
            bound = self.bindings.get(tool, ())
            if not bound:
                message = f"the tool {tool!r} is not bound"
                yield Fault(path=f"{path}.from_tool", message=message, mend=near(tool, set(self.bindings)))
                continue
            if not any(binding.trusted_evidence for binding in bound):
                yield Fault(
                    path=f"{path}.from_tool",
                    message=f"the tool {tool!r} is not declared trusted_evidence",
                    mend=f"add trusted_evidence: true to tools.{tool} if its structured result can be trusted",
                )
            known = frozenset[str]().union(*(binding.known_arguments for binding in bound))
            for name, source in declaration.fields:
                if source.origin == "argument" and source.path.split(".")[0] not in known:
                    yield Fault(
                        path=f"{path}.fields.{name}",
                        message=f"the tool {tool!r} has no argument {source.path!r}",
                        mend=near(source.path, known) + f" or list it under tools.{tool}.arguments",
                        word=source.path,
                    )


def _deeds(binding: ToolBinding) -> Iterator[_Deed]:
    if binding.shell is not None:
        # Here, since few registries bind a shell.
        from carriage_core.shell.effects import OBJECT_TYPES, VOCABULARY  # noqa: PLC0415

        for action, known in VOCABULARY.items():
            for object_type in OBJECT_TYPES[action]:
                yield _Deed(action, object_type, frozenset(known))
        for _, own in binding.shell.words:
            if own is not None:
                yield _Deed(own, None, frozenset({"action.word"}))
    elif binding.action is not None:
        named = {f"object.{name}" for name, _ in binding.object_attributes}
        named |= {f"action.{name}" for name, _ in binding.action_attributes}
        yield _Deed(binding.action, binding.object_type, frozenset(named))


def near(word: str, known: Iterable[str]) -> str:
    """Phrase the mend for an unknown word: the closest known one, else all of them."""
    known = sorted(map(str, known))
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"use one of: {', '.join(known[:12])}" if known else "there is none yet: bind a tool under tools"
