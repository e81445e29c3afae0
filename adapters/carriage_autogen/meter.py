# SPDX-License-Identifier: Apache-2.0
"""Measures a history as it grows: each message is counted once (invariant 12)."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Final

from autogen_core.models import (
    AssistantMessage,
    FunctionExecutionResultMessage,
    LLMMessage,
    SystemMessage,
    UserMessage,
)

from carriage_autogen.pairing import Rounds
from carriage_core import ControlPlane, count_imitations

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MESSAGE_OVERHEAD: Final = 4
"""Tokens of role and delimiters for each message; OpenAI's chat format takes 3 and a name 1."""

IMAGE_TOKENS: Final = 2_000
"""An upper bound for one image at the providers' default sizes."""


def _texts(message: LLMMessage, note: str) -> Iterator[str | int]:
    """Yield the texts a message puts before the model, and token sizes of what is not text."""
    match message:
        case SystemMessage():
            yield note + message.content
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


class Meter:
    """Running totals over a list that is only appended to; anything else starts the count anew.

    Attributes:
        rounds: Which rounds of the history are broken.
        newest_user: Index of the newest user message, or -1.
    """

    def __init__(self, control: ControlPlane, *, demotion_note: str = "") -> None:
        """Count in the tokens of `control`; a system message is sent as data, behind `demotion_note`."""
        self._control = control
        self._note = demotion_note
        self._reset()

    def _reset(self) -> None:
        self._totals: list[int] = [0]
        self._imitations: list[int] = [0]
        self._systems: list[int] = []
        self._last: LLMMessage | None = None
        self._list: Sequence[LLMMessage] | None = None
        self.rounds = Rounds()
        self.newest_user = -1

    def sync(self, messages: Sequence[LLMMessage]) -> None:
        """Take in what is new in `messages`.

        Raises:
            ControlError: The token counter failed; no call may be made on a guess.
        """
        known = len(self._totals) - 1
        # `clear` and `load_state` put another list in place; the same list only grows.
        if messages is not self._list or known > len(messages) or (known and messages[known - 1] is not self._last):
            self._reset()
            self._list = messages
            known = 0
        for index in range(known, len(messages)):
            message = messages[index]
            tokens, imitations = self._measure(message)
            self.rounds.add(index, message)
            if isinstance(message, UserMessage):
                self.newest_user = index
            if isinstance(message, SystemMessage):
                self._systems.append(index)
            self._totals.append(self._totals[-1] + tokens)
            self._imitations.append(self._imitations[-1] + imitations)
            self._last = message

    def _measure(self, message: LLMMessage) -> tuple[int, int]:
        tokens, imitations = MESSAGE_OVERHEAD, 0
        for text in _texts(message, self._note):
            if isinstance(text, int):
                tokens += text
            else:
                tokens += self._control.count(text)
                imitations += count_imitations(text)
        return tokens, imitations

    def tokens_of(self, messages: Sequence[LLMMessage]) -> int:
        """Tokens of messages that are not the stored ones, counted anew."""
        return sum(self._measure(message)[0] for message in messages)

    def tokens(self, start: int = 0, end: int | None = None) -> int:
        """Tokens of the messages from `start` up to `end`."""
        return self._totals[-1 if end is None else end] - self._totals[start]

    def imitations(self, start: int = 0, end: int | None = None) -> int:
        """Marker look-alikes in the messages from `start` up to `end`."""
        return self._imitations[-1 if end is None else end] - self._imitations[start]

    def start_within(self, budget: int) -> int:
        """Find the earliest start from which everything to the end takes at most `budget` tokens."""
        return bisect_left(self._totals, self._totals[-1] - budget)

    def has_system(self, start: int) -> bool:
        """Whether a system message lies at `start` or after it."""
        return bool(self._systems) and self._systems[-1] >= start
