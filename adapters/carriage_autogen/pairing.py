# SPDX-License-Identifier: Apache-2.0
"""Which calls have their results: by adjacency and call id (invariant 8; research on native contexts, section 4).

A round is an assistant message with calls and the result messages right after it. Providers refuse a prompt in
which a round is split. `call_id` may be empty, so ids are matched as a multiset within one round.
"""

from __future__ import annotations

from bisect import bisect_left
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


class Rounds:
    """Finds broken rounds as messages arrive, looking at each message once."""

    def __init__(self) -> None:
        """Start before the first message."""
        self._broken: list[int] = []
        self._call_at: int | None = None
        self._waiting: Counter[str] = Counter()

    def add(self, index: int, message: LLMMessage) -> None:
        """Look at the next message; `index` must rise by one from 0."""
        if isinstance(message, FunctionExecutionResultMessage):
            answered = Counter(result.call_id for result in message.content)
            if self._call_at is None or answered - self._waiting:
                self._broken.append(index)
            self._waiting -= answered
            return
        if self._call_at is not None and self._waiting:
            position = bisect_left(self._broken, self._call_at)
            self._broken.insert(position, self._call_at)
        calls = calls_of(message)
        self._call_at = index if calls else None
        self._waiting = Counter(call.id for call in calls)

    def whole_from(self, start: int) -> bool:
        """Whether no round from `start` on is broken; one that is still open at the end is not."""
        return bisect_left(self._broken, start) == len(self._broken)


def round_start(messages: Sequence[LLMMessage], start: int) -> int:
    """Move a cut forward to the next message that does not answer something before the cut."""
    while start < len(messages) and isinstance(messages[start], FunctionExecutionResultMessage):
        start += 1
    return start


def last_round(messages: Sequence[LLMMessage]) -> int:
    """Find where the newest round starts: the least that can be shown without splitting one."""
    start = len(messages) - 1
    while start > 0 and isinstance(messages[start], FunctionExecutionResultMessage):
        start -= 1
    return max(start, 0)


def mended(messages: Sequence[LLMMessage]) -> list[LLMMessage]:
    """Rebuild a window in which rounds are broken, changing no stored message.

    A result away from its call goes back to it. A call without a result anywhere gets one that says the outcome is
    unknown, unless the window ends with it. A result without a call is left out: nothing refers to it.
    """
    strays = _strays(messages)
    out: list[LLMMessage] = []
    index = 0
    while index < len(messages):
        message = messages[index]
        index += 1
        if isinstance(message, FunctionExecutionResultMessage):
            continue  # its call is not right before it
        out.append(message)
        calls = calls_of(message)
        if not calls:
            continue
        waiting = Counter(call.id for call in calls)
        while index < len(messages) and isinstance(answer := messages[index], FunctionExecutionResultMessage):
            index += 1
            fitting: list[FunctionExecutionResult] = []
            for result in answer.content:
                if waiting[result.call_id] > 0:
                    waiting[result.call_id] -= 1
                    fitting.append(result)
            if fitting:
                whole = len(fitting) == len(answer.content)
                out.append(answer if whole else FunctionExecutionResultMessage(content=fitting))
        if index == len(messages) and out[-1] is message:
            break  # the history itself ends inside this round
        missing: list[FunctionExecutionResult] = []
        for call in calls:
            if waiting[call.id] > 0:
                waiting[call.id] -= 1
                missing.append(_answer(call, strays))
        if missing:
            out.append(FunctionExecutionResultMessage(content=missing))
    return out


def _strays(messages: Sequence[LLMMessage]) -> dict[str, FunctionExecutionResult]:
    """Find results that no call right before them claims; ids repeat, so a claimed result must not answer again."""
    strays: dict[str, FunctionExecutionResult] = {}
    waiting: Counter[str] = Counter()
    for message in messages:
        if not isinstance(message, FunctionExecutionResultMessage):
            waiting = Counter(call.id for call in calls_of(message))
            continue
        for result in message.content:
            if waiting[result.call_id] > 0:
                waiting[result.call_id] -= 1
            elif result.call_id:
                strays[result.call_id] = result
    return strays


def _answer(call: FunctionCall, strays: dict[str, FunctionExecutionResult]) -> FunctionExecutionResult:
    found = strays.get(call.id)
    if found is not None and found.name in {"", call.name}:
        return strays.pop(call.id)
    return FunctionExecutionResult(content=NO_RESULT, name=call.name, call_id=call.id, is_error=True)
