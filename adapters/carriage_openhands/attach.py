# SPDX-License-Identifier: Apache-2.0
"""Putting a control plane on what a program has already: an agent, a conversation, settings, sub-agents, tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

from carriage_core import ControlError
from carriage_openhands.agent import GuardedAgent
from carriage_openhands.bindings import bound
from carriage_openhands.compat import (
    ACPAgent,
    Agent,
    AgentBase,
    AgentContext,
    CondenserBase,
    LLMSummarizingCondenser,
    LocalConversation,
    NoOpCondenser,
    begun,
    replace_agent,
    wrap_subagents,
    wrap_tools,
)
from carriage_openhands.condenser import ControlNoOpCondenser
from carriage_openhands.control import ControlCondenser
from carriage_openhands.guard import guard
from carriage_openhands.holding import HeldCall, approve_call, held_calls
from carriage_openhands.summarizing import ControlSummarizingCondenser

if TYPE_CHECKING:
    from collections.abc import Callable

    from carriage_core import ControlPlane
    from carriage_openhands.compat import LLM, ToolDefinition


@overload
def attach(target: AgentBase, *, control: ControlPlane, checkpoint: bool = True) -> GuardedAgent: ...
@overload
def attach(target: LocalConversation, *, control: ControlPlane, checkpoint: bool = True) -> LocalConversation: ...
def attach(
    target: AgentBase | LocalConversation, *, control: ControlPlane, checkpoint: bool = True
) -> GuardedAgent | LocalConversation:
    """Put a plane on an agent, which gives a guarded one, or on a conversation that has not begun.

    The agent keeps its fields; its condenser becomes the one of ours that takes its place, or the no-op where there is
    none.

    Args:
        target: The agent or conversation.
        control: The plane, of the agent that acts.
        checkpoint: Whether the model carries the capsule on paths that skip the condenser too.

    Raises:
        ControlError: It cannot be guarded; the message says why.
    """
    if isinstance(target, AgentBase):
        return _guarded(target, control, checkpoint=checkpoint)
    if not isinstance(target, LocalConversation):
        raise ControlError(
            f"a {type(target).__name__} runs its agent elsewhere; nothing was attached.",
            mend="attach in the process that runs the agent, such as the agent-server.",
        )
    if begun(target):
        raise ControlError(
            "the conversation has begun, and the SDK resumes it with the same class of agent only.",
            mend="attach before the first message, or fork it with agent=attach(agent, control=...).",
        )
    replace_agent(target, _guarded(target.agent, control, checkpoint=checkpoint))
    return target


def _guarded(agent: AgentBase, control: ControlPlane, *, checkpoint: bool) -> GuardedAgent:
    if isinstance(agent, GuardedAgent):
        if agent.control_condenser.control is not bound(control):
            raise ControlError("the agent carries another plane.", mend="build it with the plane you want.")
        return agent
    if isinstance(agent, ACPAgent):
        raise ControlError(
            "an ACP agent runs in another program, which approves its own calls: it cannot be carried to or guarded.",
            mend="use the SDK's own agent, or that program's own permissions.",
        )
    if type(agent) is not Agent:
        raise ControlError(
            f"{type(agent).__name__} is a class of its own, whose overrides would be lost.",
            mend="derive it from GuardedAgent.",
        )
    fields = {name: getattr(agent, name) for name in type(agent).model_fields if name in GuardedAgent.model_fields}
    fields["condenser"] = _carrying(agent.condenser, control)
    return GuardedAgent(**fields, checkpoint=checkpoint)


def _carrying(condenser: CondenserBase | None, control: ControlPlane) -> ControlCondenser:
    """Return the condenser of ours that takes the place of a native one.

    Raises:
        ControlError: There is none for it.
    """
    if condenser is None or type(condenser) is NoOpCondenser:
        return ControlNoOpCondenser(control=control)
    if type(condenser) is LLMSummarizingCondenser:
        fields = {name: getattr(condenser, name) for name in type(condenser).model_fields}
        return ControlSummarizingCondenser(control=control, **fields)
    if isinstance(condenser, ControlCondenser) and condenser.control is bound(control):
        return condenser
    raise ControlError(
        f"no condenser of this package takes the place of a {type(condenser).__name__} with this plane.",
        mend="give the agent a ControlRollingCondenser, ControlSummarizingCondenser or ControlNoOpCondenser.",
    )


def apply_to_settings(settings: Any, *, control: ControlPlane, checkpoint: bool = True) -> GuardedAgent:  # noqa: ANN401  # any of the SDK's settings
    """Build the agent that settings describe, guarded: the SDK's settings know only their own condensers.

    Raises:
        ControlError: They describe an agent that cannot be guarded, such as an ACP agent.
    """
    agent: AgentBase = settings.create_agent()
    return attach(agent, control=control, checkpoint=checkpoint)


def with_suffix(context: AgentContext | None, *, control: ControlPlane) -> AgentContext:
    """Return an agent's context that shows the rules at the end of its system prompt: the fallback, for plain agents.

    It reaches what skips the condenser, such as `ask_agent`, where an agent cannot be replaced. It is weak: the SDK
    writes it once, when the conversation begins, keeps it on every resume, and nothing checks it. Do not use it with a
    condenser of this package, which would show the rules a second time.

    Args:
        context: What the agent has; None for none.
        control: The plane, whose whole scope is shown, for the tools are not known yet.

    Raises:
        ControlOverloadError: The rules do not fit the control budget.
    """
    known = context or AgentContext()
    parts = (known.system_message_suffix, bound(control).capsule().text)
    return known.model_copy(update={"system_message_suffix": "\n\n".join(part for part in parts if part)})


def guarded_factory(
    factory: Callable[[LLM], AgentBase], *, control: ControlPlane, actor: str
) -> Callable[[LLM], GuardedAgent]:
    """Wrap a sub-agent's factory: the agents it makes act as `actor`, under every rule for whoever called them.

    Use it as ``register_agent("helper", guarded_factory(make_helper, control=plane, actor="helper"), "...")``.
    """
    plane = control.delegate(actor)

    def make(llm: LLM) -> GuardedAgent:
        return attach(factory(llm), control=plane)

    return make


def guard_subagents(control: ControlPlane) -> tuple[str, ...]:
    """Guard every sub-agent that is registered now, under its own name; return the names.

    Agents from files and plugins are registered when a conversation begins: call it after that, or register them
    yourself with `guarded_factory`.

    Raises:
        ControlError: This SDK keeps its registry in a way that is not known.
    """

    def wrapped(name: str, factory: Callable[[LLM], AgentBase]) -> Callable[[LLM], AgentBase]:
        known = getattr(factory, "carriage_actor", None)
        if known is not None:
            return factory
        made = guarded_factory(factory, control=control, actor=name)
        made.carriage_actor = name  # type: ignore[attr-defined]  # found again by `inspect_conversation`
        return made

    try:
        return wrap_subagents(wrapped)
    except NotImplementedError as missing:
        raise ControlError(f"{missing}.", mend="register sub-agents with guarded_factory(...).") from missing


def guard_tools(control: ControlPlane) -> tuple[str, ...]:
    """Guard every tool in the SDK's registry, for agents of any class made from now on; return the names.

    A guarded agent's own plane takes precedence for its tools. Built-in tools and those of MCP servers are not in the
    registry: only a guarded agent guards them.

    Raises:
        ControlError: This SDK keeps its registry in a way that is not known.
    """
    plane = bound(control)

    def wrapped(tool: ToolDefinition[Any, Any]) -> ToolDefinition[Any, Any]:
        return guard(tool, lambda: plane)

    try:
        return wrap_tools(wrapped)
    except NotImplementedError as missing:
        raise ControlError(f"{missing}.", mend="make every agent a GuardedAgent.") from missing


def held(conversation: LocalConversation) -> tuple[HeldCall, ...]:
    """List the calls of a guarded agent that wait for a person.

    Raises:
        ControlError: The agent is not guarded.
    """
    return held_calls(_agent_of(conversation).control_condenser.control, conversation)


def approve(conversation: LocalConversation, call_id: str, *, by: str) -> None:
    """Let one held call run in the next `run()`: exactly this call, with exactly these arguments, once.

    A pending call without one is rejected by whatever comes next: a message, `run()` or `condense()`.

    Args:
        conversation: Whose agent is guarded.
        call_id: From `held`.
        by: Who approved, as an authenticated name.

    Raises:
        ControlError: The agent is not guarded, or no such call is held.
        CarriageError: The call is denied; no approval lifts that.
    """
    agent = _agent_of(conversation)
    approve_call(agent.control_condenser.control, agent.approvals, conversation, call_id, by=by)


def _agent_of(conversation: LocalConversation) -> GuardedAgent:
    if not isinstance(conversation.agent, GuardedAgent):
        raise ControlError(
            f"the agent is a {type(conversation.agent).__name__}, which holds no calls.",
            mend="make it a GuardedAgent, or attach(agent, control=...).",
        )
    return conversation.agent
