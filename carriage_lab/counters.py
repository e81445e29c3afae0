# SPDX-License-Identifier: Apache-2.0
"""Counters by the names a command line can hold."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from carriage_core.tokens import TiktokenCounter, Utf8UpperBound, WhitespaceCounter

if TYPE_CHECKING:
    from collections.abc import Callable

    from carriage_core.tokens import TokenCounter


def counter_named(name: str) -> TokenCounter:
    """Return ``whitespace``, ``utf8`` or the tiktoken encoding of that name.

    Raises:
        ControlError: There is no such encoding, or its file cannot be had.
    """
    match name:
        case "whitespace":
            return WhitespaceCounter()
        case "utf8":
            return Utf8UpperBound()
        case _:
            return TiktokenCounter(name)


def remembering(counter: TokenCounter) -> Callable[[str], int]:
    """Count each text once: a replay sends the same messages thousands of times."""
    return lru_cache(maxsize=65_536)(counter.count)
