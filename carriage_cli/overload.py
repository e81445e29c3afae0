# SPDX-License-Identifier: Apache-2.0
"""``carriage overload``: who stops when the active rules do not fit, and who goes on in silence (paper Table VII).

Results go to standard output and to files, faults to standard error. Exit codes: 0 measured, 2 wrong usage.
"""

from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path  # noqa: TC003  # typer reads it
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

import typer
from rich.console import Console
from rich.table import Table

from carriage_core.errors import CarriageError
from carriage_lab import overload_tables as show
from carriage_lab.overload import measure, sizes, systems
from carriage_lab.overload_capsules import shipped_registry
from carriage_lab.overload_cases import shipped_plan
from carriage_lab.tables import aligned, write_texts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from carriage_lab.overload import Line, Size

USAGE: Final = 2


def overload(
    out: Annotated[
        Path,
        typer.Option("--out", metavar="DIR", help="Where table.csv, table.json, rows.csv and run.json are written."),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print table.json.")] = False,  # noqa: FBT002
) -> None:
    """Count in how many of 48 cases a system stops, and in how many it goes on without an active rule.

    Crosses 8 policy sets with 6 control budgets, over exact replay, pinning and this project's capsule.
    """
    try:
        plan, registry = shipped_plan(), shipped_registry()
        out.mkdir(parents=True, exist_ok=True)
        lines = measure(systems(plan, registry), plan.cases())
        sizes_ = sizes(plan, registry)
        write_texts(
            out,
            {
                "table.csv": show.as_csv(lines),
                "table.json": show.as_json(show.as_objects(lines)),
                "rows.csv": show.rows_as_csv(lines),
                "run.json": show.as_json(_run(registry.digest, plan.budgets)),
            },
        )
    except CarriageError as error:
        _stop(str(error))
    except OSError as error:
        _stop(f"{out} is no usable output directory ({error.strerror or error}). Mend: name another --out.")
    if as_json:
        sys.stdout.write(show.as_json(show.as_objects(lines)))
    else:
        _print(lines, sizes_)


def _run(registry: str, budgets: Sequence[int]) -> dict[str, Any]:
    return {
        "counter": "whitespace",
        "budgets": list(budgets),
        "registry": registry,
        "versions": {"policy-carriage": version("policy-carriage")},
    }


def _print(lines: Sequence[Line], sizes_: Sequence[Size]) -> None:
    tables = [show.cells(lines, paper=True), show.size_cells(sizes_)]
    if sys.stdout.isatty():
        console = Console(highlight=False)
        for table in tables:
            console.print(_rich(table))
        console.print(show.NOTE, style="dim")
    else:
        sys.stdout.write("\n".join([*(aligned(table, left=1) for table in tables), f"{show.NOTE}\n"]))


def _rich(cells: Sequence[Sequence[str]]) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0))
    for index, title in enumerate(cells[0]):
        table.add_column(title, justify="right" if index else "left")
    for line in cells[1:]:
        table.add_row(*line)
    return table


def _stop(text: str) -> NoReturn:
    typer.echo(f"error: {text}", err=True)
    raise typer.Exit(USAGE)
