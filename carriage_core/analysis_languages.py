# SPDX-License-Identifier: Apache-2.0
"""Normal forms and patterns as automata, read character by character (DESIGN 3.3, 3.11 c).

Each automaton is deterministic: a start state, a step that gives the next state or None where nothing can follow, and
whether a state ends a word. They mirror `schema`, `places` and `characters`; `analysis_strings` checks every word it
takes from them against those modules, so a difference shows and never becomes an answer.
"""

from __future__ import annotations

import string
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from carriage_core.characters import hidden_character
from carriage_core.policy import RESERVED_WORDS
from carriage_core.schema import Sort, folded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_LETTERS: Final = frozenset(string.ascii_letters)
_LOWER: Final = frozenset(string.ascii_lowercase)
_DIGITS: Final = frozenset(string.digits)
_HEX: Final = frozenset(string.hexdigits)


type State = Any
"""Each automaton's own; hashable."""


class Automaton(Protocol):
    """Reads a word from left to right."""

    @property
    def start(self) -> State:
        """The state before the first character; never None."""
        ...

    def step(self, state: State, character: str) -> State | None:
        """The state after one more character, None where no word goes on like this."""
        ...

    def ends(self, state: State) -> bool:
        """Whether a word may end here."""
        ...


@dataclass(frozen=True, slots=True)
class Glob:
    """Words that match the pieces of a glob; one piece is a literal, and prefix, suffix and contains are globs too."""

    pieces: tuple[str, ...]

    @property
    def start(self) -> State:
        """The piece that is being looked for, and how far into it one can be."""
        return self._settled(0, frozenset({0}))

    def step(self, state: State, character: str) -> State | None:
        """Go on in the piece; behind a star also begin it anew."""
        number, offsets = state
        piece = self.pieces[number]
        found = {offset + 1 for offset in offsets if offset < len(piece) and piece[offset] == character}
        if number:
            found.add(0)
        return self._settled(number, frozenset(found)) if found else None

    def ends(self, state: State) -> bool:
        """Whether all of the last piece stands at the end."""
        number, offsets = state
        return number == len(self.pieces) - 1 and len(self.pieces[number]) in offsets

    def _settled(self, number: int, offsets: frozenset[int]) -> State:
        # What matches from an earlier piece matches from a later one as well, so the first way through is enough.
        while number < len(self.pieces) - 1 and len(self.pieces[number]) in offsets:
            number, offsets = number + 1, frozenset({0})
        return number, offsets


@dataclass(frozen=True, slots=True)
class Made:
    """Words of characters that are allowed at all."""

    allowed: frozenset[str]
    start: int = 0

    def step(self, state: State, character: str) -> State | None:
        """Stay, or stop."""
        return state if character in self.allowed else None

    def ends(self, state: State) -> bool:  # noqa: ARG002  # the protocol's
        """Anywhere."""
        return True


@dataclass(frozen=True, slots=True)
class Composed:
    """Words in NFC: no two characters compose, and marks stand in their canonical order."""

    start: tuple[str, int] = ("", 0)

    def step(self, state: State, character: str) -> State | None:
        """Remember the last starter and the class of the marks behind it."""
        starter, last = state
        own = unicodedata.combining(character)
        if own and own < last:
            return None
        # A mark composes with the starter unless one of its own class or a starter stands between.
        blocked = last != 0 and own <= last
        if starter and not blocked and not unicodedata.is_normalized("NFC", starter + character):
            return None
        return (character, 0) if not own else (starter, own)

    def ends(self, state: State) -> bool:  # noqa: ARG002  # the protocol's
        """Anywhere."""
        return True


@dataclass(frozen=True, slots=True)
class Settled:
    """Words that no tool resolves to others: no percent-encoding, variable or home directory."""

    start: str = "^"

    def step(self, state: State, character: str) -> State | None:
        """Remember a percent sign with one digit, and a dollar sign."""
        if (
            (state == "^" and character == "~")
            or (state == "$" and (character in _LETTERS or character in "_{("))
            or (state == "%h" and character in _HEX)
        ):
            return None
        if state == "%" and character in _HEX:
            return "%h"
        return character if character in "%$" else "."

    def ends(self, state: State) -> bool:  # noqa: ARG002  # the protocol's
        """Anywhere."""
        return True


@dataclass(frozen=True, slots=True)
class Pathlike:
    """Absolute paths without empty and dotted segments."""

    start: str = "^"

    def step(self, state: State, character: str) -> State | None:
        """Remember what the segment is so far."""
        if state == "^":
            return "root" if character == "/" else None
        if character == "/":
            return "slash" if state == "segment" else None
        if character == ".":
            return {"root": ".", "slash": ".", ".": ".."}.get(str(state), "segment")
        return "segment"

    def ends(self, state: State) -> bool:
        """At the root and behind a whole segment."""
        return state in {"root", "segment"}


_OCTET: Final = {
    # How an octet of an IPv4 address goes on: a = 1, b = 2, c = 3 to 9, d = any one digit more, e = 25.
    "": {"0": "full", "1": "a", "2": "b"} | dict.fromkeys("3456789", "c"),
    "a": dict.fromkeys(_DIGITS, "d"),
    "b": dict.fromkeys("01234", "d") | {"5": "e"} | dict.fromkeys("6789", "full"),
    "c": dict.fromkeys(_DIGITS, "full"),
    "d": dict.fromkeys(_DIGITS, "full"),
    "e": dict.fromkeys("012345", "full"),
    "full": {},
}


@dataclass(frozen=True, slots=True)
class Hostlike:
    """Host names in lower case, and IPv4 addresses in their one plain spelling. No IPv6 address is among them."""

    start: tuple[str, str, tuple[int, str] | None] = ("", "", (0, ""))

    def step(self, state: State, character: str) -> State | None:
        """Remember what kind of label this is, how its last character may end it, and the octets so far."""
        label, last, octets = state
        if character == ".":
            if last != "a":
                return None
            return "", "", (octets[0] + 1, "") if octets is not None and octets[0] < 3 else None  # noqa: PLR2004
        if character in "-_":
            return None if label == "" else ("word", "-", None)
        if character not in _LOWER and character not in _DIGITS:
            return None
        if octets is not None:
            place = _OCTET[octets[1]].get(character)
            octets = None if place is None else (octets[0], place)
        return self._label(label, character), "a", octets

    @staticmethod
    def _label(label: str, character: str) -> str:
        if character in _DIGITS:
            known = {"": "zero" if character == "0" else "digits", "zero": "digits"}
            return known.get(label, label)
        if label == "zero" and character == "x":
            return "hex"
        return "hex" if label == "hex" and character in _HEX else "word"

    def ends(self, state: State) -> bool:
        """Behind a whole label; where that is a number, behind a whole address."""
        label, last, octets = state
        if last != "a":
            return False
        return label == "word" or (octets is not None and octets[0] == 3 and octets[1] != "")  # noqa: PLR2004


_PORTS: Final = {"http": "80", "https": "443", "ws": "80", "wss": "443", "ftp": "21"}
_MOST: Final = "65535"


@dataclass(frozen=True, slots=True)
class Urllike:
    """URLs in normal form whose host is no IPv6 address."""

    start: tuple[str, str] = ("scheme", "")

    def step(self, state: State, character: str) -> State | None:  # noqa: PLR0911  # one return a part
        """Go through scheme, host, port, path and query."""
        part, *held = state
        match part:
            case "scheme":
                return self._scheme(held[0], character)
            case "colon" | "slash":
                if character != "/":
                    return None
                return ("slash", held[0]) if part == "colon" else ("host", held[0], Hostlike().start)
            case "host" if character in ":/":
                if not Hostlike().ends(held[1]):
                    return None
                return ("port", held[0], 0, "=", "") if character == ":" else ("path", "")
            case "host":
                inner = Hostlike().step(held[1], character)
                return None if inner is None else ("host", held[0], inner)
            case "port":
                return self._port(held, character)
            case "path":
                return self._path(held[0], character)
            case _:
                return state

    @staticmethod
    def _scheme(known: str, character: str) -> State | None:
        if character == ":":
            return ("colon", _PORTS.get(known, "")) if known else None
        if character not in _LOWER and (not known or (character not in _DIGITS and character not in "+.-")):
            return None
        longer = known + character
        return "scheme", longer if any(name.startswith(longer) for name in _PORTS) else "?"

    @staticmethod
    def _port(held: list[Any], character: str) -> State | None:
        default, length, compared, same = held
        if character == "/":
            above = length == len(_MOST) and compared == ">"
            return None if not length or above or (default and same == default) else ("path", "")
        if character not in _DIGITS or length == len(_MOST) or (not length and character == "0"):
            return None
        if compared == "=":
            limit = _MOST[length]
            compared = "=" if character == limit else "<" if character < limit else ">"
        longer = same + character
        return "port", default, length + 1, compared, longer if default.startswith(longer) else "?"

    @staticmethod
    def _path(segment: str, character: str) -> State | None:
        if character in "/?" and segment in {".", ".."}:
            return None
        if character == "?":
            return ("query",)
        if character == "/":
            return ("path", "") if segment else None
        if character == ".":
            return "path", {"": ".", ".": ".."}.get(segment, "segment")
        return "path", "segment"

    def ends(self, state: State) -> bool:
        """In a path that does not end on dots, or in a query."""
        part, *held = state
        return part == "query" or (part == "path" and held[0] not in {".", ".."})


@dataclass(frozen=True, slots=True)
class Wordlike:
    """Plain words of at most 64 characters that the clause grammar does not reserve: actions and types of object."""

    start: tuple[int, str] = (0, "")

    def step(self, state: State, character: str) -> State | None:
        """Count, and remember what a reserved word begins with."""
        length, known = state
        more = character in _DIGITS or character == "-"
        if length == 64 or not (character in _LETTERS or character == "_" or (more and length)):  # noqa: PLR2004
            return None
        longer = known + character
        reserved = len(known) == length and any(word.startswith(longer) for word in RESERVED_WORDS)
        return length + 1, longer if reserved else "?"

    def ends(self, state: State) -> bool:
        """Behind at least one character, unless the word is reserved."""
        length, known = state
        return length > 0 and known not in RESERVED_WORDS


@dataclass(frozen=True, slots=True)
class Both:
    """Words that several automata read."""

    parts: tuple[Automaton, ...]

    @property
    def start(self) -> State:
        """Every part at its start."""
        return tuple(part.start for part in self.parts)

    def step(self, state: State, character: str) -> State | None:
        """Every part a step on."""
        following = []
        for part, one in zip(self.parts, state, strict=True):
            following.append(part.step(one, character))
            if following[-1] is None:
                return None
        return tuple(following)

    def ends(self, state: State) -> bool:
        """Where every part may end."""
        return all(part.ends(one) for part, one in zip(self.parts, state, strict=True))


@dataclass(frozen=True, slots=True)
class Language:
    """What strings of one kind look like.

    Attributes:
        shape: The automata beside that of NFC.
        fits: Which characters may occur.
        structure: Characters that mean something to the shape and are never only "other".
    """

    shape: tuple[Automaton, ...]
    fits: Callable[[str], bool]
    structure: frozenset[str] = frozenset()

    def over(self, alphabet: Iterable[str]) -> Automaton:
        """The automaton over some characters."""
        allowed = frozenset(filter(self.fits, alphabet))
        parts: tuple[Automaton, ...] = (Made(allowed), *self.shape)
        if not all(map(str.isascii, allowed)):
            parts += (Composed(),)
        return Both(parts)


def _visible(character: str) -> bool:
    return hidden_character(character) is None


NAME: Final = "name"
"""Kind of the names that operators and frameworks give: tenants, tasks, agents, tools."""

WORD: Final = "word"
"""Kind of actions and types of object."""

type Kind = Sort | str
"""A sort of string, `NAME` or `WORD`."""

_HOST_PARTS: Final = frozenset(string.digits + ".x")
LANGUAGES: Final[dict[Kind, Language]] = {
    NAME: Language((), _visible),
    WORD: Language((Wordlike(),), _visible),
    Sort.TEXT: Language((), lambda character: character in "\n\t" or _visible(character)),
    Sort.ID: Language((Settled(),), _visible),
    Sort.CASELESS: Language((Settled(),), lambda one: _visible(one) and folded(one, Sort.CASELESS) == one),
    Sort.HOST: Language((Hostlike(),), _visible, _HOST_PARTS),
    Sort.PATH: Language((Settled(), Pathlike()), lambda one: _visible(one) and one not in "\\*?[", frozenset("/.")),
    Sort.URL: Language(
        (Settled(), Urllike()), lambda one: _visible(one) and one not in "%\\ #", _HOST_PARTS | frozenset(":/?")
    ),
}
