# SPDX-License-Identifier: Apache-2.0
"""The ``types`` and ``tools`` of a policy file: which call is which action on which object (DESIGN 3.3, 3.4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from carriage_core.binding import AttributeSource, ShellSource, ToolBinding
from carriage_core.errors import PolicyError
from carriage_core.file_reader import FileReader, join
from carriage_core.policy import WORD
from carriage_core.schema import Absent, FilePath, Sort, Value, normal
from carriage_core.vocabulary import near
from carriage_core.yaml_tree import Node

if TYPE_CHECKING:
    from collections.abc import Mapping

    from carriage_core.errors import Fault

type Sources = tuple[tuple[str, AttributeSource], ...]


@dataclass(frozen=True, slots=True)
class _Typed:
    """What ``types`` says of one attribute."""

    sort: Sort
    secret: bool = False
    cwd: FilePath | None = None


class BindingReader(FileReader):
    """Reads object types, then the tool bindings that use them."""

    def __init__(self, faults: list[Fault]) -> None:
        """Add to `faults`."""
        super().__init__(faults)
        self._typed: dict[str, dict[str, _Typed]] = {}

    def object_types(self, node: Node) -> None:
        """Read ``types``: for each object type, its attributes and what they are."""
        for kind, entry in self.mapping(node, "types", None).items():
            path = f"types.{kind}"
            known = self._typed.setdefault(kind, {})
            for name, inner in self.mapping(entry, path, None).items():
                place = join(path, name)
                if inner.kind == "scalar":
                    sort = self.one_of(inner, place, Sort)
                    known[name] = _Typed(sort or Sort.ANY)
                    continue
                parts = self.mapping(inner, place, ("type", "secret", "cwd"), ("type",))
                sort = self.one_of(parts["type"], f"{place}.type", Sort) if "type" in parts else None
                secret = "secret" in parts and self.truth(parts["secret"], f"{place}.secret")
                known[name] = _Typed(sort or Sort.ANY, secret, self._cwd(parts, place))

    def bindings(self, node: Node) -> tuple[ToolBinding, ...]:
        """Read every entry of ``tools``."""
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
        """Read one tool."""
        acting = ("action", "object", "attributes", "arguments", "trusted_evidence")
        common = ("external", "server", "schema")
        if "shell" in node.entries:
            return self._shell_binding(tool, node, path, common)
        entries = self.mapping(node, path, (*acting, *common), ("action",))
        if "action" not in entries:
            return None
        action = self.text(entries["action"], f"{path}.action")
        if action == "none":
            for key in entries.keys() - {"action", *common}:
                self.fault(
                    entries[key],
                    f"{path}.{key}",
                    "a tool declared harmless has no object and gives no evidence",
                    "name its action instead of none",
                )
        kind: str | None = None
        object_attributes: Sources = ()
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
            action_attributes=self.sources(entries["attributes"], f"{path}.attributes", {})
            if "attributes" in entries
            else (),
            arguments=frozenset(self.words(listed, f"{path}.arguments")) if listed is not None else frozenset(),
            trusted_evidence="trusted_evidence" in entries
            and self.truth(entries["trusted_evidence"], f"{path}.trusted_evidence"),
            line=node.line,
        )

    def _shell_binding(self, tool: str, node: Node, path: str, common: tuple[str, ...]) -> ToolBinding:
        entries = self.mapping(node, path, ("shell", *common))
        place = f"{path}.shell"
        if entries["shell"].kind == "scalar":
            shell = ShellSource(argument=self.text(entries["shell"], place))
        else:
            parts = self.mapping(entries["shell"], place, ("argument", "cwd", "words", "stdin"), ("argument",))
            words = self.mapping(parts["words"], f"{place}.words", None) if "words" in parts else {}
            actions = {word: self.text(action, f"{place}.words.{word}") for word, action in words.items()}
            shell = ShellSource(
                argument=self.optional_text(parts, "argument", place) or "command",
                cwd=self._cwd(parts, place),
                words=tuple((word, None if action == "none" else action) for word, action in sorted(actions.items())),
                stdin=self.optional_text(parts, "stdin", place),
            )
        return ToolBinding(
            tool=tool,
            action=None,
            server=self.optional_text(entries, "server", path),
            schema_digest=self.optional_text(entries, "schema", path),
            external=self.truth(entries["external"], f"{path}.external") if "external" in entries else True,
            shell=shell,
            line=node.line,
        )

    def object_binding(self, node: Node, path: str) -> tuple[str | None, Sources]:
        """Read the object type and its attributes."""
        entries = self.mapping(node, path, None, ("type",))
        kind = self.text(entries["type"], f"{path}.type") if "type" in entries else None
        rest = Node(
            tuple((key, value) for key, value in entries.items() if key != "type"),
            "mapping",
            node.line,
            node.key_lines,
        )
        typed = self._typed.get(kind or "")
        if typed is None:
            return kind, self.sources(rest, path, {})
        for name, entry in rest.entries.items():
            if name not in typed:
                self.fault(entry, join(path, name), f"a {kind} has no attribute {name!r}", near(name, typed))
        return kind, self.sources(rest, path, typed)

    def sources(self, node: Node, path: str, typed: Mapping[str, _Typed]) -> Sources:
        """Read where attributes come from: an argument name, or the long form."""
        found: list[tuple[str, AttributeSource]] = []
        for name, entry in self.mapping(node, path, None).items():
            inner = join(path, name)
            if not WORD.fullmatch(name):
                self.fault(entry, inner, f"{name!r} is not a plain word", "use letters, digits, _ and -")
            source = self._source(entry, inner, typed.get(name))
            if source is not None:
                found.append((name, source))
        return tuple(sorted(found, key=lambda pair: pair[0]))

    def _source(self, node: Node, path: str, typed: _Typed | None) -> AttributeSource | None:
        base = typed or _Typed(Sort.ANY)
        if node.kind == "scalar":
            return AttributeSource(argument=self.text(node, path), sort=base.sort, secret=base.secret, cwd=base.cwd)
        parts = self.mapping(node, path, ("argument", "constant", "type", "default", "secret", "cwd"))
        if ("argument" in parts) == ("constant" in parts):
            self.fault(node, path, "one of argument or constant is needed", "write {argument: NAME}")
            return None
        sort = (self.one_of(parts["type"], f"{path}.type", Sort) or Sort.ANY) if "type" in parts else base.sort
        if typed is not None and sort is not typed.sort:
            self.fault(node, f"{path}.type", f"types declares it {typed.sort}", "leave type out here, or change types")
        cwd = self._cwd(parts, path) or base.cwd
        secret = base.secret or ("secret" in parts and self.truth(parts["secret"], f"{path}.secret"))
        if "constant" in parts:
            literal = self._value(parts["constant"], f"{path}.constant", sort, cwd)
            return None if literal is None else AttributeSource(constant=literal, sort=sort, secret=secret)
        default = self._value(parts["default"], f"{path}.default", sort, cwd) if "default" in parts else None
        argument = self.text(parts["argument"], f"{path}.argument")
        return AttributeSource(argument=argument, sort=sort, default=default, secret=secret, cwd=cwd)

    def _value(self, node: Node, path: str, sort: Sort, cwd: FilePath | None) -> Value | None:
        value = normal(self.scalar(node, path), sort, cwd)
        if not isinstance(value, Absent):
            return value
        self.fault(node, path, f"not a value of type {sort} in normal form", f"write a literal of type {sort}")
        return None

    def _cwd(self, parts: Mapping[str, Node], path: str) -> FilePath | None:
        if "cwd" not in parts:
            return None
        folder = FilePath.of(self.text(parts["cwd"], f"{path}.cwd"))
        if isinstance(folder, FilePath):
            return folder
        self.fault(parts["cwd"], f"{path}.cwd", "not an absolute path", "write the folder the tool starts in")
        return None
