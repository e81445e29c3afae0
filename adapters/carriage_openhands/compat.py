# SPDX-License-Identifier: Apache-2.0
"""Everything this adapter takes from the OpenHands SDK, in one place (research: openhands, section 8).

Other modules import SDK names from here only. Where SDK versions differ, a feature is probed, never a version
number, and what cannot be told is refused, not guessed.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final, override

from openhands.sdk import agent as _agent_package
from openhands.sdk.agent import Agent as _Agent
from openhands.sdk.agent.acp_agent import ACPAgent
from openhands.sdk.agent.base import AgentBase
from openhands.sdk.context.agent_context import AgentContext
from openhands.sdk.context.condenser.base import (
    CondensationRequirement,
    CondenserBase,
    NoCondensationAvailableException,
    RollingCondenser,
)
from openhands.sdk.context.condenser.llm_summarizing_condenser import LLMSummarizingCondenser
from openhands.sdk.context.condenser.no_op_condenser import NoOpCondenser
from openhands.sdk.context.view import View
from openhands.sdk.conversation.impl.local_conversation import LocalConversation
from openhands.sdk.conversation.state import ConversationExecutionStatus, ConversationState
from openhands.sdk.event import ActionEvent, LLMConvertibleEvent, SystemPromptEvent
from openhands.sdk.event.condenser import Condensation, CondensationSummaryEvent
from openhands.sdk.event.llm_convertible.observation import ObservationBaseEvent
from openhands.sdk.llm import LLM, ImageContent, Message, TextContent
from openhands.sdk.mcp.definition import MCPToolAction
from openhands.sdk.skills.utils import expand_variable_references
from openhands.sdk.subagent import registry as _subagents
from openhands.sdk.tool import Action, Observation, ToolDefinition, ToolExecutor
from openhands.sdk.tool import registry as _tools
from openhands.sdk.tool.builtins import FinishTool, ThinkTool

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from openhands.sdk.conversation.types import ConversationCallbackType, ConversationTokenCallbackType

__all__ = [
    "CONFIRMS",
    "HARMLESS_TOOLS",
    "LLM",
    "PROMPT_DIR",
    "ACPAgent",
    "Action",
    "ActionEvent",
    "Agent",
    "AgentBase",
    "AgentContext",
    "Condensation",
    "CondensationRequirement",
    "CondensationSummaryEvent",
    "CondenserBase",
    "ConversationExecutionStatus",
    "ConversationState",
    "ImageContent",
    "LLMConvertibleEvent",
    "LLMSummarizingCondenser",
    "LocalConversation",
    "Message",
    "NoCondensationAvailableException",
    "NoOpCondenser",
    "Observation",
    "ObservationBaseEvent",
    "RollingCondenser",
    "SystemPromptEvent",
    "TextContent",
    "ToolDefinition",
    "ToolExecutor",
    "View",
    "argument_schema",
    "arguments_of",
    "begun",
    "call_id_of",
    "executed_form",
    "input_window",
    "masked",
    "model_hooks",
    "offered_schema",
    "pending_actions",
    "replace_agent",
    "result_of",
    "subagent_factories",
    "wrap_subagents",
    "wrap_tools",
]

PROMPT_DIR: Final = os.path.join(os.path.dirname(_agent_package.__file__), "prompts")  # noqa: PTH118, PTH120  # as the SDK spells it
"""Where the SDK's own agent keeps its prompts; a subclass elsewhere would look beside its own module."""

HARMLESS_TOOLS: Final = (FinishTool.name, ThinkTool.name)
"""The SDK's own tools that act on nothing but the conversation. Its other optional tools are not harmless:
they load files, change the model or send images."""


CONFIRMS: Final = callable(getattr(_Agent, "_requires_user_confirmation", None))
"""Whether the agent can be made to hold a call for a person. Where it cannot, such a call is denied."""


if TYPE_CHECKING:

    class Agent(_Agent):
        """The SDK's agent, with the types that its tracing decorator hides."""

        @override
        def step(  # type: ignore[override]  # the decorator's type takes nothing
            self,
            conversation: LocalConversation,
            on_event: ConversationCallbackType,
            on_token: ConversationTokenCallbackType | None = None,
        ) -> None:
            """Take a step."""

        @override
        async def astep(  # type: ignore[override]  # the same
            self,
            conversation: LocalConversation,
            on_event: ConversationCallbackType,
            on_token: ConversationTokenCallbackType | None = None,
        ) -> None:
            """Take a step."""
else:
    Agent = _Agent


def input_window(llm: LLM | None) -> int | None:
    """Return the most input tokens the model takes, or None where nobody has said.

    The effective limit, where the SDK knows one, includes what the route reports; the configured one does not.
    """
    if llm is None:
        return None
    limits = (getattr(llm, "effective_max_input_tokens", None), llm.max_input_tokens)
    return next((limit for limit in limits if isinstance(limit, int) and limit > 0), None)


def argument_schema(tool: ToolDefinition[Any, Any]) -> dict[str, Any]:
    """Return the JSON Schema of a tool's own arguments, without what the SDK adds for the model to fill in.

    Fields that the tool hides from the model are arguments too: they are executed with the rest.
    """
    schema = tool.to_mcp_tool()["inputSchema"]
    if not isinstance(schema, dict):
        raise TypeError(f"the input schema of {tool.name!r} is a {type(schema).__name__}")
    if issubclass(tool.action_type, MCPToolAction):
        return schema
    shown = schema.get("properties", {})
    names = {field.alias or name for name, field in tool.action_type.model_fields.items()} - {"kind"}
    hidden: dict[str, Any] = {name: {} for name in sorted(names - shown.keys())}
    return {**schema, "properties": {**shown, **hidden}} if hidden else schema


def offered_schema(tool: ToolDefinition[Any, Any]) -> Mapping[str, Any]:
    """Return a tool as the model is shown it."""
    return tool.to_openai_tool(add_security_risk_prediction=True)


def executed_form(action: Action, conversation: LocalConversation | None) -> Action:
    """Return a private copy of an action in the form its executor acts on (DESIGN 3.4: judged is executed).

    The copy cannot change after it was judged. The MCP executor replaces secret references in its arguments; that
    is done here first, so that what is judged is what the server gets.

    Raises:
        ValueError: A secret's value refers to another secret, so the executor would change it once more.
    """
    copied = action.model_copy(deep=True)
    if not isinstance(copied, MCPToolAction) or conversation is None:
        return copied
    data = _expanded(copied.data, conversation)
    if data == copied.data:
        return copied
    if _expanded(data, conversation) != data:
        raise ValueError("POLICY_DENIED bad_arguments: a secret refers to a secret, so the call cannot be judged.")
    return copied.model_copy(update={"data": data})


def _expanded(data: object, conversation: LocalConversation) -> object:
    """Replace secret references as the SDK's MCP executor does."""
    lookup = conversation.state.secret_registry.get_secret_value
    return expand_variable_references(data, get_secret=lookup, check_env=False, support_unbraced=True)


def arguments_of(action: Action) -> dict[str, Any]:
    """Return the arguments of an action by the names the model gave them, as a JSON object.

    The SDK takes its own ``security_risk`` and ``summary`` out before it builds the action, so a field of that name
    here is the tool's own. ``kind`` names the class and is no argument.
    """
    if isinstance(action, MCPToolAction):
        return action.to_mcp_arguments()
    dumped = action.model_dump(mode="json", by_alias=True)
    if not any(field.alias == "kind" for field in type(action).model_fields.values()):
        del dumped["kind"]
    return dumped


def result_of(observation: Observation) -> dict[str, Any]:
    """Return the fields an observation declares itself: what it means, not how it is told to the model."""
    own = type(observation).model_fields.keys() - Observation.model_fields.keys()
    return observation.model_dump(mode="json", include=own)


def call_id_of(action: Action, conversation: LocalConversation | None) -> str | None:
    """Return the id of the tool call an action came from, or None for one that no model proposed.

    Executors are given the action only. Its event is found by identity, from the newest backwards: in the loop it
    is among the last few; only `execute_tool`, whose actions have no event, looks at all of them.
    """
    if conversation is None:
        return None
    events = conversation.state.events
    for index in range(len(events) - 1, -1, -1):
        event = events[index]
        if isinstance(event, ActionEvent) and event.action is action:
            return event.tool_call_id
    return None


def masked(text: str, conversation: LocalConversation | None) -> str:
    """Return `text` without the values of the conversation's secrets."""
    if conversation is None:
        return text
    return conversation.state.secret_registry.mask_secrets_in_output(text)


def pending_actions(state: ConversationState) -> Sequence[ActionEvent]:
    """Return the actions of the active branch that have no result."""
    return ConversationState.get_unmatched_actions(state.active_branch())


def begun(conversation: LocalConversation) -> bool:
    """Whether a conversation has its system prompt: from then on its agent's class is part of what is saved."""
    return any(isinstance(event, SystemPromptEvent) for event in conversation.state.events[:3])


def replace_agent(conversation: LocalConversation, agent: _Agent) -> None:
    """Give a conversation that has not begun another agent, as `switch_llm` does."""
    with conversation.state as state:
        conversation.agent = agent
        state.agent = agent


def wrap_tools(wrap: Callable[[ToolDefinition[Any, Any]], ToolDefinition[Any, Any]]) -> tuple[str, ...]:
    """Have the SDK's tool registry wrap every tool it makes from now on; return the names.

    Raises:
        NotImplementedError: This SDK keeps its registry in another way.
    """
    known, lock = getattr(_tools, "_REG", None), getattr(_tools, "_LOCK", None)
    if not isinstance(known, dict) or lock is None:
        raise NotImplementedError("the tool registry of this SDK cannot be wrapped")

    def wrapped(resolve: Callable[..., Sequence[ToolDefinition[Any, Any]]]) -> Callable[..., Any]:
        return lambda *given, **more: [wrap(tool) for tool in resolve(*given, **more)]

    with lock:
        for name, resolve in known.items():
            known[name] = wrapped(resolve)
        return tuple(known)


def subagent_factories() -> dict[str, Any]:
    """Return the factories of all registered sub-agents by name; none where the SDK keeps them in another way."""
    known = getattr(_subagents, "_agent_factories", None)
    return {name: entry.factory_func for name, entry in known.items()} if isinstance(known, dict) else {}


def wrap_subagents(wrap: Callable[[str, Callable[[LLM], AgentBase]], Callable[[LLM], AgentBase]]) -> tuple[str, ...]:
    """Replace the factory of every registered sub-agent; return the names.

    Raises:
        NotImplementedError: This SDK keeps its registry in another way.
    """
    known, lock = getattr(_subagents, "_agent_factories", None), getattr(_subagents, "_registry_lock", None)
    if not isinstance(known, dict) or lock is None:
        raise NotImplementedError("the sub-agent registry of this SDK cannot be wrapped")
    with lock:
        for name, entry in known.items():
            known[name] = entry._replace(factory_func=wrap(name, entry.factory_func))
        return tuple(known)


def model_hooks(conversation: LocalConversation) -> bool:
    """Whether a conversation has hooks that ask a model; every hook counts where their kind cannot be told."""
    config = getattr(conversation.state, "hook_config", None)
    if config is None:
        return False
    dumped = str(config.model_dump(mode="json"))
    return "'type': 'prompt'" in dumped or "'type': 'agent'" in dumped
