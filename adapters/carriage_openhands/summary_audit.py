# SPDX-License-Identifier: Apache-2.0
"""Which lines of a summary speak of rules, and how (DESIGN 3.11).

This reads words, not meaning: it reports, and the rules hold in any case, since the capsule is carried and the monitor
judges by the registry. A line is related to a policy that it names, or whose words it mostly shares.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from carriage_core import CarriageError, clause_of, parse_clause, render_clause

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from carriage_core import Policy

STRUCK: Final = "(a line about rules was struck here)"
"""Stands for every line that was struck."""

_SHARED: Final = 0.6
"""How much of a policy's words a line shares at least, for it to speak of that policy."""

_LONGEST_CLAUSE: Final = 2_000

_WORD: Final = re.compile(r"[a-z0-9]+(?:[._/-][a-z0-9]+)*")
_PLAIN: Final = frozenset(
    [
        *("a", "an", "and", "any", "are", "as", "at", "be", "by", "for", "from", "in", "into", "is", "it", "its"),
        *("of", "on", "or", "that", "the", "this", "to", "was", "were", "with"),
    ]
)
_NEGATION: Final = frozenset(
    ["no", "not", "never", "none", "don't", "doesn't", "mustn't", "cannot", "can't", "without", "unless", "only"]
)
_PERMITS: Final = re.compile(
    r"\b(?:authori[sz](?:ed?|es|ation)|allow(?:s|ed)?|permit(?:s|ted)?|permission|approv(?:es?|ed|al)|may now|can now|"
    r"free to|fine to|ok(?:ay)? to|waiv(?:es?|ed|er)|lift(?:s|ed)?|exempt(?:ed|ion)?|overrid(?:e[sn]?|den)|"
    r"no longer (?:appl\w+|needed|required|in force)|disregard|ignore|revoked?|suspended)\b",
    re.IGNORECASE,
)
_SOFTENS: Final = re.compile(
    r"\b(?:prefer\w*|ideally|usually|generally|normally|when (?:convenient|possible)|if (?:possible|convenient)|"
    r"should (?:try|avoid)|try\w* (?:to|not)|recommend\w*|suggest\w*|optional\w*|reluctan\w+|"
    r"would rather|discourag\w+)\b",
    re.IGNORECASE,
)
_RULE: Final = re.compile(
    r"(?:\b(?:new (?:rule|polic(?:y|ies)|instructions?)|polic(?:y|ies)|from now on|system (?:prompt|message)|"
    r"must (?:always|never))\b|^\W*system\s*:)",
    re.IGNORECASE,
)


class About(StrEnum):
    """How a line speaks of rules."""

    RESTATES = "restates"
    WEAKENS = "weakens"
    CONTRADICTS = "contradicts"
    INVENTS = "invents"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line of a summary that speaks of rules.

    Attributes:
        line: Its number, from 0.
        about: How.
        policy: Id of the policy it speaks of; None for an invented rule.
    """

    line: int
    about: About
    policy: str | None


def audit_summary(summary: str, policies: Iterable[Policy]) -> tuple[Finding, ...]:
    """Find the lines that restate, weaken, contradict or invent a rule."""
    known = [_Known(policy) for policy in policies]
    return tuple(finding for number, line in enumerate(summary.split("\n")) for finding in _line(number, line, known))


def struck(summary: str, findings: Sequence[Finding]) -> str:
    """Return the summary with `STRUCK` for every line that was found."""
    numbers = {finding.line for finding in findings}
    return "\n".join(STRUCK if number in numbers else line for number, line in enumerate(summary.split("\n")))


def _line(number: int, line: str, known: Sequence[_Known]) -> Iterator[Finding]:
    if not line.strip():
        return
    related = [policy for policy in known if policy.is_named_in(line)]
    for policy in related:
        yield Finding(line=number, about=policy.treated_by(line), policy=policy.id)
    if not related and (_PERMITS.search(line) or _RULE.search(line) or _clause(line) is not None):
        yield Finding(line=number, about=About.INVENTS, policy=None)


class _Known:
    """A policy, and what it can be told by."""

    def __init__(self, policy: Policy) -> None:
        self.id = policy.id
        self._text = _flat(policy.text)
        self._words = _words(policy.text)
        self._negative = not _NEGATION.isdisjoint(_raw(policy.text))
        clause = clause_of(policy)
        self._clause = None if clause is None else render_clause(clause)

    def is_named_in(self, line: str) -> bool:
        if self.id in _WORD.findall(line.casefold()) or self._text in _flat(line):
            return True
        shared = self._words & _words(line)
        return len(shared) > 1 and len(shared) >= _SHARED * len(self._words)

    def treated_by(self, line: str) -> About:
        """Say what a line that speaks of this policy makes of it."""
        rest = _flat(line).replace(self._text, " ")
        clause = _clause(line)
        if _PERMITS.search(rest):
            return About.CONTRADICTS
        if _SOFTENS.search(rest) or (clause is not None and clause != self._clause):
            return About.WEAKENS
        if self._negative and _NEGATION.isdisjoint(_raw(line)) and clause is None:
            return About.CONTRADICTS
        return About.RESTATES


def _clause(line: str) -> str | None:
    """Return a line that is a clause of the policy language, in its one spelling."""
    text = re.sub(r"^\s*(?:[-*+]\s+)?(?:\[[a-z0-9._-]{1,64}\]\s+)?", "", line).strip()
    if not text or len(text) > _LONGEST_CLAUSE:
        return None
    try:
        return render_clause(parse_clause(text))
    except CarriageError:
        return None


def _flat(text: str) -> str:
    return " ".join(text.casefold().split()).rstrip(".")


def _raw(text: str) -> set[str]:
    return set(re.findall(r"[a-z']+", text.casefold()))


def _words(text: str) -> set[str]:
    """The words that say what a sentence is about, without their endings."""
    found = set(_WORD.findall(text.casefold())) - _PLAIN - _NEGATION
    return {_stem(word) for word in found}


def _stem(word: str) -> str:
    for ending in ("ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) > len(ending) + 2:
            return word.removesuffix(ending).removesuffix("e")
    return word.removesuffix("e") if len(word) > 3 else word  # noqa: PLR2004  # as its longer forms lose theirs
