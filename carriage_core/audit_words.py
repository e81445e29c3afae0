# SPDX-License-Identifier: Apache-2.0
"""Words that may take a rule back, or tell of it instead of saying it (DESIGN 3.11).

No list of words is complete, so the lists only ever cast doubt: a line that leads up to a rule and does not end must be
one of the few that announce rules, whatever its words.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

TAKES_BACK: Final = re.compile(
    r"\b(?:no longer|not? (?:any ?more|in force|in effect|binding|valid|true|appl\w+)|n't (?:apply|hold|count)"
    r"|withdr\w+"
    r"|revo[ck]\w+|rescind\w*|repeal\w*|cancel\w*|lifted|supersed\w*|replaced|overr[iu]\w+|suspend\w*|waive\w*|voi(?:d|ds"
    r"|ded)|retract\w*|obsolete|outdated|disregard\w*|ignor\w+|forget|false|untrue|lapsed|expired|ceased?|removed"
    r"|dropped|deleted|abolish\w*|annul\w*|nullif\w*|deprecated|discontinued|struck|inactive|disabled|turned off"
    r"|optional|skip\w*|bypass\w*|exempt\w*|relax\w*)\b",
    re.IGNORECASE,
)
"""Words that take a rule back."""

DISTANCE: Final = re.compile(
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
_FORWARD: Final = re.compile(
    r"\b(?:here|following|below|next|as follows|th(?:is|ese)|rules?|polic(?:y|ies)|capsule|told)\b", re.IGNORECASE
)
NEAR: Final = re.compile(r"\b(?:above|below|following|preceding)\b", re.IGNORECASE)
"""Points to something else in the same message."""

CAPSULE: Final = re.compile(r"\bcapsules?\b", re.IGNORECASE)
"""Names our capsule."""

RULES: Final = re.compile(
    r"\b(?:capsules?|(?:all|any|every|previous|earlier|above|th(?:is|at|ese|ose|e)) (?:\w+ )?"
    r"(?:rules?|polic(?:y|ies)))\b",
    re.IGNORECASE,
)
"""Names rules at large."""

_ANNOUNCES: Final = re.compile(
    r"[#*\s]*(?:(?:please )?(?:follow|obey|respect|keep to) )?(?:these |the |all |your )?(?:following )?"
    r"(?:control |task |trusted )?(?:capsule|rules?|polic(?:y|ies)|constraints?|guardrails?)"
    r"(?: in force| that apply)?[:*\s]*",
    re.IGNORECASE,
)
"""The only unfinished lines that may lead up to a rule without casting doubt on it."""

_FINISHED: Final = re.compile(r"[.!?)>`\]]\Z")
_PENDING: Final = re.compile(r"[:\uff1a,;\u2026\u2013\u2014-]\Z")
_OPENS: Final = re.compile(r"<!--|<(?!/)[A-Za-z][^<>]*>\Z|[\"'\u201c\u201e(\[{*~_]\Z")
_CLOSES: Final = re.compile(r"-->|</[A-Za-z][^<>]*>")
_TAG: Final = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9_-]*)[^<>]*?(/?)>")
HEADING: Final = re.compile(r" {0,3}#{1,6} ")
"""A heading of a section."""


def leads(line: str, *, apart: bool, strict: bool) -> bool:
    """Whether a line may lead up to a rule in order to tell of it; where `strict`, most unfinished lines may."""
    if not line:
        return False
    if _OPENS.search(line):
        return True
    takes, distant = TAKES_BACK.search(line) is not None, DISTANCE.search(line) is not None
    if apart and _FINISHED.search(line):  # a whole sentence, by itself
        return (takes and _POINTS.search(line) is not None) or (distant and _FORWARD.search(line) is not None)
    if strict and _PENDING.search(line) and not _ANNOUNCES.fullmatch(line):
        return True
    return takes or distant


def follows(line: str) -> bool:
    """Whether a line may take back what stands before it."""
    if _CLOSES.match(line):
        return True
    takes, distant = TAKES_BACK.search(line) is not None, DISTANCE.search(line) is not None
    points = CAPSULE.search(line) is not None or re.search(r"\b(?:above|preceding)\b", line, re.IGNORECASE) is not None
    return (takes and _POINTS.search(line) is not None) or (distant and points)


def wrapped(before: str, after: str) -> bool:
    """Whether a comment or a tag opens in `before` and closes in `after`, or a comment never does."""
    if before.count("<!--") > before.count("-->"):
        return True
    opened: Counter[str] = Counter()
    for tag in _TAG.finditer(before):
        if not tag[3]:
            opened[tag[2].casefold()] += -1 if tag[1] else 1
    closed = {tag[2].casefold() for tag in _TAG.finditer(after) if tag[1]}
    return any(count > 0 and name in closed for name, count in opened.items())
