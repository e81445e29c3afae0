# SPDX-License-Identifier: Apache-2.0
"""The one question that an audit asks of exact analysis: is every action judged at least as strictly? (DESIGN 3.11)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from carriage_core.analysis import Decided, implies
from carriage_core.audit_findings import Witness
from carriage_core.clause import render_literal
from carriage_core.condition import attributes
from carriage_core.schema import Absent, Value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from carriage_core.analysis_situation import Witness as Situation
    from carriage_core.attribute_types import AttributeTypes
    from carriage_core.policy import Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """An answer: a witness that it is not so, or undecided, or neither, which is yes.

    Attributes:
        witness: An action that the second set judges less strictly than the first.
        undecided: Whether the question is past the limit of analysis.
    """

    witness: Witness | None = None
    undecided: bool = False

    def turned(self) -> Decision:
        """Return the answer of the question asked the other way round, with source and shown in their places."""
        if self.witness is None:
            return self
        return replace(self, witness=replace(self.witness, source=self.witness.shown, shown=self.witness.source))


type Decide = Callable[[tuple[Policy, ...], tuple[Policy, ...]], Decision]
"""Decides whether the second set judges every action at least as strictly as the first."""


def exactly(types: AttributeTypes | None = None) -> Decide:
    """Decide by exact analysis.

    Args:
        types: What type tools declare each attribute to have; without it, any.
    """

    def decide(source: tuple[Policy, ...], shown: tuple[Policy, ...]) -> Decision:
        answer = implies(source, shown, types=types)
        if answer.verdict is Decided.YES:
            return Decision()
        if answer.verdict is Decided.NO and answer.witness is not None:
            return Decision(witness=_witness(answer.witness, _read(*source, *shown)))
        return Decision(undecided=True)

    return decide


def _read(*rules: Policy) -> frozenset[str]:
    """Name every attribute that the rules read."""
    return frozenset[str]().union(*(attributes(rule.where) | attributes(rule.unless) for rule in rules))


def _witness(situation: Situation, read: frozenset[str]) -> Witness:
    return Witness(
        action=situation.action.name or "an action that cannot be read",
        object_type=situation.action.object_type,
        values=tuple(_values(situation, read)),
        source=_word(situation.first),
        shown=_word(situation.second),
    )


def _values(situation: Situation, read: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Write out what the verdicts hang on; what no rule reads is left out."""
    for name, value in situation.action.attributes.items():
        if name in read:
            yield name, _text(value)
    runtime = situation.runtime
    for name, text in (("tenant", runtime.tenant), ("task", runtime.task), ("actor.id", runtime.actor)):
        if name in read:
            yield name, Absent.MISSING.value if text is None else render_literal(text)
    if "time" in read:
        yield "time", render_literal(situation.moment.now) if situation.moment.trusted else Absent.UNKNOWN.value
    for declaration, fields in situation.records:
        for name, value in fields.items():
            yield f"{declaration.from_tool}: {name}", _text(value)
    for (_, name), before in situation.counters:
        yield f"counter.{name} before", _text(before)


def _text(value: Value | Absent) -> str:
    return value.value if isinstance(value, Absent) else render_literal(value)


def _word(verdict: object) -> str:
    return str(getattr(verdict, "value", verdict))
