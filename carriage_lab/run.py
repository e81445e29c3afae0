# SPDX-License-Identifier: Apache-2.0
"""One replay from files to tallies: what could be read, what was replayed, what failed and why.

A file that cannot be read whole contributes nothing, and never costs the others. Tallies grow by whole runs:
whenever a replay is stopped, they describe exactly the runs listed as done.
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, Final, Self, override

from carriage_core.errors import AdapterError, CarriageError
from carriage_lab.replay import RHOS, replay_trace, work
from carriage_lab.rows import Key, Row, Tally, merged, rows
from carriage_lab.sources import read_file
from carriage_lab.stack import Bench, Stack, open_stack
from carriage_lab.trace import StackName, Trace, TraceFormatError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

_LOG = logging.getLogger(__name__)

DISTRIBUTIONS: Final = ("policy-carriage", "autogen-core", "openhands-sdk", "tessera-transcript")
"""Whose versions a result depends on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Something that was not replayed."""

    file: str
    line: int
    problem: str
    mend: str

    @classmethod
    def of(cls, trace_or_file: Trace | Path, error: Exception) -> Self:
        """Describe `error`; a foreign one is named by its type, for its text may quote a conversation."""
        if isinstance(error, TraceFormatError):
            return cls(file=str(error.file), line=error.line, problem=error.problem, mend=error.mend)
        file, line = (
            (trace_or_file.file, trace_or_file.line) if isinstance(trace_or_file, Trace) else (trace_or_file, 0)
        )
        if isinstance(error, CarriageError):
            return cls(file=str(file), line=line, problem=str(error.args[0]).rstrip("."), mend=error.mend)
        return cls(
            file=str(file),
            line=line,
            problem=f"the replay of this run failed ({type(error).__name__})",
            mend="report it with the run; the other runs are not affected.",
        )

    @override
    def __str__(self) -> str:
        """Say file, line, problem and mend, as compilers do."""
        return f"{self.file}:{self.line}: {self.problem}. Mend: {self.mend}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """A framework that is not installed, and the files that wait for it."""

    error: AdapterError
    files: list[Path]


@dataclass(slots=True, kw_only=True)
class Replay:
    """A replay in progress. `read`, then `execute`; ask for the rows at any time.

    Attributes:
        traces: What was read, by file.
        failures: What could not be read or replayed, except for want of a framework.
        missing: The frameworks that are not installed.
        tallies: The outcomes of all runs done; never of part of a run.
        done: How many runs of each file are in `tallies`.
    """

    bench: Bench
    rhos: Sequence[float] = RHOS
    traces: dict[Path, tuple[Trace, ...]] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    missing: dict[StackName, Missing] = field(default_factory=dict)
    tallies: Mapping[Key, Tally] = field(default_factory=dict)
    done: Counter[Path] = field(default_factory=Counter)
    _stacks: dict[StackName, Stack[object]] = field(default_factory=dict)

    def read(self, files: Iterable[Path]) -> None:
        """Read every file; what is no trace becomes a failure, what has no framework `missing`."""
        for file in files:
            try:
                traces = read_file(file)
            except TraceFormatError as error:
                self.failures.append(Failure.of(file, error))
                continue
            if self._have(traces[0].stack, file):
                self.traces[file] = traces

    def work(self) -> int:
        """Count the outcomes `execute` will tally."""
        return sum(
            work([trace], len(self._stacks[trace.stack].managers), self.rhos)
            for traces in self.traces.values()
            for trace in traces
        )

    def execute(self, advance: Callable[[int], None] = lambda _: None) -> None:
        """Replay what was read. May be interrupted at any point; the tallies then hold whole runs only."""
        for file, traces in self.traces.items():
            try:
                sessions = [(trace, self._stacks[trace.stack].open(trace)) for trace in traces]
            except TraceFormatError as error:
                self.failures.append(Failure.of(file, error))
                continue
            for trace, session in sessions:
                try:
                    found = replay_trace(trace, session, self.bench.policy, rhos=self.rhos, advance=advance)
                except Exception as error:  # noqa: BLE001  # one run must not cost the others; it is reported
                    _LOG.debug("replay of %s failed", trace.id, exc_info=True)
                    self.failures.append(Failure.of(trace, error))
                    continue
                self.tallies, self.done[file] = merged(self.tallies, found), self.done[file] + 1

    def rows(self) -> list[Row]:
        """Return the rows of the runs done so far."""
        return list(rows(self.tallies))

    def over_control_budget(self, budget: int) -> list[Key]:
        """Return the keys of rows in which a call carried more control tokens than `budget`."""
        return [key for key, tally in self.tallies.items() if tally.control_tokens > budget]

    def report(self, *, complete: bool, counter: str, control_budget: int) -> dict[str, Any]:
        """Describe the run for ``run.json``."""
        return {
            "complete": complete,
            "counter": counter,
            "rhos": list(self.rhos),
            "control_budget": control_budget,
            "control_tokens_max": self._control_tokens(),
            "control_budget_respected": not self.over_control_budget(control_budget),
            "files": [self._file(file, traces) for file, traces in self.traces.items()],
            "failed": [asdict(failure) for failure in [*self.failures, *self._waiting()]],
            "versions": {name: _version(name) for name in DISTRIBUTIONS},
        }

    def _have(self, name: StackName, file: Path) -> bool:
        if name not in self._stacks and name not in self.missing:
            try:
                self._stacks[name] = open_stack(name, self.bench)
            except AdapterError as error:
                self.missing[name] = Missing(error=error, files=[])
        if name in self.missing:
            self.missing[name].files.append(file)
        return name in self._stacks

    def _file(self, file: Path, traces: tuple[Trace, ...]) -> dict[str, Any]:
        return {
            "file": str(file),
            "stack": traces[0].stack,
            "runs": len(traces),
            "runs_done": self.done[file],
            "calls": sum(len(trace.calls) for trace in traces),
        }

    def _waiting(self) -> Iterator[Failure]:
        for missing in self.missing.values():
            yield from (Failure.of(file, missing.error) for file in missing.files)

    def _control_tokens(self) -> dict[str, int]:
        most: dict[str, int] = {}
        for key, tally in self.tallies.items():
            if key.ours:
                most[key.stack] = max(most.get(key.stack, 0), tally.control_tokens)
        return most


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None
