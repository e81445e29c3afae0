"""Our verdicts against Cedar's over the shared subset: 10,000 requests free of errors, then requests with errors.

An operator is counted once for each request that some rule for it reads it on, and once for each way the comparison
came out there. Where Cedar reports an error it skips the rule; ours stands. A request with an error is therefore
tried again with every real value the missing or ill-typed one could have: where we allow, Cedar must allow them all.
Exits 1 if anything disagrees, or a count is below its bar.
"""

import sys
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from integration_tests.core.cedar_agreement import OPERATORS, agreement, errors

REQUESTS, WITH_ERRORS = 10_000, 2_000
EACH_OPERATOR, EACH_VERDICT = 500, 0.25
SEED = 3_11


def main() -> int:
    """Print the tables."""
    seen = agreement(SEED, wanted=REQUESTS)
    total = seen["requests"]
    print(f"cedarpy {version('cedarpy')}")
    print(f"{'requests free of errors':52}{total:8,}")
    for verdict in ("allow", "deny"):
        print(f"{'Cedar says ' + verdict:52}{seen[verdict]:8,}  {seen[verdict] / total:.1%}")
    print(f"{'disagreements':52}{seen['disagreements']:8,}")
    print(f"\n{'operator':12}{'requests':>10}{'true':>10}{'false':>10}")
    for operator in OPERATORS:
        counts = (seen[operator], seen[f"{operator} True"], seen[f"{operator} False"])
        print(f"{operator:12}" + "".join(f"{count:10,}" for count in counts))
    held = errors(SEED, wanted=WITH_ERRORS)
    print(f"\n{'requests on which Cedar reports an error':52}{held['requests']:8,}")
    for name in ("Cedar allows", "Cedar allows, and denies for some real value", "we allow"):
        print(f"{name:52}{held[name]:8,}")
    unsafe = held["we allow, and Cedar denies for some real value"]
    print(f"{'real values tried where we allow':52}{held['completions tried']:8,}")
    print(f"{'we allow, and Cedar denies for some real value':52}{unsafe:8,}")
    short = total < REQUESTS or min(seen["allow"], seen["deny"]) < EACH_VERDICT * total
    short = short or min(seen[operator] for operator in OPERATORS) < EACH_OPERATOR
    return int(bool(short or seen["disagreements"] or unsafe))


if __name__ == "__main__":
    sys.exit(main())
