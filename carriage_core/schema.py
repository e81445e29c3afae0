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
from enum import Enum, StrEnum
from typing import Final

type Value = str | Decimal | bool | datetime
"""A normal form: NFC text, exact decimal, truth value, or instant in UTC."""

MAX_TEXT: Final = 4_096
"""Longest string, in characters, that still has a normal form (DESIGN 3.14)."""

MAX_DIGITS: Final = 64
"""Most significant digits a number may have."""


class Sort(StrEnum):
    """The type of an attribute; `ANY` takes the sort of the JSON value itself."""

    ANY = "any"
    TEXT = "text"
    ID = "id"
    NUMBER = "number"
    TIME = "time"
    BOOL = "bool"


class Absent(Enum):
    """Why an attribute has no value: not there at all, or there and not trustworthy."""

    MISSING = "missing"
    UNKNOWN = "unknown"


_PERCENT: Final = re.compile(r"%[0-9A-Fa-f]{2}")
_VARIABLE: Final = re.compile(r"\$[A-Za-z_{(]|^~")
_PLAIN: Final = re.compile(r"[A-Za-z0-9 _.,:;@#/\\=+*()\[\]<>'\"!?&|-]*")
_BLANK: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u3164\uffa0")
"""Letters and marks that show nothing: Hangul fillers, the grapheme joiner, Mongolian and Khmer selectors."""

_TIME: Final = re.compile(r"\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?([Zz]|[+-]\d{2}:\d{2})")


def hidden_character(text: str, *, allowed: str = "") -> str | None:
    r"""Return the first control, bidirectional, zero-width or unassigned character, or None.

    Unicode categories Cc, Cf, Cs, Co, Cn, Zl and Zp count as hidden; `allowed` exempts some (``"\n"``).
    """
    if _PLAIN.fullmatch(text):
        return None
    for character in text:
        category = unicodedata.category(character)
        hidden = category[0] == "C" or category in {"Zl", "Zp"} or character in _BLANK
        if hidden and character not in allowed:
            return character
    return None


def normal(raw: object, sort: Sort = Sort.ANY) -> Value | Absent:
    """Bring a JSON value into normal form.

    Args:
        raw: What the tool call, the tool's result or the policy holds.
        sort: The declared type; another type than declared is unknown, never coerced.

    Returns:
        The value, or `Absent.UNKNOWN` for null, containers, NaN, ill-typed and non-normal values.
    """
    match raw:
        case bool():
            return raw if sort in {Sort.ANY, Sort.BOOL} else Absent.UNKNOWN
        case int() | float() | Decimal():
            return _number(raw) if sort in {Sort.ANY, Sort.NUMBER} else Absent.UNKNOWN
        case datetime():
            return _instant(raw) if sort in {Sort.ANY, Sort.TIME} else Absent.UNKNOWN
        case str():
            return _string(raw if type(raw) is str else "".join(raw), sort)
        case _:
            return Absent.UNKNOWN


def _number(raw: float | Decimal) -> Decimal | Absent:
    # Subclasses (enumerations, numpy scalars) are brought to the plain value first.
    raw = int(raw) if isinstance(raw, int) else float(raw) if isinstance(raw, float) else raw
    if isinstance(raw, int) and abs(raw) >= 10**MAX_DIGITS:  # before the conversion, whose cost is quadratic
        return Absent.UNKNOWN
    if isinstance(raw, float) and not math.isfinite(raw):
        return Absent.UNKNOWN
    value = Decimal(repr(raw)) if isinstance(raw, float) else Decimal(raw)
    if not value.is_finite() or len(value.as_tuple().digits) > MAX_DIGITS or abs(value.adjusted()) > MAX_DIGITS:
        return Absent.UNKNOWN
    return value


def _instant(raw: datetime) -> datetime | Absent:
    # 3.3: a zone is required; a local time means another instant on another machine.
    return Absent.UNKNOWN if raw.tzinfo is None else raw.astimezone(UTC)


def _string(raw: str, sort: Sort) -> Value | Absent:
    if sort in {Sort.NUMBER, Sort.BOOL} or len(raw) > MAX_TEXT:
        return Absent.UNKNOWN
    if sort is Sort.TIME:
        return parse_time(raw)
    if hidden_character(raw, allowed="\n\t" if sort is Sort.TEXT else "") is not None:
        return Absent.UNKNOWN
    # Prose may say "50%20" or "$HOME"; an identifier that does may be resolved to something else by the tool.
    if sort is not Sort.TEXT and (_PERCENT.search(raw) or _VARIABLE.search(raw)):
        return Absent.UNKNOWN
    return raw if raw.isascii() else unicodedata.normalize("NFC", raw)


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
