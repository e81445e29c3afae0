# SPDX-License-Identifier: Apache-2.0
"""Which calls have their results, by adjacency and call id (invariant 8; research on native contexts, section 4).

A round is an assistant message with calls and the result messages right after it. Providers refuse a prompt in
which a round is split. `call_id` may be empty, so ids are matched as a multiset within one round.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from autogen_core.models import (
    AssistantMessage,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    LLMMessage,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from autogen_core import FunctionCall

NO_RESULT: Final = "No result was recorded for this call; its outcome is unknown."


def calls_of(message: LLMMessage) -> list[FunctionCall]:
    """The calls an assistant message makes, empty for every other message."""
    if isinstance(message, AssistantMessage) and not isinstance(message.content, str):
        return message.content
    return []


def unknown(call: FunctionCall) -> FunctionExecutionResult:
    """The honest answer to a call whose result nobody recorded."""
    return FunctionExecutionResult(content=NO_RESULT, name=call.name, call_id=call.id, is_error=True)


class OpenRound:
    """A call message, and which of its calls still wait for a result."""

    def __init__(self, message: LLMMessage | None = None) -> None:
        """Open the round of `message`; any other message than a call opens none."""
        self.calls = () if message is None else tuple(calls_of(message))
        self.waiting = Counter(call.id for call in self.calls)
        self.answered = False

    def take(self, message: FunctionExecutionResultMessage) -> list[FunctionExecutionResult]:
        """Return the results in `message` that answer calls of this round; each call is answered once."""
        fitting: list[FunctionExecutionResult] = []
        for result in message.content:
            if self.waiting[result.call_id] > 0:
                self.waiting[result.call_id] -= 1
                fitting.append(result)
        self.answered = self.answered or bool(fitting)
        return fitting

    def missing(self) -> list[FunctionCall]:
        """List the calls without a result, in order."""
        waiting = self.waiting.copy()
        missing: list[FunctionCall] = []
        for call in self.calls:
            if waiting[call.id] > 0:
                waiting[call.id] -= 1
                missing.append(call)
        return missing


def round_before(messages: Sequence[LLMMessage], end: int) -> int:
    """Move the end of a head back to where no round is split."""
    while 0 < end < len(messages) and isinstance(messages[end], FunctionExecutionResultMessage):
        end -= 1
    return end


def round_after(messages: Sequence[LLMMessage], start: int) -> int:
    """Move the start of a tail forward to where no round is split."""
    while start < len(messages) and isinstance(messages[start], FunctionExecutionResultMessage):
        start += 1
    return start


def last_round(messages: Sequence[LLMMessage]) -> int:
    """Find where the newest round starts: the least that can be shown without splitting one."""
    start = len(messages) - 1
    while start > 0 and isinstance(messages[start], FunctionExecutionResultMessage):
        start -= 1
    return max(start, 0)
