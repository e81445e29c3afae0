"""The confusion table of the carriage audit over the labelled pairs, on both halves and beside three baselines.

*Falsely preserved* are pairs called preserved (with or without "if trusted") whose label is another. *String equality*
calls a policy preserved where some message is its text, *text found* where some message holds it; *always unverifiable*
is the audit that never says anything. The last lines time one audit of a long transcript without and with rules in it.
"""

import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from carriage_core.audit import CarriageAudit
from carriage_core.audit_findings import Carriage
from integration_tests.core import audit_pairs
from integration_tests.core.audit_pairs import Score, equality, finder, never, read, score, substring

ORDER = tuple(Carriage)
LONG = 2_000
READ = frozenset({"status word", "negation"})
"""Families that had been read in whole before the draw."""

REPEATS = 5


def percent(part: int, whole: int) -> str:
    return f"{part}/{whole} ({100 * part / whole:.1f} %)" if whole else "0/0"


def row(name: str, half: str, result: Score) -> str:
    return (
        f"| {name} | {half} | {result.pairs} | {len(result.falsely_preserved)} "
        f"| {percent(result.grammar_exact, result.grammar)} | {percent(result.exact, result.pairs)} |"
    )


def confusion(result: Score) -> None:
    print("| label \\ finding | " + " | ".join(ORDER) + " |")
    print("| --- |" + " ---: |" * len(ORDER))
    for label in ORDER:
        counts = (result.confusion[label, found] for found in ORDER)
        print(f"| {label} | " + " | ".join(str(count) if count else "." for count in counts) + " |")


def timed(registry, messages) -> float:
    samples = []
    audit = CarriageAudit.of(registry)
    audit.read(messages)
    for _ in range(REPEATS):
        started = time.thread_time_ns()
        audit.read(messages)
        samples.append(time.thread_time_ns() - started)
    return statistics.median(samples) / 1e6


def main() -> None:
    registry, pairs = read()
    find = finder(registry)
    halves = {
        "held out": [pair for pair in pairs if pair.held_out],
        "held out, unread": [pair for pair in pairs if pair.held_out and pair.family not in READ],
        "seen": [pair for pair in pairs if not pair.held_out],
        "all": list(pairs),
    }
    judges = {
        "carriage audit": lambda pair: find(pair).carriage,
        "string equality": equality(registry),
        "text found": substring(registry),
        "always unverifiable": never,
    }
    print(f"{len(pairs)} pairs, {len({pair.family for pair in pairs})} families, seed {audit_pairs.SEED}\n")
    print("| judge | half | pairs | falsely preserved | exact, in our grammar | exact |")
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    results = {(name, half): score(some, judge) for name, judge in judges.items() for half, some in halves.items()}
    for (name, half), result in results.items():
        print(row(name, half, result))
    print("\nThe carriage audit on the held-out half:\n")
    confusion(results["carriage audit", "held out"])
    print("\nThe carriage audit on all pairs:\n")
    confusion(results["carriage audit", "all"])
    misbound = [pair for pair in pairs if pair.bound]
    told = sum(find(pair).bound == pair.bound for pair in misbound)
    print(f"\nmisbound pairs whose wrong binding is named exactly as labelled: {percent(told, len(misbound))}")
    prose = [
        {"role": "user", "content": f"Step {n}: the tests pass and the log is clean.\nGo on."} for n in range(LONG)
    ]
    rules = [{"role": "system", "content": message["content"]} for pair in pairs for message in pair.messages]
    for what, messages in ((f"{LONG} messages of prose", prose), ("the same and all pairs", prose + rules)):
        print(f"{timed(registry, messages):.1f} ms thread CPU: {what}, {len(registry.policies)} policies")


if __name__ == "__main__":
    main()
