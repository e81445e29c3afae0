# SPDX-License-Identifier: Apache-2.0
"""The baselines of the overload table, written out: they send sentences and know nothing of policies.

Replay puts the sentences, joined by line ends, into one system message; best effort cuts it at the budget. Pinning
puts each into a system message of its own; best effort leaves out what does not fit. Preflight makes no call where
the whole does not fit. Tokens are words between blanks, as in the paper (section III-B).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from carriage_lab.overload_cases import Case, Rule

type Messages = tuple[Mapping[str, Any], ...]

type Assemble = Callable[[Case], Messages | None]
"""Returns what is sent in a case, None where no call is made."""

REQUEST: Final[Mapping[str, Any]] = {"role": "user", "content": "Please do what is needed."}
"""The final request of every case: it asks for no action, and no baseline counts it as control."""

_WORD: Final = re.compile(r"\S+")


def words(text: str) -> int:
    """Count words between blanks."""
    return len(text.split())


def joined(rules: Sequence[Rule]) -> str:
    """What exact replay sends of `rules`."""
    return "\n".join(rule.text for rule in rules)


def replay(*, rules: Sequence[Rule] | None, preflight: bool, extra: Callable[[Case], int] = lambda _: 0) -> Assemble:
    """Exact replay of `rules`, or of the case's active ones where that is None, with `extra` budget on top."""

    def assemble(case: Case) -> Messages | None:
        text = joined(case.active if rules is None else rules)
        budget = case.budget + extra(case)
        if words(text) > budget:
            if preflight:
                return None
            text = text[: next(match.end() for index, match in enumerate(_WORD.finditer(text), 1) if index == budget)]
        return ({"role": "system", "content": text}, REQUEST)

    return assemble


def pinning(*, preflight: bool) -> Assemble:
    """Static pinning: each active rule is pinned whole, or not at all."""

    def assemble(case: Case) -> Messages | None:
        left = case.budget
        pins: list[Mapping[str, Any]] = []
        for rule in case.active:
            size = words(rule.text)
            if size <= left:
                left -= size
                pins.append({"role": "system", "content": rule.text})
            elif preflight:
                return None
        return (*pins, REQUEST)

    return assemble
