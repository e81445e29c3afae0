# SPDX-License-Identifier: Apache-2.0
"""Control budgets taken from recorded runs: the overload question at pressures that a replay really sees (paper IV).

The data budget of a model call is what `carriage_lab.replay` gives it: its history's words over rho. They are
collected over all calls of a stack and all rho. A control budget as large as their p10, p50 or p90 is what the rules
would get if they had to live where the data lives.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from carriage_lab.placement import Placement
from carriage_lab.replay import RHOS
from carriage_lab.run import Failure
from carriage_lab.sources import read_file
from carriage_lab.stack import Bench, Stack, open_stack
from carriage_lab.wire import head_length, tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from carriage_lab.trace import StackName, Trace

_LOG = logging.getLogger(__name__)

PERCENTILES: Final = (10, 50, 90)


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrated:
    """One control budget.

    Attributes:
        stack: The framework whose runs it comes from.
        calls: How many recorded model calls those have.
        percentile: Which of their data budgets it is.
        budget: Its size in words.
    """

    stack: StackName
    calls: int
    percentile: int
    budget: int

    @property
    def name(self) -> str:
        """Its name in the cases and tables."""
        return f"{self.stack}-p{self.percentile}"


@dataclass(slots=True, kw_only=True)
class Histories:
    """The sizes of recorded histories. Call `measure` for each file; a file that fails contributes nothing.

    Attributes:
        bench: Counts, and builds what a stack needs.
        sizes: Words of the history before each call, by stack.
        files: The files measured.
        failures: The files that were not, and why.
    """

    bench: Bench
    sizes: dict[StackName, list[int]] = field(default_factory=dict)
    files: list[Path] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    _stacks: dict[StackName, Stack[object]] = field(default_factory=dict)

    def measure(self, file: Path) -> None:
        """Measure every run of `file`, or note why not."""
        try:
            traces = read_file(file)
            name = traces[0].stack
            found = [size for trace in traces for size in _history_sizes(trace, self._stack(name))]
        except Exception as error:  # noqa: BLE001  # one file must not cost the others; it is reported
            _LOG.debug("measuring %s failed", file, exc_info=True)
            self.failures.append(Failure.of(file, error))
            return
        self.files.append(file)
        self.sizes.setdefault(name, []).extend(found)

    def budgets(self) -> tuple[Calibrated, ...]:
        """Return the budgets of every stack with a call."""
        return tuple(
            Calibrated(stack=name, calls=len(sizes), percentile=percentile, budget=budget)
            for name, sizes in sorted(self.sizes.items())
            if sizes
            for percentile, budget in percentiles(sizes)
        )

    def _stack(self, name: StackName) -> Stack[object]:
        if name not in self._stacks:
            self._stacks[name] = open_stack(name, self.bench)
        return self._stacks[name]


def percentiles(sizes: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Work out the data budgets of histories of these `sizes`; nearest rank, whole words, at least one."""
    budgets = sorted(max(1, math.floor(size / rho)) for size in sizes for rho in RHOS)
    return tuple((each, budgets[math.ceil(each / 100 * len(budgets)) - 1]) for each in PERCENTILES)


def measure_all(histories: Histories, files: Iterable[Path], advance: Callable[[int], None] = lambda _: None) -> None:
    """Measure `files` one after the other."""
    for file in files:
        histories.measure(file)
        advance(1)


def _history_sizes(trace: Trace, stack: Stack[object]) -> list[int]:
    """Count the history before each call as the replay does: the placed message included, system text not."""
    session = stack.open(trace)
    found: list[int] = []
    for length in trace.calls:
        case = session.case(Placement.FIRST, length, ours=False)
        whole = session.provider([*case.fixed, *case.history])
        found.append(tokens(whole[head_length(whole) :]))
    return found
