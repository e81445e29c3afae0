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


class Pairing:
    """Pairs calls and results while events come in.

    Attributes:
        lost: Ids of results whose call does not stand before them, or is answered already.
    """

    def __init__(self) -> None:
        """Nothing has come in."""
        self._waiting: set[str] = set()
        self.lost: set[str] = set()

    def add(self, event: LLMConvertibleEvent) -> None:
        """Take the next event."""
        if isinstance(event, ActionEvent):
            self._waiting.add(event.tool_call_id)
        elif isinstance(event, ObservationBaseEvent):
            if event.tool_call_id in self._waiting:
                self._waiting.remove(event.tool_call_id)
            else:
                self.lost.add(event.id)


def orphans(events: Iterable[LLMConvertibleEvent]) -> set[str]:
    """Return the ids of results whose call does not stand before them, or is answered already."""
    pairing = Pairing()
    for event in events:
        pairing.add(event)
    return pairing.lost
