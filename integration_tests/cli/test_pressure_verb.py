"""``carriage pressure``: what it prints, writes and answers with."""

import csv
import gzip
import json

import pytest
from typer.testing import CliRunner

from carriage_cli.app import app
from carriage_lab.pressure_run import Audit
from integration_tests.lab.conftest import openhands_log, tau_run


@pytest.fixture
def command(tmp_path):
    """Run the verb; returns the result and the folder of its files."""
    out = tmp_path / "out"
    return lambda *arguments: (CliRunner().invoke(app, ["pressure", *map(str, arguments), "--out", str(out)]), out)


@pytest.fixture
def write(tmp_path):
    """Write records as JSON lines."""

    def lines(name, records):
        path = tmp_path / name
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
        return path

    return lines


def test_tables_and_standard_output_say_the_same(command, write):
    """Plain text when piped; the CSV and JSON the same rows; every call in snapshots.csv."""
    result, out = command(write("a.jsonl", openhands_log()))
    assert result.exit_code == 0, result.stderr
    assert result.stderr == ""
    assert "\x1b" not in result.stdout
    rows = json.loads((out / "table.json").read_text())
    assert [row["history"] for row in rows] == ["whole", "condensed"]
    with (out / "table.csv").open() as table:
        assert [row["rho_max"] for row in csv.DictReader(table)] == [str(row["rho_max"]) for row in rows]
    with (out / "snapshots.csv").open() as table:
        assert len(list(csv.DictReader(table))) == sum(row["snapshots"] for row in rows) == 16
    assert json.loads((out / "run.json").read_text())["complete"] is True


def test_json_is_the_only_thing_on_standard_output(command, write):
    """So that it can be piped on."""
    result, out = command(write("a.jsonl", openhands_log()), "--json")
    assert json.loads(result.stdout) == json.loads((out / "table.json").read_text())


def test_truncated_gzip_and_foreign_json_are_named_and_the_rest_goes_on(command, write, tmp_path):
    """File, line and mend; exit 4; the good file's calls are all there."""
    good = write("a.jsonl", openhands_log())
    torn = tmp_path / "b.jsonl.gz"
    torn.write_bytes(gzip.compress(good.read_bytes())[:-40])
    foreign = write("c.jsonl", [{"suite": "banking"}])
    result, out = command(good, torn, foreign)
    assert result.exit_code == 4
    assert f"{foreign}:1: " in result.stderr
    assert str(torn) in result.stderr
    assert result.stderr.count("Mend: ") == 2
    assert {row["snapshots"] for row in json.loads((out / "table.json").read_text())} == {8}
    assert len(json.loads((out / "run.json").read_text())["failed"]) == 2


def test_an_unknown_overhead_is_exit_4_and_the_option_mends_it(command, write):
    """The error names the option, and the option works."""
    file = write("a.jsonl", [tau_run()])
    refused, _ = command(file)
    assert refused.exit_code == 4
    assert "--fixed-overhead" in refused.stderr
    assert command(file, "--fixed-overhead", "100")[0].exit_code == 0


@pytest.mark.parametrize("arguments", [["absent.jsonl"], [], ["--counter", "nonsense"], ["--window", "0"]])
def test_wrong_usage_is_exit_2_and_writes_nothing(command, write, arguments):
    """Nothing to measure is a mistake, not an empty result."""
    files = [write("a.jsonl", openhands_log())] if len(arguments) > 1 else []
    result, out = command(*files, *arguments)
    assert result.exit_code == 2
    assert not (out / "table.json").exists()
    assert "Traceback" not in result.output


def test_an_interrupt_keeps_the_files_that_were_finished(command, write, monkeypatch):
    """Exit 130, whole files in the tables, and everyone is told that they are partial."""
    real = Audit.measure

    def interrupted(audit, file):
        if audit.files:
            raise KeyboardInterrupt
        real(audit, file)

    monkeypatch.setattr(Audit, "measure", interrupted)
    result, out = command(write("a.jsonl", openhands_log()), write("b.jsonl", openhands_log()))
    assert result.exit_code == 130
    assert "PARTIAL" in result.stderr
    run = json.loads((out / "run.json").read_text())
    assert (run["complete"], len(run["files"])) == (False, 1)
    assert json.loads((out / "table.json").read_text())
