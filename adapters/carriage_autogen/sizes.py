# SPDX-License-Identifier: Apache-2.0
"""How large a message is: every text it puts before the model, in the plane's tokens, and marker look-alikes in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from autogen_core.models import (
    AssistantMessage,
    FunctionExecutionResultMessage,
    LLMMessage,
    SystemMessage,
    UserMessage,
)

from carriage_core import ControlPlane, count_imitations

if TYPE_CHECKING:
    from collections.abc import Iterator

MESSAGE_OVERHEAD: Final = 4
"""Tokens of role and delimiters for each message; OpenAI's chat format takes 3 and a name 1."""

IMAGE_TOKENS: Final = 2_000
"""An upper bound for one image at the providers' default sizes."""


@dataclass(frozen=True, slots=True)
class Size:
    """Tokens and marker look-alikes of one message."""

    tokens: int
    imitations: int


def size_of(message: LLMMessage, control: ControlPlane) -> Size:
    """Measure a message.

    Raises:
        ControlError: The token counter failed; no call may be made on a guess.
    """
    tokens, imitations = MESSAGE_OVERHEAD, 0
    for text in _texts(message):
        if isinstance(text, int):
            tokens += text
        else:
            tokens += control.count(text)
            imitations += count_imitations(text)
    return Size(tokens, imitations)


def _texts(message: LLMMessage) -> Iterator[str | int]:
    """Yield the texts a message puts before the model, and token sizes of what is not text."""
    match message:
        case SystemMessage():
            yield message.content
        case UserMessage(content=str() as text):
            yield text
        case UserMessage(content=parts):
            for part in parts:
                yield part if isinstance(part, str) else IMAGE_TOKENS
        case AssistantMessage():
            if message.thought:
                yield message.thought
            if isinstance(message.content, str):
                yield message.content
            else:
                for call in message.content:
                    yield call.name
                    yield call.arguments
        case FunctionExecutionResultMessage():
            for result in message.content:
                yield result.name
                yield result.content
