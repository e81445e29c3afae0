# SPDX-License-Identifier: Apache-2.0
"""Native pressure of recorded runs (paper III-B, Table V): how full the data budget was before each model call.

effective budget = window - reserved output - fixed overhead; fixed overhead = system text + tool schemas + final
request; candidate = history without the final request; ``rho = candidate / effective``. The policy natively stands in
the system text, so it is fixed overhead and nothing is reserved for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from carriage_lab.steps import Asked, Condensed, Said
from carriage_lab.trace import TraceFormatError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from carriage_lab.steps import Level, Recorded

RESERVED: Final = 4096
"""Tokens reserved for the model's output, unless said otherwise."""

type History = Literal["whole", "condensed", "reported"]
"""Everything so far; what the run's own condenser left of it; what the provider says it was sent."""

LEVELS: Final[tuple[Level, ...]] = ("set", "domain", "dataset", "all")
QUANTILES: Final = {"p50": 50, "p90": 90, "p99": 99, "max": 100}


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The state immediately before one model call. All sizes are tokens of `counter`."""

    stack: str
    sources: Mapping[Level, str]
    file: Path
    line: int
    trace: str
    call: int
    counter: str
    history: History
    window: int
    reserved: int
    fixed: int
    request: int
    candidate: int
    prompt_tokens: int | None

    @property
    def effective(self) -> int:
        """Tokens that the history may fill."""
        return self.window - self.reserved - self.fixed - self.request

    @property
    def rho(self) -> float:
        """Pressure: 1 means full."""
        return self.candidate / self.effective


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What the run's model could take: its window, output reserved, and overhead the source does not record."""

    window: int
    reserved: int = RESERVED
    unrecorded_overhead: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """A counter and its name in the tables."""

    name: str
    count: Callable[[str], int]


def snapshots(run: Recorded, counters: Sequence[Tokens], limits: Limits) -> list[Snapshot]:
    """Measure every model call of `run` with every counter, and as the provider reported it.

    Reported tokens have no breakdown. So the first reported call of a run splits by the last counter into candidate
    and fixed overhead; from there on the candidate grows as the reports grow.

    Raises:
        TraceFormatError: The fixed overhead is unknown, or leaves no budget.
    """
    found = [each for tokens in counters for each in _counted(run, tokens, limits)]
    anchor = f"reported+{counters[-1].name}"
    sent: History = "condensed" if run.condensed else "whole"
    found += _reported([each for each in found if (each.counter, each.history) == (counters[-1].name, sent)], anchor)
    for each in found:
        if each.effective <= 0:
            raise TraceFormatError(
                run.file,
                run.line,
                f"window {each.window} - reserved {each.reserved} - fixed overhead {each.fixed + each.request} "
                f"leaves nothing for the history ({each.counter})",
                mend="name the model's real --window and --reserved.",
            )
    return found


def _counted(run: Recorded, tokens: Tokens, limits: Limits) -> Iterator[Snapshot]:
    fixed = _fixed(run, tokens, limits)
    whole = request = view = summary = call = 0
    alive: dict[str, int] = {}
    for step in run.steps:
        match step:
            case Said():
                size = tokens.count(step.text)
                whole += size
                view += size
                if step.request:
                    request = size  # fixed overhead, so no condensation takes it out of the candidate
                elif step.id:
                    alive[step.id] = size
            case Condensed():
                view -= sum(alive.pop(each, 0) for each in step.forgotten)
                view -= summary
                summary = tokens.count(step.summary)
                view += summary
            case Asked():
                call += 1
                for history, size in (("whole", whole), ("condensed", view))[: 1 + run.condensed]:
                    yield Snapshot(
                        stack=run.stack,
                        sources=run.sources,
                        file=run.file,
                        line=run.line,
                        trace=run.trace,
                        call=call,
                        counter=tokens.name,
                        history="whole" if history == "whole" else "condensed",
                        window=limits.window,
                        reserved=limits.reserved,
                        fixed=fixed,
                        request=request,
                        candidate=size - request,
                        prompt_tokens=step.prompt_tokens,
                    )


def _fixed(run: Recorded, tokens: Tokens, limits: Limits) -> int:
    if run.fixed is not None:
        return sum(map(tokens.count, run.fixed))
    if limits.unrecorded_overhead is None:
        raise TraceFormatError(
            run.file,
            run.line,
            "the run records neither system prompt nor tool schemas, so its fixed overhead is unknown",
            mend="keep system_prompts/ and tools/ beside the file, or give --fixed-overhead TOKENS.",
        )
    return limits.unrecorded_overhead


def _reported(calls: Iterable[Snapshot], name: str) -> Iterator[Snapshot]:
    first: Snapshot | None = None
    overhead = 0
    for each in calls:
        if each.prompt_tokens is None:
            continue
        if first is None:
            first = each
            overhead = each.prompt_tokens - each.candidate
        yield Snapshot(
            stack=each.stack,
            sources=each.sources,
            file=each.file,
            line=each.line,
            trace=each.trace,
            call=each.call,
            counter=name,
            history="reported",
            window=each.window,
            reserved=each.reserved,
            fixed=overhead - first.request,
            request=first.request,
            candidate=each.prompt_tokens - overhead,
            prompt_tokens=each.prompt_tokens,
        )


def percentile(values: Sequence[float], quantile: float) -> float:
    """Interpolate linearly between the two nearest of the sorted `values`."""
    place = (len(values) - 1) * quantile / 100
    low = int(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (place - low)


def rows(found: Sequence[Snapshot]) -> list[dict[str, Any]]:
    """Summarise per source as Table V does: one row a source, counter and history; JSON values only."""
    groups: dict[tuple[Level, str, str, str], list[Snapshot]] = {}
    for level in LEVELS:
        for each in found:
            if level in each.sources:
                groups.setdefault((level, each.sources[level], each.counter, each.history), []).append(each)
    order = {(level, source): place for place, (level, source, _, _) in reversed(list(enumerate(groups)))}
    return [_row(key, groups[key]) for key in sorted(groups, key=lambda key: order[key[:2]])]


def _row(key: tuple[Level, str, str, str], group: Sequence[Snapshot]) -> dict[str, Any]:
    level, source, counter, history = key
    return {
        "stack": group[0].stack,
        "level": level,
        "source": source,
        "counter": counter,
        "history": history,
        "traces": len({(each.file, each.line) for each in group}),
        "snapshots": len(group),
        "window_min": min(each.window for each in group),
        "window_max": max(each.window for each in group),
        "reserved": group[0].reserved,
        **_spread("fixed", [each.fixed for each in group], ("p50", "max")),
        **_spread("request", [each.request for each in group], ("p50", "max")),
        **_spread("history_tokens", [each.candidate + each.request for each in group]),
        **_spread("candidate", [each.candidate for each in group]),
        **_spread("rho", [each.rho for each in group]),
        "rho_ge_1": sum(each.rho >= 1 for each in group),
    }


def _spread(name: str, values: Sequence[float], wanted: Sequence[str] = tuple(QUANTILES)) -> dict[str, float]:
    ordered = sorted(values)
    return {f"{name}_{each}": percentile(ordered, QUANTILES[each]) for each in wanted}
