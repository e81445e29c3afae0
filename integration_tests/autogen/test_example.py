"""The example users copy must run as it stands."""

import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "autogen_agent.py"


def test_the_example_denies_and_then_deletes():
    """It prints the refusal before the deletion, and deletes once."""
    done = subprocess.run([sys.executable, str(EXAMPLE)], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("POLICY_DENIED rule") == 1
    assert done.stdout.count("deleted build-1204") == 1
    assert done.stdout.index("POLICY_DENIED") < done.stdout.index("deleted build-1204")
