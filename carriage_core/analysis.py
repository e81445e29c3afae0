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
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from carriage_core.analysis_conditions import ConditionQuestion
from carriage_core.analysis_judge import RuleJudge, plainly_kept
from carriage_core.analysis_rules import RuleQuestion
from carriage_core.analysis_search import BothReach, Ranges, Search, exceeds
from carriage_core.analysis_situation import evaluated_again, judged_again
from carriage_core.analysis_strings import UndecidableError
from carriage_core.condition import All, AnyOf, Compare, Condition, Not, Truth
from carriage_core.policy import Policy
from carriage_core.verdict import Outcome

if TYPE_CHECKING:
    from carriage_core.analysis_search import Goal
    from carriage_core.analysis_situation import Witness
    from carriage_core.attribute_types import AttributeTypes

MAX_POINTS: Final = 20_000
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
    return _ask_rules(_set(source), _set(visible), types, limit, exceeds)


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
    if _is_condition(a, b):
        return _ask_conditions(a, b, types, limit, exceeds)  # type: ignore[arg-type]  # just looked at
    return complete(a, b, types=types, limit=limit)  # type: ignore[arg-type]


def equivalent(
    a: Rules | Condition, b: Rules | Condition, *, types: AttributeTypes | None = None, limit: int = MAX_POINTS
) -> Answer:
    """Whether `a` and `b` judge every situation alike.

    Raises:
        TypeError: One of them is a condition and the other is not.
    """
    there = implies(a, b, types=types, limit=limit)
    if there.verdict is Decided.NO:
        return there
    back = implies(b, a, types=types, limit=limit)
    points = there.points + back.points
    if back.verdict is Decided.NO and back.witness is not None:
        witness = replace(back.witness, first=back.witness.second, second=back.witness.first)
        return replace(back, witness=witness, points=points)
    return replace(there if there.verdict is Decided.UNDECIDED else back, points=points)


def disjoint(
    a: Rules | Condition, b: Rules | Condition, *, types: AttributeTypes | None = None, limit: int = MAX_POINTS
) -> Answer:
    """Whether no situation is stopped (denied or held) by both sets of rules, or makes both conditions true.

    Rules bind on unknown values, so two of them are disjoint only where what keeps them apart is always known.

    Raises:
        TypeError: One of them is a condition and the other is not.
    """
    if _is_condition(a, b):
        return _ask_conditions(a, b, types, limit, BothReach(Truth.TRUE))  # type: ignore[arg-type]  # just looked at
    return _ask_rules(_set(a), _set(b), types, limit, BothReach(Outcome.CONFIRM.strictness))  # type: ignore[arg-type]


def _is_condition(a: object, b: object) -> bool:
    kinds = {isinstance(side, All | AnyOf | Not | Compare) for side in (a, b)}
    if len(kinds) > 1:
        raise TypeError("a condition is compared with rules; pass two conditions or two sets of rules")
    return kinds.pop()


def _set(rules: Rules) -> tuple[Policy, ...]:
    return (rules,) if isinstance(rules, Policy) else tuple(rules)


def _ask_rules(
    first: tuple[Policy, ...], second: tuple[Policy, ...], types: AttributeTypes | None, limit: int, goal: Goal
) -> Answer:
    if goal is exceeds and plainly_kept(first, second):
        return Answer(verdict=Decided.YES)
    search: Search | None = None
    try:
        question = RuleQuestion(first, second, types, lifts=goal is exceeds)
        ranges = Ranges()
        search = Search(
            domains=question.domains,
            judge=RuleJudge(question, goal, ranges),
            ranges=ranges,
            limit=limit,
            early=question.early,
            constraints=question.constraints,
            linked=question.linked,
        )
        found = search.run()
        if found is not None:
            witness = judged_again(question.situation(found), first, second)
            return _no(witness, goal, witness.first.strictness, witness.second.strictness, search.points)  # type: ignore[union-attr]
    except UndecidableError as limit_met:
        return _undecided(str(limit_met), search)
    if question.doubts:
        return _undecided(question.doubts, search)
    return Answer(verdict=Decided.YES, points=search.points)


def _ask_conditions(
    first: Condition, second: Condition, types: AttributeTypes | None, limit: int, goal: Goal
) -> Answer:
    search: Search | None = None
    try:
        question = ConditionQuestion(first, second, types)
        ranges = Ranges()
        search = Search(
            domains=question.domains,
            judge=question.judge(first, second, goal, ranges),
            ranges=ranges,
            limit=limit,
            linked=question.linked,
        )
        found = search.run()
        if found is not None:
            witness = evaluated_again(question.situation(found), first, second)
            return _no(witness, goal, int(witness.first), int(witness.second), search.points)
    except UndecidableError as limit_met:
        return _undecided(str(limit_met), search)
    return Answer(verdict=Decided.YES, points=search.points)


def _no(witness: Witness, goal: Goal, first: int, second: int, points: int) -> Answer:
    """Say no, unless the evaluator judges the witness otherwise: then the analysis is wrong and decides nothing."""
    if not goal((first, first), (second, second))[1]:
        return Answer(
            verdict=Decided.UNDECIDED, points=points, why=f"the evaluator does not confirm: {witness.describe()}"
        )
    return Answer(verdict=Decided.NO, witness=witness, points=points)


def _undecided(why: str, search: Search | None) -> Answer:
    return Answer(verdict=Decided.UNDECIDED, points=0 if search is None else search.points, why=why)
