"""What happens when the active rules do not fit: nobody may go on in silence, and nobody may stop too early."""

import csv
import io
import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from ruamel.yaml import YAML
from typer.testing import CliRunner

from carriage_cli import overload as verb
from carriage_cli.overload import overload
from carriage_core import Tier, load_policy_file
from carriage_lab import overload_budgets
from carriage_lab.overload import ACTIVE_PREFLIGHT, TIERED, Outcome, measure, systems
from carriage_lab.overload_baselines import REQUEST, joined, pinning, replay, words
from carriage_lab.overload_budgets import percentiles
from carriage_lab.overload_capsules import capsule, shipped_registry, tier_tokens
from carriage_lab.overload_cases import case_file, policy_file, read_plan, shipped_plan
from carriage_lab.policy import replay_text
from integration_tests.lab.conftest import openhands_log, tau_run

PLAN = shipped_plan()
REGISTRY = shipped_registry()
SETS = pytest.mark.parametrize("policies", PLAN.sets, ids=lambda each: each.name)


def outcomes(table):
    return {(row.case, row.system): row.outcome for line in table for row in line.rows}


def telling_budgets(policies):
    """Each edge of each tier from both sides, and a ladder over all of them."""
    edges = (tier_tokens(REGISTRY, policies, tier) + step for tier in Tier for step in (-1, 0, 1))
    budgets = sorted({*edges, *range(1, 340, 24)})
    return replace(PLAN, sets=(policies,)).cases((str(budget), budget) for budget in budgets)


@pytest.fixture(scope="module")
def table():
    return measure(systems(PLAN, REGISTRY), PLAN.cases())


def counts(table, system):
    return next(tuple(line.counts) for line in table if line.system == system)


def test_the_tiered_capsule_stops_in_exactly_the_rows_in_which_replay_with_preflight_does(table):
    """Row by row; nothing silent, nothing refused that would have fitted."""
    found = outcomes(table)
    assert len(PLAN.cases()) == 48
    for case in PLAN.cases():
        assert found[case.name, TIERED] is found[case.name, ACTIVE_PREFLIGHT]
        assert (found[case.name, TIERED] is Outcome.FAILED_CLOSED) is (
            sum(len(rule.text.split()) for rule in case.active) > case.budget
        )
    assert counts(table, TIERED) == counts(table, ACTIVE_PREFLIGHT) == (25, 0, 0)


@SETS
def test_at_other_budgets_too_the_tiered_capsule_is_complete_or_not_sent(policies):
    """Not only at the six of the table: a word below, at and above each tier, and between."""
    made = capsule(REGISTRY, Tier.EXACT)
    for case in telling_budgets(policies):
        messages = made(case)
        if words(joined(policies.active)) > case.budget:
            assert messages is None
        else:
            assert messages is not None
            assert words(messages[0]["content"]) <= case.budget
            assert case.complete(messages)


@SETS
def test_where_only_replay_fits_the_capsule_is_replay_byte_for_byte(policies):
    """The order of the rules included."""
    [case] = replace(PLAN, sets=(policies,)).cases([("x", words(joined(policies.active)))])
    [ours, _] = capsule(REGISTRY, Tier.EXACT)(case)
    [theirs, _] = replay(rules=None, preflight=True)(case)
    assert ours == theirs == {"role": "system", "content": joined(policies.active)}


@SETS
@pytest.mark.parametrize("tier", Tier)
def test_a_rule_that_is_lost_or_changed_in_any_tier_is_seen(policies, tier):
    """Else "0 silent" would say nothing: the judge must miss each rule when just that one is gone."""
    [case] = replace(PLAN, sets=(policies,)).cases([("x", tier_tokens(REGISTRY, policies, tier))])
    [system, request] = capsule(REGISTRY, tier)(case)
    assert case.complete([system, request])
    for rule in case.active:
        shown = [rule.text, *([rule.clause] if rule.clause else [])]
        assert any(form in system["content"] for form in shown)
        for instead in ("", "Perhaps: "):
            text = system["content"]
            for form in shown:
                text = text.replace(form, f"{instead}{form}" if instead else "")
            assert not case.complete([{**system, "content": text}, request])
    assert not case.complete([{**system, "role": "user"}, request])


def test_best_effort_goes_on_in_silence_exactly_where_preflight_stops(table):
    """And where both call, both are complete."""
    found = outcomes(table)
    for case in PLAN.cases():
        for best, checked in (
            ("Exact active-policy replay, best effort", ACTIVE_PREFLIGHT),
            ("Exact active replay + extra budget", "Exact active replay + extra budget + preflight"),
            ("Static pinning, best effort", "Static pinning + preflight"),
        ):
            silent = found[case.name, best] is Outcome.SILENT_INCOMPLETE
            assert silent is (found[case.name, checked] is Outcome.FAILED_CLOSED)
            assert found[case.name, best] is not Outcome.FAILED_CLOSED
            assert found[case.name, checked] is not Outcome.SILENT_INCOMPLETE


def test_more_budget_does_not_replace_the_check(table):
    """The paper's point: extra budget leaves silent rows, a check leaves none, all rules are too many."""
    assert counts(table, "Exact active-policy replay, best effort") == (0, 25, None)
    assert 0 < counts(table, "Exact active replay + extra budget")[1] < 25
    assert counts(table, "Exact all-policy replay, best effort") == (0, 48, None)
    assert counts(table, "Exact all-policy replay + preflight") == (48, 0, 23)


def test_one_word_too_few_cuts_the_last_sentence_and_one_pin():
    """The baselines do what they claim at the edge."""
    policies = PLAN.sets[0]
    whole, short = (
        replace(PLAN, sets=(policies,)).cases([("x", words(joined(policies.active)) - less)])[0] for less in (0, 1)
    )
    for best, checked in (
        (replay(rules=None, preflight=False), replay(rules=None, preflight=True)),
        (pinning(preflight=False), pinning(preflight=True)),
    ):
        assert whole.complete(best(whole))
        assert best(whole) == checked(whole)
        assert checked(short) is None
        assert not short.complete(best(short))
        assert best(short)[-1] == REQUEST
    assert joined(policies.active).startswith(replay(rules=None, preflight=False)(short)[0]["content"])
    assert [message["content"] for message in pinning(preflight=False)(short)[:-1]] == [
        rule.text for rule in policies.active[:-1]
    ]


def test_long_sentences_never_make_the_capsule_stop_where_replay_fits(tmp_path):
    """Where a clause is shorter than its sentence, the capsule is sent in more rows than replay, complete in each."""
    padded = tmp_path / "policies.yaml"
    with policy_file() as policies, case_file() as cases:
        longer = r"\1, whoever asks, whenever and for whatever reason."
        text = policies.read_text(encoding="utf-8")
        padded.write_text(re.sub(r"^(    text: .*)\.$", longer, text, flags=re.MULTILINE), encoding="utf-8")
        plan = read_plan(padded, cases)
    table = measure(systems(plan, load_policy_file(padded)), plan.cases())
    found = outcomes(table)
    closed = {case.name: found[case.name, TIERED] is Outcome.FAILED_CLOSED for case in plan.cases()}
    stopped = {case.name: found[case.name, ACTIVE_PREFLIGHT] is Outcome.FAILED_CLOSED for case in plan.cases()}
    assert all(stopped[name] for name in closed if closed[name])
    assert sum(closed.values()) < sum(stopped.values())
    assert counts(table, TIERED)[1:] == (0, 0)


def test_a_case_that_names_no_rule_is_refused(tmp_path):
    """A misspelt rule must not make a set look smaller than it is."""
    with policy_file() as policies, case_file() as cases:
        tree = YAML(typ="safe", pure=True).load(cases)
        tree["sets"][0]["active"].append("no-such-rule")
        wrong = tmp_path / "cases.yaml"
        wrong.write_text(json.dumps(tree))
        with pytest.raises(ValueError, match="no-such-rule"):
            read_plan(policies, wrong)


def test_judge_and_baselines_import_nothing_of_the_core():
    """They must not be able to share a mistake with the capsule."""
    code = (
        "import sys, carriage_lab.overload_cases, carriage_lab.overload_baselines; "
        "print([name for name in sys.modules if name.startswith(('carriage_core', 'autogen', 'openhands'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.fixture
def command(tmp_path):
    app = typer.Typer()
    app.command()(overload)

    def go(*arguments, out=tmp_path / "out"):
        return CliRunner().invoke(app, ["--out", str(out), *map(str, arguments)]), out

    return go


def test_the_files_hold_the_table_and_every_row(command, table):
    """Counts can be recounted from the rows, and both files say the same."""
    result, out = command("--json")
    assert result.exit_code == 0
    written = json.loads((out / "table.json").read_text())
    assert json.loads(result.stdout) == written
    read = list(csv.DictReader(io.StringIO((out / "table.csv").read_text())))
    assert [line.system for line in table] == [each["system"] for each in written] == [each["system"] for each in read]
    for each, cells in zip(written, read, strict=True):
        assert each["rows"] == len(each["cases"]) == 48
        named = [row["outcome"] for row in each["cases"]]
        assert each["fail_closed"] == named.count("failed_closed") == int(cells["fail_closed"])
        assert each["silent_incomplete"] == named.count("silent_incomplete") == int(cells["silent_incomplete"])
        assert cells["raw_fit_overhead"] == ("" if each["raw_fit_overhead"] is None else str(each["raw_fit_overhead"]))
    rows = list(csv.DictReader(io.StringIO((out / "rows.csv").read_text())))
    assert [(row["case"], row["system"], row["outcome"]) for row in rows] == [
        (row["case"], row["system"], row["outcome"]) for each in written for row in each["cases"]
    ]
    assert sorted(path.name for path in out.iterdir()) == ["rows.csv", "run.json", "table.csv", "table.json"]


def test_two_runs_write_the_same_bytes(command, tmp_path):
    """The table is deterministic."""
    (_, one), (_, two) = command(), command(out=tmp_path / "again")
    assert {path.name: path.read_bytes() for path in one.iterdir()} == {
        path.name: path.read_bytes() for path in two.iterdir()
    }


def test_an_unusable_output_directory_is_exit_2_with_a_mend(command, tmp_path):
    """No traceback, nothing written."""
    taken = tmp_path / "file"
    taken.write_text("mine")
    result, _ = command(out=taken)
    assert result.exit_code == 2
    assert "Mend: " in result.stderr
    assert taken.read_text() == "mine"


def test_the_page_shows_what_the_command_prints(command):
    """A pipe gets plain text, and docs/overload.md quotes it."""
    result, _ = command()
    assert "\x1b" not in result.stdout
    page = Path(__file__).parents[2].joinpath("docs", "overload.md").read_text(encoding="utf-8")
    for block in result.stdout.split("\n\n")[:2]:
        assert block.strip("\n") in page


def test_percentiles_are_of_data_budgets_not_of_histories():
    """By nearest rank over every history at every rho: 0.5, 0.75, 1, 1.25, 1.5, 2, 3."""
    assert percentiles([60]) == ((10, 20), (50, 48), (90, 120))
    assert percentiles([60, 600]) == ((10, 30), (50, 120), (90, 800))
    assert percentiles([0, 1]) == ((10, 1), (50, 1), (90, 1))


def test_budgets_of_recorded_runs_make_a_second_table(command, lines):
    """At each of them the tiered capsule stops where replay with preflight stops, and is never silent."""
    files = [lines("t/a.jsonl", [tau_run()]), lines("o/b.jsonl", openhands_log())]
    result, out = command(*(part for file in files for part in ("--traces", file)))
    assert result.exit_code == 0, result.stderr
    found = json.loads((out / "calibrated.json").read_text())
    columns = {(each["stack"], each["percentile"]): each["budget"] for each in found}
    assert list(columns) == [(stack, each) for stack in ("autogen", "openhands") for each in (10, 50, 90)]
    # The first call of the tau run: greeting and question (10 words) behind the placed policy. No budget is smaller.
    assert columns["autogen", 10] >= (10 + len(replay_text().split())) // 3
    assert columns["autogen", 10] < columns["autogen", 50] < columns["autogen", 90]
    cases = {(each["stack"], each["percentile"], each["system"]): each["cases"] for each in found}
    for stack, percentile in columns:
        ours, theirs = (cases[stack, percentile, name] for name in (TIERED, ACTIVE_PREFLIGHT))
        assert len(ours) == 8
        assert [row["outcome"] for row in ours] == [row["outcome"] for row in theirs]
        assert "silent_incomplete" not in {row["outcome"] for row in ours}
    read = list(csv.DictReader(io.StringIO((out / "calibrated.csv").read_text())))
    assert [int(row["budget"]) for row in read] == [each["budget"] for each in found]
    assert "autogen-p50" in result.stdout


def test_a_trace_that_cannot_be_read_is_named_and_costs_no_row(command, lines):
    """Exit 4; the 48 rows and the other traces are there."""
    good, bad = lines("a.jsonl", [tau_run()]), lines("b.jsonl", [{"suite": "banking"}])
    result, out = command("--traces", good, "--traces", bad)
    assert result.exit_code == 4
    assert f"{bad}:1: " in result.stderr
    run = json.loads((out / "run.json").read_text())
    assert run["files"] == [str(good)]
    assert [failure["file"] for failure in run["failed"]] == [str(bad)]
    assert {each["rows"] for each in json.loads((out / "table.json").read_text())} == {48}
    assert {each["calls"] for each in json.loads((out / "calibrated.json").read_text())} == {5}


def test_a_run_that_a_framework_chokes_on_costs_only_its_file(command, lines, monkeypatch):
    """A fault of a foreign class is named by its type, and by nothing the run says."""

    class Broken:
        def open(self, trace):
            raise RuntimeError("the customer's words")

    real = overload_budgets.open_stack
    monkeypatch.setattr(
        overload_budgets, "open_stack", lambda name, b: Broken() if name == "openhands" else real(name, b)
    )
    good, bad = lines("a.jsonl", [tau_run()]), lines("b.jsonl", openhands_log())
    result, out = command("--traces", bad, "--traces", good)
    assert result.exit_code == 4
    assert f"{bad}:0: the replay of this run failed (RuntimeError)" in result.stderr
    assert "customer" not in result.output
    assert {each["stack"] for each in json.loads((out / "calibrated.json").read_text())} == {"autogen"}


def test_a_trace_that_does_not_exist_is_wrong_usage(command, tmp_path):
    """Exit 2, nothing written."""
    result, out = command("--traces", tmp_path / "absent.jsonl")
    assert result.exit_code == 2
    assert not out.exists()


def test_an_interrupt_keeps_the_48_rows(command, lines, monkeypatch):
    """Exit 130, and run.json says that it was not finished."""

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(verb, "measure_all", interrupted)
    result, out = command("--traces", lines("a.jsonl", [tau_run()]))
    assert result.exit_code == 130
    assert json.loads((out / "run.json").read_text())["complete"] is False
    assert {each["rows"] for each in json.loads((out / "table.json").read_text())} == {48}
    assert "PARTIAL" in result.stderr
