# SPDX-License-Identifier: Apache-2.0
"""Bars with rate and remaining time, on standard error, where that is a terminal."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, override

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def progress(unit: str) -> Iterator[Callable[[str, int | None], Callable[[int], None]]]:
    """Show a bar while work goes on.

    Args:
        unit: What is counted, in the plural.

    Yields:
        What begins a phase of so many units and returns what advances it. A new phase replaces the last.
    """
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        MofNCompleteColumn(),
        _Rate(unit),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        disable=not sys.stderr.isatty(),
        transient=True,
    )

    def begin(phase: str, total: int | None) -> Callable[[int], None]:
        for task in bar.task_ids:
            bar.remove_task(task)
        task = bar.add_task(phase, total=total)
        return lambda done: bar.advance(task, done)

    with bar:
        yield begin


class _Rate(ProgressColumn):
    """Units a second."""

    def __init__(self, unit: str) -> None:
        super().__init__()
        self.unit = unit

    @override
    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text(f"{speed:,.0f} {self.unit}/s" if speed else "")
