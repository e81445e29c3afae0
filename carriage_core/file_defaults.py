# SPDX-License-Identifier: Apache-2.0
"""The ``default`` of a policy file: what happens to an action that no rule speaks of (DESIGN 3.1, 3.2).

``default: deny`` and ``default: {delete: deny}`` are short for policies with the effect deny-by-default, so they are
carried, judged and superseded like any other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from carriage_core.binding import OPERATOR
from carriage_core.errors import PolicyError
from carriage_core.file_policies import PolicyReader
from carriage_core.policy import ANY_ACTION, Effect, Policy
from carriage_core.vocabulary import Vocabulary, near

if TYPE_CHECKING:
    from carriage_core.binding import ToolBinding
    from carriage_core.yaml_tree import Node

_OUTCOMES = ("allow", "deny")


class DefaultReader(PolicyReader):
    """Reads defaults."""

    def defaults(self, node: Node, bindings: tuple[ToolBinding, ...]) -> tuple[Policy, ...]:
        """Read ``default``: one outcome for all actions, or one for each."""
        if node.kind == "scalar":
            return self._default("any", node, "default")
        by_tool: dict[str, tuple[ToolBinding, ...]] = {}
        for binding in bindings:
            by_tool[binding.tool] = (*by_tool.get(binding.tool, ()), binding)
        vocabulary = Vocabulary(by_tool)
        found: list[Policy] = []
        for action, entry in self.mapping(node, "default", None).items():
            path = f"default.{action}"
            for policy in self._default(action, entry, path):
                problems = vocabulary.faults(policy)
                for problem in problems:
                    self.fault(entry, path, problem.message, problem.mend)
                found += [] if problems else [policy]
        return tuple(found)

    def _default(self, action: str, node: Node, path: str) -> tuple[Policy, ...]:
        issuer, outcome, text = OPERATOR, "", None
        if node.kind == "scalar":
            outcome = self.text(node, path)
        else:
            entries = self.mapping(node, path, ("outcome", "issuer", "text"), ("outcome",))
            outcome = self.optional_text(entries, "outcome", path) or ""
            issuer = (self.issuer(entries["issuer"], f"{path}.issuer") if "issuer" in entries else None) or OPERATOR
            text = self.optional_text(entries, "text", path)
        if outcome not in _OUTCOMES:
            if outcome:
                self.fault(node, path, f"the default {outcome!r} is not supported", near(outcome, _OUTCOMES))
            return ()
        if outcome == "allow":
            return ()
        what = "Nothing" if action == "any" else f"No {action}"
        try:
            return (
                Policy(
                    id=f"default.{action.lower()}",
                    issuer=issuer,
                    effect=Effect.DEFAULT_DENY,
                    actions=(ANY_ACTION if action in {"any", ANY_ACTION} else action,),
                    text=text or f"{what} is done that no rule permits.",
                    line=node.line,
                ),
            )
        except PolicyError as problem:
            self.fault(node, path, problem.args[0], problem.mend)
            return ()
