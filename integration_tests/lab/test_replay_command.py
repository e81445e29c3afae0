"""The command: what it prints, writes and answers with."""

import json
import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from carriage_cli.replay import replay
from carriage_lab import run as lab_run
from carriage_lab import stack as lab_stack
from integration_tests.lab.conftest import openhands_log, tau_run


@pytest.fixture
def command(tmp_path):
    """Run the command with its output under tmp_path; returns the result, the rows and run.json."""
    app = typer.Typer()
    app.command()(replay)

    def go(*arguments):
        out = tmp_path / "out"
        result = CliRunner().invoke(app, [*map(str, arguments), "--out", str(out)])
        files = [out / name for name in ("table.json", "run.json")]
        rows, run = (json.loads(path.read_text()) if path.exists() else None for path in files)
        return result, rows, run

    return go


def test_both_stacks_are_replayed_and_printed_plain(command, lines):
    """A pipe gets aligned text without colours, and the files the same figures."""
    result, rows, run = command(lines("t/a.jsonl.gz", [tau_run()]), lines("o/b.jsonl", openhands_log()))
    assert result.exit_code == 0, result.stderr
    assert "\x1b" not in result.stdout
    assert result.stdout.splitlines()[0].split()[:4] == ["stack", "manager", "placement", "calls"]
    assert {(row["stack"], row["manager"]) for row in rows} == {
        *(("autogen", name) for name in ("AG-U", "AG-B", "ours")),
        *(("openhands", name) for name in ("OH-N", "OH-R", "ours")),
    }
    assert run["complete"] is True
    assert run["failed"] == []
    assert run["counter"] == "whitespace"
    assert result.stderr == ""


def test_json_is_the_only_thing_on_standard_output(command, lines):
    """So that it can be piped on."""
    result, rows, _ = command(lines("a.jsonl", [tau_run()]), "--json")
    assert json.loads(result.stdout) == rows


def test_a_bad_file_costs_only_itself(command, lines):
    """Named with file, line and mend; the others are replayed; exit 4."""
    good = lines("a.jsonl", [tau_run()])
    bad = lines("b.jsonl", [{"suite": "banking"}])
    result, rows, run = command(good, bad)
    assert result.exit_code == 4
    assert f"{bad}:1: " in result.stderr
    assert "Mend: " in result.stderr
    assert {row["calls"] for row in rows} == {5}
    assert [failure["file"] for failure in run["failed"]] == [str(bad)]


@pytest.mark.parametrize("arguments", [["absent.jsonl"], [], ["--counter", "nonsense"], ["--control-budget", "0"]])
def test_wrong_usage_is_exit_2_and_writes_nothing(command, lines, arguments):
    """Nothing to run is a mistake, not an empty result."""
    files = [lines("a.jsonl", [tau_run()])] if len(arguments) > 1 else []
    result, rows, _ = command(*files, *arguments)
    assert result.exit_code == 2
    assert rows is None
    assert "Traceback" not in result.output


def test_an_interrupt_keeps_what_was_finished(command, lines, monkeypatch):
    """Exit 130, whole runs in the tables, and everyone is told that they are partial."""
    real = lab_run.replay_trace
    seen = []

    def interrupted(trace, *rest, **options):
        seen.append(trace)
        if len(seen) == 3:
            raise KeyboardInterrupt
        return real(trace, *rest, **options)

    monkeypatch.setattr(lab_run, "replay_trace", interrupted)
    result, rows, run = command(lines("a.jsonl", [tau_run() for _ in range(4)]))
    assert result.exit_code == 130
    assert {row["calls"] for row in rows} == {10}
    assert run["complete"] is False
    assert run["files"][0]["runs_done"] == 2
    assert "PARTIAL" in result.stderr


@pytest.mark.parametrize(("others", "code"), [(False, 2), (True, 4)])
def test_a_missing_framework_names_its_extra_and_the_other_stack_still_runs(command, lines, monkeypatch, others, code):
    """One error, however many files wait for it."""
    modules = lab_stack._MODULES | {"openhands": ("carriage_lab.not_there", "carriage_lab")}
    monkeypatch.setattr(lab_stack, "_MODULES", modules)
    files = [lines(f"{name}.jsonl", openhands_log()) for name in "ab"]
    result, rows, run = command(*files, *([lines("t.jsonl", [tau_run()])] if others else []))
    assert result.exit_code == code
    assert result.stderr.count("pip install 'policy-carriage[openhands]'") == 1
    assert bool(rows) is others
    assert len(run["failed"]) == 2


def test_the_lab_loads_no_framework_until_it_needs_one():
    """`carriage --help` must not import an SDK for ten seconds."""
    code = (
        "import sys, carriage_cli.replay, carriage_lab.run, carriage_lab.stack; "
        "print(sorted({'autogen_core', 'openhands', 'litellm', 'tessera'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
