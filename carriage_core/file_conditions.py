# SPDX-License-Identifier: Apache-2.0
"""Conditions of a policy file: comparisons, groups, and the short forms under object and subject (DESIGN 3.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from carriage_core.condition import Attribute, Compare, Condition, Not, Operand, Operator, all_of, any_of
from carriage_core.errors import PolicyError
from carriage_core.file_reader import FileReader

if TYPE_CHECKING:
    from carriage_core.yaml_tree import Node


class ConditionReader(FileReader):
    """Reads conditions."""

    def shorthand(self, attribute: str, node: Node, path: str) -> Condition:
        """Read the right side of ``object.repository: {glob: ...}``; a bare value means eq."""
        if node.kind == "scalar":
            return Compare(attribute, Operator.EQ, self.operand(node, path, attribute, Operator.EQ))
        return self.comparison(attribute, self.mapping(node, path, tuple(Operator)), node, path)

    def comparison(self, attribute: str, entries: dict[str, Node], node: Node, path: str) -> Condition:
        """Read the one comparison that `entries` holds."""
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
                tuple(
                    self.literal(item, f"{inner}[{index}]", attribute, operator)
                    for index, item in enumerate(value.items)
                ),
            )
        try:
            return Compare(attribute, operator, self.operand(value, inner, attribute, operator))
        except PolicyError as problem:
            self.fault(value, inner, problem.args[0], problem.mend)
            return Compare(attribute, Operator.EXISTS)

    def operand(self, node: Node, path: str, attribute: str, operator: Operator) -> Operand:
        """Read a right side: a literal, or ``{attr: NAME}``."""
        if node.kind != "mapping":
            return self.literal(node, path, attribute, operator)
        entries = self.mapping(node, path, ("attr",), ("attr",))
        if "attr" not in entries:
            return Attribute("time")
        other = self.text(entries["attr"], f"{path}.attr")
        problem = self.types.problem(attribute, operator, other)
        if problem is not None:
            self.fault(node, path, *problem)
        return Attribute(other)

    def condition(self, node: Node, path: str) -> Condition | None:
        """Read ``{attr: ...}``, or a group by all, any or not."""
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
