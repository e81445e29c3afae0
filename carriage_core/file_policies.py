# SPDX-License-Identifier: Apache-2.0
"""The ``policies`` of a policy file, each checked against the tools of the same file (DESIGN 3.2, 3.5)."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from carriage_core.condition import Condition, all_of
from carriage_core.errors import CarriageError, Fault, PolicyError
from carriage_core.file_conditions import ConditionReader
from carriage_core.file_reader import join
from carriage_core.policy import (
    CounterDeclaration,
    Effect,
    EvidenceDeclaration,
    FieldOrigin,
    FieldSource,
    Issuer,
    IssuerKind,
    Mode,
    Policy,
    Scope,
)
from carriage_core.schema import Sort
from carriage_core.vocabulary import Vocabulary

if TYPE_CHECKING:
    from carriage_core.binding import ToolBinding
    from carriage_core.yaml_tree import Node


class PolicyReader(ConditionReader):
    """Reads policies."""

    def policies(self, node: Node, bindings: tuple[ToolBinding, ...]) -> tuple[Policy, ...]:
        """Read every policy and check it against the bindings."""
        if node.kind != "list" or not node.items:
            self.fault(
                node,
                "policies",
                "there is no policy, so nothing would be protected",
                "add at least one policy",
            )
            return ()
        by_tool: dict[str, tuple[ToolBinding, ...]] = {}
        for binding in bindings:
            by_tool[binding.tool] = (*by_tool.get(binding.tool, ()), binding)
        vocabulary = Vocabulary(by_tool)
        found: list[Policy] = []
        lines: dict[object, int] = {}
        # With a binding refused, "no tool is bound" would be said of every rule that it was for.
        tools_at_fault = any(fault.path.startswith("tools") for fault in self.faults)
        for index, entry in enumerate(node.items):
            path = f"policies[{index}]"
            before = len(self.faults)
            try:
                policy = self.policy(entry, path)
            except PolicyError as problem:
                self.fault(entry, path, problem.args[0], problem.mend)
                continue
            if policy is None or len(self.faults) > before:
                continue
            if policy.identity in lines:
                self.fault(
                    entry,
                    f"{path}.id",
                    f"the id {policy.id!r} is used on line {lines[policy.identity]} already",
                    "give each policy its own id",
                )
                continue
            lines[policy.identity] = entry.line
            for fault in () if tools_at_fault else vocabulary.faults(policy):
                place, line = _locate(entry, path, fault)
                self.faults.append(dataclasses.replace(fault, path=place, line=line))
            found.append(policy)
        return tuple(found)

    def policy(self, node: Node, path: str) -> Policy | None:
        """Read one policy."""
        allowed = (
            *(
                "id",
                "issuer",
                "version",
                "scope",
                "subject",
                "action",
                "object",
                "where",
                "effect",
                "evidence",
                "unless",
            ),
            *("counters", "mode", "priority", "valid_from", "valid_until", "text"),
        )
        entries = self.mapping(node, path, allowed, ("id", "issuer", "effect", "text"))
        if not {"id", "issuer", "effect", "text"} <= set(entries):
            return None
        issuer = self.issuer(entries["issuer"], f"{path}.issuer")
        effect = self.one_of(entries["effect"], f"{path}.effect", Effect)
        scope = (
            self.mapping(entries["scope"], f"{path}.scope", ("tenant", "task", "agent")) if "scope" in entries else {}
        )
        mode = self.one_of(entries["mode"], f"{path}.mode", Mode) if "mode" in entries else Mode.ENFORCE
        before = len(self.faults)
        evidence = self.evidence(entries["evidence"], f"{path}.evidence") if "evidence" in entries else ()
        counters = self.counters(entries["counters"], f"{path}.counters") if "counters" in entries else ()
        sound = len(self.faults) == before
        everywhere = self.types
        self.types = everywhere.extended(_own_types(evidence, counters))
        kind, where = self.where(entries, path)
        unless = self.condition(entries["unless"], f"{path}.unless") if "unless" in entries else None
        self.types = everywhere
        if issuer is None or effect is None or mode is None or not sound:
            return None
        return Policy(
            id=self.text(entries["id"], f"{path}.id"),
            issuer=issuer,
            effect=effect,
            text=self.text(entries["text"], f"{path}.text").strip(),
            version=self.integer(entries["version"], f"{path}.version") if "version" in entries else 1,
            scope=Scope(
                **{
                    name: self.text(value, f"{path}.scope.{name}")
                    for name, value in scope.items()
                    if name in {"tenant", "task", "agent"}
                }
            ),
            actions=self.words(entries["action"], f"{path}.action") if "action" in entries else (),
            object_type=kind,
            where=where,
            unless=unless,
            evidence=evidence,
            counters=counters,
            mode=mode,
            priority=self.integer(entries["priority"], f"{path}.priority") if "priority" in entries else 0,
            valid_from=self.instant(entries["valid_from"], f"{path}.valid_from") if "valid_from" in entries else None,
            valid_until=self.instant(entries["valid_until"], f"{path}.valid_until")
            if "valid_until" in entries
            else None,
            line=node.line,
        )

    def issuer(self, node: Node, path: str) -> Issuer | None:
        """Read kind and name."""
        entries = self.mapping(node, path, ("kind", "name"), ("kind", "name"))
        if not {"kind", "name"} <= set(entries):
            return None
        kind = self.one_of(entries["kind"], f"{path}.kind", IssuerKind)
        name = self.text(entries["name"], f"{path}.name")
        return None if kind is None else Issuer(kind=kind, name=name)

    def where(self, entries: dict[str, Node], path: str) -> tuple[str | None, Condition | None]:
        """Join subject, object attributes and `where`: all say when the rule applies."""
        parts: list[Condition] = []
        if "subject" in entries:
            parts.append(self.shorthand("actor.id", entries["subject"], f"{path}.subject"))
        kind: str | None = None
        if "object" in entries:
            for name, value in self.mapping(entries["object"], f"{path}.object", None).items():
                if name == "type":
                    kind = self.text(value, f"{path}.object.type")
                else:
                    parts.append(self.shorthand(f"object.{name}", value, f"{path}.object.{name}"))
        if "where" in entries:
            condition = self.condition(entries["where"], f"{path}.where")
            if condition is not None:
                parts.append(condition)
        return kind, all_of(*parts) if parts else None

    def evidence(self, node: Node, path: str) -> tuple[tuple[str, EvidenceDeclaration], ...]:
        """Read evidence declarations by handle."""
        found: list[tuple[str, EvidenceDeclaration]] = []
        for handle, entry in self.mapping(node, path, None).items():
            inner = join(path, handle)
            entries = self.mapping(
                entry,
                inner,
                ("from_tool", "key", "fields", "expires", "single_use", "shared"),
                ("from_tool", "key", "fields"),
            )
            if not {"from_tool", "key", "fields"} <= set(entries):
                continue
            fields = self.fields(entries["fields"], f"{inner}.fields")
            try:
                declaration = EvidenceDeclaration(
                    from_tool=self.text(entries["from_tool"], f"{inner}.from_tool"),
                    key=self.words(entries["key"], f"{inner}.key"),
                    fields=fields,
                    expires_seconds=self.duration(entries["expires"], f"{inner}.expires")
                    if "expires" in entries
                    else None,
                    single_use="single_use" in entries and self.truth(entries["single_use"], f"{inner}.single_use"),
                    shared="shared" in entries and self.truth(entries["shared"], f"{inner}.shared"),
                )
            except CarriageError as problem:
                self.fault(entry, inner, problem.args[0], problem.mend)
                continue
            found.append((handle, declaration))
        return tuple(found)

    def fields(self, node: Node, path: str) -> tuple[tuple[str, FieldSource], ...]:
        """Read where evidence fields come from."""
        found: list[tuple[str, FieldSource]] = []
        for name, entry in self.mapping(node, path, None).items():
            inner = join(path, name)
            entries = self.mapping(entry, inner, ("argument", "result", "type"))
            sort = self.one_of(entries["type"], f"{inner}.type", Sort) if "type" in entries else Sort.ANY
            entries.pop("type", None)
            if len(entries) != 1:
                self.fault(
                    entry,
                    inner,
                    "one of argument or result is needed",
                    "write {argument: NAME} or {result: NAME}",
                )
                continue
            origin, value = next(iter(entries.items()))
            if origin in set(FieldOrigin):
                found.append(
                    (
                        name,
                        FieldSource(
                            origin=FieldOrigin(origin),
                            path=self.text(value, f"{inner}.{origin}"),
                            sort=sort or Sort.ANY,
                        ),
                    )
                )
        return tuple(sorted(found, key=lambda pair: pair[0]))

    def counters(self, node: Node, path: str) -> tuple[tuple[str, CounterDeclaration], ...]:
        """Read counter declarations by name."""
        found: list[tuple[str, CounterDeclaration]] = []
        for name, entry in self.mapping(node, path, None).items():
            inner = join(path, name)
            entries = self.mapping(entry, inner, ("key", "window", "amount"), ("window",))
            if "window" not in entries:
                continue
            try:
                declaration = CounterDeclaration(
                    key=self.words(entries["key"], f"{inner}.key") if "key" in entries else (),
                    window_seconds=self.duration(entries["window"], f"{inner}.window"),
                    amount=self.optional_text(entries, "amount", inner),
                )
            except CarriageError as problem:
                self.fault(entry, inner, problem.args[0], problem.mend)
                continue
            found.append((name, declaration))
        return tuple(found)


def _own_types(
    evidence: tuple[tuple[str, EvidenceDeclaration], ...], counters: tuple[tuple[str, CounterDeclaration], ...]
) -> dict[str, Sort]:
    """The types of what a policy declares itself."""
    fields = {
        f"evidence.{handle}.{name}": source.sort
        for handle, declaration in evidence
        for name, source in declaration.fields
    }
    return fields | {f"counter.{name}": Sort.NUMBER for name, _ in counters}


def _locate(policy: Node, path: str, fault: Fault) -> tuple[str, int]:
    """Find where in a policy's entry a fault lies: at its word if that stands there, else at its path."""
    # A condition may be written under where, object or subject; the IR knows only where.
    start, place = policy, path
    for step in fault.path.split("."):
        if step not in start.entries:
            break
        place, start = f"{place}.{step}", dataclasses.replace(start.entries[step], line=dict(start.key_lines)[step])
    found = None
    if fault.word:
        word = fault.word.removeprefix("object.")
        found = _search(start, place, fault.word) or _search(policy, path, fault.word) or _search(policy, path, word)
    return found or (place, start.line)


def _search(node: Node, path: str, word: str) -> tuple[str, int] | None:
    """Find the first scalar or key that is `word`, in file order."""
    if node.kind == "scalar":
        return (path, node.line) if node.value == word else None
    if node.kind == "list":
        inner = ((item, f"{path}[{index}]") for index, item in enumerate(node.items))
        return next((found for item, place in inner if (found := _search(item, place, word))), None)
    lines = dict(node.key_lines)
    for key, value in node.entries.items():
        found = (f"{path}.{key}", lines[key]) if key == word else _search(value, f"{path}.{key}", word)
        if found:
            return found
    return None
