"""What a decision costs beside Cedar, casbin and a dictionary, as the registry grows from 10 to 10,000 rules.

One run: every engine at every size in turn, many times over, so that a busy machine slows all of them alike. Thread
CPU time, median. `check` is the public call that returns the whole verdict with its reasons and the digest of the
arguments; `authorize` also reserves evidence and writes the decision to the hash chain.

    python benchmarks/bench_decision.py [--rounds N] [--json FILE]

Wanted: `check` at 10,000 rules at most 1.5 x of that at 10 and at most 30 microseconds; Cedar at least 2 x ours at 10
and 400 x at 10,000. The ratios hold anywhere; microseconds are those of one machine.
"""

import argparse
import gc
import json
import statistics
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import _decision_sides as sides
from _decision_sides import Decide

SIZES = (10, 100, 1_000, 10_000)
SIDES: dict[str, Callable[[int], Decide]] = {
    "ours, check": sides.ours_check,
    "ours, authorize": sides.ours_authorize,
    "cedarpy": sides.cedar,
    "casbin Enforcer": sides.casbin_enforcer,
    "casbin FastEnforcer": sides.casbin_fast,
    "dict lookup": sides.floor,
}
SPREADS: dict[str, Callable[[int], Decide]] = {
    "ours, other types": lambda size: sides.ours_check(size, "type"),
    "ours, other actions": lambda size: sides.ours_check(size, "action"),
}
WILDCARDS: dict[str, Callable[[int], Decide]] = {
    "ours, check": lambda size: sides.ours_check(size, "nothing"),
    "cedarpy": lambda size: sides.cedar(size, "nothing"),
}
SAMPLE_NS = 1_000_000
WARM = 3
"""About how long a sample takes, by repeating the call; and the calls before it, since caches hold other engines."""


def measure(builders: dict[str, Callable[[int], Decide]], rounds: int) -> dict[str, dict[int, float]]:
    """The median microseconds of each engine at each size, all of them interleaved."""
    decides = {(name, size): build(size) for name, build in builders.items() for size in SIZES}
    repeats = {key: max(1, SAMPLE_NS // _sample(decide, 3)) for key, decide in decides.items()}
    gc.collect()
    gc.freeze()  # what was built is not walked again in the middle of somebody's sample
    samples: dict[tuple[str, int], list[float]] = {key: [] for key in decides}
    for _ in range(rounds):
        for key, decide in decides.items():
            samples[key].append(_sample(decide, repeats[key]) / 1_000)
    gc.unfreeze()
    return {name: {size: statistics.median(samples[name, size]) for size in SIZES} for name in builders}


def _sample(decide: Decide, repeat: int) -> int:
    """Thread CPU nanoseconds of one call."""
    for _ in range(min(WARM, repeat)):
        decide()
    start = time.thread_time_ns()
    for _ in range(repeat):
        decide()
    return max(1, (time.thread_time_ns() - start) // repeat)


def show(title: str, found: dict[str, dict[int, float]]) -> None:
    """Print one table."""
    print(f"\n{title}\n{'':22}" + "".join(f"{size:>12,}" for size in SIZES) + f"{'growth':>10}")
    for name, row in found.items():
        growth = row[SIZES[-1]] / row[SIZES[0]]
        print(f"{name:22}" + "".join(f"{row[size]:12.2f}" for size in SIZES) + f"{growth:9.2f}x")


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=51)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    print(f"thread CPU in microseconds, median of {options.rounds} interleaved samples")
    print(f"Python {sys.version.split()[0]}, cedarpy {version('cedarpy')}, casbin {version('casbin')}")
    found = measure(SIDES | SPREADS, options.rounds)
    show("N rules with evidence, the last one matches and denies", found)
    wild = measure(WILDCARDS, max(3, options.rounds // 10))
    show("N rules for any action with a pattern: no index helps", wild)
    ours, cedar = found["ours, check"], found["cedarpy"]
    ratios = {f"cedarpy / ours at {size:,}": cedar[size] / ours[size] for size in SIZES}
    ratios |= {f"cedarpy / authorize at {size:,}": cedar[size] / found["ours, authorize"][size] for size in SIZES}
    ratios |= {f"FastEnforcer / ours at {size:,}": found["casbin FastEnforcer"][size] / ours[size] for size in SIZES}
    ratios |= {f"wildcards, cedarpy / ours at {n:,}": wild["cedarpy"][n] / wild["ours, check"][n] for n in SIZES}
    print()
    for name, ratio in ratios.items():
        print(f"{name:36}{ratio:10.2f}")
    wanted = {
        "10,000 over 10 at most 1.5": ours[10_000] / ours[10] <= 1.5,
        "at most 30 microseconds": ours[10_000] <= 30,
        "authorize at most 30 microseconds": found["ours, authorize"][10_000] <= 30,
        "cedarpy at least 2 x ours at 10": cedar[10] >= 2 * ours[10],
        "cedarpy at least 400 x ours at 10,000": cedar[10_000] >= 400 * ours[10_000],
    }
    print()
    for name, met in wanted.items():
        print(f"{name:40}{'yes' if met else 'NO'}")
    if options.json is not None:
        report = {"microseconds": found, "wildcards": wild, "ratios": ratios, "wanted": wanted}
        options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
