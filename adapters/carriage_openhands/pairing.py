# SPDX-License-Identifier: Apache-2.0
"""Results that have lost their call (invariant 8).

A conversation reloaded with a pending action shows this: the SDK drops the open call from its view, executes it,
and appends the result to the view without the call. Providers refuse such a transcript.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from carriage_openhands.compat import ActionEvent, ObservationBaseEvent

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from carriage_openhands.compat import LLMConvertibleEvent


class Pairing:
    """Pairs calls and results while events come in.

    Attributes:
        lost: Ids of results whose call does not stand before them, or is answered already.
        late: Whether something came between a call and its result, which providers refuse.
    """

    def __init__(self) -> None:
        """Nothing has come in."""
        self._waiting: set[str] = set()
        self._response = ""
        self.lost: set[str] = set()
        self.late = False

    def add(self, event: LLMConvertibleEvent) -> None:
        """Take the next event."""
        if isinstance(event, ActionEvent):
            self.late |= bool(self._waiting) and event.llm_response_id != self._response
            self._response = event.llm_response_id
            self._waiting.add(event.tool_call_id)
        elif isinstance(event, ObservationBaseEvent):
            if event.tool_call_id in self._waiting:
                self._waiting.remove(event.tool_call_id)
            else:
                self.lost.add(event.id)
        else:
            self.late |= bool(self._waiting)


def in_order(events: Sequence[LLMConvertibleEvent]) -> list[LLMConvertibleEvent]:
    """Put each result right behind the calls of its response; all else keeps its order.

    A message to an agent whose call is held comes between the two, and the SDK sends them so.
    """
    results = {event.tool_call_id: event for event in reversed(events) if isinstance(event, ObservationBaseEvent)}
    calls = {event.tool_call_id for event in events if isinstance(event, ActionEvent)}
    ordered: list[LLMConvertibleEvent] = []
    batch: list[str] = []
    response: str | None = None
    for event in (*events, None):
        of = event.llm_response_id if isinstance(event, ActionEvent) else None
        if of != response:
            ordered += [results[call] for call in batch if call in results]
            batch, response = [], of
        if isinstance(event, ActionEvent):
            batch.append(event.tool_call_id)
        if event is None or (isinstance(event, ObservationBaseEvent) and event.tool_call_id in calls):
            continue
        ordered.append(event)
    return ordered


def orphans(events: Iterable[LLMConvertibleEvent]) -> set[str]:
    """Return the ids of results whose call does not stand before them, or is answered already."""
    pairing = Pairing()
    for event in events:
        pairing.add(event)
    return pairing.lost
