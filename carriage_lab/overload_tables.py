# SPDX-License-Identifier: Apache-2.0
"""The overload table as JSON, CSV and cells to print, with the paper's numbers beside ours."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from carriage_lab.overload import PAPER
from carriage_lab.tables import cells_as_csv

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from carriage_lab.overload import Counts, Line, Row, Size
    from carriage_lab.overload_budgets import Calibrated

COUNTED: Final = ("system", "rows", "fail_closed", "silent_incomplete", "raw_fit_overhead")
CALIBRATED: Final = ("stack", "calls", "percentile", "budget")
PER_ROW: Final = ("case", "system", "outcome", "policy_set", "budget", "raw_tokens", "sent_tokens")
NOTE: Final = (
    "Cells: rows of all rows; in brackets the paper's Table VII, of 48. Silent incomplete: the call was made without "
    "an active rule.\nRaw-fit overhead: refused although the active sentences fit; '-' for what never refuses."
)

CALIBRATED_NOTE: Final = (
    "Columns: stack, percentile of its data budgets and, in brackets, that many words as control budget. "
    "Cells: policy sets, of {sets}; 0 where all were sent complete."
)


def as_objects(lines: Sequence[Line]) -> list[dict[str, Any]]:
    """Return one object a system; ``cases`` holds its rows."""
    return [
        {
            **_counted(line),
            "cases": [{"case": row.case, "system": row.system, "outcome": row.outcome.value} for row in line.rows],
        }
        for line in lines
    ]


def as_json(tree: object) -> str:
    """Render as a file ends: with a line end."""
    return json.dumps(tree, indent=1, ensure_ascii=False) + "\n"


def as_csv(lines: Sequence[Line]) -> str:
    """Render one line a system; an empty cell is the paper's dash."""
    return cells_as_csv(COUNTED, (_counted(line) for line in lines))


def rows_as_csv(lines: Sequence[Line]) -> str:
    """Render one line a system and case, with the sizes behind the outcome."""
    return cells_as_csv(PER_ROW, (_per_row(row) for line in lines for row in line.rows))


def cells(lines: Sequence[Line], *, paper: bool) -> list[list[str]]:
    """Return the cells of the printed table, title first."""
    titles = ["system", "fail closed", "silent incomplete", "raw-fit overhead"]
    return [titles, *([line.system, *_cells(line, PAPER.get(line.system) if paper else None)] for line in lines)]


def calibrated_objects(found: Sequence[tuple[Calibrated, Sequence[Line]]]) -> list[dict[str, Any]]:
    """Return one object a calibrated budget and system."""
    return [{**_budget(each), **line} for each, lines in found for line in as_objects(lines)]


def calibrated_csv(found: Sequence[tuple[Calibrated, Sequence[Line]]]) -> str:
    """Render the same objects without their rows."""
    return cells_as_csv(
        (*CALIBRATED, *COUNTED), [{**_budget(each), **_counted(line)} for each, lines in found for line in lines]
    )


def calibrated_cells(found: Sequence[tuple[Calibrated, Sequence[Line]]]) -> list[list[str]]:
    """Return the cells of the printed table, title first: a line a system, a column a budget."""
    titles = ["system", *(f"{each.name} ({each.budget})" for each, _ in found)]
    columns = [[_short(line) for line in lines] for _, lines in found]
    names = [line.system for line in found[0][1]] if found else []
    return [titles, *([name, *cells] for name, *cells in zip(names, *columns, strict=True))]


def size_cells(sizes: Iterable[Size]) -> list[list[str]]:
    """Return the cells of the table of sizes, title first."""
    return [
        ["policy set (words)", "rules", "sentences", "full", "compact", "exact"],
        *(
            [size.policy_set, *(str(n) for n in (size.rules, size.texts, size.full, size.compact, size.exact))]
            for size in sizes
        ),
    ]


def _budget(each: Calibrated) -> dict[str, Any]:
    return {name: getattr(each, name) for name in CALIBRATED}


def _short(line: Line) -> str:
    """A system either refuses or goes on; overhead is in the files."""
    counts = line.counts
    parts = [
        f"{number} {what}"
        for number, what in ((counts.fail_closed, "closed"), (counts.silent_incomplete, "silent"))
        if number
    ]
    return ", ".join(parts) or "0"


def _counted(line: Line) -> dict[str, Any]:
    return {"system": line.system, "rows": len(line.rows), **line.counts._asdict()}


def _per_row(row: Row) -> dict[str, Any]:
    return {name: getattr(row, name) for name in PER_ROW} | {"outcome": row.outcome.value}


def _cells(line: Line, paper: Counts | None) -> list[str]:
    return [
        "-" if ours is None else f"{ours}/{len(line.rows)}" + ("" if theirs is None else f" ({theirs})")
        for ours, theirs in zip(line.counts, paper or (None, None, None), strict=True)
    ]
