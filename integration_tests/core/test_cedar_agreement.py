"""Over the subset both can express we say what Cedar says; where it skips a rule in error, we never allow for it."""

from integration_tests.core.cedar_agreement import OPERATORS, agreement, errors


def test_no_request_gets_another_verdict_than_cedar_gives() -> None:
    """Verdicts are Cedar's on requests free of errors; each verdict and operator occurs, both ways round."""
    seen = agreement(1, wanted=800)
    assert not seen["disagreements"], seen
    assert min(seen["allow"], seen["deny"]) >= 0.25 * seen["requests"], seen
    for operator in OPERATORS:
        assert min(seen[f"{operator} True"], seen[f"{operator} False"]) >= 10, (operator, seen)


def test_a_rule_that_cannot_be_decided_is_never_skipped() -> None:
    """Where a value is missing or ill-typed and we allow, Cedar allows whatever the value really is; Cedar skips."""
    seen = errors(1, wanted=250)
    assert not seen["we allow, and Cedar denies for some real value"], seen
    assert seen["we allow"] >= 20, seen
    assert seen["Cedar allows, and denies for some real value"] >= 20, seen
