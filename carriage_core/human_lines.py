# SPDX-License-Identifier: Apache-2.0
"""Which lines of a person's message say a rule (DESIGN 3.12): marked, at the start of a line, unquoted, unfenced.

::

    POLICY: sentence or clause          a new rule
    POLICY[id]: sentence or clause      the rule of that id: new, or changed
    POLICY[id]: withdraw                the rule of that id is taken back

A rule is one line with nothing but other rules next to it: blank lines around it. So it cannot be the lazy
continuation of a quote or of a list item, and half a sentence is never a rule. What CommonMark calls a fence, a code
block, a quote, a list item or HTML never holds one. Where its state cannot be told from single lines (HTML, a fence
inside a list, a forwarded mail, a capsule) no later line of the message counts. That reads less than CommonMark would,
never more, and every marked line that was passed over is named with the reason.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from typing import Final

from carriage_core.capsule_text import count_imitations

MAX_PASSED: Final = 100
"""Most passed-over lines that are named; further ones are only not admitted."""

WITHDRAW: Final = "withdraw"
"""As the whole text of a rule with an id: take it back."""

_FENCE: Final = re.compile(r"( {0,3})(`{3,}|~{3,})(.*)")
_TAG: Final = re.compile(r"<[A-Za-z/!?]")
_FORWARDED: Final = re.compile(
    r"[\s>*_]*(?:-*\s?begin forwarded message|-{2,}\s?(?:original|forwarded) message|on\s.{1,200}\swrote:\s*$"
    r"|from:\s.{0,200}@)",
    re.IGNORECASE,
)
_QUOTES: Final = re.compile('["\u201c\u201d\u201e\u201f\u00ab\u00bb\uff02]')
_SPANS: Final = re.compile(r"[`<\[]")
"""What may begin an inline construct that goes on in the next line of a paragraph."""

_BARRIERS: Final = (
    (_TAG.search, "it stands behind HTML"),
    (_FORWARDED.match, "it stands behind a forwarded message"),
    (count_imitations, "it stands behind something that looks like a control capsule"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SaidLine:
    """A rule as a person said it.

    Attributes:
        number: Its line in the message, from 1.
        id: The id it names, or None; not checked.
        text: What follows the colon, without outer blanks.
        continued: Whether something that is neither a rule nor a blank line stands directly below it.
    """

    number: int
    id: str | None
    text: str
    continued: bool = False

    @property
    def withdraws(self) -> bool:
        """Whether it takes the rule back."""
        return self.text.rstrip(".").casefold() in {WITHDRAW, "withdrawn"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PassedLine:
    """A line that bears the marker and says no rule.

    Attributes:
        number: Its line in the message, from 1.
        reason: Why it does not count, as the end of a sentence that begins with the line.
    """

    number: int
    reason: str


class LineReader:
    """Finds rules behind one marker."""

    def __init__(self, marker: str) -> None:
        """Read for `marker`, a word and a colon."""
        word = re.escape(marker.removesuffix(":"))
        self._rule = re.compile(rf"{word}(?:\[([^\]]*)\])?:(.*)")
        self._mention = re.compile(rf"(?<!\w){word} {{0,3}}(?:\[[^\]]{{0,99}}\])? {{0,3}}:", re.IGNORECASE)

    def mentions(self, text: str, reason: str) -> tuple[PassedLine, ...]:
        """Name the lines of a text that bear the marker, and that for `reason` nobody said."""
        if self._mention.search(text) is None:
            return ()
        found = (number for number, line in enumerate(_lines(text), 1) if self._mention.search(line))
        return tuple(PassedLine(number=number, reason=reason) for number in itertools.islice(found, MAX_PASSED))

    def read(self, text: str) -> tuple[tuple[SaidLine, ...], tuple[PassedLine, ...]]:
        """Read a message: the rules it says, and the marked lines that say none."""
        if self._mention.search(text) is None:
            return (), ()
        return _Scan(self._rule, self._mention).over(_lines(text))


def _lines(text: str) -> list[str]:
    """Split at CommonMark's line ends; other characters that some programs break at are refused in a rule."""
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _blank(line: str) -> bool:
    return not line.strip(" \t")


class _Scan:
    """One pass over a message."""

    def __init__(self, rule: re.Pattern[str], mention: re.Pattern[str]) -> None:
        self._match = rule.fullmatch
        self._mention = mention.search
        self._said: list[SaidLine] = []
        self._passed: list[PassedLine] = []
        self._fence = ""
        self._barrier = ""
        self._marks = 0
        self._opened = 0
        self._before = "blank"
        """What the line above is: ``blank``, ``rule`` or ``text``; a rule that may go on below is ``open rule``."""

    def over(self, lines: list[str]) -> tuple[tuple[SaidLine, ...], tuple[PassedLine, ...]]:
        for number, line in enumerate(lines, 1):
            if _blank(line):
                self._before = "blank"
            elif not self._fenced(number, line):
                self._visible(number, line, lines[number] if number < len(lines) else "")
        return tuple(self._said), tuple(self._passed)

    def _fenced(self, number: int, line: str) -> bool:
        """Keep track of fences; say whether the line belongs to one."""
        mark = _FENCE.fullmatch(line)
        inside = bool(self._fence)
        if inside:
            closes = mark is not None and _blank(mark[3]) and mark[2].startswith(self._fence)
            if closes:
                self._fence = ""
            elif self._mention(line):
                self._pass(number, "it stands inside a fence")
        elif mark is not None and not mark[1] and not (mark[2][0] == "`" and "`" in mark[3]):
            self._fence = mark[2]
        else:
            if mark is not None:
                # In a list it ends with the list, elsewhere it does not; or it is no fence to CommonMark.
                self._barrier = self._barrier or "it stands behind a fence whose end is unclear"
            return False
        self._before = "text"
        return True

    def _visible(self, number: int, line: str, below: str) -> None:
        rule = self._match(line)
        reason = self._barrier or self._reason(marked=rule is not None)
        if rule is not None and not reason:
            text = rule[2].strip(" \t")
            continued = not _blank(below) and self._match(below) is None
            self._said.append(SaidLine(number=number, id=rule[1], text=text, continued=continued))
            self._before = "open rule" if _SPANS.search(text) or len(_QUOTES.findall(text)) % 2 else "rule"
        else:
            if self._mention(line):
                self._pass(number, reason)
            self._quote(_QUOTES.findall(line))
            self._before = "text"
        for found, why in _BARRIERS:
            if not self._barrier and found(line):
                self._barrier = why

    def _reason(self, *, marked: bool) -> str:
        if not marked:
            return "the marker is not the start of the line, exactly as declared"
        if self._before == "text":
            return "it continues the paragraph above it; put a blank line between them"
        if self._before == "open rule":
            return "the rule above it may go on into it; put a blank line between them"
        if self._marks % 2 == 1 or self._opened > 0:
            return "it stands inside a quotation that has been opened"
        return ""

    def _quote(self, marks: list[str]) -> None:
        """Count quotation marks. A quotation is open at an odd one, or where paragraphs open it more than once."""
        self._marks += len(marks)
        self._opened += marks.count("\u201c") - marks.count("\u201d") - marks.count("\u201e")

    def _pass(self, number: int, reason: str) -> None:
        if len(self._passed) < MAX_PASSED:
            self._passed.append(PassedLine(number=number, reason=reason))
