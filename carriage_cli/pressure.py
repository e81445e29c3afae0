# SPDX-License-Identifier: Apache-2.0
"""``carriage pressure``: how full the data budget was before each recorded model call.

Results go to standard output and to files; progress and faults to standard error. Exit codes: 0 all measured,
2 nothing to measure or wrong usage, 4 something was left out, 130 interrupted (the tables then hold whole files only,
and say so).
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path  # noqa: TC003  # typer reads it
from typing import TYPE_CHECKING, Annotated, Final, NoReturn

import typer

from carriage_cli.progress import progress
from carriage_core.errors import CarriageError
from carriage_lab.counters import counter_named, remembering
from carriage_lab.pressure import RESERVED, Tokens
from carriage_lab.pressure_run import Audit, measure_all, plain
from carriage_lab.sources import find_files
from carriage_lab.tables import cells_as_csv, write_texts

if TYPE_CHECKING:
    from collections.abc import Sequence

USAGE: Final = 2
INCOMPLETE: Final = 4
INTERRUPTED: Final = 130
MOST_FAULTS: Final = 20
"""Faults shown on screen; ``run.json`` has all of them."""


def pressure(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH...", help="tau JSON lines, OpenHands logs, conversations as JSON lines; or directories."
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out", metavar="DIR", help="Where table.csv, table.json, snapshots.csv and run.json are written."
        ),
    ],
    counters: Annotated[
        list[str] | None,
        typer.Option(
            "--counter",
            metavar="NAME",
            help="whitespace, utf8 or a tiktoken encoding; may be repeated. Default: whitespace.",
        ),
    ] = None,
    window: Annotated[
        int | None,
        typer.Option(
            "--window", min=1, metavar="TOKENS", help="Context window. Default: as recorded, or the known model's."
        ),
    ] = None,
    reserved: Annotated[
        int, typer.Option("--reserved", min=0, metavar="TOKENS", help="Tokens reserved for the model's output.")
    ] = RESERVED,
    fixed_overhead: Annotated[
        int | None,
        typer.Option(
            "--fixed-overhead",
            min=0,
            metavar="TOKENS",
            help="System prompt and tool schemas of runs that do not record them.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the rows as JSON.")] = False,  # noqa: FBT002
) -> None:
    """Measure the native pressure rho of recorded runs: how much of the data budget each model call had used.

    Nothing is replayed and nothing needs a framework. Provider-reported tokens are measured too where recorded.
    """
    try:
        files = find_files(paths)
        tokens = [_tokens(name) for name in dict.fromkeys(counters or ["whitespace"])]
        out.mkdir(parents=True, exist_ok=True)
    except CarriageError as error:
        _stop(str(error))
    except OSError as error:
        _stop(f"{out} is no usable output directory ({error.strerror or error}). Mend: name another --out.")
    if not os.access(out, os.W_OK):
        _stop(f"{out} cannot be written to. Mend: name another --out.")
    audit = Audit(counters=tokens, window=window, reserved=reserved, unrecorded_overhead=fixed_overhead)
    complete = _perform(audit, files)
    rows = audit.rows()
    try:
        write_texts(
            out,
            {
                "table.csv": cells_as_csv(list(rows[0]) if rows else [], rows),
                "table.json": _json(rows),
                "snapshots.csv": audit.snapshot_table(),
                "run.json": _json(audit.report(complete=complete)),
            },
        )
    except OSError as error:
        _stop(f"the tables cannot be written to {out} ({error.strerror or error}). Mend: name another --out.")
    sys.stdout.write(_json(rows) if as_json else plain(rows))
    _faults(audit)
    if not complete:
        _say("interrupted: the tables are PARTIAL; they hold the files that were finished, listed in run.json.")
        raise typer.Exit(INTERRUPTED)
    if audit.failures or audit.uncounted:
        raise typer.Exit(INCOMPLETE)
    if not rows:
        _stop("no trace among these files. Mend: name tau JSON lines or OpenHands logs.")


def _tokens(name: str) -> Tokens:
    counter = counter_named(name)
    return Tokens(name=counter.name, count=remembering(counter))


def _perform(audit: Audit, files: Sequence[Path]) -> bool:
    """Measure; return False where the user interrupted it."""
    try:
        with progress("files") as begin:
            measure_all(audit, files, begin("measuring", len(files)))
    except KeyboardInterrupt:
        return False
    return True


def _json(value: object) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def _faults(audit: Audit) -> None:
    for failure in audit.failures[:MOST_FAULTS]:
        _say(f"error: {failure}")
    if len(audit.failures) > MOST_FAULTS:
        _say(f"error: {len(audit.failures) - MOST_FAULTS} more, in run.json")
    for file, count in audit.uncounted.items():
        _say(f"error: {file}: parts that are no text, not counted: {count}")


def _say(text: str) -> None:
    typer.echo(text, err=True)


def _stop(text: str) -> NoReturn:
    _say(f"error: {text}")
    raise typer.Exit(USAGE)
