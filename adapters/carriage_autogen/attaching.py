# SPDX-License-Identifier: Apache-2.0
"""Make an existing agent or a whole team control-aware, without editing it (research on AutoGen, section 6).

Each agent is bound as its own actor: the participants of a team by their names, the agents inside another agent as
called by it. What AutoGen keeps in private attributes is replaced in place; `inspect_agent` then looks for itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from autogen_agentchat.agents import AssistantAgent, CodeExecutorAgent, SocietyOfMindAgent, UserProxyAgent
from autogen_agentchat.base import ChatAgent, Team
from autogen_agentchat.teams import BaseGroupChat
from autogen_core.code_executor import CodeExecutor
from autogen_core.models import ChatCompletionClient
from autogen_core.tools import BaseTool, Workbench

from carriage_autogen.bindings import delegation
from carriage_autogen.client import ControlledChatCompletionClient
from carriage_autogen.code_executor import GuardedCodeExecutor
from carriage_autogen.handoffs import guard_handoffs
from carriage_autogen.inspecting import Inspection, UnguardedPathError, inspect_agent, managers_of, parts_of_team
from carriage_autogen.replacing import as_control
from carriage_autogen.walking import Node, held_by, name_of, nodes, parts_of, runner_of, tools_of, workbenches_of
from carriage_autogen.workbench import GuardedWorkbench
from carriage_core import ToolBindingError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from carriage_autogen.confirming import Confirm
    from carriage_autogen.overload import OnOverload
    from carriage_core import ControlPlane


@dataclass(frozen=True, slots=True, kw_only=True)
class _Options:
    confirm: Confirm | None
    on_overload: OnOverload


def attach(
    agent_or_team: ChatAgent | Team,
    *,
    control: ControlPlane,
    confirm: Confirm | None = None,
    on_overload: OnOverload = None,
    strict: bool = False,
) -> Inspection:
    """Put every path to a model and to an action, of an agent or team and all inside it, behind `control`.

    A single agent acts as the actor of `control` where that has one, otherwise under its own name; so do the
    participants of a team, each under its own.

    Args:
        agent_or_team: Changed in place. Attach before the first run, and again after adding to it.
        control: The control plane.
        confirm: Asks a person about calls that need an approval.
        on_overload: What happens where a complete set does not fit; None raises.
        strict: Whether to refuse to go on while a path is unguarded or out of reach.

    Returns:
        Every path, as it is now.

    Raises:
        UnguardedPathError: `strict`, and something is left.
        ToolBindingError: Two tools of one agent share a name, or a binding names an argument that its tool lacks.
    """
    options = _Options(confirm=confirm, on_overload=on_overload)
    alone = isinstance(agent_or_team, ChatAgent) and control.runtime.actor is not None
    # Inner agents first: what an outer one holds is then guarded already.
    for node in reversed(list(nodes(agent_or_team))):
        _attach(node, _view(control, node.chain, alone=alone), options)
    found = inspect_agent(agent_or_team)
    if strict and (found.unguarded or found.out_of_reach):
        raise UnguardedPathError(found)
    return found


def _view(control: ControlPlane, chain: Sequence[str], *, alone: bool) -> ControlPlane:
    if not chain:
        return control
    view = control if alone else control.as_actor(chain[0])
    for name in chain[1:]:
        view = view.delegate(name)
    return view


def _attach(node: Node, control: ControlPlane, options: _Options) -> None:
    match node.subject:
        case AssistantAgent() as agent:
            _attach_assistant(agent, control, options)
        case CodeExecutorAgent() as agent:
            _attach_coder(agent, control, options)
        case SocietyOfMindAgent() as agent:
            # Its context goes to the inner team, never to a model; the agents there carry their own.
            _replace_clients(agent, control, options, system_texts=())
        case UserProxyAgent():
            pass
        case BaseGroupChat() as team:
            _attach_team(team, control, options)
        case other:
            _replace(other, control, options)


def _attach_assistant(agent: AssistantAgent, control: ControlPlane, options: _Options) -> None:
    parts = [part for workbench in workbenches_of(agent) for part in parts_of(workbench)]
    for tool in tools_of(agent):
        runner = runner_of(tool)
        if runner is not None:
            control.bind([delegation(tool.name, name_of(runner))])
        _replace(tool, control, options)
    for part in parts:
        if isinstance(part, Workbench):
            # An MCP server may ask for samples, with a system prompt of its own.
            _replace_clients(part, control, options, system_texts=())
    for memory in agent._memory or ():  # noqa: SLF001  # AutoGen has no accessor
        _replace_clients(memory, control, options, system_texts=None)
    _refuse_doubles(parts, agent)
    workbench = GuardedWorkbench(parts, control=control, confirm=options.confirm)
    guard_handoffs(agent, control, confirm=options.confirm)

    def names() -> tuple[str, ...] | None:
        known = workbench.known()
        return None if known is None else (*known, *(tool.name for tool in agent._handoff_tools))  # noqa: SLF001

    agent._workbench = [workbench]  # noqa: SLF001  # AutoGen has no other way
    context = as_control(agent._model_context, control, options.on_overload)  # noqa: SLF001  # the same
    context.offer(names)
    agent._model_context = context  # noqa: SLF001  # the same
    texts = [message.content for message in agent._system_messages]  # noqa: SLF001  # the same
    _replace_clients(agent, control, options, system_texts=texts, tools=names)


def _attach_coder(agent: CodeExecutorAgent, control: ControlPlane, options: _Options) -> None:
    agent._model_context = as_control(agent._model_context, control, options.on_overload)  # noqa: SLF001  # the same
    texts = [message.content for message in agent._system_messages]  # noqa: SLF001  # the same
    _replace(agent, control, options, system_texts=texts)


def _attach_team(team: BaseGroupChat, control: ControlPlane, options: _Options) -> None:
    manager = team._group_chat_manager_name  # noqa: SLF001  # the same
    view = control.delegate(manager) if control.runtime.chain else control.as_actor(manager)
    # What its manager says in the system role holds the whole conversation: it is data.
    _replace_clients(team, view, options, system_texts=())
    for part in parts_of_team(team):
        _replace(part, view, options)
    client = getattr(team, "_model_client", None)
    for running in managers_of(team):
        if isinstance(client, ChatCompletionClient) and hasattr(running, "_model_client"):
            running._model_client = client  # noqa: SLF001  # made at the first run


def _refuse_doubles(parts: Sequence[BaseTool[Any, Any] | Workbench], agent: AssistantAgent) -> None:
    """AutoGen checks handoffs against tools, but not against those of a workbench."""
    handoffs = {tool.name for tool in agent._handoff_tools}  # noqa: SLF001  # the same
    doubled = sorted(handoffs & {part.name for part in parts if isinstance(part, BaseTool)})
    if doubled:
        raise ToolBindingError(
            f"a handoff and a tool of {agent.name!r} are both named {doubled[0]!r}.", mend="rename one."
        )


def _replace(
    subject: object,
    control: ControlPlane,
    options: _Options,
    *,
    system_texts: Collection[str] | None = None,
) -> None:
    """Guard whatever model client, workbench and code executor an object holds."""
    _replace_clients(subject, control, options, system_texts=system_texts)
    for name, held in held_by(subject):
        if isinstance(held, CodeExecutor):
            inner = held.executor if isinstance(held, GuardedCodeExecutor) else held
            setattr(subject, name, GuardedCodeExecutor(inner, control=control, confirm=options.confirm))
        elif isinstance(held, Workbench):
            setattr(subject, name, GuardedWorkbench(parts_of(held), control=control, confirm=options.confirm))


def _replace_clients(
    subject: object,
    control: ControlPlane,
    options: _Options,
    *,
    system_texts: Collection[str] | None,
    tools: Callable[[], Sequence[str] | None] | None = None,
) -> None:
    for name, held in held_by(subject):
        if isinstance(held, ChatCompletionClient):
            inner = held.client if isinstance(held, ControlledChatCompletionClient) else held
            gate = ControlledChatCompletionClient(
                inner, control=control, on_overload=options.on_overload, system_texts=system_texts, tools=tools
            )
            setattr(subject, name, gate)
