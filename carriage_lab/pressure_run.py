# SPDX-License-Identifier: Apache-2.0
"""One budget audit from files to rows: what was measured, what was not and why.

A file that cannot be measured whole contributes nothing and never costs the others.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict, dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from carriage_lab.companions import OpenHandsLists, fixed_texts, is_companion
from carriage_lab.lines import read_records
from carriage_lab.pressure import Limits, Snapshot, Tokens, rows, snapshots
from carriage_lab.readers_openhands import is_openhands
from carriage_lab.readers_tau import is_tau
from carriage_lab.run import Failure
from carriage_lab.stack import WINDOWS
from carriage_lab.steps import openhands_steps, tau_steps
from carriage_lab.steps_messages import is_messages, messages_steps
from carriage_lab.tables import aligned, cells_as_csv
from carriage_lab.trace import TraceFormatError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from carriage_lab.steps import Recorded

NOTE: Final = (
    "rho = history without the final request / (window - reserved output - system text - tools - final request)."
)

SNAPSHOT_COLUMNS: Final = (
    "stack",
    "source",
    "file",
    "line",
    "trace",
    "call",
    "counter",
    "history",
    "window",
    "reserved",
    "fixed",
    "request",
    "candidate",
    "effective",
    "rho",
    "prompt_tokens",
)


@dataclass(slots=True, kw_only=True)
class Audit:
    """A budget audit in progress. Call `measure` for each file; ask for the results at any time.

    Attributes:
        counters: What to count with; reported tokens are split by the last.
        window: Overrides what is recorded or known of the models.
        reserved: Tokens reserved for output.
        unrecorded_overhead: Fixed overhead of runs that do not record theirs.
        found: The snapshots of all files measured.
        failures: Files that were not.
        companions: Files that were read to measure others.
        uncounted: Parts that are no text, by file.
    """

    counters: Sequence[Tokens]
    window: int | None
    reserved: int
    unrecorded_overhead: int | None = None
    found: list[Snapshot] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    companions: list[Path] = field(default_factory=list)
    uncounted: dict[Path, int] = field(default_factory=dict)
    files: list[Path] = field(default_factory=list)
    _lists: OpenHandsLists = field(init=False)

    def __post_init__(self) -> None:
        """Hand damaged companions to the failures."""
        self._lists = OpenHandsLists(lambda error: self.failures.append(Failure.of(error.file, error)))

    def measure(self, file: Path) -> None:
        """Measure every run of `file`, or note why not."""
        try:
            runs = list(self._runs(file))
            found = [each for run in runs for each in snapshots(run, self.counters, self._limits(run))]
        except TraceFormatError as error:
            self.failures.append(Failure.of(file, error))
            return
        if not runs:
            self.companions.append(file)
            return
        uncounted = sum(run.uncounted for run in runs)
        if uncounted:
            self.uncounted[file] = uncounted
        self.files.append(file)
        self.found += found

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of ``table.json``."""
        return rows(self.found)

    def snapshot_table(self) -> str:
        """Return ``snapshots.csv``: every model call, as measured."""
        return cells_as_csv(SNAPSHOT_COLUMNS, map(_cells, self.found))

    def report(self, *, complete: bool) -> dict[str, Any]:
        """Describe the audit for ``run.json``."""
        return {
            "complete": complete,
            "counters": [tokens.name for tokens in self.counters],
            "window": self.window,
            "reserved": self.reserved,
            "fixed_overhead_where_unrecorded": self.unrecorded_overhead,
            "files": [str(file) for file in self.files],
            "companions": sorted({str(file) for file in [*self.companions, *self._lists.used]}),
            "parts_not_counted": {str(file): count for file, count in self.uncounted.items()},
            "failed": [asdict(failure) for failure in self.failures],
        }

    def _runs(self, file: Path) -> Iterator[Recorded]:
        with closing(read_records(file)) as records:
            first = next(records, None)
            if first is None:
                raise TraceFormatError(file, 1, "the file is empty", mend="give a file with at least one run or event.")
            lines = chain([first], records)
            if is_tau(first[1]):
                for line, record in lines:
                    yield tau_steps(file, line, record, fixed_texts(file, record))
            elif is_openhands(first[1]):
                self._lists.look_beside(file)
                yield openhands_steps(file, list(lines), self._lists.usage)
            elif is_messages(first[1]):
                for line, record in lines:
                    yield messages_steps(file, line, record)
            elif not is_companion(first[1]):
                raise TraceFormatError(
                    file,
                    first[0],
                    "no tau run (trace_id, messages), OpenHands event (kind, id, source) or conversation (messages)",
                    mend="give tau JSON lines, an OpenHands `sdk158` event log, or one conversation a line.",
                )

    def _limits(self, run: Recorded) -> Limits:
        known = {str(stack): size for stack, size in WINDOWS.items()}
        window = self.window or self._lists.windows.get(run.trace) or known.get(run.stack)
        if window is None:
            raise TraceFormatError(
                run.file, run.line, "nothing says how large the model's window was", mend="give --window TOKENS."
            )
        return Limits(window=window, reserved=self.reserved, unrecorded_overhead=self.unrecorded_overhead)


def measure_all(audit: Audit, files: Iterable[Path], advance: Callable[[int], None] = lambda _: None) -> None:
    """Measure `files` one after the other; an interrupt between or within them leaves whole files only."""
    for file in files:
        audit.measure(file)
        advance(1)


def plain(table: Sequence[dict[str, Any]]) -> str:
    """Render the rows as Table V does, for a terminal or a pipe."""
    if not table:
        return "no run was measured\n"
    header = ["source", "level", "counter", "history", "traces", "snapshots", "p50", "p90", "p99", "max", "rho>=1"]
    lines = [
        [
            *(str(row[column]) for column in header[:6]),
            *(f"{row[f'rho_{quantile}']:.4f}" for quantile in header[6:10]),
            f"{100 * row['rho_ge_1'] / row['snapshots']:.1f}%",
        ]
        for row in table
    ]
    return f"{aligned([header, *lines], left=4)}\n{NOTE}\n"


def _cells(each: Snapshot) -> dict[str, Any]:
    return {
        "stack": each.stack,
        "source": each.sources.get("set", each.sources["all"]),
        "file": str(each.file),
        "line": each.line,
        "trace": each.trace,
        "call": each.call,
        "counter": each.counter,
        "history": each.history,
        "window": each.window,
        "reserved": each.reserved,
        "fixed": each.fixed,
        "request": each.request,
        "candidate": each.candidate,
        "effective": each.effective,
        "rho": each.rho,
        "prompt_tokens": each.prompt_tokens,
    }
