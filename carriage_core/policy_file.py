# SPDX-License-Identifier: Apache-2.0
"""The policy file, version 1: YAML 1.2 or JSON to Policy IR, whole or not at all (DESIGN 3.2, 3.14).

Every fault of a file is collected with its line, its path and the mend, and raised as one `PolicyFileError`; a
misspelt key never becomes a rule that matches nothing.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Final

from carriage_core.binding import AttributeSource, ToolBinding
from carriage_core.condition import Attribute, Compare, Condition, Not, Operand, Operator, all_of, any_of
from carriage_core.errors import CarriageError, Fault, PolicyError, PolicyFileError
from carriage_core.policy import (
    Effect,
    EvidenceDeclaration,
    FieldOrigin,
    FieldSource,
    Issuer,
    IssuerKind,
    Policy,
    Scope,
)
from carriage_core.registry import PolicyRegistry, near, undefined_attributes
from carriage_core.schema import Absent, Sort, Value, normal, parse_time
from carriage_core.yaml_tree import MAX_BYTES, Node, UnclearYamlError, parse

if TYPE_CHECKING:
    import os

VERSION: Final = 1
_DURATION: Final = re.compile(r"([1-9][0-9]{0,6})(s|m|h|d)")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def load_policy_file(path: str | os.PathLike[str]) -> PolicyRegistry:
    """Load a policy file.

    Raises:
        PolicyFileError: It cannot be read, or anything in it is wrong.
    """
    file = Path(path)
    try:
        if file.stat().st_size > MAX_BYTES:
            raise PolicyFileError(path_text(path), [_whole(f"larger than {MAX_BYTES} bytes", "split it")])
        text = file.read_text(encoding="utf-8")
    except OSError as problem:
        fault = _whole(f"cannot be read ({problem.strerror})", "check the path and its permissions")
        raise PolicyFileError(path_text(path), [fault]) from problem
    except UnicodeDecodeError as problem:
        raise PolicyFileError(path_text(path), [_whole("not UTF-8 text", "save it as UTF-8")]) from problem
    return parse_policy_text(text, source=path_text(path))


def path_text(path: str | os.PathLike[str]) -> str:
    """Spell a path as the user gave it."""
    return str(path)


def _whole(message: str, mend: str) -> Fault:
    return Fault(path="", line=1, message=message, mend=mend)


def parse_policy_text(text: str, *, source: str = "<text>") -> PolicyRegistry:
    """Read the text of a policy file.

    Args:
        text: YAML 1.2 or JSON.
        source: Name used in errors.

    Raises:
        PolicyFileError: Anything in it is wrong.
    """
    try:
        root = parse(text)
    except UnclearYamlError as problem:
        raise PolicyFileError(source, problem.faults) from None
    reader = _Reader()
    registry = reader.file(root)
    if reader.faults:
        raise PolicyFileError(source, sorted(reader.faults, key=lambda fault: fault.line))
    if registry is None:
        raise PolicyFileError(source, [_whole("nothing could be read", "see docs/policy-file.md")])
    return registry


@dataclass(slots=True)
class _Reader:
    """Walks the tree and collects faults; what it returns is used only if there are none."""

    faults: list[Fault] = field(default_factory=list)
    sorts: dict[str, set[Sort]] = field(default_factory=lambda: {"time": {Sort.TIME}})
    """Declared types of each attribute, over all bindings."""

    def fault(self, node: Node, path: str, message: str, mend: str) -> None:
        self.faults.append(Fault(path=path, line=node.line, message=message, mend=mend))

    # -- pieces ----------------------------------------------------------------------------------

    def mapping(
        self, node: Node, path: str, allowed: tuple[str, ...] | None, required: tuple[str, ...] = ()
    ) -> dict[str, Node]:
        if node.kind != "mapping":
            self.fault(node, path, f"a mapping is needed here, not a {node.kind}", "write key: value lines")
            return {}
        entries = node.entries
        lines = dict(node.key_lines)
        for key in entries:
            if allowed is not None and key not in allowed:
                self.faults.append(
                    Fault(
                        path=_join(path, key),
                        line=lines[key],
                        message=f"unknown key {key!r}",
                        mend=near(key, allowed),
                    )
                )
        for key in required:
            if key not in entries:
                self.fault(node, path, f"the key {key!r} is missing", f"add {key}:")
        return entries

    def text(self, node: Node, path: str) -> str:
        if node.kind == "scalar" and isinstance(node.value, str):
            return node.value
        shown = node.value if node.kind == "scalar" else f"a {node.kind}"
        self.fault(node, path, f"text is needed here, not {shown}", "write it in quotes")
        return ""

    def optional_text(self, entries: dict[str, Node], key: str, path: str) -> str | None:
        return self.text(entries[key], _join(path, key)) if key in entries else None

    def integer(self, node: Node, path: str) -> int:
        if node.kind == "scalar" and isinstance(node.value, int) and not isinstance(node.value, bool):
            return node.value
        self.fault(node, path, "a whole number is needed here", "write digits only")
        return 1

    def truth(self, node: Node, path: str) -> bool:
        if node.kind == "scalar" and isinstance(node.value, bool):
            return node.value
        self.fault(node, path, "true or false is needed here", "write true or false")
        return False

    def instant(self, node: Node, path: str) -> datetime | None:
        value = parse_time(self.text(node, path)) if node.value is not None else Absent.UNKNOWN
        if isinstance(value, datetime):
            return value
        self.fault(node, path, "not an instant with a zone", "write it as 2026-12-01T16:00:00Z")
        return None

    def one_of[E: (Effect, IssuerKind, Sort)](self, node: Node, path: str, kind: type[E]) -> E | None:
        text = self.text(node, path)
        try:
            return kind(text)
        except ValueError:
            if text:
                self.fault(
                    node,
                    path,
                    f"{text!r} is not one of {', '.join(kind)}",
                    near(text, [str(member) for member in kind]),
                )
            return None

    # -- the file --------------------------------------------------------------------------------

    def file(self, root: Node) -> PolicyRegistry | None:
        entries = self.mapping(root, "", ("carriage", "default", "tools", "policies"), ("carriage", "policies"))
        version = entries.get("carriage")
        if version is not None and (type(version.value) is not int or version.value != VERSION):
            # 3.14: an unknown version refuses; its rules may mean something else.
            self.fault(
                version,
                "carriage",
                f"format version {version.value!r} is not known",
                "write carriage: 1, or upgrade policy-carriage",
            )
        default = entries.get("default")
        if default is not None and default.value != "allow":
            self.fault(
                default,
                "default",
                f"the default {default.value!r} is not supported",
                "write default: allow, and deny rules for the actions",
            )
        bindings = self.bindings(entries["tools"]) if "tools" in entries else ()
        for binding in bindings:
            for prefix, sources in (("object", binding.object_attributes), ("action", binding.action_attributes)):
                for name, source in sources:
                    self.sorts.setdefault(f"{prefix}.{name}", set()).add(_sort_of(source))
        policies = self.policies(entries["policies"], bindings) if "policies" in entries else ()
        if self.faults:
            return None
        try:
            return PolicyRegistry.of(policies, bindings)
        except PolicyError as problem:
            self.fault(root, "policies", problem.args[0], problem.mend)
            return None

    def bindings(self, node: Node) -> tuple[ToolBinding, ...]:
        found: list[ToolBinding] = []
        for tool, entry in self.mapping(node, "tools", None).items():
            path = f"tools.{tool}"
            before = len(self.faults)
            try:
                binding = self.binding(tool, entry, path)
            except PolicyError as problem:
                self.fault(entry, path, problem.args[0], problem.mend)
                continue
            if binding is not None and len(self.faults) == before:
                found.append(binding)
        return tuple(found)

    def binding(self, tool: str, node: Node, path: str) -> ToolBinding | None:
        allowed = (
            "action",
            "object",
            "attributes",
            "arguments",
            "external",
            "trusted_evidence",
            "server",
            "schema",
        )
        entries = self.mapping(node, path, allowed, ("action",))
        if "action" not in entries:
            return None
        action = self.text(entries["action"], f"{path}.action")
        if action == "none":
            for key in entries:
                if key not in {"action", "external", "server", "schema"}:
                    self.fault(
                        entries[key],
                        f"{path}.{key}",
                        "a tool declared harmless has no object and gives no evidence",
                        "name its action instead of none",
                    )
        kind: str | None = None
        object_attributes: tuple[tuple[str, AttributeSource], ...] = ()
        if "object" in entries:
            kind, object_attributes = self.object_binding(entries["object"], f"{path}.object")
        listed = entries.get("arguments")
        return ToolBinding(
            tool=tool,
            action=None if action == "none" else action,
            server=self.optional_text(entries, "server", path),
            schema_digest=self.optional_text(entries, "schema", path),
            external=self.truth(entries["external"], f"{path}.external") if "external" in entries else True,
            object_type=kind,
            object_attributes=object_attributes,
            action_attributes=self.sources(entries["attributes"], f"{path}.attributes")
            if "attributes" in entries
            else (),
            arguments=frozenset(self.words(listed, f"{path}.arguments")) if listed is not None else frozenset(),
            trusted_evidence="trusted_evidence" in entries
            and self.truth(entries["trusted_evidence"], f"{path}.trusted_evidence"),
            line=node.line,
        )

    def object_binding(self, node: Node, path: str) -> tuple[str | None, tuple[tuple[str, AttributeSource], ...]]:
        entries = self.mapping(node, path, None, ("type",))
        kind = self.text(entries["type"], f"{path}.type") if "type" in entries else None
        rest = Node(
            tuple((key, value) for key, value in entries.items() if key != "type"),
            "mapping",
            node.line,
            node.key_lines,
        )
        return kind, self.sources(rest, path)

    def sources(self, node: Node, path: str) -> tuple[tuple[str, AttributeSource], ...]:
        found: list[tuple[str, AttributeSource]] = []
        for name, entry in self.mapping(node, path, None).items():
            inner = _join(path, name)
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]*", name):
                self.fault(entry, inner, f"{name!r} is not a plain word", "use letters, digits, _ and -")
            if entry.kind == "scalar":
                found.append((name, AttributeSource(argument=self.text(entry, inner))))
                continue
            parts = self.mapping(entry, inner, ("argument", "constant", "type"))
            sort = self.one_of(parts["type"], f"{inner}.type", Sort) if "type" in parts else Sort.ANY
            if ("argument" in parts) == ("constant" in parts):
                self.fault(entry, inner, "one of argument or constant is needed", "write {argument: NAME}")
            elif "argument" in parts:
                found.append(
                    (
                        name,
                        AttributeSource(
                            argument=self.text(parts["argument"], f"{inner}.argument"), sort=sort or Sort.ANY
                        ),
                    )
                )
            else:
                literal = self.literal(parts["constant"], f"{inner}.constant", "")
                found.append((name, AttributeSource(constant=literal)))
        return tuple(sorted(found))

    def words(self, node: Node, path: str) -> tuple[str, ...]:
        if node.kind == "scalar":
            return (self.text(node, path),)
        if node.kind != "list" or not node.items:
            self.fault(node, path, "a list of names is needed here", "write [a, b]")
            return ()
        return tuple(self.text(item, f"{path}[{index}]") for index, item in enumerate(node.items))

    # -- policies --------------------------------------------------------------------------------

    def policies(self, node: Node, bindings: tuple[ToolBinding, ...]) -> tuple[Policy, ...]:
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
            for fault in () if tools_at_fault else undefined_attributes(policy, by_tool):
                place, line = _locate(entry, path, fault)
                self.faults.append(dataclasses.replace(fault, path=place, line=line))
            found.append(policy)
        return tuple(found)

    def policy(self, node: Node, path: str) -> Policy | None:
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
            *("priority", "valid_from", "valid_until", "text"),
        )
        entries = self.mapping(node, path, allowed, ("id", "issuer", "effect", "text"))
        if not {"id", "issuer", "effect", "text"} <= set(entries):
            return None
        issuer = self.issuer(entries["issuer"], f"{path}.issuer")
        effect = self.one_of(entries["effect"], f"{path}.effect", Effect)
        scope = (
            self.mapping(entries["scope"], f"{path}.scope", ("tenant", "task", "agent")) if "scope" in entries else {}
        )
        kind, where = self.where(entries, path)
        unless = self.condition(entries["unless"], f"{path}.unless") if "unless" in entries else None
        before = len(self.faults)
        evidence = self.evidence(entries["evidence"], f"{path}.evidence") if "evidence" in entries else ()
        if issuer is None or effect is None or len(self.faults) > before:
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
            priority=self.integer(entries["priority"], f"{path}.priority") if "priority" in entries else 0,
            valid_from=self.instant(entries["valid_from"], f"{path}.valid_from") if "valid_from" in entries else None,
            valid_until=self.instant(entries["valid_until"], f"{path}.valid_until")
            if "valid_until" in entries
            else None,
        )

    def issuer(self, node: Node, path: str) -> Issuer | None:
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

    def shorthand(self, attribute: str, node: Node, path: str) -> Condition:
        """Read the right side of ``object.repository: {glob: ...}``; a bare value means eq."""
        if node.kind == "scalar":
            return Compare(attribute, Operator.EQ, self.operand(node, path, attribute))
        return self.comparison(attribute, self.mapping(node, path, tuple(Operator)), node, path)

    def comparison(self, attribute: str, entries: dict[str, Node], node: Node, path: str) -> Condition:
        operators = [key for key in entries if key in set(Operator)]
        if len(operators) != 1:
            self.fault(
                node,
                path,
                f"one comparison is needed, not {len(operators)}",
                f"write one of {', '.join(Operator)}",
            )
            return Compare(attribute, Operator.EXISTS)
        operator, value = Operator(operators[0]), entries[operators[0]]
        inner = f"{path}.{operator}"
        if operator is Operator.EXISTS:
            exists = Compare(attribute, Operator.EXISTS)
            return exists if self.truth(value, inner) else Not(exists)
        if operator is Operator.IN:
            if value.kind != "list" or not value.items:
                self.fault(value, inner, "in needs a list of at least one literal", "write [a, b]")
                return Compare(attribute, Operator.EXISTS)
            return Compare(
                attribute,
                operator,
                tuple(self.literal(item, f"{inner}[{index}]", attribute) for index, item in enumerate(value.items)),
            )
        try:
            return Compare(attribute, operator, self.operand(value, inner, attribute))
        except PolicyError as problem:
            self.fault(value, inner, problem.args[0], problem.mend)
            return Compare(attribute, Operator.EXISTS)

    def operand(self, node: Node, path: str, attribute: str) -> Operand:
        if node.kind == "mapping":
            entries = self.mapping(node, path, ("attr",), ("attr",))
            return Attribute(self.text(entries["attr"], f"{path}.attr")) if "attr" in entries else Attribute("time")
        return self.literal(node, path, attribute)

    def literal(self, node: Node, path: str, attribute: str) -> Value:
        raw = node.value
        if node.kind != "scalar" or raw is None or not isinstance(raw, str | int | Decimal | bool):
            self.fault(node, path, "a literal is needed here", "write text in quotes, a number, true or false")
            return ""
        sorts = self.sorts.get(attribute, {Sort.ANY})
        if sorts == {Sort.TIME}:
            return self.instant(node, path) or datetime.min.replace(tzinfo=UTC)
        if Sort.ANY not in sorts and all(isinstance(normal(raw, sort), Absent) for sort in sorts):
            # Of another type it would be unknown at every call, and the rule would stand or fall on nothing.
            declared = " or ".join(sorted(sorts))
            self.fault(node, path, f"{attribute} is declared {declared}", f"write a literal of type {declared}")
            return ""
        if isinstance(raw, str):
            return raw  # the policy checks that it is in normal form
        value = normal(raw)
        if isinstance(value, Absent):
            self.fault(node, path, "the number has too many digits", "shorten it")
            return ""
        return value

    def condition(self, node: Node, path: str) -> Condition | None:
        entries = self.mapping(node, path, ("all", "any", "not", "attr", *Operator))
        groups = [key for key in ("all", "any", "not") if key in entries]
        if "attr" in entries and not groups:
            rest = {key: value for key, value in entries.items() if key != "attr"}
            return self.comparison(self.text(entries["attr"], f"{path}.attr"), rest, node, path)
        if len(groups) != 1 or len(entries) != 1:
            self.fault(
                node,
                path,
                "one of all, any, not or attr is needed",
                "write {attr: NAME, eq: VALUE} or all: [...]",
            )
            return None
        group = groups[0]
        inner = entries[group]
        if group == "not":
            part = self.condition(inner, f"{path}.not")
            return None if part is None else Not(part)
        if inner.kind != "list" or not inner.items:
            self.fault(inner, f"{path}.{group}", f"an empty {group} decides nothing", "list at least one condition")
            return None
        parts = [self.condition(item, f"{path}.{group}[{index}]") for index, item in enumerate(inner.items)]
        sound = [part for part in parts if part is not None]
        if len(sound) != len(parts):
            return None
        return all_of(*sound) if group == "all" else any_of(*sound)

    def evidence(self, node: Node, path: str) -> tuple[tuple[str, EvidenceDeclaration], ...]:
        found: list[tuple[str, EvidenceDeclaration]] = []
        for handle, entry in self.mapping(node, path, None).items():
            inner = _join(path, handle)
            entries = self.mapping(
                entry,
                inner,
                ("from_tool", "key", "fields", "expires", "single_use"),
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
                )
            except CarriageError as problem:
                self.fault(entry, inner, problem.args[0], problem.mend)
                continue
            found.append((handle, declaration))
        return tuple(found)

    def fields(self, node: Node, path: str) -> tuple[tuple[str, FieldSource], ...]:
        found: list[tuple[str, FieldSource]] = []
        for name, entry in self.mapping(node, path, None).items():
            inner = _join(path, name)
            entries = self.mapping(entry, inner, ("argument", "result"))
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
                        FieldSource(origin=FieldOrigin(origin), path=self.text(value, f"{inner}.{origin}")),
                    )
                )
        return tuple(sorted(found, key=lambda pair: pair[0]))

    def duration(self, node: Node, path: str) -> int:
        match = _DURATION.fullmatch(self.text(node, path))
        if match is None:
            self.fault(node, path, "not a duration", "write a number and a unit, such as 30m, 1h or 2d")
            return 1
        return int(match[1]) * _SECONDS[match[2]]


def _sort_of(source: AttributeSource) -> Sort:
    """The type an attribute's values have: as declared, or that of its constant."""
    match source.constant:
        case bool():
            return Sort.BOOL
        case Decimal():
            return Sort.NUMBER
        case _:
            return source.sort


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


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
