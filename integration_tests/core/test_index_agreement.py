"""Invariant 4 over generated registries and calls, and that the comparison would see an index that is wrong."""

import pytest

from integration_tests.core.generated_calls import cases
from integration_tests.core.index_agreement import FAULTS, Fault, differences, tally


def test_no_rule_is_lost_between_the_index_and_a_scan_of_everything() -> None:
    """A+ and A* are those of a plain scan, A+ contains A*, and at least 30 % of the pairs have an A*."""
    seen = tally(cases(1, worlds=60, calls=40))
    assert not differences(seen), seen
    assert seen["pairs"] >= 2_400
    assert seen["with A*"] >= 0.3 * seen["pairs"], seen
    assert min(seen["with a missing or unknown value"], seen["with several actions"]) >= 0.1 * seen["pairs"], seen
    assert seen["refused"] > 0


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_an_index_with_a_fault_is_found_out(fault: Fault) -> None:
    """The comparison above is strong enough to see each of these faults."""
    assert differences(tally(cases(2, worlds=60, calls=20), fault.selection()))
