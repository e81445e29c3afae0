# SPDX-License-Identifier: Apache-2.0
"""``table.csv``, ``table.json`` and ``run.json``, each written whole or not at all."""

from __future__ import annotations

import csv
import io
import json
import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from carriage_lab.rows import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
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
    for name, text in zip(NAMES, texts, strict=True):
        draft = out / f".{name}.part"
        draft.write_text(text, encoding="utf-8", newline="")
        os.replace(draft, out / name)  # noqa: PTH105  # says atomic more plainly than Path.replace
