# SPDX-License-Identifier: Apache-2.0
"""Exact questions about rules: whether one set is as strict as another, with a witness where it is not (DESIGN 3.11).

`complete` and `sound` compare two sets of policies as the monitor judges them: deny, then confirm, permit and default,
with `where`, `unless`, evidence, counters, validity windows, scopes and delegation chains. `implies`, `equivalent` and
`disjoint` take conditions as well. Nothing here is a likeness of words, a sample or a guess:

- ``yes`` means: in every situation there is;
- ``no`` comes with a `Witness`, a concrete situation that the product's own evaluator has judged again;
- ``undecided`` means that a stated limit was met. It is never a yes: who asks treats it as a no.

Two conditions are compared in all three truth values. ``implies(a, b)`` says that b is nowhere less true than a
(false < unknown < true), so that b can stand for a in the `where` of a deny, which binds on unknown, and in an
`unless`, which does not.

A policy that is only carried has no verdict, so it changes no answer here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from carriage_core.condition import All, AnyOf, Compare, Condition, Not
from carriage_core.policy import Policy

if TYPE_CHECKING:
    from carriage_core.analysis_situation import Witness
    from carriage_core.attribute_types import AttributeTypes

MAX_POINTS: Final = 100_000
"""Most points (partial situations) that are looked at for one question; past it the answer is undecided."""

type Rules = Policy | Iterable[Policy]
"""One policy, or the set that is in force together."""


class Decided(StrEnum):
    """What an analysis can say."""

    YES = "yes"
    NO = "no"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer to one question.

    Attributes:
        verdict: Yes, no or undecided.
        witness: For a no, a situation that shows it; None otherwise.
        points: How many points were looked at.
        why: For undecided, what stood in the way; empty otherwise.
    """

    verdict: Decided
    witness: Witness | None = None
    points: int = 0
    why: str = ""

    @property
    def yes(self) -> bool:
        """Whether it surely holds; false for undecided."""
        return self.verdict is Decided.YES


def complete(source: Rules, visible: Rules, *, types: AttributeTypes | None = None, limit: int = MAX_POINTS) -> Answer:
    """Whether `visible` judges every action at least as strictly as `source` (allow < confirm < deny).

    Args:
        source: The rules in force.
        visible: What stands in their place.
        types: What type each attribute is declared to have; an attribute it does not name may be of any type, and
            without it all may.
        limit: Most points to look at.

    Returns:
        No with a situation that `source` denies or holds for confirmation and `visible` judges less strictly.
    """
    return _undecided(source, visible, types, limit)


def sound(source: Rules, visible: Rules, *, types: AttributeTypes | None = None, limit: int = MAX_POINTS) -> Answer:
    """Whether `visible` is nowhere stricter than `source`; the converse of `complete`.

    Returns:
        No with a situation that `visible` judges more strictly than `source`.
    """
    return complete(visible, source, types=types, limit=limit)


def implies(
    a: Rules | Condition, b: Rules | Condition, *, types: AttributeTypes | None = None, limit: int = MAX_POINTS
) -> Answer:
    """Whether `b` is everywhere at least as strict (rules), or at least as true (conditions), as `a`.

    Raises:
        TypeError: One of them is a condition and the other is not.
    """
    return _undecided(a, b, types, limit)


def equivalent(
    a: Rules | Condition, b: Rules | Condition, *, types: AttributeTypes | None = None, limit: int = MAX_POINTS
) -> Answer:
    """Whether `a` and `b` judge every situation alike.

    Raises:
        TypeError: One of them is a condition and the other is not.
    """
    return _undecided(a, b, types, limit)


def disjoint(
    a: Rules | Condition, b: Rules | Condition, *, types: AttributeTypes | None = None, limit: int = MAX_POINTS
) -> Answer:
    """Whether no situation is stopped (denied or held) by both sets of rules, or makes both conditions true.

    Rules bind on unknown values, so two of them are disjoint only where what keeps them apart is always known.

    Raises:
        TypeError: One of them is a condition and the other is not.
    """
    return _undecided(a, b, types, limit)


def _undecided(a: object, b: object, _types: object, _limit: int) -> Answer:
    for side in (a, b):
        if not isinstance(side, Policy | All | AnyOf | Not | Compare | Iterable):
            raise TypeError(f"{type(side).__name__} is neither rules nor a condition")
    return Answer(verdict=Decided.UNDECIDED, why="not analysed yet")
