# SPDX-License-Identifier: Apache-2.0
"""The bindings of AutoGen's own tools, shipped at developer rank (DESIGN 3.4).

Without them the first rule with an action would deny every handoff. A tool that the operator has bound keeps the
operator's binding. Code is bound where it can be read: a shell script by the commands it would run. Python and other
languages are the operator's to bind.
"""

from __future__ import annotations

from typing import Final

from carriage_core import AttributeSource, Issuer, IssuerKind, ShellSource, ToolBinding, ToolSpec

_OURS: Final = Issuer(kind=IssuerKind.DEVELOPER, name="carriage-autogen")

SHELL_TOOL: Final = "execute_shell"
SHELLS: Final = frozenset({"bash", "sh", "shell", "zsh"})

SHELL: Final = ToolBinding(tool=SHELL_TOOL, action=None, shell=ShellSource(argument="code"), issuer=_OURS, shipped=True)


def code_tool(language: str) -> str:
    """Name the tool under which a code block of a language is judged: `execute_python`, `execute_shell`, ..."""
    word = language.strip().casefold()
    return SHELL_TOOL if word in SHELLS else f"execute_{word or 'code'}"


def code_spec(tool: str) -> ToolSpec:
    """The one argument such a tool has."""
    return ToolSpec(name=tool, arguments=frozenset({"code"}))


def handoff(tool: str, target: str) -> ToolBinding:
    """Bind a handoff tool: the action `handoff` on the agent that takes over."""
    return _to_agent(tool, "handoff", target)


def delegation(tool: str, target: str) -> ToolBinding:
    """Bind an agent or team that is a tool: the action `delegate` on it; what it does is judged there."""
    return _to_agent(tool, "delegate", target, arguments=frozenset({"task"}))


def _to_agent(tool: str, action: str, target: str, arguments: frozenset[str] = frozenset()) -> ToolBinding:
    return ToolBinding(
        tool=tool,
        action=action,
        object_type="agent",
        object_attributes=(("id", AttributeSource(constant=target)),),
        arguments=arguments,
        external=False,
        issuer=_OURS,
        shipped=True,
    )
