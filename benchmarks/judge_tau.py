"""What the policies in ``examples/policies`` would have done to the recorded tool calls of tau-bench and tau2-bench.

    python benchmarks/judge_tau.py DATA/tau [--denied]

prints a table a domain and file, the rules that bound, how denials lie in runs that the benchmark graded as passed or
not, and with ``--denied`` each denied call with its reason.
"""

import sys
import time
from collections import Counter
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

from carriage_core import load_policy_file
from carriage_lab.judge_recorded import Judgement, judge_run
from carriage_lab.lines import read_records

POLICIES = Path(__file__).parent.parent / "examples" / "policies"
EASTERN = timezone(timedelta(hours=-5), "EST")
MOMENTS = {
    "retail": datetime(2025, 1, 1, tzinfo=UTC),  # its policy names no moment
    "airline": datetime(2024, 5, 15, 15, tzinfo=EASTERN),
    "telecom": datetime(2025, 2, 25, 12, 8, tzinfo=EASTERN),
}
COLUMNS = tuple(Judgement)
REFUSED = {Judgement.DENIED, Judgement.UNDECIDABLE}


def users_own(record):
    """Count the calls that the simulated user made on its own phone; nobody's plane guards those."""
    return sum(
        len(message.get("tool_calls") or ()) for message in record["messages"] if not message["visible_to_agent"]
    )


def judged(folder):
    """Yield (domain, file name, run record, judged calls) for every recorded run."""
    registries = {domain: load_policy_file(POLICIES / f"tau_{domain}.yaml") for domain in MOMENTS}
    for file in sorted(folder.glob("*.jsonl.gz")):
        start = time.perf_counter()
        for line, record in read_records(file):
            domain = record["domain"]
            calls = tuple(judge_run(file, line, record, registries[domain], now=MOMENTS[domain]))
            yield domain, file.name.removesuffix(".jsonl.gz"), record, calls
        print(f"{file.name}: {time.perf_counter() - start:.1f} s", file=sys.stderr)


def row(name, calls, tally):
    """Print one row of the table."""
    counts = " | ".join(f"{tally[column]:,}" for column in COLUMNS)
    print(f"| {name} | {tally['runs']:,} | {calls:,} | {counts} | {tally['users']:,} |")


def main(arguments):
    """Print the tables."""
    options = {argument for argument in arguments if argument.startswith("--")}
    paths = [argument for argument in arguments if argument not in options]
    if len(paths) != 1 or not options <= {"--denied"} or not Path(paths[0]).is_dir():
        print(__doc__, file=sys.stderr)
        return 2
    tallies, rules, graded, listed = {}, Counter(), {}, []
    for domain, file, record, calls in judged(Path(paths[0])):
        for key in ((domain, "all"), (domain, file), ("all", "")):
            tally = tallies.setdefault(key, Counter())
            tally["runs"] += 1
            tally["users"] += users_own(record)
            tally.update(call.judgement for call in calls)
        denied = any(call.judgement in REFUSED for call in calls)
        passed = "passed" if record["reward"] == 1 else "not passed"
        graded.setdefault((domain, passed), Counter()).update(runs=1, denied=int(denied))
        for call in calls:
            rules.update((domain, rule, call.judgement) for rule in call.rules)
            if call.judgement in REFUSED:
                listed.append(
                    f"{file} {call.run} #{call.number} {call.tool} {list(call.rules)} {call.verdict.explain()}"
                )
    print(f"| calls of | runs | calls | {' | '.join(COLUMNS)} | user's own, not judged |")
    print("| --- " * (4 + len(COLUMNS)) + "|")
    for key, tally in sorted(tallies.items()):
        row(" ".join(key).strip(), sum(tally[column] for column in COLUMNS), tally)
    print("\n| domain | rule | judgement | calls |\n| --- | --- | --- | --- |")
    for (domain, rule, judgement), count in sorted(rules.items()):
        print(f"| {domain} | `{rule}` | {judgement} | {count:,} |")
    print("\n| domain | graded | runs | of these with a refused call |\n| --- | --- | --- | --- |")
    for (domain, passed), tally in sorted(graded.items()):
        print(f"| {domain} | {passed} | {tally['runs']:,} | {tally['denied']:,} |")
    if "--denied" in options:
        print("\n".join(["", *listed]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
