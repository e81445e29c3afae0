# SPDX-License-Identifier: Apache-2.0
"""``carriage replay``: what context managers do to a policy, over recorded runs.

Results go to standard output and to files; progress and faults to standard error. Exit codes: 0 all replayed,
2 nothing to run or wrong usage, 4 something was not replayed, 130 interrupted (the tables then hold the runs
that were finished, and say so).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path  # noqa: TC003  # typer reads it
from typing import TYPE_CHECKING, Annotated, Final, NoReturn

import typer
from rich.console import Console
from rich.table import Table

from carriage_cli.progress import progress
from carriage_core.errors import CarriageError
from carriage_lab import grid, tables
from carriage_lab.counters import counter_named, remembering
from carriage_lab.policy import control_for, replay_text
from carriage_lab.run import Replay
from carriage_lab.sources import find_files
from carriage_lab.stack import WINDOWS, Bench
from carriage_lab.validity import require_judge

if TYPE_CHECKING:
    from collections.abc import Sequence

    from carriage_lab.rows import Row

USAGE: Final = 2
INCOMPLETE: Final = 4
INTERRUPTED: Final = 130
MOST_FAULTS: Final = 20
"""Faults shown on screen; ``run.json`` has all of them."""


def replay(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH...", help="Trace files (tau JSON lines, OpenHands logs) or directories."),
    ],
    out: Annotated[
        Path,
        typer.Option("--out", metavar="DIR", help="Where table.csv, table.json and run.json are written."),
    ],
    counter: Annotated[
        str, typer.Option("--counter", metavar="NAME", help="whitespace, utf8 or a tiktoken encoding.")
    ] = "whitespace",
    control_budget: Annotated[
        int,
        typer.Option("--control-budget", min=1, metavar="TOKENS", help="Tokens reserved for the capsule."),
    ] = 800,
    as_json: Annotated[bool, typer.Option("--json", help="Print the rows as JSON.")] = False,  # noqa: FBT002
) -> None:
    """Replay recorded runs under pressure and count in how many calls a policy is preserved.

    Places the policy protected, as the first message, and after the first exchange.
    Drives native context managers and this project's drop-ins over every call.
    """
    try:
        files = find_files(paths)
        require_judge()
        tokens = counter_named(counter)
        control = control_for(tokens, control_budget)
        for window in WINDOWS.values():
            control(window)
        bench = Bench(policy=replay_text(), count=remembering(tokens), control=control)
        out.mkdir(parents=True, exist_ok=True)
    except CarriageError as error:
        _stop(str(error))
    except OSError as error:
        _stop(f"{out} is no usable output directory ({error.strerror or error}). Mend: name another --out.")
    if not os.access(out, os.W_OK):
        _stop(f"{out} cannot be written to. Mend: name another --out.")
    run = Replay(bench=bench)
    complete = _perform(run, files)
    rows = run.rows()
    try:
        tables.write(out, rows, run.report(complete=complete, counter=tokens.name, control_budget=control_budget))
    except OSError as error:
        _stop(f"the tables cannot be written to {out} ({error.strerror or error}). Mend: name another --out.")
    _print(rows, as_json=as_json)
    _faults(run)
    if not complete:
        _say("interrupted: the tables are PARTIAL; they hold the runs that were finished, listed in run.json.")
        raise typer.Exit(INTERRUPTED)
    if run.failures or (run.missing and run.traces):
        raise typer.Exit(INCOMPLETE)
    if run.missing:
        raise typer.Exit(USAGE)


def _perform(run: Replay, files: Sequence[Path]) -> bool:
    """Read and replay; return False where the user interrupted it."""
    try:
        with progress("calls") as begin:
            begin("reading", None)
            run.read(files)
            run.execute(begin("replaying", run.work()))
    except KeyboardInterrupt:
        return False
    return True


def _print(rows: Sequence[Row], *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(tables.as_json(rows))
    elif sys.stdout.isatty() and rows:
        console = Console(highlight=False)
        for stack in dict.fromkeys(row.stack for row in rows):
            console.print(_table([row for row in rows if row.stack == stack]))
        console.print(grid.NOTE, style="dim")
    else:
        sys.stdout.write(grid.plain(rows))


def _table(rows: Sequence[Row]) -> Table:
    """Lay out the rows of one stack within 80 columns; the files have the exact counts."""
    _, _, _, _, *columns = grid.header(rows)
    table = Table(
        title=f"{rows[0].stack}: {rows[0].calls:,} model calls",
        title_justify="left",
        box=None,
        padding=(0, 1, 0, 0),
    )
    for column in ("manager", "placement"):
        table.add_column(column, no_wrap=True)
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    for _, manager, placement, _, *cells in grid.lines(rows, digits=0):
        table.add_row(manager, placement, *cells)
    return table


def _faults(run: Replay) -> None:
    for missing in run.missing.values():
        _say(f"error: {missing.error} (files not replayed: {len(missing.files)})")
    for failure in run.failures[:MOST_FAULTS]:
        _say(f"error: {failure}")
    if len(run.failures) > MOST_FAULTS:
        _say(f"error: {len(run.failures) - MOST_FAULTS} more, in run.json")


def _say(text: str) -> None:
    typer.echo(text, err=True)


def _stop(text: str) -> NoReturn:
    _say(f"error: {text}")
    raise typer.Exit(USAGE)
