# SPDX-License-Identifier: Apache-2.0
"""Drop-in model contexts: AutoGen's own windows with policy carried outside them. Native arguments plus `control`."""

from __future__ import annotations

from typing import TYPE_CHECKING, override

from autogen_core import Component
from autogen_core.model_context import (
    BufferedChatCompletionContext,
    HeadAndTailChatCompletionContext,
    UnboundedChatCompletionContext,
)
from autogen_core.models import LLMMessage
from pydantic import BaseModel

from carriage_autogen.context import ControlContext, references
from carriage_autogen.selection import Frame
from carriage_core import ControlPlane, find_plane

if TYPE_CHECKING:
    from typing import Self

    from carriage_autogen.overload import OnOverload


class ControlBufferedChatCompletionContextConfig(BaseModel):
    """Component config: the native fields, and the digest that finds the control plane again."""

    buffer_size: int
    initial_messages: list[LLMMessage] | None = None
    control_reference: str
    policy_file: str | None = None


class ControlBufferedChatCompletionContext(
    ControlContext, BufferedChatCompletionContext, Component[ControlBufferedChatCompletionContextConfig]
):
    """AutoGen's `BufferedChatCompletionContext`: the last `buffer_size` messages."""

    component_config_schema = ControlBufferedChatCompletionContextConfig  # type: ignore[assignment]  # by design
    # Its own name: a subclass that inherits the native one reloads as the native class, without policy.
    component_provider_override = "carriage_autogen.ControlBufferedChatCompletionContext"

    def __init__(
        self,
        buffer_size: int,
        initial_messages: list[LLMMessage] | None = None,
        *,
        control: ControlPlane,
        on_overload: OnOverload = None,
    ) -> None:
        """Make the context.

        Args:
            buffer_size: How many of the latest messages are shown.
            initial_messages: Messages the context starts with.
            control: The control plane, as the actor of the agent that will use this context.
            on_overload: What happens where the complete set does not fit; None raises.

        Raises:
            ValueError: `buffer_size` is not positive.
        """
        super().__init__(buffer_size, initial_messages)
        self._carry(control, initial_messages, on_overload=on_overload)

    @override
    def _frame(self) -> Frame:
        return Frame(head=0, tail=self._buffer_size)

    @override
    async def _native_messages(self) -> list[LLMMessage]:
        return await BufferedChatCompletionContext.get_messages(self)

    @override
    def _to_config(self) -> ControlBufferedChatCompletionContextConfig:  # type: ignore[override]  # its own schema
        return ControlBufferedChatCompletionContextConfig(
            buffer_size=self._buffer_size, initial_messages=self._initial_messages, **references(self._control)
        )

    @classmethod
    @override
    def _from_config(cls, config: ControlBufferedChatCompletionContextConfig) -> Self:  # type: ignore[override]
        return cls(
            config.buffer_size,
            config.initial_messages,
            control=find_plane(config.control_reference, source=config.policy_file),
        )


class ControlHeadAndTailChatCompletionContextConfig(BaseModel):
    """Component config: the native fields, and the digest that finds the control plane again."""

    head_size: int
    tail_size: int
    initial_messages: list[LLMMessage] | None = None
    control_reference: str
    policy_file: str | None = None


class ControlHeadAndTailChatCompletionContext(
    ControlContext, HeadAndTailChatCompletionContext, Component[ControlHeadAndTailChatCompletionContextConfig]
):
    """AutoGen's `HeadAndTailChatCompletionContext`: the first and the last messages, and how many lie between.

    The number is the true one, and the newest user message is shown even where it lies between.
    """

    component_config_schema = ControlHeadAndTailChatCompletionContextConfig  # type: ignore[assignment]  # by design
    component_provider_override = "carriage_autogen.ControlHeadAndTailChatCompletionContext"

    def __init__(
        self,
        head_size: int,
        tail_size: int,
        initial_messages: list[LLMMessage] | None = None,
        *,
        control: ControlPlane,
        on_overload: OnOverload = None,
    ) -> None:
        """Make the context.

        Args:
            head_size: How many of the first messages are shown.
            tail_size: How many of the latest messages are shown.
            initial_messages: Messages the context starts with.
            control: The control plane, as the actor of the agent that will use this context.
            on_overload: What happens where the complete set does not fit; None raises.

        Raises:
            ValueError: A size is not positive.
        """
        super().__init__(head_size, tail_size, initial_messages)
        self._carry(control, initial_messages, on_overload=on_overload)

    @override
    def _frame(self) -> Frame:
        return Frame(head=self._head_size, tail=self._tail_size, gap=True)

    @override
    async def _native_messages(self) -> list[LLMMessage]:
        return await HeadAndTailChatCompletionContext.get_messages(self)

    @override
    def _to_config(self) -> ControlHeadAndTailChatCompletionContextConfig:  # type: ignore[override]  # its own schema
        return ControlHeadAndTailChatCompletionContextConfig(
            head_size=self._head_size,
            tail_size=self._tail_size,
            initial_messages=self._initial_messages,
            **references(self._control),
        )

    @classmethod
    @override
    def _from_config(cls, config: ControlHeadAndTailChatCompletionContextConfig) -> Self:  # type: ignore[override]
        control = find_plane(config.control_reference, source=config.policy_file)
        return cls(config.head_size, config.tail_size, config.initial_messages, control=control)


class ControlUnboundedChatCompletionContextConfig(BaseModel):
    """Component config: the native field, and the digest that finds the control plane again."""

    initial_messages: list[LLMMessage] | None = None
    control_reference: str
    policy_file: str | None = None


class ControlUnboundedChatCompletionContext(
    ControlContext, UnboundedChatCompletionContext, Component[ControlUnboundedChatCompletionContextConfig]
):
    """AutoGen's `UnboundedChatCompletionContext`: all messages; the oldest go only where the window is full."""

    component_config_schema = ControlUnboundedChatCompletionContextConfig  # type: ignore[assignment]  # by design
    component_provider_override = "carriage_autogen.ControlUnboundedChatCompletionContext"

    def __init__(
        self, initial_messages: list[LLMMessage] | None = None, *, control: ControlPlane, on_overload: OnOverload = None
    ) -> None:
        """Make the context.

        Args:
            initial_messages: Messages the context starts with.
            control: The control plane, as the actor of the agent that will use this context.
            on_overload: What happens where the complete set does not fit; None raises.
        """
        super().__init__(initial_messages)
        self._carry(control, initial_messages, on_overload=on_overload)

    @override
    def _frame(self) -> Frame:
        return Frame(head=0, tail=None)

    @override
    async def _native_messages(self) -> list[LLMMessage]:
        return await UnboundedChatCompletionContext.get_messages(self)

    @override
    def _to_config(self) -> ControlUnboundedChatCompletionContextConfig:  # type: ignore[override]  # its own schema
        return ControlUnboundedChatCompletionContextConfig(
            initial_messages=self._initial_messages, **references(self._control)
        )

    @classmethod
    @override
    def _from_config(cls, config: ControlUnboundedChatCompletionContextConfig) -> Self:  # type: ignore[override]
        return cls(config.initial_messages, control=find_plane(config.control_reference, source=config.policy_file))
