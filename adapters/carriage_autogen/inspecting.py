# SPDX-License-Identifier: Apache-2.0
"""Every way from an agent or team to a model and to an action, and whether control stands in it.

It looks at what is there and asks nobody: it does not matter who guarded a path, or whether anybody did.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, override

from autogen_agentchat.agents import (
    AssistantAgent,
    CodeExecutorAgent,
    MessageFilterAgent,
    SocietyOfMindAgent,
    UserProxyAgent,
)
from autogen_agentchat.teams import BaseGroupChat
from autogen_core import SingleThreadedAgentRuntime
from autogen_core.code_executor import CodeExecutor
from autogen_core.models import ChatCompletionClient
from autogen_core.tools import Workbench

from carriage_autogen.client import ControlledChatCompletionClient
from carriage_autogen.code_executor import GuardedCodeExecutor
from carriage_autogen.context import ControlContext
from carriage_autogen.handoffs import GuardedHandoffTool
from carriage_autogen.walking import Node, held_by, is_known, kind_of, nodes, tools_of, workbenches_of
from carriage_autogen.workbench import GuardedWorkbench
from carriage_core import ControlError, ControlPlane

if TYPE_CHECKING:
    from collections.abc import Iterator

    from autogen_agentchat.base import ChatAgent, Team


class Status(StrEnum):
    """What stands in a path."""

    GUARDED = "guarded"
    UNGUARDED = "unguarded"
    OUT_OF_REACH = "out of reach"


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """One way to a model or to an action.

    Attributes:
        agent: Names from the outermost team or agent to the one it belongs to.
        leads_to: ``model`` or ``action``.
        through: What it goes through.
        status: Whether control stands in it.
        detail: Why, and what to do, where it does not.
    """

    agent: str
    leads_to: str
    through: str
    status: Status
    detail: str = ""

    @override
    def __str__(self) -> str:
        more = f": {self.detail}" if self.detail else ""
        return f"{self.status.value:<12}  {self.leads_to:<6}  {self.agent}  {self.through}{more}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """All paths of an agent or team.

    Attributes:
        paths: The paths.
        unbound: Agent and name of each tool that no binding names; the monitor denies its calls.
        not_listed: Agents with a server whose tools have not been listed yet.
    """

    paths: tuple[Path, ...]
    unbound: tuple[tuple[str, str], ...]
    not_listed: tuple[str, ...] = ()

    @property
    def unguarded(self) -> tuple[Path, ...]:
        """Paths in which control does not stand, and could."""
        return tuple(path for path in self.paths if path.status is Status.UNGUARDED)

    @property
    def out_of_reach(self) -> tuple[Path, ...]:
        """Paths in which it cannot stand."""
        return tuple(path for path in self.paths if path.status is Status.OUT_OF_REACH)

    @override
    def __str__(self) -> str:
        lines = [str(path) for path in self.paths]
        lines += [f"unbound       tool    {agent}  {tool}: its calls are denied" for agent, tool in self.unbound]
        lines += [f"not listed    tools   {agent}  a server lists them at its start" for agent in self.not_listed]
        return "\n".join(lines)


class UnguardedPathError(ControlError):
    """An agent or team reaches a model or an action on a way in which no control stands.

    Attributes:
        inspection: All paths.
    """

    def __init__(self, inspection: Inspection) -> None:
        """Name the first paths that are left."""
        self.inspection = inspection
        left = [*inspection.unguarded, *inspection.out_of_reach]
        named = "; ".join(f"{path.agent} reaches the {path.leads_to} through {path.through}" for path in left[:3])
        super().__init__(
            f"{len(left)} paths are not guarded: {named}.",
            mend="take these agents out, or attach without strict= and read what inspect_agent prints.",
        )


def inspect_agent(agent_or_team: ChatAgent | Team) -> Inspection:
    """Find every path of an agent or a team, and of everything inside it.

    Args:
        agent_or_team: Not changed, not started, not asked.
    """
    paths: list[Path] = []
    unbound: list[tuple[str, str]] = []
    not_listed: list[str] = []
    contexts: dict[int, str] = {}
    for node in nodes(agent_or_team):
        paths += _paths(node)
        context = getattr(node.subject, "_model_context", None)
        if isinstance(node.subject, AssistantAgent | CodeExecutorAgent) and context is not None:
            other = contexts.setdefault(id(context), node.path)
            if other != node.path:
                detail = f"shared with {other}: each sees the other's conversation, and a reset empties both"
                paths.append(_path(node, "model", "a shared context", Status.UNGUARDED, detail))
        if isinstance(node.subject, AssistantAgent):
            for workbench in workbenches_of(node.subject):
                if isinstance(workbench, GuardedWorkbench):
                    known = workbench.known()
                    if known is None:
                        not_listed.append(node.path)
                    unbound += [(node.path, name) for name in known or () if _is_unbound(workbench.control, name)]
    return Inspection(paths=tuple(paths), unbound=tuple(unbound), not_listed=tuple(not_listed))


def _is_unbound(control: ControlPlane, tool: str) -> bool:
    return control.registry.mediates and tool not in control.registry.bindings


def _path(node: Node, leads_to: str, through: str, status: Status, detail: str = "") -> Path:
    return Path(agent=node.path, leads_to=leads_to, through=through, status=status, detail=detail)


def _paths(node: Node) -> Iterator[Path]:
    match node.subject:
        case AssistantAgent() as agent:
            yield _calls(node, agent)
            yield from _assistants_actions(node, agent)
        case CodeExecutorAgent() as agent:
            if agent._model_client is not None:  # noqa: SLF001  # AutoGen has no accessor
                yield _calls(node, agent)
            yield from (path for path in _held(node, agent) if path.leads_to == "action")
        case SocietyOfMindAgent() as agent:
            yield from _held(node, agent)
        case MessageFilterAgent() | UserProxyAgent():
            pass
        case BaseGroupChat() as team:
            yield from _team(node, team)
        case other:
            yield from _held(node, other)
    yield from _unknown(node)


def _held(node: Node, subject: object) -> Iterator[Path]:
    """Look at every client, workbench and code executor an object holds."""
    for name, held in held_by(subject):
        through = f"{type(held).__name__} in {type(subject).__name__}.{name.removeprefix('_')}"
        if isinstance(held, ChatCompletionClient):
            guarded = isinstance(held, ControlledChatCompletionClient)
            detail = "" if guarded else "wrap it in ControlledChatCompletionClient"
            yield _path(node, "model", through, _status(guarded), detail)
        elif isinstance(held, CodeExecutor):
            guarded = isinstance(held, GuardedCodeExecutor)
            detail = "" if guarded else "wrap it in GuardedCodeExecutor"
            yield _path(node, "action", through, _status(guarded), detail)
        else:
            yield _workbench(node, held)


def _status(guarded: bool) -> Status:  # noqa: FBT001  # a truth value is what it is about
    return Status.GUARDED if guarded else Status.UNGUARDED


def _calls(node: Node, agent: AssistantAgent | CodeExecutorAgent) -> Path:
    """Look at an agent all of whose calls pass through its context and its client: control in either is enough."""
    context, client = agent._model_context, agent._model_client  # noqa: SLF001  # AutoGen has no accessors
    guarded = isinstance(context, ControlContext) or isinstance(client, ControlledChatCompletionClient)
    detail = "" if guarded else "use a drop-in context, or wrap the client in ControlledChatCompletionClient"
    return _path(node, "model", f"{type(context).__name__} to {type(client).__name__}", _status(guarded), detail)


def _workbench(node: Node, workbench: Workbench) -> Path:
    guarded = isinstance(workbench, GuardedWorkbench)
    detail = "" if guarded else "wrap it in GuardedWorkbench"
    return _path(node, "action", type(workbench).__name__, _status(guarded), detail)


def _assistants_actions(node: Node, agent: AssistantAgent) -> Iterator[Path]:
    benches = workbenches_of(agent)
    for workbench in benches:
        if isinstance(workbench, GuardedWorkbench) or not _is_empty(workbench):
            yield _workbench(node, workbench)
        inner = workbench.guarded if isinstance(workbench, GuardedWorkbench) else (workbench,)
        for part in inner:
            if isinstance(part, Workbench):
                yield from _held(node, part)
    for tool in tools_of(agent):
        yield from _held(node, tool)
    if len([bench for bench in benches if isinstance(bench, GuardedWorkbench)]) > 1:
        detail = "several guarded workbenches cannot see each other's names; put all tools into one"
        yield _path(node, "action", "tools of one name", Status.UNGUARDED, detail)
    for tool in agent._handoff_tools:  # noqa: SLF001  # AutoGen has no accessor
        guarded = isinstance(tool, GuardedHandoffTool)
        yield _path(node, "action", f"handoff {tool.name}", _status(guarded), "" if guarded else "use guard_handoffs")
    for memory in getattr(agent, "_memory", None) or ():
        yield from _held(node, memory)


def _is_empty(workbench: Workbench) -> bool:
    tools: Any = getattr(workbench, "_tools", None)
    return isinstance(tools, list) and not tools


def _team(node: Node, team: BaseGroupChat) -> Iterator[Path]:
    runtime = team._runtime  # noqa: SLF001  # the same
    if not isinstance(runtime, SingleThreadedAgentRuntime):
        detail = "AgentChat teams cannot run there; hold guarded agents in agents of the core"
        yield _path(node, "action", type(runtime).__name__, Status.OUT_OF_REACH, detail)
    yield from _held(node, team)
    for part in parts_of_team(team):
        yield from _held(node, part)
    for manager in managers_of(team):
        yield from _held(node, manager)


def _unknown(node: Node) -> Iterator[Path]:
    subject, known = node.subject, kind_of(node.subject)
    if known is not None:
        detail = "it keeps its own history and acts outside every workbench"
        yield _path(node, "action", f"{known}'s own tools", Status.OUT_OF_REACH, detail)
        if not any(isinstance(held, ChatCompletionClient) for _, held in held_by(subject)):
            yield _path(node, "model", f"{known}'s own client", Status.OUT_OF_REACH, "hosted by a provider")
    elif not isinstance(subject, BaseGroupChat | UserProxyAgent) and not is_known(subject):
        detail = "an agent class we do not know may act in ways that nobody can see"
        yield _path(node, "action", type(subject).__name__, Status.OUT_OF_REACH, detail)


def parts_of_team(team: BaseGroupChat) -> list[object]:
    """What else of a team may hold a model client."""
    condition = team._termination_condition  # noqa: SLF001  # AutoGen has no accessor
    return [] if condition is None else [condition]


def managers_of(team: BaseGroupChat) -> list[Any]:
    """The manager of a team that has run already, in the runtime that AutoGen embeds in it."""
    instances: dict[Any, Any] = getattr(team._runtime, "_instantiated_agents", {})  # noqa: SLF001  # the same
    topic = team._group_chat_manager_topic_type  # noqa: SLF001  # the same
    return [agent for identity, agent in instances.items() if identity.type == topic]
