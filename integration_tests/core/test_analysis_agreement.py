"""The analysis beside z3 and beside trying, and whether either would notice if it were wrong."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carriage_core import (
    analysis,
    analysis_conditions,
    analysis_judge,
    analysis_points,
    analysis_rules,
    analysis_strings,
)
from carriage_core.analysis_attributes import Domains, kinds_and_absences
from carriage_core.analysis_judge import RuleJudge
from carriage_core.analysis_records import Records
from carriage_core.analysis_search import Ranges, Search
from integration_tests.core import analysis_brute as brute
from integration_tests.core import analysis_z3
from integration_tests.core.analysis_samples import TYPES as SAMPLE_TYPES
from integration_tests.core.analysis_samples import condition_pair, drawn, rule_pair

if TYPE_CHECKING:
    from decimal import Decimal

    from carriage_core.analysis import Answer


# -- against z3, and against trying ------------------------------------------------------------------


def at_most(count: int) -> settings:
    """z3 takes its time: the long run is benchmarks/analysis_agreement.py."""
    return settings(max_examples=min(count, settings.default.max_examples if settings.default else count))


def condition_answers(seed: int) -> tuple[Answer, str, bool, bool]:
    """Ours, that of z3, whether trying disproves it, and whether its witness is confirmed."""
    rng = drawn("conditions", seed)
    kind = rng.choice(("implies", "equivalent", "disjoint"))
    first, second = condition_pair(rng)
    answer = getattr(analysis, kind)(first, second, types=SAMPLE_TYPES)
    told = analysis_z3.ask_conditions(kind, first, second)
    found = answer.yes and brute.conditions_differ(kind, first, second, rng, 500)
    good = answer.witness is None or brute.witness_of_conditions(kind, first, second, answer.witness)
    return answer, told, found, good


def rule_answers(seed: int) -> tuple[Answer, str, bool, bool]:
    rng = drawn("rules", seed)
    kind = rng.choice(("complete", "sound", "equivalent", "disjoint"))
    first, second = rule_pair(rng)
    answer = getattr(analysis, kind)(first, second, types=SAMPLE_TYPES)
    told = analysis_z3.ask_rules(kind, first, second)
    found = answer.yes and brute.rules_differ(kind, first, second, rng, 60)
    good = answer.witness is None or brute.witness_of_rules(kind, first, second, answer.witness) is not False
    return answer, told, found, good


def agreed(answers: tuple[Answer, str, bool, bool]) -> bool:
    answer, told, found, good = answers
    return good and not found and told in {"unknown", str(answer.verdict)}


@at_most(150)
@given(st.integers(0, 10**9))
def test_answers_about_conditions_differ_from_z3(seed: int) -> None:
    """The same question as two Booleans for each atom, and by trying."""
    answers = condition_answers(seed)
    assert agreed(answers), answers


@at_most(30)
@given(st.integers(0, 10**9))
def test_answers_about_rules_differ_from_z3(seed: int) -> None:
    """The same for sets of rules with defaults, permits, evidence, scopes and chains."""
    answers = rule_answers(seed)
    assert agreed(answers), answers


# -- would the comparison notice? --------------------------------------------------------------------


def _none(*_: object, **__: object) -> set[Decimal]:
    return set()


FAULTS: dict[str, tuple[object, str, object, str]] = {
    "no value between two constants": (analysis_points, "_between", _none, "conditions"),
    "no value beyond the constants": (analysis_points, "_beyond", _none, "conditions"),
    "no other characters": (analysis_strings, "_alphabet", lambda literal, kinds: sorted(literal), "conditions"),
    "attributes are never compared": (Domains, "link", lambda *_, **__: None, "conditions"),
    "one value a cell": (Search, "_fresh", lambda self, variable, point: point.rank == 0, "conditions"),
    "nothing is ever absent": (
        analysis_conditions,
        "kinds_and_absences",
        lambda name, types: (kinds_and_absences(name, types)[0], ()),
        "conditions",
    ),
    "globs are prefixes": (analysis_points, "glob_pieces", lambda text: (text.split("*")[0], ""), "conditions"),
    "not keeps its part": (
        Ranges,
        "of",
        lambda self, one, value: OF(self, getattr(one, "part", one), value),
        "conditions",
    ),
    "every rule is covered": (RuleJudge, "_covered", lambda *_: True, "rules"),
    "one member is the whole chain": (analysis_rules.RuleQuestion, "_chain", lambda *_, **__: (1, False), "rules"),
    "there is never evidence": (Records, "of", lambda *_: [], "rules"),
    "every type is certain": (RuleJudge, "_sure", lambda *_: (True, True), "rules"),
    "lifted by one member": (analysis_judge, "_every", analysis_judge._some, "rules"),
}
OF = Ranges.of
SEEDS = {"conditions": range(4_000), "rules": range(1_500)}


def asked(which: str, seed: int) -> tuple[str, Any, Any]:
    rng = drawn(which, seed)
    if which == "conditions":
        return rng.choice(("implies", "equivalent", "disjoint")), *condition_pair(rng)
    return rng.choice(("complete", "sound", "equivalent", "disjoint")), *rule_pair(rng)


def answered(which: str, seed: int) -> str:
    kind, first, second = asked(which, seed)
    answer: Answer = getattr(analysis, kind)(first, second, types=SAMPLE_TYPES, limit=300)
    return "refuted" if "does not confirm" in answer.why else str(answer.verdict)


whole = cache(answered)
"""What the analysis says as it is; z3 is asked where a fault makes it say something else."""


@pytest.mark.parametrize("fault", FAULTS)
def test_a_seeded_fault_goes_unnoticed(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part of the analysis matters: broken on purpose, some answer is no longer that of z3."""
    where, name, replacement, which = FAULTS[fault]
    for seed in SEEDS[which]:
        good = whole(which, seed)
        with monkeypatch.context() as patch:
            patch.setattr(where, name, replacement)
            broken = answered(which, seed)
        if broken != good and "undecided" not in {broken, good}:
            kind, first, second = asked(which, seed)
            ask = analysis_z3.ask_conditions if which == "conditions" else analysis_z3.ask_rules
            assert ask(kind, first, second) in {good, "unknown"}
            return
    pytest.fail(f"no question notices: {fault}")
