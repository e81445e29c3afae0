# SPDX-License-Identifier: Apache-2.0
r"""What a word of a command becomes after the shell has removed its quotes (DESIGN 3.4).

A syntax tree does not unquote: ``\rm``, ``r'm'`` and ``$'\x72\x6d'`` are all ``rm``. Here a word is a sequence of
characters, each quoted or not, and of holes where an expansion stands whose result nobody knows before it runs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

MAX_BRACES: Final = 64
"""Most words that one word may become by brace expansion."""


class UnclearError(Exception):
    """The command cannot be read with certainty; the message is the reason, and holds nothing of the command."""


@dataclass(frozen=True, slots=True)
class Hole:
    """An expansion inside a word.

    Attributes:
        splits: Whether its result may become any number of words: it stands outside double quotes.
    """

    splits: bool


type Unit = tuple[str, bool] | Hole
"""A character and whether it is quoted, or a hole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arg:
    """One word as a program would get it.

    Attributes:
        text: The whole text, or None where part of it is not known.
        head: The known text in front of the first unknown part; all of it where `text` is known.
        loose: Whether it may be any number of words, of any text behind `head`.
        pattern: Whether only a pattern of file names makes it unknown.
        folder: For a pattern, the folder that everything it can match lies in, ending in a slash; empty for the
            working directory, None where there is no such folder.
    """

    text: str | None
    head: str
    loose: bool = False
    pattern: bool = False
    folder: str | None = None

    @property
    def maybe_option(self) -> bool:
        """Whether it could turn out to be an option although nobody can read one here."""
        return self.text is None and (self.loose or self.head[:1] in {"", "-"})


def literal(text: str) -> Arg:
    """Make the argument of a text that is known."""
    return Arg(text=text, head=text)


ANYTHING: Final = Arg(text=None, head="", loose=True)
"""Any number of words of any text."""

_ESCAPES: Final = dict(zip("abeEfnrtv\\'\"?", "\a\b\x1b\x1b\f\n\r\t\v\\'\"?", strict=True))
_ANSI: Final = re.compile(
    r"\\(?:([0-7]{1,3})|x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|(.))", re.DOTALL
)
_MAX_BYTE: Final = 0xFF


def ansi_text(body: str) -> str:
    r"""Decode the inside of ``$'...'`` as bash does.

    Raises:
        UnclearError: It holds a NUL, where the text would end, a control escape, or bytes that are no text.
    """

    def decode(match: re.Match[str]) -> bytes:
        octal, byte, short, wide, plain = match.groups()
        if plain is not None:
            if plain == "c":
                raise UnclearError("a control escape is not read")
            return _ESCAPES.get(plain, f"\\{plain}").encode()
        code = int(octal, 8) & _MAX_BYTE if octal else int(byte or short or wide, 16)
        if code == 0:
            raise UnclearError("a quoted text holds a NUL")
        if octal or byte:
            return bytes([code])
        return chr(code).encode()

    out = bytearray()
    position = 0
    try:
        for match in _ANSI.finditer(body):
            out += body[position : match.start()].encode() + decode(match)
            position = match.end()
        out += body[position:].encode()
        return out.decode()
    except (ValueError, OverflowError):
        raise UnclearError("a quoted text is no Unicode text") from None


def expand(units: list[Unit]) -> list[Arg]:
    """Turn a word into the arguments it becomes: braces expanded, quotes gone, patterns and holes marked.

    Raises:
        UnclearError: Braces make more than `MAX_BRACES` words.
    """
    if not any(unit == ("{", False) for unit in units):
        return [_argument(units)]
    return [_argument(one) for one in _braces(units)]


def _braces(units: list[Unit]) -> list[list[Unit]]:
    """Expand ``{a,b}``; what bash would leave alone stays, and what is hard to tell apart becomes a hole."""
    begin = next((index for index, unit in enumerate(units) if unit == ("{", False)), None)
    if begin is None:
        return [units]
    depth = 0
    cuts = [begin]
    end = None
    for index in range(begin, len(units)):
        match units[index]:
            case ("{", False):
                depth += 1
            case ("}", False):
                depth -= 1
                if depth == 0:
                    end = index
                    break
            case (",", False) if depth == 1:
                cuts.append(index)
            case _:
                pass
    if end is None:
        # Bash searches on for a smaller pair; which one it finds is not worth a guess.
        return [[Hole(splits=True)]]
    before, after = units[:begin], _braces(units[end + 1 :])
    inside = units[begin + 1 : end]
    if len(cuts) == 1:
        dotted = any(pair == ((".", False), (".", False)) for pair in pairwise(inside))
        if dotted or any(unit in {("{", False), ("}", False)} for unit in inside if not isinstance(unit, Hole)):
            return [[Hole(splits=True)]]
        return _bounded([[*before, *units[begin : end + 1], *rest] for rest in after])
    edges = [*cuts, end]
    parts = [part for left, right in pairwise(edges) for part in _braces(units[left + 1 : right])]
    return _bounded([[*before, *part, *rest] for part in parts for rest in after])


def _bounded(words: list[list[Unit]]) -> list[list[Unit]]:
    if len(words) > MAX_BRACES:
        raise UnclearError("braces make too many words")
    return words


def _argument(units: list[Unit]) -> Arg:
    head: list[str] = []
    slash = 0
    known, pattern, loose = True, False, False
    for index, unit in enumerate(units):
        if isinstance(unit, Hole):
            loose = loose or unit.splits
            known, pattern = False, False
            break
        character, quoted = unit
        if not quoted and (
            character in "*?"
            or (character == "[" and any(unit == ("]", False) for unit in units[index:]))
            or (character == "~" and _tilde_here(units, index))
        ):
            known, pattern = False, character != "~"
            if character == "~":
                head.append("~")
            break
        head.append(character)
        if character == "/":
            slash = len(head)
    rest = units[len(head) :] if not known else []
    # A hole further on may still split the word, even behind a pattern.
    holes = [unit for unit in rest if isinstance(unit, Hole)]
    loose = loose or any(hole.splits for hole in holes)
    text = "".join(head)
    return Arg(
        text=text if known else None,
        head=text,
        loose=loose,
        pattern=pattern and not holes,
        folder=text[:slash] if pattern and not holes and _stays_below(text[slash:], rest) else None,
    )


def _tilde_here(units: list[Unit], index: int) -> bool:
    # Bash expands a tilde at the start, and behind = and : of what looks like an assignment; more is safe.
    return index == 0 or units[index - 1] in {("=", False), (":", False)}


def _stays_below(last: str, rest: list[Unit]) -> bool:
    """Whether no match of a pattern can climb out of its folder by ``..``."""
    tail = "".join(unit[0] for unit in rest if not isinstance(unit, Hole))
    return not any(segment.startswith(".") for segment in (last + tail).split("/"))
