# SPDX-License-Identifier: Apache-2.0
"""``table.csv``, ``table.json`` and ``run.json``, each written whole or not at all; and rows as plain text."""

from __future__ import annotations

import csv
import io
import json
import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from carriage_lab.rows import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from carriage_lab.rows import Row

NAMES: Final = ("table.csv", "table.json", "run.json")


def as_json(rows: Sequence[Row]) -> str:
    """Render a list of objects, one a row."""
    return json.dumps([asdict(row) for row in rows], indent=1) + "\n"


def as_csv(rows: Sequence[Row]) -> str:
    """Render the same columns; truth values as in JSON."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        cells = asdict(row)
        writer.writerow({**cells, "ours": json.dumps(row.ours), "rho": format(row.rho, "g")})
    return buffer.getvalue()


def write(out: Path, rows: Sequence[Row], run: Mapping[str, Any]) -> None:
    """Write the three files into `out`, which exists. A reader never sees half a file."""
    texts = (as_csv(rows), as_json(rows), json.dumps(run, indent=1, ensure_ascii=False) + "\n")
    write_texts(out, dict(zip(NAMES, texts, strict=True)))


def write_texts(out: Path, texts: Mapping[str, str]) -> None:
    """Write files into `out`, which exists, by name. A reader never sees half a file."""
    for name, text in texts.items():
        draft = out / f".{name}.part"
        draft.write_text(text, encoding="utf-8", newline="")
        os.replace(draft, out / name)  # noqa: PTH105  # says atomic more plainly than Path.replace


def cells_as_csv(columns: Sequence[str], cells: Iterable[Mapping[str, Any]]) -> str:
    """Render rows of plain values; nothing is an empty cell, truth values are as in JSON."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, columns, lineterminator="\n")
    writer.writeheader()
    for row in cells:
        writer.writerow({key: json.dumps(cell) if isinstance(cell, bool) else cell for key, cell in row.items()})
    return buffer.getvalue()


def aligned(table: Sequence[Sequence[str]], left: int) -> str:
    """Render lines of cells as aligned ASCII text, the first `left` columns to the left, numbers to the right."""
    widths = [max(len(line[column]) for line in table) for column in range(len(table[0]))]
    return "".join(
        "  ".join(
            cell.ljust(width) if column < left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        + "\n"
        for line in table
    )
