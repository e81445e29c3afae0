# SPDX-License-Identifier: Apache-2.0
"""An agent none of whose tools runs without a decision, and whose every model call carries the capsule."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, Self, override

from pydantic import PrivateAttr, model_validator

from carriage_core import ControlError, ControlNotFoundError, ToolSpec
from carriage_openhands.compat import PROMPT_DIR, Agent, ToolDefinition
from carriage_openhands.control import ControlCondenser, offered, offering
from carriage_openhands.guard import GuardedExecutor
from carriage_openhands.measuring import meter_for
from carriage_openhands.pairing import orphans

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openhands.sdk.conversation import ConversationState, LocalConversation
    from openhands.sdk.conversation.types import ConversationCallbackType, ConversationTokenCallbackType

    from carriage_core import ControlPlane


@dataclass(frozen=True, slots=True, kw_only=True)
class _Guarded:
    """A tool, the condenser whose plane guards it, and the guarded copy."""

    tool: ToolDefinition[Any, Any]
    condenser: ControlCondenser
    copy: ToolDefinition[Any, Any]


class GuardedAgent(Agent):
    """The SDK's agent, guarded by the control plane that its condenser carries.

    Give it the condenser as ``GuardedAgent(llm=llm, tools=tools, condenser=ControlRollingCondenser(control=plane))``.
    The guard holds in the loop, in parallel and asynchronous batches, for actions that were pending when a process
    ended, in `execute_tool` and in `rerun_actions`; it survives `fork`, `switch_llm` and reloading. An action runs
    once: a rerun of one that was authorised before is denied.
    """

    _guarded: dict[str, _Guarded] = PrivateAttr(default_factory=dict)
    _known: tuple[ToolSpec, ...] = PrivateAttr(default=())

    @model_validator(mode="after")
    def _carries_control(self) -> Self:
        _ = self.control_condenser
        return self

    @property
    def control_condenser(self) -> ControlCondenser:
        """The condenser, which carries the control plane.

        Raises:
            ControlError: There is none, so nothing would be carried or guarded.
        """
        if not isinstance(self.condenser, ControlCondenser):
            raise ControlError(
                f"a {type(self).__name__} needs a condenser that carries a control plane, "
                f"not {type(self.condenser).__name__}.",
                mend="pass condenser=ControlRollingCondenser(control=plane).",
            )
        return self.condenser

    @property
    @override
    def prompt_dir(self) -> str:
        """The SDK's own prompts: a subclass would look for them beside its own module."""
        return PROMPT_DIR

    @property
    @override
    def tools_map(self) -> dict[str, ToolDefinition[Any, Any]]:
        """The tools by name, guarded; within a step, those the step began with."""
        held = offered(self.control_condenser)
        if held is not None:
            return dict(held)
        return {name: self._guard(tool) for name, tool in super().tools_map.items()}

    def _guard(self, tool: ToolDefinition[Any, Any]) -> ToolDefinition[Any, Any]:
        if tool.executor is None:
            return tool  # nothing that could run
        condenser = self.control_condenser
        known = self._guarded.get(tool.name)
        if known is not None and known.tool is tool and known.condenser is condenser:
            return known.copy
        guarded = tool.set_executor(GuardedExecutor(tool, lambda: condenser.control))
        self._guarded[tool.name] = _Guarded(tool=tool, condenser=condenser, copy=guarded)
        return guarded

    @override
    def init_state(self, state: ConversationState, on_event: ConversationCallbackType) -> None:
        super().init_state(state, on_event)
        try:
            plane = self.control_condenser.control
        except ControlNotFoundError:
            return  # the conversation may be looked at; every step fails closed
        self._learn(plane, self.tools_map)

    @override
    def step(  # type: ignore[override]  # the SDK's tracing decorator hides what it takes
        self,
        conversation: LocalConversation,
        on_event: ConversationCallbackType,
        on_token: ConversationTokenCallbackType | None = None,
    ) -> None:
        """Take a step with the tools there are now.

        Raises:
            ControlError: The complete control set cannot be sent; no model was called.
        """
        tools = self._prepared(conversation)
        with offering(self.control_condenser, tools):
            super().step(conversation, on_event, on_token)

    @override
    async def astep(  # type: ignore[override]  # the same
        self,
        conversation: LocalConversation,
        on_event: ConversationCallbackType,
        on_token: ConversationTokenCallbackType | None = None,
    ) -> None:
        """Do as `step` does, asynchronously."""
        tools = self._prepared(conversation)
        with offering(self.control_condenser, tools):
            await super().astep(conversation, on_event, on_token)

    @override
    def ask_agent(self, question: str) -> NoReturn:
        """Refuse: the SDK answers such a question past the condenser, so without the capsule (invariant 1).

        Raises:
            ControlError: Always.
        """
        raise ControlError(
            "ask_agent calls the model without the control capsule; nothing was sent.",
            mend="send the question as a message, or ask an agent that is not guarded.",
        )

    def _prepared(self, conversation: LocalConversation) -> dict[str, ToolDefinition[Any, Any]]:
        """Make ready for a step, and return its tools."""
        if orphans(conversation.state.view.events):
            conversation.state.rebuild_view()  # puts the lost calls back; the condenser could only forget the results
        tools = self.tools_map
        self._learn(self.control_condenser.control, tools)
        return tools

    def _learn(self, plane: ControlPlane, tools: Mapping[str, ToolDefinition[Any, Any]]) -> None:
        """Tell the plane the tools, once for each set, and list the unbound ones before the model is called."""
        meter = meter_for(plane)
        specs = tuple(meter.tool(tool).spec for tool in tools.values())
        if specs == self._known:
            return
        unbound = plane.offer(specs)
        self._known = specs
        if unbound:
            lines = "; ".join(f"'{name}: {{action: none}}'" for name in unbound)
            warnings.warn(
                f"these tools are bound to no action, so every call of them will be denied: {', '.join(unbound)}. "
                f"For each that is harmless add under tools: {lines}.",
                RuntimeWarning,
                stacklevel=2,
            )
