"""Whether any injection of the recorded AgentDojo runs becomes policy, whatever it is dressed as and however it comes.

    python benchmarks/admission_agentdojo.py DATA/agentdojo [--runs N]

prints one row a carrier, and the line of totals; exit code 1 if anything was admitted or changed.
"""

import json
import os
import sys
import time
from collections import Counter
from pathlib import Path

from carriage_lab.admit_recorded import DRESSES, RULES, Carrier, attempts, said_outright, suite_registry
from carriage_lab.lines import read_records


def main(arguments):
    """Print the table and the totals."""
    data = os.environ.get("CARRIAGE_DATA", "")
    folder = Path(arguments[0]) if arguments and not arguments[0].startswith("--") else Path(data) / "agentdojo"
    most = int(arguments[arguments.index("--runs") + 1]) if "--runs" in arguments else 10**9
    if not (folder / "runs.jsonl.gz").is_file():
        print(__doc__, file=sys.stderr)
        return 2
    registries = {
        suite: suite_registry(suite, json.loads((folder / "tools" / f"{suite}.json").read_text("utf-8")))
        for suite in RULES
    }
    start, runs, outright, totals, by_carrier = time.perf_counter(), 0, 0, Counter(), {}
    file = folder / "runs.jsonl.gz"
    for line, record in read_records(file):
        if runs == most:
            break
        runs += 1
        registry = registries[record["tools_id"]]
        outright += said_outright(file, line, record, registry)
        for attempt in attempts(file, line, record, registry):
            counts = Counter(
                attempts=1,
                calls=attempt.calls,
                refused=attempt.refused,
                named=attempt.named,
                admissions=attempt.admissions,
                verdicts=attempt.changed_verdicts,
                capsules=attempt.changed_capsules,
            )
            totals.update(counts)
            by_carrier.setdefault(attempt.carrier, Counter()).update(counts)
        if runs % 20 == 0:
            print(f"{runs} runs, {time.perf_counter() - start:.0f} s", file=sys.stderr)
    columns = ("attempts", "calls", "refused", "named", "admissions", "verdicts", "capsules")
    titles = "attempts | calls judged | refused | marked lines passed over | admissions | changed verdicts | capsules"
    print(f"| carrier | {titles} |")
    print("| --- " * (1 + len(columns)) + "|")
    for carrier, counts in by_carrier.items():
        print(f"| {carrier} | " + " | ".join(f"{counts[column]:,}" for column in columns) + " |")
    print(f"\nsaid outright by the person: {outright} of {runs} admitted")
    print(
        f"{runs} runs, {len(DRESSES) * len(Carrier)} dresses and carriers: {totals['admissions']} admissions, "
        f"{totals['verdicts']} changed verdicts, {totals['capsules']} changed capsules"
    )
    failed = totals["admissions"] or totals["verdicts"] or totals["capsules"] or outright < runs or not totals["named"]
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
