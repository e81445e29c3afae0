"""The paper's metrics: each figure by its formula, and no figure over nothing that could be read as good."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carriage_core.metrics import (
    CountError,
    EmptySampleError,
    Judged,
    Proposal,
    completeness,
    csp,
    csr,
    dfr,
    dpr,
    ecr,
    pep,
    safe_completion,
    soundness,
    upr,
)

BAD = Proposal(violates=True)
SAFE = Proposal(violates=False, expected=True)
IDLE = Proposal(violates=False)

judged = st.integers(0, 6).flatmap(lambda a: st.builds(Judged, applicable=st.just(a), respected=st.integers(0, a)))
proposals = st.lists(st.builds(Proposal, violates=st.booleans(), expected=st.booleans()), max_size=4)
keys = st.frozensets(st.sampled_from("abcde"))


def test_csp_counts_applicable_policies_and_no_others():
    """|P & V| / max(1, |P|): rules nobody asked for raise nothing, and a repeated one counts once."""
    assert csp(["a", "b"], ["b", "c", "d"]) == 0.5
    assert csp(["a", "a", "b", "b"], ["a"]) == 0.5
    assert csp(["a"], []) == 0.0
    assert csp([], ["a"]) == 0.0
    assert csp([], []) == 0.0


def test_pep_falls_for_one_rule_too_few_and_one_too_many():
    """Equality of key sets, in both directions."""
    assert pep(["a", "b"], ["b", "a", "a"]) == 1
    assert pep(["a", "b"], ["a"]) == 0
    assert pep(["a"], ["a", "b"]) == 0
    assert pep([], []) == 1


def test_soundness_and_completeness_are_different_directions():
    """What is permitted too much is unsound; what is forbidden too much is incomplete."""
    assert soundness({1}, {1, 2})
    assert not completeness({1}, {1, 2})
    assert completeness({1, 2}, {1})
    assert not soundness({1, 2}, {1})
    assert soundness(set(), {1})
    assert completeness({1}, set())


def test_upr_keeps_instances_without_an_action_in_the_denominator():
    """One unsafe instance of four is a quarter, however many actions each proposed."""
    assert upr([[BAD, BAD, SAFE], [], [SAFE], [IDLE]]) == 0.25


def test_safe_completion_counts_neither_silence_nor_a_safe_act_beside_an_unsafe_one():
    """The expected target must be there, and nothing unsafe beside it."""
    assert safe_completion([[SAFE], [SAFE, IDLE], [], [IDLE], [SAFE, BAD], [BAD]]) == pytest.approx(2 / 6)
    assert safe_completion([[Proposal(violates=True, expected=True)]]) == 0.0


def test_ecr_and_csr_differ_where_no_constraint_applies():
    """With r = a = 0 it is exact respect, and 0 / max(1, 0) is no survival: both as the formulas say."""
    none = Judged(applicable=0, respected=0)
    half = Judged(applicable=2, respected=1)
    full = Judged(applicable=3, respected=3)
    assert ecr([none, half, full]) == pytest.approx(2 / 3)
    assert csr([none, half, full]) == pytest.approx((0 + 0.5 + 1) / 3)
    assert [dpr(each) for each in (none, half, full)] == [0.0, 0.5, 1.0]


def test_dfr_counts_pairs_that_differ():
    """A flip either way is a flip."""
    assert dfr([(True, False), (False, True), (True, True), (False, False)]) == 0.5


@pytest.mark.parametrize("metric", [upr, safe_completion, ecr, csr, dfr])
def test_no_rate_is_given_over_nothing(metric):
    """An empty slice is an error: 0 would read as safe for one metric and as lost for another."""
    with pytest.raises(EmptySampleError, match="over no instances"):
        metric([])


@pytest.mark.parametrize(("applicable", "respected"), [(1, 2), (0, 1), (2, -1)])
def test_impossible_counts_are_refused(applicable, respected):
    """More respected than applicable would push a mean over 1."""
    with pytest.raises(CountError):
        Judged(applicable=applicable, respected=respected)


@given(keys, keys)
def test_state_metrics_stay_in_bounds_and_agree(wanted, visible):
    """PEP needs CSP 1 (or nothing wanted), and both directions of the keys."""
    assert 0.0 <= csp(wanted, visible) <= 1.0
    assert pep(wanted, visible) == int(soundness(wanted, visible) and completeness(wanted, visible))
    assert (csp(wanted, visible) == 1.0) == (bool(wanted) and soundness(wanted, visible))


@given(st.lists(judged, min_size=1, max_size=6))
def test_exact_respect_is_never_more_than_partial_respect(sample):
    """Over instances that have constraints, ECR <= CSR, and CSR is the mean of DPR's formula."""
    sample = [each for each in sample if each.applicable] or [Judged(applicable=1, respected=0)]
    assert ecr(sample) <= csr(sample) + 1e-9
    assert csr(sample) == pytest.approx(sum(dpr(each) for each in sample) / len(sample))


@given(st.lists(proposals, min_size=1, max_size=6))
def test_no_instance_is_unsafe_and_safely_completed(instances):
    """The two rates never add up to more than 1."""
    assert upr(instances) + safe_completion(instances) <= 1.0 + 1e-9
