# SPDX-License-Identifier: Apache-2.0
"""A tool result that is too large is shortened before the model sees it, so that no call fails after its tool ran.

The stored result stays whole. What is shown says that it was cut.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from autogen_core.models import FunctionExecutionResult, FunctionExecutionResultMessage, LLMMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from carriage_autogen.history import History

LEAST_TOKENS: Final = 100
"""Results up to this size are cut last, and only where nothing else makes room."""

NOTE: Final = "\n[shortened: the rest of this result did not fit]"


def cut_text(text: str, limit: int, count: Callable[[str], int]) -> str:
    """Keep as much of the start of `text` as `limit` tokens hold, with a note that says so.

    Args:
        text: What is too long.
        limit: Most tokens, the note included.
        count: Counts tokens.
    """
    tokens, keep = count(text), len(text)
    if tokens <= limit:
        return text
    while keep > 0:
        keep = min(keep * 9 // 10, keep * max(limit, 0) // tokens)
        kept = text[:keep] + NOTE
        tokens = count(kept)
        if tokens <= limit:
            return kept
    return NOTE.strip()


def shortened(messages: Sequence[LLMMessage], history: History, *, excess: int) -> tuple[list[LLMMessage], int]:
    """Shorten the results of the newest round, the longest first, until `excess` tokens are saved or none can be.

    Results keep at least `LEAST_TOKENS` each, unless even that leaves the call after the tool without room.

    Returns:
        A new list, and the tokens it is smaller by.
    """
    out, saved = list(messages), 0
    for least in (LEAST_TOKENS, history.count(NOTE)):
        if saved >= excess:
            break
        places = [
            (history.count(result.content), index, place)
            for index in _last_results(out)
            for place, result in enumerate(_content(out[index]))
        ]
        for tokens, index, place in sorted(places, reverse=True):
            if saved >= excess or tokens <= least:
                break
            content = list(_content(out[index]))
            limit = max(least, tokens - (excess - saved))
            text = cut_text(content[place].content.removesuffix(NOTE), limit, history.count)
            content[place] = content[place].model_copy(update={"content": text})
            out[index] = FunctionExecutionResultMessage(content=content)
            saved += tokens - history.count(text)
    return out, saved


def _last_results(messages: Sequence[LLMMessage]) -> list[int]:
    found: list[int] = []
    for index in range(len(messages) - 1, -1, -1):
        if not isinstance(messages[index], FunctionExecutionResultMessage):
            break
        found.append(index)
    return found


def _content(message: LLMMessage) -> Sequence[FunctionExecutionResult]:
    return message.content if isinstance(message, FunctionExecutionResultMessage) else ()
