# SPDX-License-Identifier: Apache-2.0
"""What prose around rules can take away from them, never add (DESIGN 3.11).

Two questions, both answered by words and neither by meaning: does the prose name a policy, and does it sound as if
it took a rule back? Either only ever lowers a finding, to unverifiable; so a wrong guess costs a look, not a rule.
"""

from __future__ import annotations

import bisect
import itertools
import re
from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from carriage_core.audit_messages import normalise
from carriage_core.audit_words import CAPSULE, DISTANCE, HEADING, NEAR, RULES, TAKES_BACK, follows, leads, wrapped
from carriage_core.condition import Attribute, Operator, comparisons, glob_pieces
from carriage_core.schema import Value, spelled
from carriage_core.visible import Form

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from carriage_core.audit_messages import Segment
    from carriage_core.policy import Policy
    from carriage_core.visible import Entry, Prose, Visible

MIN_CONSTANT: Final = 3
"""Shortest constant, in characters, that can tell a policy from others."""

_MAY: Final = "message {} holds words that may take it back"
_WORDS: Final = re.compile(r"[a-z0-9._-]+")
_DIGITS: Final = re.compile(r"(?<=[0-9]),(?=[0-9]{3})")
_BLANKS: Final = re.compile(r"\s+")
_INSTANT: Final = re.compile(r"(?<=[0-9]{4}-[0-9]{2}-[0-9]{2})t(?=[0-9])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Name:
    """What a policy can be told by: its id, its sentence, and constants that no other policy has."""

    id: str
    text: str
    constants: tuple[str, ...]


def names(policies: Sequence[Policy]) -> dict[str, Name]:
    """Find, by digest, what each policy can be told by among all `policies`."""
    spelt = {policy.digest: frozenset(_constants(policy)) for policy in policies}
    often = Counter(constant for constants in spelt.values() for constant in constants)
    return {
        policy.digest: Name(
            id=policy.id,
            text=_flat(normalise(policy.text)),
            constants=tuple(sorted(constant for constant in spelt[policy.digest] if often[constant] == 1)),
        )
        for policy in policies
    }


def _constants(policy: Policy) -> Iterator[str]:
    for comparison in (*comparisons(policy.where), *comparisons(policy.unless)):
        operand = comparison.operand
        for literal in operand if isinstance(operand, tuple) else (operand,):
            if literal is None or isinstance(literal, bool | Attribute):
                continue
            if isinstance(literal, str) and comparison.operator is Operator.GLOB:
                literal = max(glob_pieces(literal), key=len)  # noqa: PLW2901  # a star stands nowhere in prose
            text = _distinctive(literal)
            if text:
                yield _flat(text)


def _distinctive(literal: Value) -> str:
    """Spell a constant that prose would hardly hold by chance, or nothing: a plain word tells no policy."""
    text = spelled(literal)[:10] if isinstance(literal, datetime) else spelled(literal)
    plain = text.isalpha() and text == text.lower()
    return "" if plain or len(text) < MIN_CONSTANT else text


def _flat(text: str) -> str:
    """Fold what prose writes in many ways: blanks, case, thousands, and the T between a day and an hour."""
    return _INSTANT.sub(" ", _DIGITS.sub("", _BLANKS.sub(" ", text)).casefold().strip())


class _Page:
    """The prose of one message, with what stands next to each line at hand."""

    def __init__(self, prose: Prose) -> None:
        self.segment = prose.segment
        self.lines = [line.strip() for line in prose.lines]
        self.before: list[int] = []  # the last line before each that is not blank
        self.headings: list[int] = []
        last = heading = -1
        for number, line in enumerate(prose.lines):
            self.before.append(last)
            self.headings.append(heading)
            last = number if line.strip() else last
            heading = number if HEADING.match(line) else heading
        self.last = last
        following = len(self.lines)
        self.after = [following] * (len(self.lines) + 1)  # the first line from each on that is not blank
        for number in range(len(self.lines) - 1, -1, -1):
            following = number if self.lines[number] else following
            self.after[number] = following

    def lead(self, start: int | None = None) -> tuple[str, bool]:
        """Return the last line before `start`, and whether blank lines stand between; of all lines, the last."""
        start = len(self.lines) if start is None else start
        number = self.before[start] if start < len(self.before) else self.last
        return (self.lines[number], number < start - 1) if number >= 0 else ("", True)

    def heading(self, start: int) -> str:
        number = self.headings[start] if start < len(self.headings) else -1
        return self.lines[number] if number >= 0 else ""

    def next(self, end: int) -> str:
        number = self.after[end] if end < len(self.after) else len(self.lines)
        return self.lines[number] if number < len(self.lines) else ""


class Told:
    """The prose of a transcript, ready to be asked about policies."""

    def __init__(self, visible: Visible) -> None:
        """Take the prose apart into paragraphs, once."""
        self._pages = {prose.segment.index: _Page(prose) for prose in visible.prose}
        self._paragraphs = [
            (prose.segment, paragraph) for prose in visible.prose for paragraph in _paragraphs(prose.lines)
        ]
        self._flat = [_flat(paragraph) for _, paragraph in self._paragraphs]
        self._all = "\n".join(self._flat)
        self._starts: list[int] = list(itertools.accumulate((len(text) + 1 for text in self._flat), initial=0))
        self._words: dict[str, list[int]] = {}
        for number, text in enumerate(self._flat):
            for word in frozenset(_tokens(text)):
                self._words.setdefault(word, []).append(number)
        self._doubtful = [
            number
            for number, (_, paragraph) in enumerate(self._paragraphs)
            if TAKES_BACK.search(paragraph) or (DISTANCE.search(paragraph) and CAPSULE.search(paragraph))
        ]
        known = {prose.segment.index: prose.segment for prose in visible.prose}
        known |= {entry.segment.index: entry.segment for entry in visible.entries}
        every = sorted(known)
        trusted = [index for index in every if known[index].trusted]
        self._neighbours = {flag: _neighbours(order) for flag, order in ((False, every), (True, trusted))}
        self._near: dict[tuple[int, int, bool], str] = {}
        self._pointed: dict[int, str] = {}
        self._taken: dict[tuple[str, str, bool], str] = {}

    def mentions(self, name: Name) -> tuple[int, ...]:
        """List the messages whose prose holds the policy's id, sentence or a constant of its own."""
        found = set(self._words.get(name.id, ()))
        for text, whole in ((name.text, False), *((constant, True) for constant in name.constants)):
            start = self._all.find(text)
            while start >= 0:
                number = bisect.bisect_right(self._starts, start) - 1
                if not whole or _stands(text, self._flat[number]):
                    found.add(number)
                start = self._all.find(text, self._starts[number + 1])
        return tuple(sorted({self._paragraphs[number][0].index for number in found}))

    def doubt(self, entry: Entry, name: Name) -> str:
        """Say what makes an entry more told of than said; empty if nothing does."""
        place = (entry.segment.index, entry.start, entry.form is Form.LINE)
        if place not in self._near:
            self._near[place] = self._around(entry)
        return self._near[place] or self._pointed_at(entry.segment) or self._named(name, trusted=entry.segment.trusted)

    def _around(self, entry: Entry) -> str:
        """Look at what stands right before and behind."""
        index = entry.segment.index
        strict = entry.form is not Form.LINE
        page = self._pages.get(index)
        if page is None:  # a message that is nothing but the rule
            before, after = self._neighbours[entry.segment.trusted][index]
            if before in self._pages and leads(self._pages[before].lead()[0], apart=True, strict=strict):
                return f"message {before} leads up to it with words that may take it back"
            if after in self._pages and follows(self._pages[after].next(0)):
                return f"message {after} follows it with words that may take it back"
            return ""
        line, apart = page.lead(entry.start)
        heading = page.heading(entry.start)
        if leads(line, apart=apart, strict=strict) or TAKES_BACK.search(heading) or DISTANCE.search(heading):
            return f"message {index} leads up to it with words that may take it back"
        if follows(page.next(entry.end)):
            return f"message {index} goes on with words that may take it back"
        if strict and wrapped("\n".join(page.lines[: entry.start]), "\n".join(page.lines[entry.end :])):
            return f"message {index} wraps it in a comment or a tag"
        return ""

    def _pointed_at(self, segment: Segment) -> str:
        """Look for words anywhere that take back what stands in this message without naming it."""
        if segment.index not in self._pointed:
            self._pointed[segment.index] = next(
                (
                    _MAY.format(other.index)
                    for other, text in self._against(segment.trusted)
                    if _points(other, text, segment)
                ),
                "",
            )
        return self._pointed[segment.index]

    def _named(self, name: Name, *, trusted: bool) -> str:
        """Look for words anywhere that take back a policy by its id, its sentence or a constant of its own."""
        key = (name.id, name.text, trusted)
        if key not in self._taken:
            self._taken[key] = next(
                (
                    _MAY.format(self._paragraphs[number][0].index)
                    for number in self._doubtful
                    if (self._paragraphs[number][0].trusted or not trusted)
                    and self._names(number, name)
                    and TAKES_BACK.search(self._flat[number].replace(name.text, " "))  # not in its own sentence
                ),
                "",
            )
        return self._taken[key]

    def _against(self, trusted: bool) -> Iterator[tuple[Segment, str]]:  # noqa: FBT001  # of what is spoken against
        """List the paragraphs that may take something back; the untrusted takes nothing from the trusted."""
        paragraphs = (self._paragraphs[number] for number in self._doubtful)
        return ((segment, text) for segment, text in paragraphs if segment.trusted or not trusted)

    def _names(self, number: int, name: Name) -> bool:
        text = self._flat[number]
        numbers = self._words.get(name.id, [])
        place = bisect.bisect_left(numbers, number)
        if numbers[place : place + 1] == [number] or name.text in text:
            return True
        return any(_stands(constant, text) for constant in name.constants)


def _points(other: Segment, paragraph: str, segment: Segment) -> bool:
    """Whether a paragraph of one message may speak of the rules in another, or in its own."""
    if CAPSULE.search(paragraph):
        return True
    if not TAKES_BACK.search(paragraph):
        return False
    if other.index == segment.index:
        return NEAR.search(paragraph) is not None
    return other.trusted and RULES.search(paragraph) is not None


def _neighbours(order: list[int]) -> dict[int, tuple[int, int]]:
    """Give each message the ones before and after it, -1 where there is none."""
    before, after = [-1, *order], [*order[1:], -1]
    return {index: (before[place], after[place]) for place, index in enumerate(order)}


def _tokens(text: str) -> Iterator[str]:
    """Yield the words of a text that can be an id: marked as one, or no plain word."""
    for match in _WORDS.finditer(text):
        word = match[0].strip(".-_") or match[0]
        marked = text[match.start() - 1 : match.start()] in {"[", '"', "'", "`"}
        plain = word.isalpha() or len(word) <= MIN_CONSTANT
        for spelling in {word, match[0]}:
            if marked or not plain:
                yield spelling


def _stands(constant: str, text: str) -> bool:
    """Whether a constant stands in a text by itself, not inside a longer word."""
    start = text.find(constant)
    while start >= 0:
        end = start + len(constant)
        before = text[start - 1 : start] if constant[0].isalnum() else ""
        after = text[end : end + 1] if constant[-1].isalnum() else ""
        if not before.isalnum() and not after.isalnum():
            return True
        start = text.find(constant, start + 1)
    return False


def _paragraphs(lines: Iterable[str]) -> Iterator[str]:
    block: list[str] = []
    for line in (*lines, ""):
        if line.strip():
            block.append(line)
        elif block:
            yield "\n".join(block)
            block = []
