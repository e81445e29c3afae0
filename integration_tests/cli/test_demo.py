"""``carriage demo`` on both frameworks, as a user runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest


def carriage(*arguments: str, **extra: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "carriage_cli", *arguments]
    environment = {**os.environ, **extra}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=120)


@pytest.fixture(scope="module")
def shown() -> dict[str, dict[str, object]]:
    done = carriage("demo", "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("framework", ["autogen", "openhands"])
def test_native_run_really_deletes(shown, framework):
    """The native agent loses the rule before the call that deletes, and the tool itself says that it ran."""
    native = shown[framework]["native"]
    assert native["carried"][0] is False
    assert "delete_artifact" in native["executed"]


@pytest.mark.parametrize("framework", ["autogen", "openhands"])
def test_guarded_run_never_deletes(shown, framework):
    """With policy-carriage every call has the rule, and the careless deletion is blocked before it runs."""
    for run in ("carried", "careless"):
        assert shown[framework][run]["carried"]
        assert all(shown[framework][run]["carried"])
        assert "delete_artifact" not in shown[framework][run]["executed"]
    assert shown[framework]["careless"]["blocked"] == ["delete_artifact"]
    assert shown[framework]["careless"]["executed"] == []


@pytest.mark.parametrize("framework", ["autogen", "openhands"])
def test_overload_makes_no_call(shown, framework):
    """A rule that does not fit stops the agent before any model call, with the numbers."""
    assert shown[framework]["overload_calls"] == 0
    assert "control budget is 5" in shown[framework]["overload"]


def test_piped_output_is_plain():
    """No control sequence reaches a pipe, and the screen says that the model is scripted."""
    done = carriage("demo")
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout
    assert "The model is scripted" in done.stdout
    assert "it deletes when the rule is not in front of it" in done.stdout
    assert done.stderr == ""


def test_unknown_verb_is_a_usage_error():
    """A misspelt verb exits with 2 and says so, instead of doing something else."""
    done = carriage("dmeo")
    assert done.returncode == 2
    assert "dmeo" in done.stderr
