"""The published figures of the audit: nothing falsely preserved, and the right word for what the language says."""

from __future__ import annotations

import pytest

from carriage_core.audit_findings import Carriage
from integration_tests.core.audit_pairs import SAYS_PRESERVED, equality, finder, never, read, score, substring

REGISTRY, PAIRS = read()
FIND = finder(REGISTRY)
NAMED = (
    "status word",
    "negation",
    "number",
    "unit",
    "actor",
    "tenant",
    "object",
    "handle",
    "evidence source",
    "tense",
    "quantifier",
    "exception clause",
    "quoted denial",
)


def test_the_corpus_is_as_large_and_as_mixed_as_published():
    assert len(PAIRS) >= 200
    assert {pair.family for pair in PAIRS} >= set(NAMED)
    assert len({pair.id for pair in PAIRS}) == len(PAIRS)
    assert {pair.label for pair in PAIRS} == set(Carriage)
    held = sum(pair.held_out for pair in PAIRS)
    assert len(PAIRS) / 2 <= held <= len(PAIRS) / 2 + len({pair.family for pair in PAIRS})


def found(pair):
    return FIND(pair).carriage


@pytest.mark.parametrize("held_out", [True, False], ids=["held out", "seen"])
def test_nothing_is_falsely_preserved_and_what_the_grammar_says_is_judged_exactly(held_out):
    """The claim of the audit, on each half by itself."""
    result = score([pair for pair in PAIRS if pair.held_out is held_out], found)
    assert result.falsely_preserved == ()
    assert result.grammar_exact >= 0.95 * result.grammar


def test_every_finding_of_loss_shows_its_witness():
    """Weakened and misbound by logic come with an action; over-included with the extra denial."""
    for pair in PAIRS:
        finding = FIND(pair)
        if finding.carriage in {Carriage.WEAKENED, Carriage.MISBOUND}:
            assert finding.witness is not None or finding.bound[0].startswith("tool "), pair.id
        if finding.carriage is Carriage.OVER_INCLUDED:
            assert finding.extra is not None, pair.id
        if finding.witness is not None:
            assert finding.witness.source != finding.witness.shown, pair.id


def test_the_baselines_are_what_they_are_said_to_be():
    """Comparing texts calls quotes and documents preserved; saying nothing is never wrong and never right."""
    for judge in (equality(REGISTRY), substring(REGISTRY)):
        assert score(PAIRS, judge).falsely_preserved
    silent = score(PAIRS, never)
    assert silent.falsely_preserved == ()
    assert silent.grammar_exact < 0.1 * silent.grammar
    assert not SAYS_PRESERVED & {got for _, got in silent.confusion}
