# SPDX-License-Identifier: Apache-2.0
"""``carriage overload``: who stops when the active rules do not fit, and who goes on in silence (paper Table VII).

Results go to standard output and to files, progress and faults to standard error. Exit codes: 0 measured, 2 wrong
usage, 4 a trace was left out, 130 interrupted while reading traces (the 48 rows are written in any case).
"""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path  # noqa: TC003  # typer reads it
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

import typer
from rich.console import Console
from rich.table import Table

from carriage_cli.progress import progress
from carriage_core.errors import CarriageError
from carriage_core.tokens import WhitespaceCounter
from carriage_lab import overload_tables as show
from carriage_lab.counters import remembering
from carriage_lab.overload import measure, sizes, systems
from carriage_lab.overload_budgets import Histories, measure_all
from carriage_lab.overload_capsules import shipped_registry
from carriage_lab.overload_cases import shipped_plan
from carriage_lab.policy import control_for, replay_text
from carriage_lab.sources import find_files
from carriage_lab.stack import Bench
from carriage_lab.tables import aligned, write_texts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from carriage_lab.overload import Line, Size
    from carriage_lab.overload_budgets import Calibrated

USAGE: Final = 2
INCOMPLETE: Final = 4
INTERRUPTED: Final = 130
MOST_FAULTS: Final = 20
"""Faults shown on screen; ``run.json`` has all of them."""

CONTROL_BUDGET: Final = 800
"""What a stack needs to open a run; the sizes measured here do not depend on it."""


def overload(
    out: Annotated[
        Path,
        typer.Option("--out", metavar="DIR", help="Where table.csv, table.json, rows.csv and run.json are written."),
    ],
    traces: Annotated[
        list[Path] | None,
        typer.Option(
            "--traces",
            metavar="PATH",
            help="Recorded runs; may be repeated. Also takes budgets from them, into calibrated.csv and .json.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print table.json.")] = False,  # noqa: FBT002
) -> None:
    """Count in how many of 48 cases a system stops, and in how many it goes on without an active rule.

    Crosses 8 policy sets with 6 control budgets, over exact replay, pinning and this project's capsule.
    """
    try:
        files = find_files(traces) if traces else ()
        plan, registry = shipped_plan(), shipped_registry()
        out.mkdir(parents=True, exist_ok=True)
    except CarriageError as error:
        _stop(str(error))
    except OSError as error:
        _stop(f"{out} is no usable output directory ({error.strerror or error}). Mend: name another --out.")
    if not os.access(out, os.W_OK):
        _stop(f"{out} cannot be written to. Mend: name another --out.")
    tested = systems(plan, registry)
    lines = measure(tested, plan.cases())
    histories = Histories(bench=_bench())
    complete = _perform(histories, files)
    found = [(each, measure(tested, plan.cases([(each.name, each.budget)]))) for each in histories.budgets()]
    texts = {
        "table.csv": show.as_csv(lines),
        "table.json": show.as_json(show.as_objects(lines)),
        "rows.csv": show.rows_as_csv(lines),
        "run.json": show.as_json(_run(registry.digest, plan.budgets, histories, complete=complete)),
    }
    if files:
        texts["calibrated.csv"] = show.calibrated_csv(found)
        texts["calibrated.json"] = show.as_json(show.calibrated_objects(found))
    try:
        write_texts(out, texts)
    except OSError as error:
        _stop(f"the tables cannot be written to {out} ({error.strerror or error}). Mend: name another --out.")
    if as_json:
        sys.stdout.write(texts["table.json"])
    else:
        _print(lines, sizes(plan, registry), found, len(plan.sets))
    _end(histories, complete=complete)


def _bench() -> Bench:
    counter = WhitespaceCounter()
    return Bench(policy=replay_text(), count=remembering(counter), control=control_for(counter, CONTROL_BUDGET))


def _perform(histories: Histories, files: Sequence[Path]) -> bool:
    """Read the traces; return False where the user interrupted it."""
    try:
        with progress("files") as begin:
            measure_all(histories, files, begin("reading", len(files)))
    except KeyboardInterrupt:
        return False
    return True


def _run(registry: str, budgets: Sequence[int], histories: Histories, *, complete: bool) -> dict[str, Any]:
    return {
        "complete": complete,
        "counter": WhitespaceCounter.name,
        "budgets": list(budgets),
        "registry": registry,
        "files": [str(file) for file in histories.files],
        "failed": [asdict(failure) for failure in histories.failures],
        "versions": {"policy-carriage": version("policy-carriage")},
    }


def _print(
    lines: Sequence[Line], sizes_: Sequence[Size], found: Sequence[tuple[Calibrated, Sequence[Line]]], sets: int
) -> None:
    tables = [show.cells(lines, paper=True), show.size_cells(sizes_)]
    notes = [show.NOTE]
    if found:
        tables.append(show.calibrated_cells(found))
        notes.append(show.CALIBRATED_NOTE.format(sets=sets))
    if sys.stdout.isatty():
        console = Console(highlight=False)
        for table in tables:
            console.print(_rich(table))
        for note in notes:
            console.print(note, style="dim")
    else:
        sys.stdout.write("\n".join([*(aligned(table, left=1) for table in tables), *notes, ""]))


def _rich(cells: Sequence[Sequence[str]]) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0))
    for index, title in enumerate(cells[0]):
        table.add_column(title, justify="right" if index else "left")
    for line in cells[1:]:
        table.add_row(*line)
    return table


def _end(histories: Histories, *, complete: bool) -> None:
    for failure in histories.failures[:MOST_FAULTS]:
        _say(f"error: {failure}")
    if len(histories.failures) > MOST_FAULTS:
        _say(f"error: {len(histories.failures) - MOST_FAULTS} more, in run.json")
    if not complete:
        _say("interrupted: the calibrated tables are PARTIAL; they hold the files listed in run.json.")
        raise typer.Exit(INTERRUPTED)
    if histories.failures:
        raise typer.Exit(INCOMPLETE)


def _say(text: str) -> None:
    typer.echo(text, err=True)


def _stop(text: str) -> NoReturn:
    _say(f"error: {text}")
    raise typer.Exit(USAGE)
