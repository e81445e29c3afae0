"""``carriage observe-report``: a log that would have stopped something is never reported as clean."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from carriage_core import ControlPlane, JsonlSink, Utf8UpperBound, parse_policy_text

POLICY = """\
carriage: 1
tools:
  wipe: {action: wipe, object: {type: disk, id: disk}}
policies:
  - id: never-wipe
    issuer: {kind: organization, name: ops}
    effect: deny
    action: wipe
    text: Never wipe a disk.
"""


def report(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "carriage_cli", "observe-report", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.fixture
def log(tmp_path):
    """Write a log of these calls and return its path and head."""

    def write(*calls: str, name: str = "log.jsonl"):
        path = tmp_path / name
        sink = JsonlSink(path)
        plane = ControlPlane(parse_policy_text(POLICY), mode="observe", sink=sink, counter=Utf8UpperBound())
        for tool in calls:
            plane.authorize(tool, {"disk": "d1"} if tool == "wipe" else {})
        sink.close()
        return path, plane.head

    return write


def test_what_would_have_been_stopped_is_listed_and_exits_3(log):
    """Rule and tool, count and example, in plain aligned text when piped."""
    path, _ = log("wipe", "wipe", "unheard_of")
    done = report(path)
    assert done.returncode == 3
    assert "never-wipe" in done.stdout
    assert "unbound_tool" in done.stdout
    assert "\x1b" not in done.stdout
    row = next(line for line in done.stdout.splitlines() if "never-wipe" in line)
    assert row.split()[:3] == ["blocked", "by", "rule"]
    assert " 2 " in row
    assert "would have been: 2 blocked by rule, 1 failed closed" in done.stdout
    assert "tail unverified" in done.stdout


def test_json_has_everything(log):
    """The same figures for programs, with every example."""
    path, head = log("wipe", "unheard_of")
    done = report(path, "--json", "--checkpoint", head)
    assert done.returncode == 3
    data = json.loads(done.stdout)
    assert data["would"]["blocked by rule"] == 1
    assert {(group["rule"], group["tool"], group["count"]) for group in data["groups"]} == {
        ("never-wipe", "wipe", 1),
        ("unbound_tool", "unheard_of", 1),
    }
    assert data["chain"]["assurance"] == "matches the checkpoint"
    assert data["cut_off_line"] is None


def test_a_quiet_log_exits_0(tmp_path):
    """Nothing would have been stopped: 0, and the totals say what was read."""
    path = tmp_path / "log.jsonl"
    sink = JsonlSink(path)
    plane = ControlPlane(
        parse_policy_text(POLICY.replace("tools:", "tools:\n  look: {action: none}")),
        mode="observe",
        sink=sink,
        counter=Utf8UpperBound(),
    )
    plane.authorize("look", {})
    sink.close()
    done = report(path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "would have been: nothing stopped" in done.stdout
    assert "1 entries, 1 decisions" in done.stdout


def test_a_last_line_that_is_cut_off_is_named_and_no_clean_bill(log):
    """A plane that died while writing: the rest is reported, the line is named, and the exit code is 4."""
    path, _ = log("wipe", "wipe")
    raw = path.read_bytes()
    path.write_bytes(raw[:-40])
    done = report(path)
    assert done.returncode == 4
    assert f"{path}:2: the last line is cut off" in done.stderr
    assert "1 blocked by rule" in done.stdout
    assert json.loads(report(path, "--json").stdout)["cut_off_line"] == 2


def test_a_changed_log_is_named(log):
    """An entry that was edited breaks the chain: reported, named, 4."""
    path, _ = log("wipe", "wipe", "wipe")
    lines = path.read_text(encoding="utf-8").splitlines()
    lines[1] = lines[1].replace('"would": "deny"', '"would": null')
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    done = report(path)
    assert done.returncode == 4
    assert "does not hold at entry 1" in done.stderr


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"{}\n", b"[1]\n", b"not json\n{}\n", b'{"kind": "decision"}\n', b"\xff\n"], ids=str
)
def test_what_is_no_log_exits_2(tmp_path, content):
    """Empty, foreign or damaged in the middle: an error with the place, and no table."""
    path = tmp_path / "log.jsonl"
    path.write_bytes(content)
    done = report(path)
    assert done.returncode == 2
    assert "error:" in done.stderr
    assert "Mend:" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_a_missing_log_exits_2(tmp_path):
    """A wrong path is no clean log."""
    done = report(tmp_path / "none.jsonl")
    assert done.returncode == 2
    assert "cannot be read" in done.stderr
    assert report(tmp_path).returncode == 2


def test_a_tool_name_does_not_drive_the_terminal(log):
    """Names come from a model: control characters and markup are shown, not obeyed."""
    path, _ = log("\x1b[31mred\x1b]0;title\x07", "[bold]x[/bold]")
    done = report(path)
    assert "\x1b" not in done.stdout
    assert "\\u{1b}" in done.stdout
    assert "[bold]x[/bold]" in done.stdout
