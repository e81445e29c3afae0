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


CALL = ["--tool", "delete_artifact", "--args", '{"artifact_id": "a1", "repo": "acme/x"}', "--tenant", "acme"]


def run(tool="verify_release", args=None, result=None, **more):
    return {"tool": tool, "args": args or {"artifact_id": "a1"}, "result": result or {"status": "succeeded"}, **more}


@pytest.fixture
def evidence(tmp_path):
    def write(content: object) -> list[str]:
        path = tmp_path / "evidence.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        return ["--evidence", str(path)]

    return write


@pytest.mark.parametrize(
    ("runs", "code"),
    [
        ([run()], 0),
        ([], 3),
        ([run(args={"artifact_id": "a2"})], 3),
        ([run(result={"status": "failed"})], 3),
        ([run(), run(result={"status": "failed"})], 3),
        ([run(actor="other")], 3),
    ],
    ids=["verified", "none", "another", "failed", "failed-later", "another-agent"],
)
def test_evidence_lifts_a_rule_only_as_it_would_in_a_run(evidence, runs, code):
    """Earlier results are filed by the monitor itself: another object, agent or outcome lifts nothing."""
    done = carriage("check", str(STORY), *CALL, "--actor", "bot", *evidence(runs), "--json")
    assert done.returncode == code, done.stderr
    assert len(json.loads(done.stdout)["evidence"]) == (code == 0)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[", "cannot be read as JSON"),
        ({}, "not a list"),
        (["verify_release"], "entry 1: not one earlier call"),
        ([{**run(), "resalt": 1}], "entry 1: not one earlier call"),
        ([run(), run(tool=7)], "entry 2: a name that is no text"),
        ([run(tool="unheard_of")], "entry 1: the call of unheard_of itself"),
        ([run(tool="list_artifacts")], "nothing of it is evidence"),
        ([run(result={"state": "succeeded"})], "nothing of it is evidence"),
        ('[{"tool": "verify_release", "args": {}, "args": {}, "result": {}}]', "a key occurs twice"),
    ],
)
def test_an_evidence_file_that_says_something_else_is_refused(evidence, content, said):
    """What cannot be filed stops the check instead of being passed over: exit 2, with the entry."""
    done = carriage("check", str(STORY), *CALL, *evidence(content))
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert "Mend:" in done.stderr or "itself is" in done.stderr


def test_a_verdict_as_json_holds_the_reasons_a_script_needs():
    """Outcome, code, policies, values and what lifts the rule are fields, whatever the verdict holds."""
    done = carriage("check", str(STORY), *CALL, "--json")
    found = json.loads(done.stdout)
    assert (found["outcome"], found["code"], found["policies"]) == ("deny", "rule", ["verify-before-delete"])
    assert found["reasons"][0]["values"]["object.id"] == '"a1"'
    assert "verify_release" in found["reasons"][0]["lift"]


def test_a_counted_call_prints_as_json(tmp_path):
    """Exact amounts are text in JSON; a decimal must not crash the command."""
    path = tmp_path / "counted.yaml"
    path.write_text(
        "carriage: 1\n"
        "tools: {pay: {action: pay, object: {type: bill, amount: {argument: amount, type: money}}}}\n"
        "policies:\n"
        "  - id: daily\n"
        "    issuer: {kind: developer, name: d}\n"
        "    action: pay\n"
        "    effect: deny\n"
        "    counters: {paid: {amount: object.amount, window: 1d}}\n"
        "    unless: {attr: counter.paid, le: 500}\n"
        "    text: Pay at most 500 a day.\n",
        encoding="utf-8",
    )
    done = carriage("check", str(path), "--tool", "pay", "--args", '{"amount": 0.1}', "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["counts"] == [{"amount": "0.1", "window_seconds": 86400.0}]


def test_lint_says_what_the_agents_tools_leave_open(policy_file, tmp_path):
    """With the tools an agent really has, lint names unbound ones, missing ones, and rules nothing mediates."""
    schema = {"name": "verify_release", "parameters": {"properties": {"artifact": {"type": "string"}}}}
    tools = tmp_path / "tools.json"
    tools.write_text(json.dumps(["wipe", "list_artifacts", schema]), encoding="utf-8")
    done = carriage("lint", str(policy_file()), "--tools", str(tools))
    assert done.returncode == 0
    for piece in (
        "the tool 'wipe' is bound to no action, so every call of it is denied",
        "wipe: {action: none}",
        "tools.delete_artifact: no tool of this name is offered",
        "no tool that is offered performs delete, so nothing mediates it",
        "names the argument 'artifact_id', which the tool does not have",
    ):
        assert piece in done.stdout, done.stdout
    tools.write_text(json.dumps(["list_artifacts", "delete_artifact"]), encoding="utf-8")
    done = carriage("lint", str(policy_file()), "--tools", str(tools))
    assert "nothing produces it: the tool 'verify_release' is not offered" in done.stdout
    tools.write_text("{", encoding="utf-8")
    assert carriage("lint", str(policy_file()), "--tools", str(tools)).returncode == 2


def test_lint_names_the_constants_a_text_lacks_and_a_permit_that_lifts_nothing(policy_file):
    """A text without its rule's constants may be bound to anything; both warnings give the line."""
    path = policy_file()
    line = path.read_text(encoding="utf-8").split("  - id:")[0].count("\n") + 1
    extra = (
        "\n  - id: may\n    issuer: {kind: organization, name: o}\n"
        "    effect: permit\n    action: delete\n    text: May.\n"
    )
    path.write_text(path.read_text(encoding="utf-8").rstrip() + extra, encoding="utf-8")
    done = carriage("lint", str(path))
    assert f"{path}:{line}: warning: verify-before-delete: the text does not name 'acme/*', 'succeeded'" in done.stdout
    assert "may: this permit lifts nothing" in done.stdout
