"""``carriage corpus``: what it prints, writes and answers with."""

import csv
import gzip
import json

import pytest
from typer.testing import CliRunner

from carriage_cli.app import app
from carriage_lab.corpus_run import CorpusAudit
from integration_tests.lab.conftest import tau_run
from integration_tests.lab.test_corpus import run


@pytest.fixture
def command(tmp_path):
    """Run the verb; returns the result and the folder of its files."""
    out = tmp_path / "out"
    return lambda *arguments: (CliRunner().invoke(app, ["corpus", *map(str, arguments), "--out", str(out)]), out)


@pytest.fixture
def files(tmp_path):
    """A tau file and an AgentDojo file."""
    tau, dojo = tmp_path / "tau.jsonl", tmp_path / "dojo.jsonl"
    tau.write_text(json.dumps(tau_run() | {"dataset": "tau-bench"}) + "\n")
    dojo.write_text(json.dumps({"run_id": "a", "run": run()}) + "\n")
    return tau, dojo


def test_tables_and_standard_output_say_the_same(command, files):
    """Plain when piped, the meaning of the label beside the figures, CSV and JSON the same rows."""
    result, out = command(*files)
    assert result.exit_code == 0, result.stderr
    assert "\x1b" not in result.stdout
    assert "security: true means that the injected task was carried out" in result.stdout
    rows = json.loads((out / "table.json").read_text())
    assert {row["corpus"] for row in rows} == {"tau-bench", "AgentDojo"}
    with (out / "table.csv").open() as table:
        assert [int(row["count"]) for row in csv.DictReader(table)] == [row["count"] for row in rows]
    assert json.loads((out / "run.json").read_text())["complete"] is True


def test_json_is_the_only_thing_on_standard_output(command, files):
    """So that it can be piped on."""
    result, out = command(*files, "--json")
    assert json.loads(result.stdout) == json.loads((out / "table.json").read_text())


def test_truncated_gzip_and_foreign_json_are_named_and_the_rest_goes_on(command, files, tmp_path):
    """File, line and mend; exit 4; the good files are counted."""
    torn, foreign = tmp_path / "b.csv.gz", tmp_path / "c.jsonl"
    torn.write_bytes(gzip.compress(b"path,suite\n" * 100)[:-9])
    foreign.write_text('{"suite": "banking"}\n')
    result, out = command(*files, torn, foreign)
    assert result.exit_code == 4
    assert f"{torn}:1: " in result.stderr
    assert f"{foreign}:1: " in result.stderr
    assert result.stderr.count("Mend: ") == 2
    rows = json.loads((out / "table.json").read_text())
    assert [row["count"] for row in rows if row["signal"] == "rows" and row["level"] == "all"] == [1, 1]


def test_what_was_given_twice_is_said(command, files, tmp_path):
    """Counted once, and not in silence."""
    copy = tmp_path / "copy.jsonl"
    copy.write_bytes(files[1].read_bytes())
    result, _ = command(*files, copy)
    assert result.exit_code == 0
    assert "given twice and counted once: 1" in result.stderr


@pytest.mark.parametrize("arguments", [["absent.jsonl"], []])
def test_wrong_usage_is_exit_2_and_writes_nothing(command, arguments):
    """Nothing to count is a mistake, not an empty result."""
    result, out = command(*arguments)
    assert result.exit_code == 2
    assert not (out / "table.json").exists()
    assert "Traceback" not in result.output


def test_an_interrupt_keeps_the_files_that_were_finished(command, files, monkeypatch):
    """Exit 130, whole files in the tables, and everyone is told that they are partial."""
    real = CorpusAudit.count

    def interrupted(audit, file):
        if audit.files:
            raise KeyboardInterrupt
        real(audit, file)

    monkeypatch.setattr(CorpusAudit, "count", interrupted)
    result, out = command(*files)
    assert result.exit_code == 130
    assert "PARTIAL" in result.stderr
    report = json.loads((out / "run.json").read_text())
    assert (report["complete"], len(report["files"])) == (False, 1)
    assert json.loads((out / "table.json").read_text())
