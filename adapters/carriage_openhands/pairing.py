# SPDX-License-Identifier: Apache-2.0
"""Results that have lost their call (invariant 8).

A conversation reloaded with a pending action shows this: the SDK drops the open call from its view, executes it,
and appends the result to the view without the call. Providers refuse such a transcript.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from carriage_openhands.compat import ActionEvent, ObservationBaseEvent

if TYPE_CHECKING:
    from collections.abc import Iterable

    from carriage_openhands.compat import LLMConvertibleEvent


def orphans(events: Iterable[LLMConvertibleEvent]) -> set[str]:
    """Return the ids of results whose call does not stand before them, or is answered already."""
    waiting: set[str] = set()
    lost: set[str] = set()
    for event in events:
        if isinstance(event, ActionEvent):
            waiting.add(event.tool_call_id)
        elif isinstance(event, ObservationBaseEvent):
            if event.tool_call_id in waiting:
                waiting.remove(event.tool_call_id)
            else:
                lost.add(event.id)
    return lost
