# SPDX-License-Identifier: Apache-2.0
"""A control-carrying wrapper around any other model context: a reasoning context, a summary context, your own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, override

from autogen_core import Component, ComponentModel
from autogen_core.model_context import ChatCompletionContext
from autogen_core.models import AssistantMessage, LLMMessage
from pydantic import BaseModel

from carriage_autogen.context import REFERENCE, SOURCE, ControlContext, known_state, references, storable
from carriage_autogen.history import History
from carriage_autogen.selection import Frame
from carriage_core import ControlPlane, find_plane

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Self

    from carriage_autogen.overload import OnOverload


class ControlledContextConfig(BaseModel):
    """Component config: the inner context, and the digest that finds the control plane again."""

    inner: ComponentModel
    control_reference: str
    policy_file: str | None = None


class ControlledContext(ControlContext, Component[ControlledContextConfig]):
    """Any model context, with policy carried outside what it selects.

    What the inner context returns is data: it is completed where rounds are split, its system messages lose their
    role, and it is cut from its oldest end where the window is full. An inner context that erases the thoughts of
    stored messages in place, as AutoGen's documentation shows, erases them only from what is sent.
    """

    component_config_schema = ControlledContextConfig
    component_provider_override = "carriage_autogen.ControlledContext"

    def __init__(self, inner: ChatCompletionContext, *, control: ControlPlane, on_overload: OnOverload = None) -> None:
        """Make the context.

        Args:
            inner: The context whose selection is sent.
            control: The control plane, as the actor of the agent that will use this context.
            on_overload: What happens where the complete set does not fit; None raises.

        Raises:
            TypeError: `inner` carries control itself.
        """
        if isinstance(inner, ControlContext):
            raise TypeError("the inner context carries control already; use it as it is.")
        initial = inner._initial_messages  # noqa: SLF001  # no accessor, and `clear` forgets them
        super().__init__(initial)
        self._inner = inner
        self._thoughts: list[tuple[AssistantMessage, str]] = []
        self._keep_thoughts(inner._messages)  # noqa: SLF001  # the same
        self._carry(control, initial, on_overload=on_overload)
        # The inner context makes its own lists and may change what is in them.
        self._history = History(control, head_texts=self._head_texts)

    @property
    def inner(self) -> ChatCompletionContext:
        """The context whose selection is sent."""
        return self._inner

    @override
    def _frame(self) -> Frame:
        return Frame(head=0, tail=None)

    @override
    async def _native_messages(self) -> list[LLMMessage]:
        return list(await self._inner.get_messages())

    @override
    async def _source(self) -> Sequence[LLMMessage]:
        messages = list(await self._inner.get_messages())
        erased = {id(message) for message, thought in self._thoughts if message.thought != thought}
        if erased:
            for index, message in enumerate(messages):
                if id(message) in erased:
                    messages[index] = message.model_copy()
            for message, thought in self._thoughts:
                message.thought = thought
        return messages

    def _keep_thoughts(self, messages: Sequence[LLMMessage]) -> None:
        self._thoughts += [
            (message, message.thought)
            for message in messages
            if isinstance(message, AssistantMessage) and message.thought
        ]

    @override
    async def add_message(self, message: LLMMessage) -> None:
        stored = storable(message)
        if stored is not None:
            await self._inner.add_message(stored)
            self._keep_thoughts([stored])

    @override
    async def clear(self) -> None:
        """Forget the conversation; the inner context's `initial_messages` are back at once."""
        await self._inner.clear()
        self._thoughts.clear()
        kept = await self._inner.save_state()
        if not kept.get("messages"):
            for message in self._initial_messages or ():
                await self.add_message(message)

    @override
    async def save_state(self) -> Mapping[str, Any]:
        return {**await self._inner.save_state(), **references(self._control)}

    @override
    async def load_state(self, state: Mapping[str, Any]) -> None:
        known_state(state, self._control)
        await self._inner.load_state({key: value for key, value in state.items() if key not in {REFERENCE, SOURCE}})
        self._thoughts.clear()
        self._keep_thoughts(self._inner._messages)  # noqa: SLF001  # no accessor

    @override
    def _to_config(self) -> ControlledContextConfig:
        return ControlledContextConfig(inner=self._inner.dump_component(), **references(self._control))

    @classmethod
    @override
    def _from_config(cls, config: ControlledContextConfig) -> Self:
        return cls(
            ChatCompletionContext.load_component(config.inner),
            control=find_plane(config.control_reference, source=config.policy_file),
        )
