# SPDX-License-Identifier: Apache-2.0
"""Attribute values in normal form (DESIGN 3.3).

A raw JSON value becomes a `Value` of one sort, or `Absent.UNKNOWN` where it is not normal. A comparison only
ever sees normal forms, so two spellings of one value cannot be told apart by an attacker, and a value that
could mean something else to the tool (control or invisible characters, percent-encoding, an unresolved
variable) is unknown and lets a deny stand.
"""

from __future__ import annotations

import math
import re
import unicodedata
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Final

from carriage_core.absent import Absent
from carriage_core.characters import MAX_TEXT, composed, hidden_character, plainly, resolves_later
from carriage_core.places import FilePath, Url, host_of

__all__ = [
    "MAX_DIGITS",
    "MAX_TEXT",
    "Absent",
    "FilePath",
    "Sort",
    "Url",
    "Value",
    "canonical_value",
    "decimal_text",
    "folded",
    "hidden_character",
    "instant_text",
    "normal",
    "parse_time",
    "spelled",
]

type Value = str | Decimal | bool | datetime | FilePath | Url
"""A normal form: NFC text, exact decimal, truth value, instant in UTC, absolute path or URL."""

MAX_DIGITS: Final = 64
"""Most significant digits a number may have."""


class Sort(StrEnum):
    """The type of an attribute; `ANY` takes the sort of the JSON value itself."""

    ANY = "any"
    TEXT = "text"
    """Prose: line ends, percent signs and variables are what they look like."""
    ID = "id"
    """One line that names something; exact case."""
    CASELESS = "caseless"
    """An id whose case means nothing; both sides are folded."""
    NUMBER = "number"
    INTEGER = "integer"
    MONEY = "money"
    """A number with at most two decimals."""
    TIME = "time"
    BOOL = "bool"
    PATH = "path"
    URL = "url"
    HOST = "host"
    """The host of a URL, or a bare host name; lower case."""


_SCALES: Final = {Sort.ANY: None, Sort.NUMBER: None, Sort.INTEGER: 0, Sort.MONEY: 2}
"""Decimals that a number of the sort may have; None for any."""

_AS_WRITTEN: Final = (Sort.ANY, Sort.ID, Sort.TEXT)
"""Sorts whose normal form of plain ASCII is that text itself."""

_TIME: Final = re.compile(r"\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?([Zz]|[+-]\d{2}:\d{2})")


def normal(raw: object, sort: Sort = Sort.ANY, cwd: FilePath | None = None) -> Value | Absent:
    """Bring a JSON value into normal form.

    Args:
        raw: What the tool call, the tool's result or the policy holds.
        sort: The declared type; another type than declared is unknown, never coerced.
        cwd: The working directory that relative paths are read against.

    Returns:
        The value, or `Absent.UNKNOWN` for null, containers, NaN, ill-typed and non-normal values.
    """
    if type(raw) is str and len(raw) <= MAX_TEXT and sort in _AS_WRITTEN and plainly(raw):
        return raw  # what most arguments are
    match raw:
        case bool():
            return raw if sort in {Sort.ANY, Sort.BOOL} else Absent.UNKNOWN
        case int() | float() | Decimal():
            return _number(raw, sort) if sort in _SCALES else Absent.UNKNOWN
        case datetime():
            return _instant(raw) if sort in {Sort.ANY, Sort.TIME} else Absent.UNKNOWN
        case str():
            return _string(raw if type(raw) is str else "".join(raw), sort, cwd)
        case FilePath() | Url():
            return raw if sort in {Sort.ANY, Sort.PATH if isinstance(raw, FilePath) else Sort.URL} else Absent.UNKNOWN
        case _:
            return Absent.UNKNOWN


def _number(raw: float | Decimal, sort: Sort) -> Decimal | Absent:
    # Subclasses (enumerations, numpy scalars) are brought to the plain value first.
    raw = int(raw) if isinstance(raw, int) else float(raw) if isinstance(raw, float) else raw
    if isinstance(raw, int) and abs(raw) >= 10**MAX_DIGITS:  # before the conversion, whose cost is quadratic
        return Absent.UNKNOWN
    if isinstance(raw, float) and not math.isfinite(raw):
        return Absent.UNKNOWN
    value = Decimal(repr(raw)) if isinstance(raw, float) else Decimal(raw)
    if not value.is_finite() or len(value.as_tuple().digits) > MAX_DIGITS or abs(value.adjusted()) > MAX_DIGITS:
        return Absent.UNKNOWN
    scale = _SCALES[sort]
    # Not round(): it fails past the context's 28 digits.
    return value if scale is None or _decimals(value) <= scale else Absent.UNKNOWN


def _decimals(value: Decimal) -> int:
    """How many decimals a number needs; trailing zeros count for nothing."""
    digits, exponent = value.as_tuple().digits, value.as_tuple().exponent
    if not isinstance(exponent, int) or value == 0:
        return 0
    zeros = len(digits) - len("".join(map(str, digits)).rstrip("0"))
    return -(exponent + zeros)


def _instant(raw: datetime) -> datetime | Absent:
    # 3.3: a zone is required; a local time means another instant on another machine.
    return Absent.UNKNOWN if raw.tzinfo is None else raw.astimezone(UTC)


def _string(raw: str, sort: Sort, cwd: FilePath | None) -> Value | Absent:  # noqa: PLR0911  # one return a sort
    if len(raw) > MAX_TEXT:
        return Absent.UNKNOWN
    match sort:
        case Sort.NUMBER | Sort.INTEGER | Sort.MONEY | Sort.BOOL:
            return Absent.UNKNOWN
        case Sort.TIME:
            return parse_time(raw)
        case Sort.PATH:
            return FilePath.of(raw, cwd)
        case Sort.URL:
            return Url.of(raw)
        case Sort.HOST:
            return host_of(raw)
        case Sort.TEXT:
            return Absent.UNKNOWN if hidden_character(raw, allowed="\n\t") is not None else composed(raw)
        case Sort.ANY | Sort.ID | Sort.CASELESS:
            # Prose may say "50%20" or "$HOME"; an identifier that does may be resolved to something else by the tool.
            if hidden_character(raw) is not None or resolves_later(raw):
                return Absent.UNKNOWN
            return folded(raw, sort)


def folded(raw: str, sort: Sort) -> str:
    """Compose a text, and fold its case where that of the sort means nothing (Unicode 3.13, D145)."""
    if sort is Sort.HOST:
        return composed(raw).lower()
    return composed(unicodedata.normalize("NFD", raw).casefold()) if sort is Sort.CASELESS else composed(raw)


def parse_time(raw: str) -> datetime | Absent:
    """Read an RFC 3339 instant with a zone, such as ``2026-12-01T16:00:00Z``; anything else is unknown."""
    if not _TIME.fullmatch(raw):
        return Absent.UNKNOWN
    try:
        return _instant(datetime.fromisoformat(raw.upper()))
    except (ValueError, OverflowError):
        return Absent.UNKNOWN


def decimal_text(value: Decimal) -> str:
    """Write a decimal the one canonical way: no exponent, no trailing zeros, no negative zero."""
    if value == 0:
        return "0"
    # Not normalize(): that rounds to the context's 28 digits, and two distinct limits would share a digest.
    text = format(value, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def instant_text(value: datetime) -> str:
    """Write an instant the one canonical way: in UTC, with a Z."""
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")


def spelled(value: Value) -> str:
    """Write a value as people write it in a sentence: no quotes, canonical numbers and instants."""
    match value:
        case bool():
            return "true" if value else "false"
        case Decimal():
            return decimal_text(value)
        case datetime():
            return instant_text(value)
        case FilePath(text) | Url(text):
            return text
        case str():
            return value


def canonical_value(value: Value) -> object:
    """Tag a value for RFC 8785: numbers as decimal strings, since JSON numbers collide above 2^53 (DESIGN 3.2)."""
    match value:
        case bool() | str():
            return value
        case Decimal():
            return {"number": decimal_text(value)}
        case datetime():
            return {"time": instant_text(value)}
        case FilePath(text):
            return {"path": text}
        case Url(text):
            return {"url": text}
