"""The shell table: five forbidden operations, each in many spellings, and as many commands that only look forbidden.

The commands come from the grammar that the tests use, so that neither is a list. *By unknown* are denials where no
action was recognised and the whole command counts as anything; *unknown* are near misses of which the same is true.
"""

import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from carriage_core.schema import FilePath
from carriage_core.shell import shell_actions
from integration_tests.core.shell_grammar import OPERATIONS, Operation, near_miss, variant

EACH = 1_000
WORK = FilePath("/work")
TYPICAL = (
    "cd /work/service && git status --short && grep -rn 'TODO' src | head -n 20 | sort",
    "find . -name '*.pyc' -type f -exec rm -f {} + ; rm -rf build dist && mkdir -p out/logs",
    "curl -sS -X POST -H 'Accept: application/json' -d @body.json https://api.example/v1/x",
    "git add -A && git commit -m 'Fix the parser' && git push -u origin feature/parser-fix1",
)


def count(operation: Operation) -> tuple[int, int, int, int, int, int]:
    """Judge distinct commands of both kinds: how many, denied, of these by unknown; how many, allowed, unknown."""
    rule = operation.rule(WORK.text)
    variants = {variant(operation, seed).text for seed in range(EACH * 2)}
    misses = {near_miss(operation, seed).text for seed in range(EACH * 2)}
    bound = [[one for one in shell_actions(text, cwd=WORK) if rule.binds(one)] for text in sorted(variants)[:EACH]]
    passed = [shell_actions(text, cwd=WORK) for text in sorted(misses)[:EACH]]
    return (
        len(bound),
        sum(map(bool, bound)),
        sum(bool(some) and all(one.action is None for one in some) for some in bound),
        len(passed),
        sum(not any(map(rule.binds, actions)) for actions in passed),
        sum(any(one.action is None for one in actions) for actions in passed),
    )


def main() -> None:
    heads = ("operation", "variants", "denied", "by unknown", "near misses", "allowed", "unknown")
    print(f"{heads[0]:28}" + "".join(f"{head:>13}" for head in heads[1:]))
    sums = [0] * 6
    for operation in OPERATIONS:
        row = count(operation)
        sums = [a + b for a, b in zip(sums, row, strict=True)]
        print(f"{operation.name:28}" + "".join(f"{number:13,}" for number in row))
    print(f"{'all':28}" + "".join(f"{number:13,}" for number in sums))
    for command in TYPICAL:
        samples = []
        for _ in range(300):
            started = time.thread_time_ns()
            shell_actions(command, cwd=WORK)
            samples.append(time.thread_time_ns() - started)
        print(f"{statistics.median(samples) / 1_000:8.0f} us  {len(command):3} characters  {command[:60]}")
    assert sums[0] == sums[1], "a forbidden command passed"
    assert sums[3] == sums[4], "a harmless command was denied"


if __name__ == "__main__":
    main()
