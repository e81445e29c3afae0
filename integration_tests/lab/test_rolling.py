"""The plain rolling baseline: head, recent tail, cuts only where the SDK allows them."""

import pytest

from carriage_lab.rolling import max_size, window

PAIRS = frozenset({0, 1, 2, 4, 6, 8, 10})
"""Where a log of system prompt, task and four action-observation pairs may be cut."""


@pytest.mark.parametrize(
    ("events", "rho", "size"), [(10, 0.5, 20), (10, 1, 10), (10, 1.25, 8), (9, 2, 4), (10, 3, 3), (2, 3, 3)]
)
def test_the_window_is_events_over_rho_and_never_blind(events, rho, size):
    """Rounded down; at least one event beyond the head, for an agent that sees nothing new cannot go on."""
    assert max_size(events, rho, keep_first=2) == size


@pytest.mark.parametrize(
    ("size", "cut"), [(10, (10, 10)), (20, (10, 10)), (8, (2, 4)), (7, (2, 6)), (4, (2, 8)), (3, (2, 8))]
)
def test_no_cut_splits_a_pair(size, cut):
    """The tail shrinks to the next whole unit, except that the newest one always stays."""
    head, tail = window(10, PAIRS, keep_first=2, size=size)
    assert (head, tail) == cut
    assert {head, tail} <= PAIRS


def test_a_head_inside_a_unit_grows_to_its_end():
    """keep_first counts events, the SDK cuts at units."""
    assert window(10, PAIRS, keep_first=3, size=6) == (4, 8)


def test_a_history_of_one_unit_is_kept_whole():
    """There is no place to cut it."""
    assert window(6, frozenset({0, 6}), keep_first=2, size=3) == (6, 6)
