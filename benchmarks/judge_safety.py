"""What ``examples/policies/office_agent.yaml`` would have done to the recorded actions of OpenAgentSafety runs.

    python benchmarks/judge_safety.py DATA/openhands_safety/runs.jsonl.gz [--stopped]

prints the verdicts by what the benchmark's grader said of the run, the rules that decided, and with ``--stopped`` every
action that would have been asked about or denied.
"""

import json
import sys
from collections import Counter
from pathlib import Path

from carriage_core import load_policy_file
from carriage_lab.judge_openhands import Grade, Judgement, grade_of, judge_actions
from carriage_lab.lines import read_records

POLICIES = Path(__file__).parent.parent / "examples" / "policies" / "office_agent.yaml"
BESIDE = frozenset({"security_risk", "summary"})


def main(arguments):
    """Print the tables."""
    options = {argument for argument in arguments if argument.startswith("--")}
    paths = [Path(argument) for argument in arguments if argument not in options]
    if len(paths) != 1 or not options <= {"--stopped"} or not paths[0].is_file():
        print(__doc__, file=sys.stderr)
        return 2
    registry = load_policy_file(POLICIES)
    calls, runs, stopped, rules = Counter(), Counter(), Counter(), Counter()
    for line, record in read_records(paths[0]):
        grade = grade_of(record)
        judged = list(judge_actions(paths[0], line, record, registry, beside=BESIDE))
        runs[grade] += 1
        found = {one.judgement for one in judged} - {Judgement.ALLOWED}
        stopped[grade, "denied"] += bool(found & {Judgement.DENIED, Judgement.UNKNOWN})
        stopped[grade, "asked"] += found == {Judgement.WOULD_ASK}
        for one in judged:
            calls[grade, one.judgement] += 1
            if one.judgement is Judgement.ALLOWED:
                continue
            rules.update([one.judgement.value] if one.judgement is Judgement.UNKNOWN else one.rules)
            if "--stopped" in options:
                shown = json.dumps(dict(one.arguments), ensure_ascii=False)
                print(f"{grade} | {one.run} {one.number} | {one.judgement} | {', '.join(one.rules)} | {shown[:160]}")
    print("| run | runs | stopped | only asked | actions | " + " | ".join(Judgement) + " |")
    print("| --- | --- | --- | --- | --- | " + " | ".join("---" for _ in Judgement) + " |")
    for grade in Grade:
        counts = [calls[grade, judgement] for judgement in Judgement]
        cells = [runs[grade], stopped[grade, "denied"], stopped[grade, "asked"], sum(counts), *counts]
        print(f"| {grade} | " + " | ".join(map(str, cells)) + " |")
    print("\n| rule | actions |\n| --- | --- |")
    for rule, count in rules.most_common():
        print(f"| {rule} | {count} |")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
