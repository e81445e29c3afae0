"""What a table must not round away or half-write."""

import csv
import json

import pytest

from carriage_lab import grid, tables
from carriage_lab.placement import Placement
from carriage_lab.rows import COLUMNS, Key, Tally, merged, rows

KEY = Key("autogen", "AG-B", False, Placement.LATER, 1.25)
TALLY = Tally(calls=1016, preserved=1015, absent=1, silent_incomplete=1, control_tokens=7)


@pytest.mark.parametrize(
    ("part", "whole", "exact", "short"),
    [
        (0, 9, "0%", "0%"),
        (0, 0, "0%", "0%"),
        (9, 9, "100%", "100%"),
        (158, 1016, "15.6%", "16%"),
        (48, 1513, "3.2%", "3%"),
        (99_999, 100_000, ">99.9%", ">99%"),
        (1, 100_000, "<0.1%", "<1%"),
    ],
)
def test_almost_all_is_never_called_all(part, whole, exact, short):
    """One lost policy in a hundred thousand calls is a loss."""
    assert grid.share(part, whole, digits=1) == exact
    assert grid.share(part, whole, digits=0) == short


def test_the_two_files_say_the_same(tmp_path):
    """Columns, order and values."""
    found = list(rows({KEY: TALLY}))
    tables.write(tmp_path, found, {"complete": True})
    listed = json.loads((tmp_path / "table.json").read_text())
    with (tmp_path / "table.csv").open(newline="") as stream:
        read = list(csv.DictReader(stream))
    assert list(listed[0]) == list(read[0]) == list(COLUMNS)
    assert [json.loads(read[0][name]) for name in ("ours", "rho", "calls", "preserved")] == [
        False,
        1.25,
        1016,
        1015,
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.json", "table.csv", "table.json"]


def test_adding_tallies_changes_neither_side():
    """An interrupt between two runs must leave the sum of whole runs."""
    left = {KEY: TALLY}
    total = merged(left, {KEY: Tally(calls=4, failed_closed=4, control_tokens=3)})
    assert left[KEY].calls == 1016
    assert (total[KEY].calls, total[KEY].failed_closed, total[KEY].control_tokens) == (1020, 4, 7)


def test_over_budget_cells_are_marked():
    """Text kept by going over the budget is no protection (paper, Table VI)."""
    over = Tally(calls=2, preserved=2, over_budget=1)
    assert "100%*" in grid.plain(list(rows({KEY: over})))
    assert "100%*" not in grid.plain(list(rows({KEY: Tally(calls=2, preserved=2)})))
