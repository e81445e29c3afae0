# SPDX-License-Identifier: Apache-2.0
"""Strings that stand for all strings: some of each kind that the patterns of a question can tell apart (DESIGN 3.11 c).

The automata of all patterns run side by side with those of the normal forms, over the characters that the patterns
name and "other". A cell is the set of strings that match the same patterns and have the same normal forms. From each
cell that is not empty the shortest members are taken, as many as there are attributes to give values to.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from carriage_core.analysis_languages import LANGUAGES, NAME, WORD, Glob
from carriage_core.characters import MAX_TEXT
from carriage_core.schema import FilePath, Sort, Url, normal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from carriage_core.analysis_languages import Automaton, Kind, State
    from carriage_core.schema import Value

MAX_STATES: Final = 20_000
"""Most states of the product automaton that are visited for one question; past it the answer is undecided."""

_PLAIN_OTHERS: Final = "xyzvuqrnmlkjig"
"""Letters that stand for "other": no hexadecimal digit, and in no scheme with a default port."""

_FAR_OTHERS: Final = "\u5c71\u6728\u6c34\u706b\u571f\u91d1\u65e5\u6708\u4e2d\u53e3"
"""Characters that compose with nothing and begin no variable."""


class UndecidableError(Exception):
    """A stated limit was met; the message says which. Never leaves the analysis."""


@dataclass(frozen=True, slots=True)
class Member:
    """One string that stands for its cell.

    Attributes:
        text: The string.
        cell: Equal for strings that no pattern and no normal form tells apart.
        rank: Its place in the cell, from 0.
        kinds: The kinds it is a normal form of.
    """

    text: str
    cell: int
    rank: int
    kinds: frozenset[Kind]


def members(globs: Iterable[tuple[str, ...]], kinds: Iterable[Kind], count: int) -> list[Member]:
    """List the `count` shortest strings of every cell.

    Args:
        globs: The patterns, as pieces between stars.
        kinds: The normal forms that matter.
        count: How many of each cell; fewer where it has fewer.

    Raises:
        UndecidableError: There are more than `MAX_STATES` states, or a pattern speaks of IPv6 addresses.
    """
    globs, kinds = list(dict.fromkeys(globs)), sorted(set(kinds))
    _refuse_addresses(globs, kinds)
    literal = {character for pieces in globs for piece in pieces for character in piece}
    alphabet = _alphabet(literal, kinds)
    automata: list[Automaton] = [LANGUAGES[kind].over(alphabet) for kind in kinds]
    automata += [Glob(pieces) for pieces in globs]
    found: dict[tuple[bool, ...], list[str]] = {}
    for state, text in _walk(automata, len(kinds), alphabet, count + 1):
        ends = tuple(one is not None and automaton.ends(one) for automaton, one in zip(automata, state, strict=True))
        if any(ends[: len(kinds)]):
            cell = found.setdefault(ends, [])
            if len(cell) <= count:
                cell.append(text)
    listed = [
        Member(text, number, rank, frozenset(kind for kind, inside in zip(kinds, ends, strict=False) if inside))
        for number, (ends, texts) in enumerate(found.items())
        # Nobody understands an empty name, so it stands for its cell only where nothing else can.
        for rank, text in enumerate(texts[1:] if texts[0] == "" and len(texts) > count else texts[:count])
    ]
    listed += _addresses(globs, kinds, len(found))
    for member in listed:
        for kind in member.kinds:
            if value_of(member.text, kind) is None:  # the automaton and the schema differ: believe neither
                raise UndecidableError(f"{member.text!r} is no {kind} in normal form")
    return listed


def value_of(text: str, kind: Kind) -> Value | None:
    """The value that a string of a kind stands for, None where it is not in normal form."""
    match kind:
        case "name" | "word":
            return text
        case Sort.PATH:
            path = FilePath(text)  # the dot keeps a blank at the end, which no argument ends on
            return path if path in {FilePath.of(text), FilePath.of(f"{text}/.")} else None
        case Sort.URL:
            url = Url(text)
            return url if url in {Url.of(text), Url.of(f"{text}#")} else None
        case _:
            return text if normal(text, Sort(kind)) == text else None


def _walk(
    automata: list[Automaton], languages: int, alphabet: list[str], count: int
) -> Iterable[tuple[tuple[State | None, ...], str]]:
    """Visit every state with the `count` shortest words that lead to it, shortest first."""
    start = tuple(automaton.start for automaton in automata)
    queue = deque([(start, "")])
    visits: dict[tuple[State | None, ...], int] = {}
    following: dict[tuple[State | None, ...], list[tuple[str, tuple[State | None, ...]]]] = {}
    while queue:
        state, text = queue.popleft()
        seen = visits.get(state, 0)
        if seen >= count or len(text) > MAX_TEXT:
            continue
        visits[state] = seen + 1
        if len(visits) > MAX_STATES:
            raise UndecidableError(f"the patterns need more than {MAX_STATES} states")
        yield state, text
        if state not in following:
            steps = ((character, _after(automata, state, character)) for character in alphabet)
            # Where no normal form goes on, no value does.
            following[state] = [step for step in steps if any(one is not None for one in step[1][:languages])]
        queue.extend((after, text + character) for character, after in following[state])


def _after(automata: list[Automaton], state: tuple[State | None, ...], character: str) -> tuple[State | None, ...]:
    return tuple(
        None if one is None else automaton.step(one, character) for automaton, one in zip(automata, state, strict=True)
    )


def _alphabet(literal: set[str], kinds: list[Kind]) -> list[str]:
    """The characters of the patterns, those with a meaning of their own, and others that stand for all the rest."""
    structure = frozenset[str]().union(*(LANGUAGES[kind].structure for kind in kinds))
    plain = [one for one in _PLAIN_OTHERS if one not in literal][:1]
    far = [one for one in _FAR_OTHERS if one not in literal][:1]
    if not far:
        raise UndecidableError("no character is left to stand for all others")
    ascii_only = all(map(str.isascii, literal)) and "$" not in literal
    # Where a letter could compose with a mark, or begin a variable behind a dollar sign, it does not stand for all.
    others = plain if plain and ascii_only else far + plain
    return list(dict.fromkeys([*others, *sorted(literal), *sorted(structure)]))


def _refuse_addresses(globs: list[tuple[str, ...]], kinds: list[Kind]) -> None:
    """IPv6 addresses are no automaton here; what could tell them from other hosts is refused.

    Without their brackets and colons, a pattern cannot tell an address from a word of the same characters.
    """
    if not {Sort.HOST, Sort.URL} & set(kinds):
        return
    for pieces in globs:
        if len(pieces) == 1:
            continue  # a literal: `_addresses` adds it
        for number, piece in enumerate(pieces):
            scheme, separator, rest = piece.partition("://")
            anchored = number == 0 and separator != "" and rest != "" and "[" not in rest
            inside = piece.replace(":/", "") if not anchored else scheme
            if any(character in inside for character in "[]:"):
                raise UndecidableError(f"the pattern {'*'.join(pieces)!r} may speak of IPv6 addresses")


def _addresses(globs: list[tuple[str, ...]], kinds: list[Kind], cells: int) -> list[Member]:
    """The literals that are IPv6 addresses or URLs of them."""
    listed: list[Member] = []
    for pieces in globs:
        if len(pieces) == 1 and "[" in pieces[0]:
            of = frozenset(
                kind for kind in kinds if kind in {Sort.HOST, Sort.URL} and value_of(pieces[0], kind) is not None
            )
            if of:
                listed.append(Member(pieces[0], cells + len(listed), 0, of))
    return listed


__all__ = ["MAX_STATES", "NAME", "WORD", "Member", "UndecidableError", "members", "value_of"]
