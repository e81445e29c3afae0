# SPDX-License-Identifier: Apache-2.0
"""What of a rule can be recognised in a transcript: our tiers, clauses of our grammar, whole texts (DESIGN 3.7, 3.11).

Recognising is reading, never obeying. What is not recognised stays prose, and prose is only searched for names:
nothing here guesses what a sentence means.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from carriage_core.audit_messages import Segment, normalise
from carriage_core.capsule import replay_text
from carriage_core.capsule_text import MARKER, compact_text, full_text, parse_capsule
from carriage_core.clause import Clause, parse_clause
from carriage_core.errors import CarriageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from carriage_core.binding import ToolBinding
    from carriage_core.policy import Policy

MAX_CLAUSE: Final = 8_192
"""Longest line that is tried as a clause, in characters; a longer one is prose."""

MAX_NESTING: Final = 64
"""Most brackets and ``not`` in a line that is tried as a clause."""

_HEAD: Final = re.compile(rf"=== {MARKER} v[0-9]+ (?:full|compact) [0-9a-f]{{16}} ===")
_END: Final = f"=== END {MARKER} ==="
_BOUND: Final = re.compile(f"{_HEAD.pattern}|{_END}")
_FENCE: Final = re.compile(r" {0,3}(```|~~~)")
_ITEM: Final = re.compile(
    r"(?: {0,3}(?:[-*+\u2022]|[0-9]{1,3}[.)])[ \t]+)?(?:\[([a-z0-9._-]{1,64})\][ \t]+)?((?:deny|confirm|permit)\b.+)"
)
_NESTS: Final = re.compile(r"\(|\bnot\b")


class Form(StrEnum):
    """How a rule is shown."""

    FULL = "full tier"
    COMPACT = "compact tier"
    EXACT = "exact tier"
    MESSAGE = "whole message"
    LINE = "clause"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One recognised rule.

    Attributes:
        segment: The message it stands in.
        start: Where it or the capsule around it begins there, in lines from 0.
        end: The line behind it or that capsule.
        form: How it is shown.
        id: The id it bears, or None.
        policy: Full tier: the rule with all its fields.
        clause: Compact tier and clause lines: the rule.
        text: Compact tier: the sentence of an entry without a clause.
        equal: Digests of the policies that it is, letter for letter after `normalise`; none for a clause line.
    """

    segment: Segment
    start: int
    end: int
    form: Form
    id: str | None = None
    policy: Policy | None = None
    clause: Clause | None = None
    text: str | None = None
    equal: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Prose:
    """Lines that are no recognised rule, with a blank line where a rule was taken out."""

    segment: Segment
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Capsule:
    """What a whole capsule in a message says that tools' names mean."""

    segment: Segment
    start: int
    bindings: tuple[ToolBinding, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Visible:
    """Everything recognised in the segments that count, and the rest as prose."""

    entries: tuple[Entry, ...]
    capsules: tuple[Capsule, ...]
    prose: tuple[Prose, ...]


class Recogniser:
    """Reads segments against the texts of `policies`."""

    def __init__(self, policies: Sequence[Policy]) -> None:
        """Index the texts, so that a message costs its own length."""
        self._whole: dict[str, set[str]] = {}
        self._pieces: dict[str, list[tuple[int, tuple[str, ...], str]]] = {}
        self._shown: dict[str, set[str]] = {}
        for place, policy in enumerate(sorted(policies, key=lambda policy: policy.order)):
            replayed = normalise(replay_text(policy))
            for text in (normalise(policy.text), replayed):
                self._whole.setdefault(text, set()).add(policy.digest)
            lines = tuple(replayed.split("\n"))
            self._pieces.setdefault(lines[0], []).append((place, lines, policy.digest))
            for lone, head in (
                (full_text((policy,), (), policy.digest), 2),
                (compact_text((policy,), policy.digest), 1),
            ):
                shown = normalise("\n".join(lone.split("\n")[head:-1]))
                self._shown.setdefault(shown, set()).add(policy.digest)

    def read(self, segments: Iterable[Segment]) -> Visible:
        """Recognise what stands in `segments`."""
        entries: list[Entry] = []
        capsules: list[Capsule] = []
        prose: list[Prose] = []
        for segment in segments:
            replayed = self._replayed(segment) if segment.whole and segment.text else None
            if replayed is not None:
                entries.append(replayed)
                continue
            reader = _LineReader(segment, self._shown)
            entries += reader.entries
            capsules += reader.capsules
            prose.append(Prose(segment=segment, lines=tuple(reader.rest)))
        return Visible(entries=tuple(entries), capsules=tuple(capsules), prose=tuple(prose))

    def _replayed(self, segment: Segment) -> Entry | None:
        """Recognise a message that is nothing but policy texts: one, or several as the exact tier joins them."""
        one = self._whole.get(segment.text, set())
        several = self._joined(segment.text.split("\n"))
        if not one and not several:
            return None
        form = Form.MESSAGE if one else Form.EXACT
        lines = segment.text.count("\n") + 1
        return Entry(segment=segment, start=0, end=lines, form=form, equal=frozenset(one | several))

    def _joined(self, lines: list[str]) -> set[str]:
        """Name the policies whose texts, in capsule order, make up all of `lines`; empty if nothing does."""
        found: list[tuple[int, int, int, str]] = []
        for start, line in enumerate(lines):
            for place, piece, digest in self._pieces.get(line, ()):
                if tuple(lines[start : start + len(piece)]) == piece:
                    found.append((start, start + len(piece), place, digest))
        # Lowest last place with which the lines up to here can be made; highest first place of the lines from here.
        never = len(lines) + 1 + max((place for _, _, place, _ in found), default=0)
        before = {0: -1}
        for start, end, place, _ in sorted(found):
            if before.get(start, never) < place < before.get(end, never):
                before[end] = place
        after = {len(lines): never}
        for start, end, place, _ in sorted(found, key=lambda piece: -piece[0]):
            if after.get(start, -1) < place < after.get(end, -1):
                after[start] = place
        return {digest for start, end, place, digest in found if before.get(start, never) < place < after.get(end, -1)}


class _LineReader:
    """Takes capsules and clause lines out of one message."""

    def __init__(self, segment: Segment, shown: Mapping[str, set[str]]) -> None:
        self.entries: list[Entry] = []
        self.capsules: list[Capsule] = []
        self.rest: list[str] = []
        self._segment = segment
        self._shown = shown
        self._lines = segment.text.split("\n")
        self._read()

    def _read(self) -> None:
        fence = ""
        index = 0
        while index < len(self._lines):
            line = self._lines[index]
            mark = _FENCE.match(line)
            if mark is not None and fence in {"", mark[1]}:
                fence = "" if fence else mark[1]
            elif not fence:
                end = self._capsule(index) if _HEAD.fullmatch(line) else None
                if end is not None:
                    self.rest += [""] * (end - index)
                    index = end
                    continue
                entry = self._clause(index, line)
                if entry is not None:
                    self.entries.append(entry)
                    line = ""
            self.rest.append(line)
            index += 1

    def _capsule(self, start: int) -> int | None:
        """Read a whole capsule; return the line behind it, or None where there is no whole one."""
        stops = (n for n in range(start + 1, len(self._lines)) if _BOUND.fullmatch(self._lines[n]))
        end = next(stops, start)
        if self._lines[end] != _END:
            return None
        try:
            parsed = parse_capsule("\n".join(self._lines[start : end + 1]))
        except (CarriageError, RecursionError):
            return None
        if parsed.policies:
            heads = [n for n in range(start, end) if self._lines[n].startswith("[")]
            bounds = [*heads, next((n for n in range(start, end) if self._lines[n].startswith("tool ")), end)]
            for number, policy in enumerate(parsed.policies):
                shown = "\n".join(self._lines[bounds[number] : bounds[number + 1]])
                self.entries.append(replace(self._entry(Form.FULL, start, end, policy.id, shown), policy=policy))
        for number, (identifier, what) in enumerate(parsed.compact, start + 1):
            entry = self._entry(Form.COMPACT, start, end, identifier, self._lines[number])
            self.entries.append(replace(entry, text=what) if isinstance(what, str) else replace(entry, clause=what))
        self.capsules.append(Capsule(segment=self._segment, start=start, bindings=parsed.bindings))
        return end + 1

    def _entry(self, form: Form, start: int, end: int, identifier: str, shown: str) -> Entry:
        equal = frozenset(self._shown.get(shown, ()))
        return Entry(segment=self._segment, start=start, end=end + 1, form=form, id=identifier, equal=equal)

    def _clause(self, index: int, line: str) -> Entry | None:
        if len(line) > MAX_CLAUSE or len(_NESTS.findall(line)) > MAX_NESTING:
            return None
        item = _ITEM.fullmatch(line)
        if item is None:
            return None
        try:
            clause = parse_clause(item[2])
        except CarriageError:
            return None
        return Entry(segment=self._segment, start=index, end=index + 1, form=Form.LINE, id=item[1], clause=clause)
