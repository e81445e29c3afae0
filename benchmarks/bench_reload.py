"""Large registries: building one, A+ for 50 tools, and what decisions cost while one of 10,000 rules is replaced.

Decisions run back to back in one thread, by turns alone and beside a second thread that goes on admitting new versions
of a rule: each admission builds a whole snapshot of 10,000 rules. Wall time is what a caller waits, thread CPU what a
decision itself takes.

    python benchmarks/bench_reload.py [--seconds S] [--json FILE]

Wanted: building under 1 s, A+ under 2 ms, p99.9 beside reloading at most 2 x of alone.
"""

import argparse
import gc
import json
import statistics
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import _decision_sides as sides

from carriage_core import ControlPlane, PolicyRegistry, RuntimeState, ToolSpec, a_plus
from carriage_core.index import PolicyIndex

SIZE, TOOLS, TURNS = 10_000, 50, 6


def milliseconds(work: Callable[[], object], times: int) -> float:
    """The median thread CPU of some work."""
    samples = []
    for _ in range(times):
        start = time.thread_time_ns()
        work()
        samples.append((time.thread_time_ns() - start) / 1e6)
    return statistics.median(samples)


def building() -> dict[str, float]:
    """Milliseconds for each part of making a registry of `SIZE` rules, and for A+."""
    rules, bound = sides.rules(SIZE), tuple(sides.bindings("value"))
    registry = PolicyRegistry.of(rules, bound)
    found = {
        "the rules themselves": milliseconds(lambda: sides.rules(SIZE), 3),
        "a registry of them": milliseconds(lambda: PolicyRegistry.of(rules, bound), 5),
        "of this, the index": milliseconds(lambda: PolicyIndex(registry.policies), 5),
    }
    runtime = RuntimeState(tenant="acme", task="t1", chain=("bot",))
    for spread in ("value", "type", "action"):
        registry = PolicyRegistry.of(sides.rules(SIZE, spread), sides.bindings(spread))
        candidates = [ToolSpec(name=name) for name in list(registry.bindings)[:TOOLS]]
        found[f"A+ for {TOOLS} tools, rules apart by {spread}"] = milliseconds(
            lambda registry=registry, candidates=candidates: a_plus(registry, runtime, candidates),  # type: ignore[misc]
            51,
        )
    return found


class Reloader(threading.Thread):
    """Admits new versions of the first rule until stopped."""

    def __init__(self, plane: ControlPlane) -> None:
        super().__init__(daemon=True)
        self._plane, self._stopped = plane, threading.Event()
        self.reloads = 0

    def run(self) -> None:
        while not self._stopped.is_set():
            policy = next(policy for policy in self._plane.registry.policies if policy.id == "rule-0")
            self._plane.admit(replace(policy, version=policy.version + 1), by=policy.issuer)
            self.reloads += 1

    def stop(self) -> None:
        self._stopped.set()
        self.join()


def decide(plane: ControlPlane, seconds: float) -> list[tuple[int, int]]:
    """Wall and thread CPU nanoseconds of each decision made in that time."""
    call = sides.call_of(SIZE)
    samples = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        wall, own = time.perf_counter_ns(), time.thread_time_ns()
        plane.check("delete_artifact", call)
        samples.append((time.perf_counter_ns() - wall, time.thread_time_ns() - own))
    return samples


def beside(seconds: float) -> dict[str, dict[str, float]]:
    """Quantiles of decisions alone and beside reloading, taken by turns, in microseconds."""
    plane = sides.plane_of(SIZE)
    gc.collect()
    gc.freeze()
    taken: dict[str, list[tuple[int, int]]] = {"alone": [], "beside reloading": []}
    reloads = 0
    for _ in range(TURNS):
        taken["alone"] += decide(plane, seconds / TURNS)
        reloader = Reloader(plane)
        reloader.start()
        taken["beside reloading"] += decide(plane, seconds / TURNS)
        reloader.stop()
        reloads += reloader.reloads
    gc.unfreeze()
    found: dict[str, dict[str, float]] = {}
    for name, samples in taken.items():
        found[name] = {"decisions": len(samples), "reloads": reloads if name != "alone" else 0}
        for clock, position in (("wall", 0), ("CPU", 1)):
            ordered = sorted(sample[position] for sample in samples)
            for label, part in (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)):
                found[name][f"{clock} {label}"] = ordered[int(part * len(ordered))] / 1_000
    return found


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=18.0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    built = building()
    print(f"{SIZE:,} rules, thread CPU in milliseconds, median")
    for name, time_taken in built.items():
        print(f"{name:42}{time_taken:10.2f}")
    found = beside(options.seconds)
    print(f"\ndecisions, microseconds\n{'':18}" + "".join(f"{name:>12}" for name in found["alone"]))
    for name, row in found.items():
        print(f"{name:18}" + "".join(f"{value:12,.1f}" for value in row.values()))
    ratios = {name: found["beside reloading"][name] / found["alone"][name] for name in ("wall p99.9", "CPU p99.9")}
    print(f"{'ratio, p99.9':18}wall {ratios['wall p99.9']:.2f}, CPU {ratios['CPU p99.9']:.2f}")
    if options.json is not None:
        report = {"milliseconds": built, "decisions": found, "ratios": ratios}
        options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
