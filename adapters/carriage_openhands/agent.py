# SPDX-License-Identifier: Apache-2.0
"""An agent none of whose tools runs without a decision, and whose every model call carries the capsule."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, override

from pydantic import PrivateAttr, model_validator

from carriage_core import ControlError, ControlNotFoundError, Outcome, ToolSpec
from carriage_openhands.checkpoint import checked, is_checked
from carriage_openhands.compat import (
    CONFIRMS,
    PROMPT_DIR,
    ActionEvent,
    Agent,
    ConversationExecutionStatus,
    ToolDefinition,
)
from carriage_openhands.control import ControlCondenser, offered, offering
from carriage_openhands.guard import guard
from carriage_openhands.holding import Approvals, refused, reject_unapproved, verdict_of
from carriage_openhands.measuring import meter_for
from carriage_openhands.pairing import orphans

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openhands.sdk.conversation import ConversationState, LocalConversation
    from openhands.sdk.conversation.types import ConversationCallbackType, ConversationTokenCallbackType
    from openhands.sdk.event import Event

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
    The guard holds in the loop, in parallel and asynchronous batches, in `execute_tool` and in `rerun_actions`; it
    survives `fork`, `switch_llm` and reloading. An action runs once: a rerun of one that was authorised is denied.
    An action that is still pending when a step begins, held or left over from a crash, runs only if `approve` let it.

    Attributes:
        checkpoint: Whether the agent's model carries the capsule on the SDK's other paths too: questions, titles.
    """

    checkpoint: bool = False
    _approvals: Approvals = PrivateAttr(default_factory=Approvals)
    _waiting: set[str] = PrivateAttr(default_factory=set)
    _guarded: dict[str, _Guarded] = PrivateAttr(default_factory=dict)
    _known: tuple[ToolSpec, ...] = PrivateAttr(default=())

    @model_validator(mode="after")
    def _carries_control(self) -> Self:
        _ = self.control_condenser
        self._check_model()
        return self

    def _check_model(self) -> None:
        """Put the checkpoint around the model again; a fork, a reload or another model come without it."""
        if self.checkpoint and not is_checked(self.llm):
            try:
                llm = checked(self.llm, control=self.control_condenser.control)
            except ControlNotFoundError:
                return  # every step fails closed; `inspect_conversation` names what is unguarded
            self.__dict__["llm"] = llm  # the model is frozen for others

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
    def approvals(self) -> Approvals:
        """What `approve` has let run of the calls that only the SDK's confirmation mode holds; never saved."""
        return self._approvals

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
        guarded = guard(tool, lambda: condenser.control)
        self._guarded[tool.name] = _Guarded(tool=tool, condenser=condenser, copy=guarded)
        return guarded

    @override
    def init_state(self, state: ConversationState, on_event: ConversationCallbackType) -> None:
        super().init_state(state, on_event)
        self._check_model()
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
            super().step(conversation, self._judging(conversation, on_event), on_token)

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
            await super().astep(conversation, self._judging(conversation, on_event), on_token)

    @override
    def ask_agent(self, question: str) -> str | None:
        """Let the SDK ask the model, if its checkpoint carries the capsule there; otherwise refuse (invariant 1).

        Raises:
            ControlError: The SDK would answer past the condenser, without the capsule.
        """
        if is_checked(self.llm):
            return super().ask_agent(question)
        raise ControlError(
            "ask_agent calls the model without the control capsule; nothing was sent.",
            mend="send the question as a message, or make the agent with checkpoint=True.",
        )

    @override
    def _requires_user_confirmation(
        self,
        state: ConversationState,
        action_events: list[ActionEvent],
        *more: Any,  # as the SDK's
    ) -> bool:
        """Hold a batch that a policy or the SDK's confirmation mode wants a person to see."""
        held = bool(super()._requires_user_confirmation(state, action_events, *more))
        return self._holds(state, action_events) or held

    @override
    async def _arequires_user_confirmation(
        self,
        conversation: LocalConversation,
        state: ConversationState,
        action_events: list[ActionEvent],
        *more: Any,
    ) -> bool:
        """Do as `_requires_user_confirmation` does; older SDKs never call it."""
        held = bool(await super()._arequires_user_confirmation(conversation, state, action_events, *more))
        return self._holds(state, action_events) or held

    def _holds(self, state: ConversationState, action_events: Sequence[ActionEvent]) -> bool:
        waiting = self._waiting.intersection(event.id for event in action_events)
        if waiting:
            self._waiting -= waiting
            state.execution_status = ConversationExecutionStatus.WAITING_FOR_CONFIRMATION
        return bool(waiting)

    def _judging(self, conversation: LocalConversation, on_event: ConversationCallbackType) -> ConversationCallbackType:
        """Judge each call as it is proposed: a denied one is rejected in words the model can read.

        The guard judges again when a call is executed, and that is the decision of record. This never raises: by then
        the SDK has stored the event, and would execute it in the next run.
        """
        proving: set[str] = set()

        def judged(event: Event) -> None:
            on_event(event)
            if isinstance(event, ActionEvent):
                try:
                    self._judge(conversation, event, proving)
                except Exception:  # noqa: BLE001  # the executor's guard denies what cannot be judged
                    return

        return judged

    def _judge(self, conversation: LocalConversation, event: ActionEvent, proving: set[str]) -> None:
        plane = self.control_condenser.control
        verdict = verdict_of(plane, event, conversation)
        if verdict.outcome is Outcome.CONFIRM and CONFIRMS:
            self._waiting.add(event.id)
        elif verdict.allowed:
            if any(binding.trusted_evidence for binding in plane.registry.bindings.get(event.tool_name, ())):
                proving.add(event.llm_response_id)
        elif event.llm_response_id not in proving:  # else what runs before it in its batch may still lift the rule
            reason = refused(plane, event, conversation)
            if reason is not None:
                conversation.state.block_action(event.id, reason)

    def _prepared(self, conversation: LocalConversation) -> dict[str, ToolDefinition[Any, Any]]:
        """Make ready for a step, and return its tools."""
        if orphans(conversation.state.view.events):
            conversation.state.rebuild_view()  # puts the lost calls back; the condenser could only forget the results
        self._check_model()
        tools = self.tools_map
        plane = self.control_condenser.control
        self._learn(plane, tools)
        reject_unapproved(plane, self._approvals, conversation)
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
