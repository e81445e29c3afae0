# SPDX-License-Identifier: Apache-2.0
"""The control-carrying form of a context that an agent already has, with the conversation it holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autogen_core.model_context import (
    BufferedChatCompletionContext,
    ChatCompletionContext,
    HeadAndTailChatCompletionContext,
    TokenLimitedChatCompletionContext,
    UnboundedChatCompletionContext,
)

from carriage_autogen.controlled import ControlledContext
from carriage_autogen.drop_ins import (
    ControlBufferedChatCompletionContext,
    ControlHeadAndTailChatCompletionContext,
    ControlUnboundedChatCompletionContext,
)
from carriage_autogen.token_limited import ControlTokenLimitedChatCompletionContext

if TYPE_CHECKING:
    from carriage_autogen.context import ControlContext
    from carriage_autogen.overload import OnOverload
    from carriage_core import ControlPlane


def as_control(context: ChatCompletionContext, control: ControlPlane, on_overload: OnOverload) -> ControlContext:
    """Make a context that shows what `context` shows, carries `control`, and holds a list of its own.

    AutoGen's own classes become their drop-ins; any other class is wrapped, and goes on holding its messages.
    """
    # AutoGen's contexts have no accessors for what they were made with.
    initial = context._initial_messages  # noqa: SLF001
    match context:
        case ControlledContext():
            return ControlledContext(context.inner, control=control, on_overload=on_overload)
        case BufferedChatCompletionContext() if _is(
            context, BufferedChatCompletionContext, ControlBufferedChatCompletionContext
        ):
            made: ControlContext = ControlBufferedChatCompletionContext(
                context._buffer_size,  # noqa: SLF001
                initial,
                control=control,
                on_overload=on_overload,
            )
        case HeadAndTailChatCompletionContext() if _is(
            context, HeadAndTailChatCompletionContext, ControlHeadAndTailChatCompletionContext
        ):
            made = ControlHeadAndTailChatCompletionContext(
                context._head_size,  # noqa: SLF001
                context._tail_size,  # noqa: SLF001
                initial,
                control=control,
                on_overload=on_overload,
            )
        case TokenLimitedChatCompletionContext() if _is(
            context, TokenLimitedChatCompletionContext, ControlTokenLimitedChatCompletionContext
        ):
            made = ControlTokenLimitedChatCompletionContext(
                context._model_client,  # noqa: SLF001
                token_limit=context._token_limit,  # noqa: SLF001
                tool_schema=context._tool_schema,  # noqa: SLF001
                initial_messages=initial,
                control=control,
                on_overload=on_overload,
            )
        case UnboundedChatCompletionContext() if _is(
            context, UnboundedChatCompletionContext, ControlUnboundedChatCompletionContext
        ):
            made = ControlUnboundedChatCompletionContext(initial, control=control, on_overload=on_overload)
        case _:
            return ControlledContext(context, control=control, on_overload=on_overload)
    made._messages = list(context._messages)  # noqa: SLF001
    return made


def _is(context: ChatCompletionContext, *classes: type[ChatCompletionContext]) -> bool:
    """Whether it is exactly one of these; a subclass may show something else."""
    return type(context) in classes
