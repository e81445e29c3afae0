# SPDX-License-Identifier: Apache-2.0
"""``carriage corpus``: which ingredients of policy loss released corpora contain.

Results go to standard output and to files; progress and faults to standard error. Exit codes: 0 all counted,
2 nothing to count or wrong usage, 4 something was left out, 130 interrupted (the tables then hold whole files only, and
say so).
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
from carriage_lab.corpus import COLUMNS, plain
from carriage_lab.corpus_run import CorpusAudit, find_corpora
from carriage_lab.tables import cells_as_csv, write_texts

if TYPE_CHECKING:
    from collections.abc import Sequence

USAGE: Final = 2
INCOMPLETE: Final = 4
INTERRUPTED: Final = 130
MOST_FAULTS: Final = 20
"""Faults shown on screen; ``run.json`` has all of them."""


def corpus(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH...", help="tau JSON lines, AgentDojo runs or label tables, or directories."),
    ],
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Where table.csv, table.json and run.json are written.")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print the rows as JSON.")] = False,  # noqa: FBT002
) -> None:
    """Count risk ingredients in tau, tau2 and AgentDojo runs: policy challenges, injections, labels.

    Counts witnesses of preconditions; it measures no failure rate. Corpora are never pooled.
    """
    try:
        files = find_corpora(paths)
        out.mkdir(parents=True, exist_ok=True)
    except CarriageError as error:
        _stop(str(error))
    except OSError as error:
        _stop(f"{out} is no usable output directory ({error.strerror or error}). Mend: name another --out.")
    if not os.access(out, os.W_OK):
        _stop(f"{out} cannot be written to. Mend: name another --out.")
    audit = CorpusAudit()
    complete = _perform(audit, files)
    rows = audit.rows()
    texts = {
        "table.csv": cells_as_csv(COLUMNS, rows),
        "table.json": _json(rows),
        "run.json": _json(audit.report(complete=complete)),
    }
    try:
        write_texts(out, texts)
    except OSError as error:
        _stop(f"the tables cannot be written to {out} ({error.strerror or error}). Mend: name another --out.")
    sys.stdout.write(texts["table.json"] if as_json else plain(rows))
    _faults(audit)
    if not complete:
        _say("interrupted: the tables are PARTIAL; they hold the files that were finished, listed in run.json.")
        raise typer.Exit(INTERRUPTED)
    if audit.failures:
        raise typer.Exit(INCOMPLETE)


def _perform(audit: CorpusAudit, files: Sequence[Path]) -> bool:
    """Count; return False where the user interrupted it."""
    try:
        with progress("files") as begin:
            advance = begin("counting", len(files))
            for file in files:
                audit.count(file)
                advance(1)
    except KeyboardInterrupt:
        return False
    return True


def _json(value: object) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def _faults(audit: CorpusAudit) -> None:
    for failure in audit.failures[:MOST_FAULTS]:
        _say(f"error: {failure}")
    if len(audit.failures) > MOST_FAULTS:
        _say(f"error: {len(audit.failures) - MOST_FAULTS} more, in run.json")
    if audit.repeated:
        _say(f"note: rows given twice and counted once: {sum(audit.repeated.values())}")


def _say(text: str) -> None:
    typer.echo(text, err=True)


def _stop(text: str) -> NoReturn:
    _say(f"error: {text}")
    raise typer.Exit(USAGE)
