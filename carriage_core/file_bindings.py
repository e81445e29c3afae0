# SPDX-License-Identifier: Apache-2.0
"""The ``tools`` of a policy file: which call is which action on which object (DESIGN 3.4)."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING

from carriage_core.binding import AttributeSource, ToolBinding
from carriage_core.errors import PolicyError
from carriage_core.file_reader import FileReader, join
from carriage_core.schema import Sort
from carriage_core.yaml_tree import Node

if TYPE_CHECKING:
    from collections.abc import Iterable


class BindingReader(FileReader):
    """Reads tool bindings."""

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
        """Read the object type and its attributes."""
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
        """Read where attributes come from: an argument name, or the long form."""
        found: list[tuple[str, AttributeSource]] = []
        for name, entry in self.mapping(node, path, None).items():
            inner = join(path, name)
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


def declared_sorts(bindings: Iterable[ToolBinding]) -> dict[str, set[Sort]]:
    """Collect the types that each ``object.*`` and ``action.*`` attribute is declared to have."""
    sorts: dict[str, set[Sort]] = {}
    for binding in bindings:
        for prefix, sources in (("object", binding.object_attributes), ("action", binding.action_attributes)):
            for name, source in sources:
                sorts.setdefault(f"{prefix}.{name}", set()).add(_sort_of(source))
    return sorts


def _sort_of(source: AttributeSource) -> Sort:
    """The type an attribute's values have: as declared, or that of its constant."""
    match source.constant:
        case bool():
            return Sort.BOOL
        case Decimal():
            return Sort.NUMBER
        case _:
            return source.sort
