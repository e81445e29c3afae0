# SPDX-License-Identifier: Apache-2.0
"""Long work in short pieces, so that decisions in other threads do not wait for it (DESIGN 3.10, invariant 12).

Only one thread of a Python process runs at a time, and one that computes is made to hand over only every few
milliseconds: a decision beside a large registry being built would take a hundred times as long now and then.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

PIECE_NS: Final = 100_000
"""How long to work before the next pause: what a decision may have to wait."""

PAUSE: Final = 0.000_05
"""Seconds to sleep. Not zero: the thread would take the interpreter back before another one woke up."""

_giving_way: ContextVar[bool] = ContextVar("giving_way", default=False)


@contextmanager
def giving_way() -> Generator[None]:
    """Let everything inside that works `in_pieces` pause in between; outside, nothing pauses."""
    token = _giving_way.set(True)
    try:
        yield
    finally:
        _giving_way.reset(token)


def in_pieces[T](items: Iterable[T]) -> Iterable[T]:
    """Go through items, with a pause after each piece of work where that was asked for."""
    return _paused(items) if _giving_way.get() else items


def _paused[T](items: Iterable[T]) -> Iterator[T]:
    until = time.perf_counter_ns() + PIECE_NS
    for item in items:
        yield item
        if time.perf_counter_ns() > until:
            time.sleep(PAUSE)
            until = time.perf_counter_ns() + PIECE_NS
