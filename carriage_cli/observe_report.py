# SPDX-License-Identifier: Apache-2.0
"""``carriage observe-report``: what enforcement would have stopped, from the log of a plane in observe mode.

Results go to standard output; progress and faults to standard error. Exit codes: 0 nothing would have been stopped,
2 the log cannot be read, 3 something would have been, 4 the report is of a damaged log: its last line is cut off or
its hash chain does not hold (whatever else it says).
"""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path  # noqa: TC003  # typer reads it
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from carriage_cli.progress import progress
from carriage_core import CarriageError
from carriage_core.characters import hidden_character
from carriage_core.observations import Fate, ObservationReport, observations

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from carriage_core.observations import Example, Group

USAGE: Final = 2
WOULD: Final = 3
DAMAGED: Final = 4

MAX_LINE: Final = 64 * 1024 * 1024
"""Longest line of a log, in bytes."""

MAX_SHOWN: Final = 60
"""Longest value shown in a table, in characters; ``--json`` has all of it."""

_COLUMNS: Final = ("would have been", "by", "tool", "calls", "anyway", "for example")


def observe_report(
    log: Annotated[Path, typer.Argument(metavar="LOG", help="A log that a JsonlSink wrote, from its first entry on.")],
    *,
    checkpoint: Annotated[
        str | None,
        typer.Option("--checkpoint", metavar="HASH", help="Hash of the last entry (plane.head), kept elsewhere."),
    ] = None,
    as_data: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Group what would have been blocked or failed closed by rule and tool, with examples.

    'anyway' counts calls that a rule on trial would have stopped and that were stopped for another reason.
    """
    lines = _Lines(log)
    try:
        with progress("bytes") as begin:
            report = observations(lines.entries(begin("reading", lines.size())), checkpoint=checkpoint)
    except CarriageError as error:
        _stop(f"{log}: {error}")
    except OSError as error:
        _stop(f"{log} cannot be read ({error.strerror or error}). Mend: name the file a JsonlSink wrote.")
    if as_data:
        sys.stdout.write(json.dumps(_data(log, report, lines.cut), indent=2) + "\n")
    else:
        _print(report)
    if lines.cut is not None:
        _say(
            f"error: {log}:{lines.cut}: the last line is cut off and not counted; the plane was stopped while writing."
        )
    if not report.chain.intact:
        _say(f"error: {log}: the hash chain does not hold at entry {report.chain.broken_at}: {report.chain.assurance}.")
    if lines.cut is not None or not report.chain.intact:
        raise typer.Exit(DAMAGED)
    if report.anything:
        raise typer.Exit(WOULD)


class _Lines:
    """The lines of a log, one at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.cut: int | None = None
        """Number of a last line that is not whole, once all are read."""

    def size(self) -> int:
        return self._path.stat().st_size

    def entries(self, advance: Callable[[int], None]) -> Iterator[dict[str, Any]]:
        with self._path.open("rb") as stream:
            number = 0
            while raw := stream.readline(MAX_LINE + 1):
                number += 1
                if len(raw) > MAX_LINE:
                    _stop(f"{self._path}:{number}: longer than {MAX_LINE} bytes. Mend: give a log of a plane.")
                advance(len(raw))
                try:
                    entry = json.loads(raw)
                except (ValueError, RecursionError):
                    # A whole entry ends in a line end; what does not may be half of one.
                    if not raw.endswith(b"\n"):
                        self.cut = number
                        return
                    _stop(f"{self._path}:{number}: not JSON. Mend: give a log as a JsonlSink wrote it.")
                yield entry


def _print(report: ObservationReport) -> None:
    if sys.stdout.isatty() and report.groups:
        Console(highlight=False).print(_table(report))
    elif report.groups:
        sys.stdout.write(_plain([_COLUMNS, *_rows(report)]))
    for name, counts in (("would have been", report.would), ("really", report.stopped)):
        said = ", ".join(f"{count:,} {fate.value}" for fate, count in counts.items() if count)
        typer.echo(f"{name}: {said or 'nothing stopped'}")
    typer.echo(
        f"{report.entries:,} entries, {report.decisions:,} decisions, {report.assemblies:,} assemblies; "
        f"chain: {report.chain.assurance}"
    )


def _rows(report: ObservationReport) -> list[tuple[str, ...]]:
    return [
        (
            group.fate.value,
            _seen(group.rule),
            _seen(group.tool or "-"),
            f"{group.count:,}",
            f"{group.anyway:,}",
            _example(group),
        )
        for group in report.groups
    ]


def _example(group: Group) -> str:
    if not group.examples:
        return "-"
    first: Example = group.examples[0]
    values = ", ".join(f"{name} = {value}" for name, value in first.values)
    return _seen(f"entry {first.sequence}" + (f": {values}" if values else ""))


def _seen(text: str) -> str:
    """Show a name that a model may have chosen: cut, and with every character that a terminal obeys written out."""
    shown = "".join(each if hidden_character(each) is None else f"\\u{{{ord(each):x}}}" for each in text[:MAX_SHOWN])
    return shown + ("..." if len(text) > MAX_SHOWN else "")


def _table(report: ObservationReport) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0))
    for column in _COLUMNS:
        table.add_column(column, justify="right" if column in {"calls", "anyway"} else "left", overflow="fold")
    for row in _rows(report):
        table.add_row(*(Text(cell) for cell in row))
    return table


def _plain(rows: list[tuple[str, ...]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
    text = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)
    return "\n".join([*text, "", ""])


def _data(log: Path, report: ObservationReport, cut: int | None) -> dict[str, object]:
    return {
        "file": str(log),
        "entries": report.entries,
        "decisions": report.decisions,
        "assemblies": report.assemblies,
        "would": {fate.value: report.would[fate] for fate in Fate},
        "stopped": {fate.value: report.stopped[fate] for fate in Fate},
        "groups": [
            {**dataclasses.asdict(group), "examples": [_shown(example) for example in group.examples]}
            for group in report.groups
        ],
        "cut_off_line": cut,
        "chain": dataclasses.asdict(report.chain),
    }


def _shown(example: Example) -> dict[str, object]:
    return {**dataclasses.asdict(example), "values": dict(example.values)}


def _say(text: str) -> None:
    typer.echo(text, err=True)


def _stop(text: str) -> NoReturn:
    _say(f"error: {text}")
    raise typer.Exit(USAGE)
