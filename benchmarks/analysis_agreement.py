"""The analysis table: questions drawn from a seed, each answered by the analysis, by z3 and by trying situations.

`z3` counts questions that it answered otherwise (it may give up: `z3 silent`). `tried` counts a yes for which some
situation shows a difference. `witness` counts witnesses that evaluators written apart judge otherwise; those of unknown
actions, which no bound tool does, are judged by the monitor's own evaluator alone (`own only`).

    python benchmarks/analysis_agreement.py [CONDITIONS RULES]
"""

import statistics
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from carriage_core import analysis
from integration_tests.core import analysis_brute as brute
from integration_tests.core import analysis_z3
from integration_tests.core.analysis_samples import TYPES, condition_pair, drawn, rule_pair

CONDITIONS, RULES = 5_000, 1_500
HEADS = ("questions", "yes", "no", "undecided", "z3 silent", "z3", "tried", "witness", "own only")


def condition_question(seed: int, row: Counter[str]) -> tuple[str, float]:
    """Put one question about conditions to everybody."""
    rng = drawn("conditions", seed)
    kind = rng.choice(("implies", "equivalent", "disjoint"))
    first, second = condition_pair(rng)
    started = time.thread_time()
    answer = getattr(analysis, kind)(first, second, types=TYPES)
    taken = time.thread_time() - started
    told = analysis_z3.ask_conditions(kind, first, second)
    found = answer.yes and brute.conditions_differ(kind, first, second, rng)
    good = answer.witness is None or brute.witness_of_conditions(kind, first, second, answer.witness)
    _note(row, answer, told, found=found, good=good)
    return f"{kind} (conditions)", taken


def rule_question(seed: int, row: Counter[str]) -> tuple[str, float]:
    """Put one question about sets of rules to everybody."""
    rng = drawn("rules", seed)
    kind = rng.choice(("complete", "sound", "equivalent", "disjoint"))
    first, second = rule_pair(rng)
    started = time.thread_time()
    answer = getattr(analysis, kind)(first, second, types=TYPES)
    taken = time.thread_time() - started
    told = analysis_z3.ask_rules(kind, first, second)
    found = answer.yes and brute.rules_differ(kind, first, second, rng)
    good = None
    if answer.witness is not None:
        good = brute.witness_of_rules(kind, first, second, answer.witness)
    _note(row, answer, told, found=found, good=good is not False)
    row["own only"] += answer.witness is not None and good is None
    return f"{kind} (rules)", taken


def _note(row: Counter[str], answer: analysis.Answer, told: str, *, found: bool, good: bool) -> None:
    row["questions"] += 1
    row[str(answer.verdict)] += 1
    decided = answer.verdict is not analysis.Decided.UNDECIDED
    row["z3 silent"] += told == "unknown"
    row["z3"] += decided and told not in {"unknown", str(answer.verdict)}
    row["tried"] += found
    row["witness"] += not good


def main() -> None:
    counts = tuple(map(int, sys.argv[1:3])) or (CONDITIONS, RULES)
    table: dict[str, Counter[str]] = {}
    taken: list[float] = []
    for ask, count in zip((condition_question, rule_question), counts, strict=True):
        for seed in range(count):
            row: Counter[str] = Counter()
            name, seconds = ask(seed, row)
            taken.append(seconds)
            table.setdefault(name, Counter()).update(row)
            if row["z3"] or row["tried"] or row["witness"]:
                print(f"differs: {ask.__name__} {seed} {name} {dict(row)}")
    print(f"{'question':26}" + "".join(f"{head:>11}" for head in HEADS))
    total: Counter[str] = Counter()
    for name, row in sorted(table.items()):
        total.update(row)
        print(f"{name:26}" + "".join(f"{row[head]:11,}" for head in HEADS))
    print(f"{'all':26}" + "".join(f"{total[head]:11,}" for head in HEADS))
    ordered = sorted(taken)
    print(
        f"time of the analysis: median {statistics.median(ordered) * 1_000:.1f} ms, "
        f"99 % under {ordered[len(ordered) * 99 // 100] * 1_000:.0f} ms, most {ordered[-1] * 1_000:.0f} ms"
    )
    assert not total["z3"] + total["tried"] + total["witness"], "the analysis is wrong"


if __name__ == "__main__":
    main()
