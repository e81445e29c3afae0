"""The examples users copy must run as they stand, and print what the documentation says."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run(name):
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / name)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_example_denies_and_then_deletes():
    """It prints the refusal before the deletion, and deletes once."""
    printed = run("autogen_agent.py")
    assert printed.count("POLICY_DENIED rule") == 1
    assert printed.count("deleted build-1204") == 1
    assert printed.index("POLICY_DENIED") < printed.index("deleted build-1204")


def test_the_documentation_shows_what_inspect_agent_prints():
    """Both blocks of docs/autogen.md, line for line."""
    printed = run("autogen_team.py")
    blocks = (ROOT / "docs" / "autogen.md").read_text(encoding="utf-8").split("```text\n")[1:]
    assert len(blocks) == 2
    for block in blocks:
        assert block.split("```")[0].strip() in printed
    assert "POLICY_DENIED rule: Denied by policy keep-files" in printed
