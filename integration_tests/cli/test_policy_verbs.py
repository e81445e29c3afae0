"""``carriage check`` and ``carriage lint``: a wrong file never becomes a plane that carries less."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import carriage_lab

STORY = Path(carriage_lab.__file__).parent / "data" / "release_policy.yaml"


def carriage(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "carriage_cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.fixture
def policy_file(tmp_path):
    def write(before: str = "", after: str = "") -> Path:
        text = STORY.read_text(encoding="utf-8")
        assert before in text
        path = tmp_path / "policies.yaml"
        path.write_text(text.replace(before, after, 1) if before else text, encoding="utf-8")
        return path

    return write


MISTAKES = [
    ("    unless:", "    unles:", "unknown key 'unles'", "did you mean 'unless'?"),
    ("attr: object.id", "attr: object.idd", "'object.idd' is not defined", "did you mean 'object.id'?"),
    ("argument: artifact_id", "argument: artifact", "has no argument 'artifact'", "did you mean 'artifact_id'?"),
    ("eq: succeeded", "eq: no", "truth value to some readers", "write true or false"),
    ("version: 1", "version: 1.10", "not one number to all readers", 'write "1.10" in quotes'),
    ("carriage: 1", "carriage: 2", "version 2 is not known", "carriage: 1"),
    ("action: delete\n    object", "action: delete\n    action: verify\n    object", "occurs twice", "keep one"),
    ("scope: {tenant: acme}", "scope: &a {tenant: acme}", "aliases and anchors are off", "write the value out"),
    ("    effect: deny\n", "    effect: denied\n", "'denied' is not one of", "did you mean 'deny'?"),
]


@pytest.mark.parametrize(
    ("before", "after", "message", "mend"), MISTAKES, ids=[row[1].strip()[:24] for row in MISTAKES]
)
def test_mistake_in_the_file_is_refused_with_its_place(policy_file, before, after, message, mend):
    """Each mistake exits with 2 and names file, line, path and mend; no verdict is given."""
    path = policy_file(before, after)
    line = path.read_text(encoding="utf-8").split(after.strip().split("\n")[0])[0].count("\n") + 1
    done = carriage("check", str(path), "--tool", "list_artifacts")
    assert done.returncode == 2
    assert done.stdout == ""
    assert message in done.stderr
    assert mend in done.stderr
    numbers = [int(part.split(":")[0]) for part in done.stderr.split(f"{path}:")[1:]]
    assert any(abs(number - line) <= 1 for number in numbers), (done.stderr, line)


def test_missing_file_is_refused(tmp_path):
    """A path that is not there exits with 2 instead of protecting nothing."""
    done = carriage("lint", str(tmp_path / "none.yaml"))
    assert done.returncode == 2
    assert "cannot be read" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        (["--tool", "delete_artifact", "--args", '{"artifact_id": "a", "repo": "acme/x"}'], 3, "deny"),
        (["--tool", "delete_artifact", "--args", '{"artifact_id": "a", "repo": "other/x"}'], 0, "allow"),
        (["--tool", "unheard_of"], 3, "deny"),
        (["--tool", "delete_artifact", "--args", '{"repo": "other/x", "repo": "acme/x"}'], 2, ""),
        (["--tool", "delete_artifact", "--args", '{"artifact_id": NaN}'], 2, ""),
        (["--tool", "delete_artifact", "--args", "[]"], 2, ""),
    ],
)
def test_exit_code_says_the_verdict(arguments, code, word):
    """Scripts can rely on 0 allow, 2 error, 3 deny; an unreadable call is never an allow."""
    done = carriage("check", str(STORY), *arguments)
    assert done.returncode == code, done.stderr
    assert done.stdout.startswith(word)


def test_lint_names_what_is_only_carried(policy_file):
    """A rule that nothing enforces is not passed over in silence."""
    path = policy_file()
    extra = "\n  - id: be-kind\n    issuer: {kind: organization, name: o}\n    effect: deny\n    text: Be kind.\n"
    path.write_text(path.read_text(encoding="utf-8").rstrip() + extra, encoding="utf-8")
    done = carriage("lint", str(path), "--json")
    assert done.returncode == 0, done.stdout
    found = json.loads(done.stdout)
    assert found["errors"] == []
    assert any(entry["path"] == "be-kind" and "not mediated" in entry["message"] for entry in found["warnings"])
