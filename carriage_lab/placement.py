# SPDX-License-Identifier: Apache-2.0
"""Where a policy lies in a history (paper III-B, Table VI).

- ``protected``: outside the history, where the framework keeps the agent's own instructions.
- ``first``: an ordinary user message before everything else in the history (behind the system prompt, where
  the framework stores that in the history).
- ``later``: an ordinary user message *after the first exchange*. The first exchange is the first user
  message, the first model turn after it and, if that turn calls tools, their results. While a history is
  still shorter than that, the message stands at its end: it has been said before the call, else there would
  be nothing to preserve, and so every placement is judged over the same calls.

The placed message keeps its place as the history grows behind it; it is never moved or repeated.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, assert_never

if TYPE_CHECKING:
    from carriage_lab.trace import Trace


class Placement(StrEnum):
    """The three placements of the study."""

    PROTECTED = "protected"
    FIRST = "first"
    LATER = "later"


def position(placement: Placement, trace: Trace, length: int) -> int | None:
    """Index of the placed message among the first `length` items; None where it is not in the history."""
    match placement:
        case Placement.PROTECTED:
            return None
        case Placement.FIRST:
            return _behind_system(trace)
        case Placement.LATER:
            return min(after_first_exchange(trace), length)
        case _ as unreachable:
            assert_never(unreachable)


def _behind_system(trace: Trace) -> int:
    return next((index for index, item in enumerate(trace.items) if item.role != "system"), len(trace.items))


def after_first_exchange(trace: Trace) -> int:
    """Index behind the first exchange; the whole length for a run that never completes one."""
    items = trace.items
    asked = next((index for index, item in enumerate(items) if item.role == "user"), len(items))
    start = next((index for index in range(asked, len(items)) if items[index].role == "agent"), len(items))
    end = start
    pending: set[str] = set()
    while end < len(items):
        item = items[end]
        if item.role == "agent" and item.turn == items[start].turn:
            pending.update(item.calls)
        elif item.role == "tool" and pending.intersection(item.answers):
            pending.difference_update(item.answers)
        else:
            break
        end += 1
    return end
