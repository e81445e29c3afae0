# SPDX-License-Identifier: Apache-2.0
"""What of a history is shown: the native window, cut further only where tokens force it, never inside a round.

All of AutoGen's windows are a head and a tail. Where they do not fit, messages go from the middle of the window
outward, as its token-limited context does. The newest round stays, and the newest user message stays as long as
anything older is shown; a search over sums finds the cut, so its cost does not grow with the history.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from autogen_core.models import FunctionExecutionResultMessage, LLMMessage, UserMessage

from carriage_autogen.pairing import round_after, round_before
from carriage_autogen.shortening import shortened

if TYPE_CHECKING:
    from collections.abc import Callable

    from carriage_autogen.history import History

GAP_TOKENS: Final = 64
"""An upper bound for the message that says how many were skipped, in any counter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """A native window.

    Attributes:
        head: Most messages from the start; None for all.
        tail: Most messages from the end; None for all.
        gap: Whether a message says how many were left out between them.
        limit: Most tokens in the native measure, None for no limit.
    """

    head: int | None = 0
    tail: int | None = None
    gap: bool = False
    limit: int | None = None

    def parts(self, shown: int, stored: int) -> tuple[int, int]:
        """Split `shown` messages between head and tail, evenly as far as both go."""
        head = stored if self.head is None else min(self.head, stored)
        tail = stored if self.tail is None else min(self.tail, stored)
        from_tail = min(tail, shown - min(head, (shown + 1) // 2))
        return min(head, shown - from_tail), from_tail

    def most(self, stored: int) -> int:
        """How many messages the window holds at most."""
        if self.head is None or self.tail is None:
            return stored
        return min(stored, self.head + self.tail)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A selection of a history.

    Attributes:
        messages: A new list of the stored objects, or of what stands for them.
        tokens: Its size, in the plane's tokens.
        imitations: Marker look-alikes in it.
    """

    messages: list[LLMMessage]
    tokens: int
    imitations: int


@dataclass(frozen=True, slots=True)
class _Cut:
    """Sendable messages [0, head) and [tail, end), and the newest user message where it lies between them."""

    head: int
    tail: int
    kept: int | None


def select(history: History, frame: Frame, *, budget: int) -> Window:
    """Select what of `history` is shown through `frame`, within `budget` tokens.

    Differs from the native classes only where they send a broken prompt or one that is too large: a round is kept or
    dropped whole, and the newest round is kept even if it alone is longer than the window. What still does not fit
    is returned too large, and preflight refuses it.
    """
    if not history.messages:
        return Window(messages=[], tokens=0, imitations=0)
    ending = history.unanswered()
    extra = 0 if ending is None else history.size(ending).tokens
    most = frame.most(history.stored)
    whole = _cut(history, frame, most, None)
    low, high = 0, most

    def fits(shown: int) -> bool:
        return _fits(history, frame, _cut(history, frame, shown, whole), budget - extra)

    if not fits(high):
        high -= 1  # the largest cut that fits is searched below it; 0 is taken as it is
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if fits(middle) else (low, middle - 1)
        high = low
    cut = _cut(history, frame, max(high, 0), whole)
    return _window(history, frame, cut, ending, budget)


def _cut(history: History, frame: Frame, shown: int, whole: _Cut | None) -> _Cut:
    """Turn a number of stored messages into a cut between rounds; `whole` is the cut without pressure."""
    messages, end = history.messages, len(history.messages)
    if shown >= history.stored:
        return _Cut(end, end, None)  # head and tail meet, perhaps inside a round: nothing is left out
    head_size, tail_size = frame.parts(shown, history.stored)
    head = round_before(messages, history.position(head_size))
    tail = round_after(messages, history.position(history.stored - tail_size))
    tail = min(tail, history.newest_round())
    if head >= tail:
        return _Cut(end, end, None)
    user = history.newest_user
    if not head <= user < tail:
        return _Cut(head, tail, None)
    shown_natively = whole is not None and not whole.head <= user < whole.tail
    return _Cut(head, tail, user if head > 0 or shown_natively else None)


def _fits(history: History, frame: Frame, cut: _Cut, budget: int) -> bool:
    gap = GAP_TOKENS if frame.gap and cut.head < cut.tail else 0
    if _total(history.tokens, cut) + gap > budget:
        return False
    return frame.limit is None or _total(history.native, cut) <= frame.limit


def _total(measure: Callable[[int, int | None], int], cut: _Cut) -> int:
    kept = 0 if cut.kept is None else measure(cut.kept, cut.kept + 1)
    return measure(0, cut.head) + kept + measure(cut.tail, None)


def _window(
    history: History, frame: Frame, cut: _Cut, ending: FunctionExecutionResultMessage | None, budget: int
) -> Window:
    messages = history.messages
    chosen = messages[: cut.head]
    tokens, imitations = _total(history.tokens, cut), _total(history.imitations, cut)
    dropped = cut.tail - cut.head - (cut.kept is not None)
    if frame.gap and dropped > 0:
        gap = UserMessage(content=f"Skipped {dropped} messages.", source="System")
        chosen.append(gap)
        tokens += history.size(gap).tokens
    if cut.kept is not None:
        chosen.append(messages[cut.kept])
    chosen += messages[cut.tail :]
    if ending is not None:
        chosen.append(ending)
        tokens += history.size(ending).tokens
    if tokens > budget:
        chosen, saved = shortened(chosen, history, excess=tokens - budget)
        tokens -= saved
    return Window(messages=chosen, tokens=tokens, imitations=imitations)
