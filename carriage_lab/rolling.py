# SPDX-License-Identifier: Apache-2.0
"""OH-R: the plain rolling window (paper Table VI), as arithmetic on indices.

The SDK has no concrete rolling condenser. This is what its predecessor's `RecentEventsCondenser` did, stated
afresh: the first `keep_first` events and the most recent ones, `max_size` in all, no summary, chosen anew at
every call from the whole history. As the SDK asks of condensers, both cuts lie at manipulation indices, so no
call loses its result: the head grows to the next such index, the tail shrinks to it. The window never shrinks
below the head and the newest unit that can be kept whole, for an agent that sees nothing new cannot go on.
"""

from __future__ import annotations

from math import floor
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet


def max_size(events: int, rho: float, keep_first: int) -> int:
    """Return the window for one call: events / rho, rounded down, and at least one event beyond the head.

    `events` counts all events of the history before the call, a placed policy included.
    """
    return max(floor(events / rho), keep_first + 1)


def window(events: int, indices: AbstractSet[int], *, keep_first: int, size: int) -> tuple[int, int]:
    """Return (end of the head, start of the tail) of the window over `events` events.

    `indices` are the manipulation indices of the history: 0, `events`, and whatever lies between. The events
    from the first number up to the second are dropped; they are equal where nothing is.
    """
    if events <= size:
        return events, events
    head = min(index for index in indices if index >= min(keep_first, events))
    if head == events:
        return events, events
    tail = min(index for index in indices if index >= events - max(size - head, 0))
    if tail == events:
        tail = max(index for index in indices if index < events)
    return head, tail
