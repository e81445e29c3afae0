# SPDX-License-Identifier: Apache-2.0
"""What prose around rules can take away from them, never add (DESIGN 3.11).

Two questions, both answered by words and neither by meaning: does the prose name a policy, and does it sound as if
it took a rule back? Either only ever lowers a finding, to unverifiable; so a wrong guess costs a look, not a rule.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from carriage_core.audit_messages import normalise
from carriage_core.condition import Attribute, Operator, comparisons, glob_pieces
from carriage_core.schema import Value, spelled
from carriage_core.visible import Form

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from carriage_core.policy import Policy
    from carriage_core.visible import Entry, Prose, Visible

MIN_CONSTANT: Final = 3
"""Shortest constant, in characters, that can tell a policy from others."""

_TAKES_BACK: Final = re.compile(
    r"\b(?:no longer|not? (?:any ?more|in force|in effect|binding|valid|true|appl\w+)|n't (?:apply|hold|count)"
    r"|withdr\w+"
    r"|revo[ck]\w+|rescind\w*|repeal\w*|cancel\w*|lifted|supersed\w*|replaced|overr[iu]\w+|suspend\w*|waive\w*|voi(?:d|ds"
    r"|ded)|retract\w*|obsolete|outdated|disregard\w*|ignor\w+|forget|false|untrue|lapsed|expired|ceased?|removed"
    r"|dropped|deleted|abolish\w*|annul\w*|nullif\w*|deprecated|discontinued|struck|inactive|disabled|turned off"
    r"|optional|skip\w*|bypass\w*|exempt\w*|relax\w*)\b",
    re.IGNORECASE,
)
"""Words that take a rule back."""

_DISTANCE: Final = re.compile(
    r"\b(?:previous\w*|former\w*|earlier|used to|old\w*|was|were|had|been|examples?|samples?|e\.g|hypothe\w*|drafts?"
    r"|quot\w+|said|says|claim\w*|not|never|cannot|\w+n't|imagin\w*|suppose\w*|if|would|could|might|once|until|past"
    r"|histor\w*|archiv\w*|propos\w+|before|tests?|wrong\w*|incorrect\w*|instead|another|other|unlike|stale"
    r"|without|except|than|rejected|refused|fake|injected|attack\w*|untrusted)\b",
    re.IGNORECASE,
)
"""Words that, in what leads up to a rule, may mean that it is told of and not said."""

_POINTS: Final = re.compile(
    r"\b(?:capsule|above|below|following|next|preceding|previous|th(?:is|at|ese|ose) (?:rule|polic|block|list|message"
    r"|section|entr|constraint|instruction)\w*|it|they|them|everything|all)\b",
    re.IGNORECASE,
)
_CAPSULE: Final = re.compile(r"\bcapsules?\b", re.IGNORECASE)
_FINISHED: Final = re.compile(r"[.!?>)`\]]\Z")
_OPENS: Final = re.compile(r"<!--|<(?!/)[A-Za-z][^<>]*>\Z|[\"'\u201c\u201e(\[{*~_]\Z")
_CLOSES: Final = re.compile(r"-->|</[A-Za-z][^<>]*>")
_WORDS: Final = re.compile(r"[a-z0-9._-]+")
_DIGITS: Final = re.compile(r"(?<=[0-9]),(?=[0-9]{3})")
_BLANKS: Final = re.compile(r"\s+")


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
    return _DIGITS.sub("", _BLANKS.sub(" ", text)).casefold().strip()


class Told:
    """The prose of a transcript, ready to be asked about policies."""

    def __init__(self, visible: Visible) -> None:
        """Take the prose apart into paragraphs, once."""
        self._prose = {prose.segment.index: prose for prose in visible.prose}
        self._capsules = {(capsule.segment.index, capsule.start): capsule for capsule in visible.capsules}
        self._paragraphs = [
            (prose.segment, paragraph) for prose in visible.prose for paragraph in _paragraphs(prose.lines)
        ]
        self._flat = [(segment, _flat(paragraph)) for segment, paragraph in self._paragraphs]
        self._words = [frozenset(_tokens(text)) for _, text in self._flat]
        self._taking = [
            number
            for number, (_, paragraph) in enumerate(self._paragraphs)
            if _TAKES_BACK.search(paragraph) is not None
        ]
        self._order = sorted({*self._prose, *(entry.segment.index for entry in visible.entries)})

    def mentions(self, name: Name) -> tuple[int, ...]:
        """List the messages whose prose holds the policy's id, sentence or a constant of its own."""
        return tuple(sorted({self._flat[n][0].index for n in range(len(self._flat)) if self._names(n, name)}))

    def doubt(self, entry: Entry, name: Name | None) -> str:
        """Say what makes an entry more told of than said; empty if nothing does."""
        index = entry.segment.index
        start, end = self._bounds(entry)
        prose = self._prose.get(index)
        if prose is not None:
            lead, apart = _last(prose.lines[:start])
            if _leads(lead, apart=apart):
                return f"message {index} leads up to it with words that may take it back"
            if _follows(_first(prose.lines[end:])):
                return f"message {index} goes on with words that may take it back"
            if _unclosed("\n".join(prose.lines[:start])):
                return f"message {index} opens a comment before it"
        else:
            before, after = self._neighbours(entry)
            if before is not None and _leads(_last(before.lines)[0], apart=True):
                return f"message {before.segment.index} leads up to it with words that may take it back"
            if after is not None and _follows(_first(after.lines)):
                return f"message {after.segment.index} follows it with words that may take it back"
        return self._taken_back(entry, name)

    def _taken_back(self, entry: Entry, name: Name | None) -> str:
        for number in self._taking:
            segment, paragraph = self._paragraphs[number]
            if entry.segment.trusted and not segment.trusted:
                continue  # what may be untrusted takes nothing back from what is trusted
            own = segment.index == entry.segment.index
            points = (_POINTS if own else _CAPSULE).search(paragraph) is not None
            if points and own and entry.form is not Form.LINE and not _CAPSULE.search(paragraph):
                points = _near(paragraph)
            named = name is not None and self._names(number, name) and self._beyond(number, name)
            if points or named:
                return f"message {segment.index} holds words that may take it back"
        return ""

    def _beyond(self, number: int, name: Name) -> bool:
        """Whether the words that take back are not the policy's own sentence."""
        return _TAKES_BACK.search(self._flat[number][1].replace(name.text, " ")) is not None

    def _names(self, number: int, name: Name) -> bool:
        _, text = self._flat[number]
        if name.id in self._words[number] or name.text in text:
            return True
        return any(_stands(constant, text) for constant in name.constants)

    def _bounds(self, entry: Entry) -> tuple[int, int]:
        for (index, start), capsule in self._capsules.items():
            if index == entry.segment.index and start < entry.line < capsule.end:
                return start, capsule.end
        return entry.line, entry.line + 1

    def _neighbours(self, entry: Entry) -> tuple[Prose | None, Prose | None]:
        """Find the messages next to this one that may speak of it."""
        known = [
            index
            for index in self._order
            if index == entry.segment.index
            or index not in self._prose
            or not entry.segment.trusted
            or self._prose[index].segment.trusted
        ]
        place = known.index(entry.segment.index)
        before = self._prose.get(known[place - 1]) if place else None
        after = self._prose.get(known[place + 1]) if place + 1 < len(known) else None
        return before, after


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


def _last(lines: Sequence[str]) -> tuple[str, bool]:
    """Return the last line that is not blank, and whether blank lines follow it."""
    for distance, line in enumerate(reversed(lines)):
        if line.strip():
            return line.strip(), distance > 0
    return "", True


def _first(lines: Sequence[str]) -> str:
    return next((line.strip() for line in lines if line.strip()), "")


def _leads(line: str, *, apart: bool) -> bool:
    if not line:
        return False
    if _OPENS.search(line):
        return True
    takes = _TAKES_BACK.search(line) is not None
    if apart and _FINISHED.search(line):  # a whole sentence, by itself
        return takes and _POINTS.search(line) is not None
    return takes or _DISTANCE.search(line) is not None


def _follows(line: str) -> bool:
    if _CLOSES.match(line):
        return True
    return _TAKES_BACK.search(line) is not None and _POINTS.search(line) is not None


def _near(paragraph: str) -> bool:
    return re.search(r"\b(?:above|below|following|preceding)\b", paragraph, re.IGNORECASE) is not None


def _unclosed(text: str) -> bool:
    return text.count("<!--") > text.count("-->")
