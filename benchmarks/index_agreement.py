"""The index against a plain scan of every policy, over at least 100,000 pairs of a registry and a call (invariant 4).

Then the same comparison with a copy of the index that has one fault, for each of several faults: a comparison that
could not see them would prove nothing. Exits 1 if anything differs, or a fault goes unseen.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from integration_tests.core.generated_calls import cases
from integration_tests.core.index_agreement import DIFFERENCES, FAULTS, differences, tally

WORLDS, CALLS, FAULT_WORLDS = 1_700, 60, 100
SEED = 3_06


def main() -> int:
    """Print the counts."""
    seen = tally(cases(SEED, worlds=WORLDS, calls=CALLS))
    pairs = seen["pairs"]
    for name in ("with A*", "with a missing or unknown value", "with several actions", "refused"):
        print(f"{name:36}{seen[name]:9,}  {seen[name] / pairs:6.1%}")
    print(f"{'pairs of a registry and a call':36}{pairs:9,}")
    print(f"{'sets of candidate tools':36}{seen['candidate sets']:9,}")
    for name in DIFFERENCES:
        print(f"{name:36}{seen[name]:9,}")
    missed = 0
    print(f"\nfaults put into the index, and in how many of {FAULT_WORLDS * CALLS:,} pairs and their sets they show")
    for fault in FAULTS:
        shown = differences(tally(cases(SEED + 1, worlds=FAULT_WORLDS, calls=CALLS), fault.selection()))
        missed += not shown
        print(f"{fault.name:56}{shown:7,}  {'caught' if shown else 'NOT CAUGHT'}")
    print(f"{len(FAULTS) - missed} of {len(FAULTS)} caught")
    return int(bool(differences(seen) or missed or seen["with A*"] < 0.3 * pairs or pairs < 100_000))


if __name__ == "__main__":
    sys.exit(main())
