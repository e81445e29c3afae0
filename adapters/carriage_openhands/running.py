# SPDX-License-Identifier: Apache-2.0
"""What is known of a conversation's view, kept while the view grows (invariant 12).

A view is nearly always the last one with a few events more. Its sizes, look-alikes and unpaired results are carried
on, so that a step looks at the new events only. That the rest is the same is checked by identity, not believed.
"""

from __future__ import annotations

import threading
import weakref
from dataclasses import dataclass
from operator import is_
from typing import TYPE_CHECKING

from carriage_openhands.pairing import Pairing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from carriage_openhands.compat import LLMConvertibleEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """An event, measured: tokens, and marker look-alikes in it."""

    tokens: int
    imitations: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A whole view, measured.

    Attributes:
        sizes: Tokens of each event; the first one, which is fixed overhead, counts 0.
        data: Their sum.
        imitations: Marker look-alikes in all of it.
        lost: Ids of results without their call.
        late: Whether something stands between a call and its result.
    """

    sizes: tuple[int, ...]
    data: int
    imitations: int
    lost: frozenset[str]
    late: bool


class _Growing:
    """The view of one conversation, all but its first event, which is held by others."""

    def __init__(self) -> None:
        self.events: list[LLMConvertibleEvent] = []
        self.sizes: list[int] = [0]
        self.data = 0
        self.imitations = 0
        self.pairing = Pairing()

    def is_start_of(self, events: Sequence[LLMConvertibleEvent]) -> bool:
        return len(self.events) < len(events) and all(map(is_, self.events, events[1 : len(self.events) + 1]))

    def add(self, event: LLMConvertibleEvent, size: Size) -> None:
        self.events.append(event)
        self.sizes.append(size.tokens)
        self.data += size.tokens
        self.imitations += size.imitations
        self.pairing.add(event)


class Running:
    """Follows the views of all conversations of one plane; each is forgotten with its first event."""

    def __init__(self, measure: Callable[[LLMConvertibleEvent], Size]) -> None:
        """Measure new events with `measure`."""
        self._measure = measure
        self._views: dict[int, tuple[weakref.ref[LLMConvertibleEvent], _Growing]] = {}
        self._lock = threading.RLock()

    def follow(self, events: Sequence[LLMConvertibleEvent]) -> Known:
        """Measure a view; only events that were not in it the last time are looked at."""
        with self._lock:
            view = self._view_from(events)
            for event in events[len(view.events) + 1 :]:
                view.add(event, self._measure(event))
            first = self._measure(events[0])
            return Known(
                sizes=tuple(view.sizes),
                data=view.data,
                imitations=first.imitations + view.imitations,
                lost=frozenset(view.pairing.lost),
                late=view.pairing.late,
            )

    def _view_from(self, events: Sequence[LLMConvertibleEvent]) -> _Growing:
        first = events[0]
        key = id(first)
        known = self._views.get(key)
        if known is not None and known[0]() is first and known[1].is_start_of(events):
            return known[1]
        view = _Growing()
        self._views[key] = (weakref.ref(first, lambda gone: self._forget(key, gone)), view)
        return view

    def _forget(self, key: int, gone: weakref.ref[LLMConvertibleEvent]) -> None:
        known = self._views.get(key)
        if known is not None and known[0] is gone:  # the number may belong to another object by now
            del self._views[key]
