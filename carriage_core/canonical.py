# SPDX-License-Identifier: Apache-2.0
"""RFC 8785 JSON and digests over it (DESIGN 3.2)."""

from __future__ import annotations

import hashlib
import json
from typing import Final

import rfc8785

_SAFE_INTEGER: Final = 2**53
_ENCODE: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode


def canonical_json(value: object) -> bytes:
    """Write a JSON tree in the form of RFC 8785.

    Raises:
        rfc8785.CanonicalizationError: It is not a JSON tree, or holds a number outside the exact range.
    """
    # For ASCII text without floats the standard library's compact, sorted form is the same bytes, ten times faster.
    return _ENCODE(value).encode() if _plain(value) else rfc8785.dumps(value)  # type: ignore[arg-type]  # checked there


def digest_of(value: object) -> str:
    """SHA-256 in hex over the RFC 8785 form of `value`."""
    return hashlib.sha256(canonical_json(value)).hexdigest()


def _plain(value: object) -> bool:
    kind = type(value)
    if kind is str:
        return value.isascii()  # type: ignore[attr-defined, no-any-return]  # a str
    if kind is dict:
        return all(type(key) is str and key.isascii() and _plain(item) for key, item in value.items())  # type: ignore[attr-defined]  # a dict
    if kind is list:
        return all(map(_plain, value))  # type: ignore[call-overload]  # a list
    return value is None or kind is bool or (kind is int and -_SAFE_INTEGER < value < _SAFE_INTEGER)  # type: ignore[operator]  # an int
