# SPDX-License-Identifier: Apache-2.0
"""Typed pieces of a policy file, read with a fault for everything that is not what it should be.

What a method returns after a fault is a placeholder; it is used only if the whole file has none.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from carriage_core.attribute_types import AttributeTypes
from carriage_core.errors import Fault, PolicyError
from carriage_core.schema import Absent, Sort, Value, normal, parse_time
from carriage_core.vocabulary import near

if TYPE_CHECKING:
    from carriage_core.condition import Operator
    from carriage_core.policy import Effect, IssuerKind, Mode
    from carriage_core.yaml_tree import Node

_DURATION: Final = re.compile(r"([1-9][0-9]{0,6})(s|m|h|d)")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class FileReader:
    """Reads nodes of one file; all readers of a file share its list of faults.

    Attributes:
        faults: Everything found wrong so far.
        types: The declared types of attributes.
    """

    def __init__(self, faults: list[Fault], types: AttributeTypes | None = None) -> None:
        """Add to `faults`; `types` says what each attribute is declared to be."""
        self.faults = faults
        self.types = types or AttributeTypes.of(())

    def fault(self, node: Node, path: str, message: str, mend: str) -> None:
        """Note a fault at `node`."""
        self.faults.append(Fault(path=path, line=node.line, message=message, mend=mend))

    def mapping(
        self, node: Node, path: str, allowed: tuple[str, ...] | None, required: tuple[str, ...] = ()
    ) -> dict[str, Node]:
        """Require a mapping with only `allowed` keys (any, for None) and all `required` ones."""
        if node.kind != "mapping":
            self.fault(node, path, f"a mapping is needed here, not a {node.kind}", "write key: value lines")
            return {}
        entries = node.entries
        lines = dict(node.key_lines)
        for key in entries:
            if allowed is not None and key not in allowed:
                self.faults.append(
                    Fault(
                        path=join(path, key),
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
        """Require text."""
        if node.kind == "scalar" and isinstance(node.value, str):
            return node.value
        shown = node.value if node.kind == "scalar" else f"a {node.kind}"
        self.fault(node, path, f"text is needed here, not {shown}", "write it in quotes")
        return ""

    def optional_text(self, entries: dict[str, Node], key: str, path: str) -> str | None:
        """Read text where the key is there."""
        return self.text(entries[key], join(path, key)) if key in entries else None

    def integer(self, node: Node, path: str) -> int:
        """Require a whole number."""
        if node.kind == "scalar" and isinstance(node.value, int) and not isinstance(node.value, bool):
            return node.value
        self.fault(node, path, "a whole number is needed here", "write digits only")
        return 1

    def truth(self, node: Node, path: str) -> bool:
        """Require true or false."""
        if node.kind == "scalar" and isinstance(node.value, bool):
            return node.value
        self.fault(node, path, "true or false is needed here", "write true or false")
        return False

    def instant(self, node: Node, path: str) -> datetime | None:
        """Require an instant with a zone."""
        value = parse_time(self.text(node, path)) if node.value is not None else Absent.UNKNOWN
        if isinstance(value, datetime):
            return value
        self.fault(node, path, "not an instant with a zone", "write it as 2026-12-01T16:00:00Z")
        return None

    def one_of[E: (Effect, IssuerKind, Mode, Sort)](self, node: Node, path: str, kind: type[E]) -> E | None:
        """Require a member of `kind`."""
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

    def words(self, node: Node, path: str) -> tuple[str, ...]:
        """Read one name, or a list of at least one."""
        if node.kind == "scalar":
            return (self.text(node, path),)
        if node.kind != "list" or not node.items:
            self.fault(node, path, "a list of names is needed here", "write [a, b]")
            return ()
        return tuple(self.text(item, f"{path}[{index}]") for index, item in enumerate(node.items))

    def scalar(self, node: Node, path: str) -> str | int | Decimal | bool:
        """Require text, a number or a truth value."""
        raw = node.value
        if node.kind == "scalar" and isinstance(raw, str | int | Decimal | bool):
            return raw
        self.fault(node, path, "a literal is needed here", "write text in quotes, a number, true or false")
        return ""

    def literal(self, node: Node, path: str, attribute: str, operator: Operator) -> Value:
        """Read the right side of a comparison, in the normal form of `attribute`."""
        before = len(self.faults)
        raw = self.scalar(node, path)
        if len(self.faults) > before:
            return ""
        if self.types.of_attribute(attribute) == frozenset({Sort.TIME}):
            return self.instant(node, path) or datetime.min.replace(tzinfo=UTC)
        if not isinstance(raw, str | bool) and isinstance(normal(raw), Absent):
            self.fault(node, path, "the number has too many digits", "shorten it")
            return ""
        try:
            return self.types.literal(attribute, raw, operator)
        except PolicyError as problem:
            self.fault(node, path, problem.args[0], problem.mend)
            return ""

    def duration(self, node: Node, path: str) -> int:
        """Read a duration such as ``1h``, in seconds."""
        match = _DURATION.fullmatch(self.text(node, path))
        if match is None:
            self.fault(node, path, "not a duration", "write a number and a unit, such as 30m, 1h or 2d")
            return 1
        return int(match[1]) * _SECONDS[match[2]]


def join(path: str, key: str) -> str:
    """Extend a dotted path."""
    return f"{path}.{key}" if path else key
