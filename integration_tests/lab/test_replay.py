"""The replay over small runs: what each manager loses, and that ours loses nothing."""

import dataclasses

import pytest

from carriage_lab.counters import counter_named, remembering
from carriage_lab.policy import control_for, replay_text
from carriage_lab.replay import RHOS
from carriage_lab.run import Replay
from carriage_lab.stack import Bench
from integration_tests.lab.conftest import openhands_log, tau_call, tau_message, tau_run


@pytest.fixture
def replay():
    """Replay files and return the run."""

    def go(*files, control_budget=800):
        counter = counter_named("whitespace")
        bench = Bench(policy=replay_text(), count=remembering(counter), control=control_for(counter, control_budget))
        run = Replay(bench=bench)
        run.read(files)
        run.execute()
        return run

    return go


def column(run, name, **wanted):
    """The values of one column over rho, of the rows that match."""
    rows = [dataclasses.asdict(row) for row in run.rows()]
    return [row[name] for row in rows if wanted.items() <= row.items()]


def test_a_buffer_loses_the_first_message_whatever_the_budget(replay, lines):
    """Buffered(6) counts messages: the policy, placed first, holds while there are five more."""
    run = replay(lines("a.jsonl", [tau_run(rounds=4)]))
    assert not run.failures
    assert column(run, "calls", manager="AG-B", placement="first") == [5] * len(RHOS)
    # Histories of 2, 4, 6, 8, 10 messages before the five calls.
    assert column(run, "preserved", manager="AG-B", placement="first") == [2] * len(RHOS)
    assert column(run, "silent_incomplete", manager="AG-B", placement="first") == [3] * len(RHOS)
    assert column(run, "preserved", manager="AG-B", placement="protected") == [5] * len(RHOS)


def test_an_unbounded_history_keeps_it_only_by_going_over_the_budget(replay, lines):
    """Preserved and over budget are told apart (paper, Table VI)."""
    run = replay(lines("a.jsonl", [tau_run()]), lines("b.jsonl", openhands_log()))
    for manager, calls in (("AG-U", 5), ("OH-N", 8)):
        for placement in ("protected", "first", "later"):
            assert column(run, "preserved", manager=manager, placement=placement) == [calls] * len(RHOS)
            over = column(run, "over_budget", manager=manager, placement=placement)
            assert over == [0 if rho <= 1 else calls for rho in RHOS]


def test_plain_rolling_loses_what_lies_behind_its_head(replay, lines):
    """A policy behind the first exchange survives only while it is the newest event: two calls of a run."""
    run = replay(lines("b.jsonl", openhands_log()))
    assert column(run, "preserved", manager="OH-R", placement="later") == [8, 8, 8, 4, 2, 2, 2]
    assert column(run, "preserved", manager="OH-R", placement="first") == [8] * len(RHOS)
    assert column(run, "preserved", manager="OH-R", placement="protected") == [8] * len(RHOS)


def test_ours_carries_the_policy_in_every_call(replay, lines):
    """Every placement, every rho; no call refused, none invalid, control within its budget."""
    run = replay(lines("a.jsonl", [tau_run()]), lines("b.jsonl", openhands_log()))
    assert not run.failures
    for stack, calls in (("autogen", 5), ("openhands", 8)):
        for placement in ("protected", "first", "later"):
            row = {"stack": stack, "ours": True, "placement": placement}
            assert column(run, "preserved", **row) == [calls] * len(RHOS)
            assert not any(sum(column(run, name, **row)) for name in ("absent", "failed_closed", "silent_incomplete"))
            assert not any(column(run, "invalid_transcripts", **row))
    report = run.report(complete=True, counter="whitespace", control_budget=800)
    assert report["control_budget_respected"]
    assert all(0 < most <= 800 for most in report["control_tokens_max"].values())


def test_a_control_budget_too_small_stops_every_call_of_ours(replay, lines):
    """Refused is not absent and not silent: no call was made."""
    run = replay(lines("a.jsonl", [tau_run()]), lines("b.jsonl", openhands_log()), control_budget=3)
    assert not run.failures
    for stack, calls in (("autogen", 5), ("openhands", 8)):
        row = {"stack": stack, "ours": True, "placement": "later"}
        assert column(run, "failed_closed", **row) == [calls] * len(RHOS)
        assert not any(column(run, "silent_incomplete", **row) + column(run, "preserved", **row))
    assert column(run, "preserved", manager="AG-U", placement="later") == [5] * len(RHOS)


def test_every_call_has_one_outcome(replay, lines):
    """Preserved + absent + failed closed = calls, in every row."""
    run = replay(lines("a.jsonl", [tau_run()]), lines("b.jsonl", openhands_log()), control_budget=3)
    assert len(run.rows()) == 2 * 3 * 3 * len(RHOS)
    for row in run.rows():
        assert row.preserved + row.absent + row.failed_closed == row.calls
        assert row.silent_incomplete == row.absent


def test_defects_of_the_recording_are_nobodys(replay, lines):
    """A run that reuses a call id is invalid as recorded; no manager is to blame for that."""
    run = tau_run(rounds=1)
    run["messages"] += [
        tau_call("call_0a"),
        tau_message("tool", "again", tool_call_id="call_0a", name="look_up"),
    ]
    run["messages"].append(tau_message("assistant", "Done."))
    done = replay(lines("a.jsonl", [run]))
    assert not done.failures
    assert not any(column(done, "invalid_transcripts"))


def test_two_files_add_up(replay, lines):
    """Rows are over all runs of a stack."""
    run = replay(lines("a.jsonl", [tau_run(), tau_run()]), lines("c.jsonl", [tau_run(rounds=0)]))
    assert set(column(run, "calls")) == {11}


def test_a_fault_in_one_run_does_not_cost_the_others(replay, lines, monkeypatch):
    """It is reported by file and line, and its calls are in no row."""
    from carriage_lab import managers_autogen  # noqa: PLC0415

    build = managers_autogen.to_provider

    def broken(message):
        if "parcel two" in str(message):
            raise RuntimeError("the words of a conversation")
        return build(message)

    monkeypatch.setattr(managers_autogen, "to_provider", broken)
    second = tau_run()
    second["messages"][1]["content"] = "parcel two"
    run = replay(lines("a.jsonl", [tau_run(), second, tau_run()]))
    [failure] = run.failures
    assert (failure.line, "RuntimeError" in failure.problem, "words" in failure.problem) == (2, True, False)
    assert set(column(run, "calls")) == {10}
