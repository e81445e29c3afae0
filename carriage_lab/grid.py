# SPDX-License-Identifier: Apache-2.0
"""Rows as the paper's Table VI lays them out: one line a manager and placement, one column a rho."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from carriage_lab.rows import Row

NOTE: Final = (
    "Cells: calls in which the policy was preserved. * calls of this cell went over the data budget. "
    "closed, silent, invalid: calls refused, made without the policy, made with an invalid transcript, "
    "summed over rho."
)


def share(part: int, whole: int, digits: int) -> str:
    """Say a share so that 0% and 100% mean none and all, never almost."""
    if part in {0, whole}:
        return "100%" if part else "0%"
    least = 10.0**-digits
    percent = 100 * part / whole
    if percent < least / 2:
        return f"<{least:.{digits}f}%"
    if percent > 100 - least / 2:
        return f">{100 - least:.{digits}f}%"
    return f"{percent:.{digits}f}%"


def header(rows: Sequence[Row]) -> list[str]:
    """Return the column titles."""
    rhos = [f"{rho:g}" for rho in dict.fromkeys(row.rho for row in rows)]
    return ["stack", "manager", "placement", "calls", *rhos, "closed", "silent", "invalid"]


def lines(rows: Sequence[Row], digits: int = 1) -> list[list[str]]:
    """Return the cells, in row order; percentages with so many decimals."""
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.stack, row.manager, row.placement), []).append(row)
    return [
        [
            *name,
            str(group[0].calls),
            *(share(row.preserved, row.calls, digits) + ("*" if row.over_budget else "") for row in group),
            str(sum(row.failed_closed for row in group)),
            str(sum(row.silent_incomplete for row in group)),
            str(sum(row.invalid_transcripts for row in group)),
        ]
        for name, group in groups.items()
    ]


def plain(rows: Sequence[Row]) -> str:
    """Render aligned ASCII text, for pipes and files."""
    if not rows:
        return "no run was replayed\n"
    table = [header(rows), *lines(rows)]
    widths = [max(len(line[column]) for line in table) for column in range(len(table[0]))]
    text = [
        "  ".join(
            cell.ljust(width) if column < len(("stack", "manager", "placement")) else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in table
    ]
    return "\n".join([*text, "", NOTE, ""])
