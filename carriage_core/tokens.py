# SPDX-License-Identifier: Apache-2.0
"""Token counters. A preflight is only as honest as its counter, so each names itself in every manifest.

`TiktokenCounter` is exact for OpenAI models and an estimate for others; `Utf8UpperBound` never counts too
little for any byte-level tokenizer and needs no data file. A counter that answers 0 for text, or raises, is a
failed preflight, never a small prompt.
"""

from __future__ import annotations

import importlib.util
import os
import warnings
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

import tiktoken

from carriage_core.errors import ControlError

if TYPE_CHECKING:
    from collections.abc import Iterator

DEFAULT_ENCODING: Final = "o200k_base"
_PIECE: Final = 100_000
"""Characters encoded at a time; byte-pair merging of one endless word is superlinear."""


@runtime_checkable
class TokenCounter(Protocol):
    """Anything that counts tokens. Must be pure and must not return 0 for non-empty text."""

    @property
    def name(self) -> str:
        """Identifies the rule of counting, as it appears in manifests and reports."""
        ...

    def count(self, text: str) -> int:
        """Count the tokens of `text`."""
        ...


class Utf8UpperBound:
    """One token for each UTF-8 byte: an upper bound for every tokenizer that falls back to bytes."""

    name = "utf8-upper-bound"

    def count(self, text: str) -> int:
        """Count bytes; lone surrogates count as three."""
        return len(text.encode("utf-8", "surrogatepass"))


class WhitespaceCounter:
    """Words between blanks, as the paper's replay counts them (section III-B). For measurement, not for limits."""

    name = "whitespace"

    def count(self, text: str) -> int:
        """Count words; text of blanks only counts as one."""
        return len(text.split()) or (1 if text else 0)


class TiktokenCounter:
    """A tiktoken encoding; special-token spellings in the text are counted as ordinary text.

    Raises:
        ControlError: The encoding's file cannot be had.
    """

    def __init__(self, encoding: str = DEFAULT_ENCODING) -> None:
        """Load `encoding`, from tiktoken's cache or a file that another package ships."""
        self._encoding = _load(encoding)
        self.name = f"tiktoken:{encoding}"

    def count(self, text: str) -> int:
        """Count tokens; very long texts are counted in pieces, which can only add a few."""
        if len(text) <= _PIECE:
            return len(self._encoding.encode_ordinary(text))
        return sum(len(self._encoding.encode_ordinary(piece)) for piece in _pieces(text))


def _pieces(text: str) -> Iterator[str]:
    for start in range(0, len(text), _PIECE):
        yield text[start : start + _PIECE]


@lru_cache(maxsize=8)
def _load(encoding: str) -> tiktoken.Encoding:
    known = tiktoken.list_encoding_names()
    if encoding not in known:
        raise ControlError(f"tiktoken has no encoding {encoding!r}.", mend=f"use one of {', '.join(known)}.")
    try:
        with _BundledCache():
            return tiktoken.get_encoding(encoding)
    except Exception as problem:
        raise ControlError(
            f"the tokenizer file of {encoding} could not be loaded ({type(problem).__name__}).",
            mend="set TIKTOKEN_CACHE_DIR to a folder that holds it, or pass counter=Utf8UpperBound().",
        ) from problem


class _BundledCache:
    """Point tiktoken at the files litellm ships, while loading, if the user has set no cache of their own."""

    def __enter__(self) -> None:
        self._set = False
        if "TIKTOKEN_CACHE_DIR" in os.environ or "DATA_GYM_CACHE_DIR" in os.environ:
            return
        spec = importlib.util.find_spec("litellm")  # finds, does not import
        if spec is not None and spec.origin is not None:
            folder = Path(spec.origin).parent / "litellm_core_utils" / "tokenizers"
            if folder.is_dir():
                os.environ["TIKTOKEN_CACHE_DIR"] = str(folder)
                self._set = True

    def __exit__(self, *_: object) -> None:
        if self._set:
            del os.environ["TIKTOKEN_CACHE_DIR"]


def default_counter() -> TokenCounter:
    """Return the counter a plane uses when none is given.

    tiktoken's `DEFAULT_ENCODING`; where its file cannot be had, the upper bound, with a warning: that may stop a
    call which would have fitted, and never lets one through that does not fit.
    """
    try:
        return TiktokenCounter()
    except ControlError as problem:
        warnings.warn(f"{problem} Counting UTF-8 bytes instead, which is stricter.", RuntimeWarning, stacklevel=3)
        return Utf8UpperBound()


def counted(counter: TokenCounter, text: str) -> int:
    """Count and refuse an answer that cannot be true (research: several SDK counters answer 0 on failure).

    Raises:
        ControlError: The counter raised, or gave no positive integer for non-empty text.
    """
    try:
        tokens = counter.count(text)
    except Exception as problem:
        raise ControlError(
            f"the token counter {counter.name} failed ({type(problem).__name__}).",
            mend="use another counter.",
        ) from problem
    if not isinstance(tokens, int) or tokens < 0 or (tokens == 0 and text != ""):
        raise ControlError(
            f"the token counter {counter.name} answered {tokens!r} for non-empty text.",
            mend="use another counter.",
        )
    return tokens
