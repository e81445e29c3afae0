# SPDX-License-Identifier: Apache-2.0
"""YAML 1.2 as a tree that remembers lines, without the surprises (DESIGN 3.14).

A scalar that two YAML versions, or a hurried reader, would take for different things is a fault with the
spelling to use instead: ``no``, ``1.10``, ``0777``, ``1e3``, ``12:30``. Aliases, tags, merge keys, duplicate keys
and second documents are faults too. JSON files are read the same way.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceStartEvent,
)
from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode
from ruamel.yaml.nodes import Node as YamlNode

from carriage_core.errors import Fault

MAX_BYTES: Final = 16 * 1024 * 1024
MAX_DEPTH: Final = 32

type Scalar = str | int | Decimal | bool | None


@dataclass(frozen=True, slots=True)
class Node:
    """A scalar, list or mapping with the 1-based line it starts on."""

    value: Scalar | tuple[Node, ...] | tuple[tuple[str, Node], ...]
    kind: str
    line: int
    key_lines: tuple[tuple[str, int], ...] = ()

    @property
    def entries(self) -> dict[str, Node]:
        """The entries of a mapping."""
        return dict(self.value) if self.kind == "mapping" else {}  # type: ignore[arg-type]

    @property
    def items(self) -> tuple[Node, ...]:
        """The members of a list."""
        return self.value if self.kind == "list" else ()  # type: ignore[return-value]


class UnclearYamlError(ValueError):  # the faults are the news, this only carries them
    """A text that cannot be read as one unambiguous tree."""

    def __init__(self, faults: list[Fault]) -> None:
        """Keep all `faults`."""
        super().__init__(faults[0].message)
        self.faults = faults


_INTEGER: Final = re.compile(r"-?(0|[1-9][0-9]{0,18})")
_DECIMAL: Final = re.compile(r"-?(0|[1-9][0-9]{0,18})\.[0-9]{0,18}[1-9]")
_SWITCH: Final = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
_NUMBERISH: Final = re.compile(r"0[xX][0-9a-fA-F_]+|[-+]?[.]?[0-9][0-9_.,:xXoObBeE+-]*|[-+]?\.(inf|nan)", re.IGNORECASE)
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}([Tt ].*)?")


def parse(text: str) -> Node:
    """Read one document.

    Raises:
        UnclearYamlError: With every fault found; at least one.
    """
    faults = _event_faults(text)
    if faults:
        raise UnclearYamlError(faults)
    root = _yaml().compose(text)
    if root is None:
        raise UnclearYamlError(
            [
                Fault(
                    path="",
                    line=1,
                    message="the file is empty",
                    mend="write at least carriage: 1 and one policy",
                )
            ]
        )
    found: list[Fault] = []
    tree = _node(root, "", found, 0)
    if found:
        raise UnclearYamlError(found)
    return tree


def _yaml() -> YAML:
    yaml = YAML(typ="safe", pure=True)
    yaml.version = (1, 2)
    yaml.allow_duplicate_keys = True  # reported here, with their lines
    return yaml


def _event_faults(text: str) -> list[Fault]:
    faults: list[Fault] = []
    documents = depth = 0

    def fault(event: object, message: str, mend: str) -> None:
        mark = getattr(event, "start_mark", None)
        faults.append(Fault(path="", line=getattr(mark, "line", 0) + 1, message=message, mend=mend))

    try:
        for event in _yaml().parse(text):
            if isinstance(event, AliasEvent) or getattr(event, "anchor", None):
                fault(event, "aliases and anchors are off", "write the value out where it is used")
            elif isinstance(event, DocumentStartEvent):
                documents += 1
                if documents > 1:
                    fault(event, "a second document", "keep one document in a file")
            elif isinstance(event, MappingStartEvent | SequenceStartEvent):
                depth += 1
                if depth > MAX_DEPTH:
                    fault(event, f"nested deeper than {MAX_DEPTH}", "flatten it")
                    break
            elif type(event).__name__ in {"MappingEndEvent", "SequenceEndEvent"}:
                depth -= 1
            if isinstance(event, ScalarEvent | MappingStartEvent | SequenceStartEvent) and _tagged(event):
                fault(event, "explicit tags are off", "write the plain value")
    except MarkedYAMLError as problem:
        mark = problem.problem_mark
        faults.append(
            Fault(
                path="",
                line=1 if mark is None else mark.line + 1,
                message=f"not YAML: {problem.problem or problem.context or 'syntax error'}",
                mend="check indentation, colons and quotes on and before this line",
            )
        )
    except (YAMLError, RecursionError) as problem:
        message = f"not YAML: {type(problem).__name__}"
        faults.append(Fault(path="", line=1, message=message, mend="check that the file is plain YAML text"))
    return faults


def _tagged(event: object) -> bool:
    tag = getattr(event, "tag", None)
    return tag is not None and str(tag) not in {"None", ""}


def _node(node: YamlNode, path: str, faults: list[Fault], depth: int) -> Node:
    line = int(node.start_mark.line) + 1
    if isinstance(node, ScalarNode):
        return Node(_scalar(node, path, line, faults), "scalar", line)
    if isinstance(node, SequenceNode):
        items = tuple(_node(item, f"{path}[{index}]", faults, depth + 1) for index, item in enumerate(node.value))
        return Node(items, "list", line)
    if not isinstance(node, MappingNode):
        faults.append(Fault(path=path, line=line, message="not a YAML value", mend="write a mapping, list or scalar"))
        return Node(None, "scalar", line)
    entries: dict[str, Node] = {}
    lines: list[tuple[str, int]] = []
    for key_node, value_node in node.value:
        key_line = int(key_node.start_mark.line) + 1
        key = str(key_node.value) if isinstance(key_node, ScalarNode) else "?"
        inner = f"{path}.{key}" if path else key
        if key == "<<":
            faults.append(Fault(path=inner, line=key_line, message="merge keys are off", mend="write the entries out"))
        elif key in entries:
            faults.append(
                Fault(
                    path=inner,
                    line=key_line,
                    message=f"the key {key!r} occurs twice",
                    mend="keep one of them",
                )
            )
        value = _node(value_node, inner, faults, depth + 1)
        if isinstance(value_node, ScalarNode) and value_node.value == "" and value_node.style is None:
            value = Node(None, "scalar", key_line)  # nothing stands there; the parser marks the line after it
        entries[key] = value
        lines.append((key, key_line))
    return Node(tuple(entries.items()), "mapping", line, tuple(lines))


def _scalar(node: ScalarNode, path: str, line: int, faults: list[Fault]) -> Scalar:
    text = str(node.value)
    if node.style in {'"', "'", "|", ">"}:
        return text
    if text in {"true", "false"}:
        return text == "true"
    if text in {"", "null", "~"}:
        return None
    if _INTEGER.fullmatch(text) and text != "-0":
        return int(text)
    if _DECIMAL.fullmatch(text):
        return Decimal(text)
    if text.casefold() in _SWITCH:
        mend = f'write true or false, or "{text}" in quotes for the text'
        faults.append(
            Fault(
                path=path,
                line=line,
                message=f"{text} is a truth value to some readers and text to others",
                mend=mend,
            )
        )
    elif _NUMBERISH.fullmatch(text) and not _DATE.fullmatch(text):
        mend = f'write "{text}" in quotes for the text, or the number in plain digits without trailing zeros'
        faults.append(Fault(path=path, line=line, message=f"{text} is not one number to all readers", mend=mend))
    return text
