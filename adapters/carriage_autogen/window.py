# SPDX-License-Identifier: Apache-2.0
"""What of a history is shown: the native window, cut further only where tokens force it, never inside a round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from carriage_autogen.pairing import last_round, mended, round_start

if TYPE_CHECKING:
    from collections.abc import Sequence

    from autogen_core.models import LLMMessage

    from carriage_autogen.meter import Meter


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A selection of a history.

    Attributes:
        messages: A new list of the stored objects, or of mended ones where a round was broken.
        tokens: Its size, in the meter's tokens.
        imitations: Marker look-alikes in it.
        has_system: Whether a system message is among them.
    """

    messages: list[LLMMessage]
    tokens: int
    imitations: int
    has_system: bool


def latest(messages: Sequence[LLMMessage], meter: Meter, *, count: int, budget: int) -> Window:
    """Select the `count` latest messages, as AutoGen's buffered context does, within `budget` tokens.

    Differs from the native class only where that sends a broken prompt: a round is kept or dropped whole, and the
    newest round is kept even if it alone is longer than `count`. If tokens force a deeper cut, the newest user
    message stays. What still does not fit is returned too large, and preflight refuses it.
    """
    end = len(messages)
    if not end:
        return Window(messages=[], tokens=0, imitations=0, has_system=False)
    newest = last_round(messages)
    start = min(round_start(messages, max(0, end - count)), newest)
    cut, room = start, budget
    while True:
        window, cut = _cut(messages, meter, start=start, cut=cut, newest=newest, budget=room)
        if window.tokens <= budget or cut == newest:
            return window
        room -= window.tokens - budget  # mending added more than the cut left room for


def _cut(  # one state of the loop
    messages: Sequence[LLMMessage], meter: Meter, *, start: int, cut: int, newest: int, budget: int
) -> tuple[Window, int]:
    """Cut the native window, which begins at `start`, at `cut` or later where tokens force it."""
    kept: int | None = None
    if meter.tokens(cut) > budget:
        cut = min(round_start(messages, max(cut, meter.start_within(budget))), newest)
    if start <= meter.newest_user < cut:
        kept = meter.newest_user
        room = budget - meter.tokens(kept, kept + 1)
        cut = min(round_start(messages, max(cut, meter.start_within(room))), newest)
    chosen = list(messages[cut:])
    tokens, imitations = meter.tokens(cut), meter.imitations(cut)
    if not meter.rounds.whole_from(cut):
        chosen = mended(chosen)
        tokens = meter.tokens_of(chosen)
    if kept is not None:
        chosen.insert(0, messages[kept])
        tokens += meter.tokens(kept, kept + 1)
        imitations += meter.imitations(kept, kept + 1)
    return Window(messages=chosen, tokens=tokens, imitations=imitations, has_system=meter.has_system(cut)), cut
