# SPDX-License-Identifier: Apache-2.0
"""Which text means what a reader sees (DESIGN 3.3): no hidden characters, no encodings, no unresolved variables."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

MAX_TEXT: Final = 4_096
"""Longest string, in characters, that still has a normal form (DESIGN 3.14)."""

_PERCENT: Final = re.compile(r"%[0-9A-Fa-f]{2}")
_VARIABLE: Final = re.compile(r"\$[A-Za-z_{(]|^~")
_PLAIN: Final = re.compile(r"[A-Za-z0-9 _.,:;@#/\\=+*()\[\]<>'\"!?&|-]*")
plainly: Final = _PLAIN.fullmatch
"""Matches text of ASCII letters, digits and marks that hide nothing; no percent sign, dollar or tilde is one."""
_BLANK: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u3164\uffa0")
"""Letters and marks that show nothing: Hangul fillers, the grapheme joiner, Mongolian and Khmer selectors."""


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


def resolves_later(text: str) -> bool:
    """Whether a tool may turn the text into another: percent-encoding, a variable, or a home directory."""
    return _PERCENT.search(text) is not None or _VARIABLE.search(text) is not None


def composed(text: str) -> str:
    """Bring text into NFC."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)
