# SPDX-License-Identifier: Apache-2.0
"""Which events a rolling window forgets: arithmetic on indices and sizes, without the SDK.

The head and the newest events stay, a run in the middle goes. Both ends of the run are manipulation indices, so
no call loses its result and no batch is split (invariant 8). The newest unit always stays: an agent that sees
nothing new cannot go on.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from collections.abc import Set as AbstractSet


def middle(
    indices: AbstractSet[int],
    sizes: Sequence[int],
    *,
    keep_first: int,
    most_events: int | None = None,
    most_tokens: int | None = None,
) -> tuple[int, int] | None:
    """Return the run of events to forget, [start, end), or None where nothing can go.

    The run is the shortest one that leaves at most `most_events` events of at most `most_tokens` tokens; where no run
    does, the longest there is, so that every cut is progress.

    Args:
        indices: The view's manipulation indices.
        sizes: Tokens of each event of the view.
        keep_first: Events that always stay; the first one does in any case.
        most_events: Most events to leave.
        most_tokens: Most tokens to leave.
    """
    total = len(sizes)
    ordered = sorted(indices)
    start_at = bisect_left(ordered, max(keep_first, 1))
    ends = [index for index in ordered[start_at + 1 :] if index < total]
    if not ends:
        return None
    start = ordered[start_at]
    before = (0, *accumulate(sizes))
    for end in ends:
        events = start + total - end
        tokens = before[start] + before[total] - before[end]
        if (most_events is None or events <= most_events) and (most_tokens is None or tokens <= most_tokens):
            return start, end
    return start, ends[-1]
