# SPDX-License-Identifier: Apache-2.0
"""The agents and teams that one agent or team is made of, and whom each of them acts for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from autogen_agentchat.agents import (
    AssistantAgent,
    CodeExecutorAgent,
    MessageFilterAgent,
    SocietyOfMindAgent,
)
from autogen_agentchat.base import ChatAgent, Team
from autogen_agentchat.teams import BaseGroupChat
from autogen_agentchat.tools import AgentTool, TeamTool
from autogen_core.code_executor import CodeExecutor
from autogen_core.models import ChatCompletionClient
from autogen_core.tools import BaseTool, StaticWorkbench, Workbench

from carriage_autogen.workbench import GuardedWorkbench

if TYPE_CHECKING:
    from collections.abc import Iterator

HOSTED: Final = frozenset({"AzureAIAgent", "OpenAIAgent", "OpenAIAssistantAgent"})
"""Agents whose history and tools live at a provider, by class name: their packages may be missing."""

SURFERS: Final = frozenset({"FileSurfer", "MultimodalWebSurfer"})
"""Agents that keep a history of their own and act outside every workbench."""


@dataclass(frozen=True, slots=True)
class Node:
    """An agent or a team.

    Attributes:
        where: Names from the outermost team or agent to this one.
        subject: The agent or team itself.
        chain: Who acts: the agents that called each other, this one last; of a team, the agent it works for.
    """

    where: tuple[str, ...]
    subject: ChatAgent | Team
    chain: tuple[str, ...]

    @property
    def path(self) -> str:
        """`where` as one word."""
        return "/".join(self.where)


def nodes(subject: ChatAgent | Team) -> Iterator[Node]:
    """Yield the agent or team and everything inside it, each once: participants, inner teams, agents that are tools."""
    chain = (subject.name,) if isinstance(subject, ChatAgent) else ()
    yield from _nodes(Node((name_of(subject),), subject, chain), set())


def name_of(subject: ChatAgent | Team) -> str:
    """The name of an agent or team; teams of AutoGen 0.6 have none, and go by their class."""
    name = getattr(subject, "name", None)
    return name if isinstance(name, str) else type(subject).__name__


def _nodes(node: Node, seen: set[int]) -> Iterator[Node]:
    if id(node.subject) in seen:
        return
    seen.add(id(node.subject))
    yield node
    match node.subject:
        case BaseGroupChat():
            inside: list[ChatAgent | Team] = list(node.subject._participants)  # noqa: SLF001  # AutoGen has no accessor
        case SocietyOfMindAgent():
            inside = [node.subject._team]  # noqa: SLF001  # the same
        case MessageFilterAgent():
            inside = [node.subject._wrapped_agent]  # noqa: SLF001  # the same
        case AssistantAgent():
            inside = [inner for tool in tools_of(node.subject) if (inner := runner_of(tool)) is not None]
        case _:
            inside = []
    # A filter hands its wrapped agent what it was told; everybody else is called by name.
    calling = node.chain[:-1] if isinstance(node.subject, MessageFilterAgent) else node.chain
    for inner in inside:
        chain = (*calling, inner.name) if isinstance(inner, ChatAgent) else calling
        yield from _nodes(Node((*node.where, name_of(inner)), inner, chain), seen)


def workbenches_of(agent: AssistantAgent) -> list[Workbench]:
    """The workbenches AutoGen asks for the agent's tools."""
    return list(agent._workbench)  # noqa: SLF001  # AutoGen has no accessor


def parts_of(workbench: Workbench) -> list[BaseTool[Any, Any] | Workbench]:
    """What there is to guard: tools where they can be had, so that their results are evidence, else the workbench."""
    if isinstance(workbench, GuardedWorkbench):
        parts: list[BaseTool[Any, Any] | Workbench] = []
        for inner in workbench.guarded:
            parts += parts_of(inner) if isinstance(inner, Workbench) else [inner]
        return parts
    native = type(workbench).__module__.startswith("autogen_core.")
    if native and isinstance(workbench, StaticWorkbench) and not getattr(workbench, "_tool_overrides", None):
        return list(workbench._tools)  # noqa: SLF001  # the same
    return [workbench]


def tools_of(agent: AssistantAgent) -> list[BaseTool[Any, Any]]:
    """The tools of an agent that can be had without asking a server."""
    parts = [part for workbench in workbenches_of(agent) for part in parts_of(workbench)]
    tools = [part for part in parts if isinstance(part, BaseTool)]
    for part in parts:
        if isinstance(part, StaticWorkbench):
            tools += part._tools  # noqa: SLF001  # the same
    return tools


def runner_of(tool: BaseTool[Any, Any]) -> ChatAgent | Team | None:
    """The agent or team that a tool is, None for any other tool."""
    if isinstance(tool, AgentTool):
        return tool._agent  # noqa: SLF001  # AutoGen has no accessor
    if isinstance(tool, TeamTool):
        return tool._team  # noqa: SLF001  # the same
    return None


def kind_of(agent: object) -> str | None:
    """Name of the known class that `agent` is of, where that class acts or remembers out of our reach."""
    names = {base.__name__ for base in type(agent).__mro__ if base.__module__.startswith("autogen_ext.")}
    return next(iter(sorted(names & (HOSTED | SURFERS))), None)


def is_known(agent: object) -> bool:
    """Whether we know every way an agent reaches a model or acts: AutoGen's own classes, not those made from them."""
    module = type(agent).__module__
    if module.startswith("autogen_agentchat."):
        return True
    known = AssistantAgent | CodeExecutorAgent | SocietyOfMindAgent | MessageFilterAgent
    return module.startswith("autogen_ext.") and isinstance(agent, known)


type Found = ChatCompletionClient | Workbench | CodeExecutor


def held_by(subject: object) -> Iterator[tuple[str, Found]]:
    """Yield the attributes in which an object holds a model client, a workbench or a code executor."""
    for name, value in list(getattr(subject, "__dict__", {}).items()):
        if isinstance(value, ChatCompletionClient | Workbench | CodeExecutor):
            yield name, value
