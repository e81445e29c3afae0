# SPDX-License-Identifier: Apache-2.0
"""RFC 8785 JSON and digests over it (DESIGN 3.2)."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import TYPE_CHECKING, Final

import rfc8785

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_SAFE_INTEGER: Final = 2**53
_ENCODER: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)
_ENCODE: Final = _ENCODER.encode


def _writer() -> Callable[[object, int], Iterable[str]]:
    """The standard library's encoder itself: `JSONEncoder.encode` makes one anew for each text."""
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:  # an interpreter without it
        return lambda tree, _: (canonical_json(tree).decode(),)
    quote = json.encoder.encode_basestring
    # No memory of the containers on the way: what our own code has just built holds no circle.
    markers, indent, sort_keys, skip_keys, allow_nan = None, None, True, False, True
    writer: Callable[[object, int], Iterable[str]]
    writer = make(markers, _ENCODER.default, quote, indent, ":", ",", sort_keys, skip_keys, allow_nan)
    return writer


_WRITE: Final = _writer()


def canonical_json(value: object) -> bytes:
    """Write a JSON tree in the form of RFC 8785.

    Raises:
        rfc8785.CanonicalizationError: It is not a JSON tree, or holds a number outside the exact range.
    """
    # For ASCII text without floats the standard library's compact, sorted form is the same bytes, ten times faster.
    return _ENCODE(value).encode() if _plain(value) else rfc8785.dumps(value)  # type: ignore[arg-type]  # checked there


def digest_of(value: object) -> str:
    """SHA-256 in hex over the RFC 8785 form of `value`."""
    return sha256(canonical_json(value)).hexdigest()


def digest_of_built(tree: dict[str, object]) -> str:
    """Do as `digest_of`, without a walk before the writing, for a tree that the caller has just built.

    The caller vouches that keys are strings, and that there is no number but integers of the exact range.
    """
    try:
        text = "".join(_WRITE(tree, 0))
    except (TypeError, ValueError):  # no JSON
        return digest_of(tree)
    return sha256(text.encode()).hexdigest() if text.isascii() else digest_of(tree)


def _plain(value: object) -> bool:
    kind = type(value)
    if kind is str:
        return value.isascii()  # type: ignore[attr-defined, no-any-return]  # a str
    if kind is dict:
        return all(type(key) is str and key.isascii() and _plain(item) for key, item in value.items())  # type: ignore[attr-defined]  # a dict
    if kind is list:
        return all(map(_plain, value))  # type: ignore[call-overload]  # a list
    return value is None or kind is bool or (kind is int and -_SAFE_INTEGER < value < _SAFE_INTEGER)  # type: ignore[operator]  # an int
