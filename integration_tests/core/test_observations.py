"""The report of observe mode: everything that enforcement would have stopped is in it, once, by its cause."""

import dataclasses
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carriage_core import (
    Assembly,
    CarriageError,
    ControlError,
    ControlOverloadError,
    ControlPlane,
    JsonlSink,
    MemorySink,
    Mode,
    Outcome,
    Settlement,
    observations,
)
from carriage_core.observations import EXAMPLES, OTHER, Fate, ObservationError, ObservationReport
from integration_tests.core.samples import CONFIRM_POLICY, DELETE, VERIFY, assemble, release_plane
from integration_tests.core.strategies import World, proposals, worlds

TOOLS = ("delete_artifact", "verify_release", "list_artifacts", "wipe_disk")


def report_of(plane: ControlPlane) -> ObservationReport:
    assert isinstance(plane.sink, MemorySink)
    return observations.observations(json.loads(json.dumps(entry.as_json())) for entry in plane.sink.entries)


def groups(report: ObservationReport) -> dict[tuple[str, str | None], int]:
    return {(group.rule, group.tool): group.count for group in report.groups}


def test_every_cause_has_its_own_row() -> None:
    """A rule, an approval, an unbound tool and unreadable arguments are told apart, by tool."""
    plane = release_plane(CONFIRM_POLICY, mode="observe")
    for tool, arguments in (
        ("delete_artifact", DELETE),
        ("delete_artifact", DELETE),
        ("verify_release", VERIFY),
        ("wipe_disk", {}),
        ("delete_artifact", {"artifact_id": float("inf")}),
        ("list_artifacts", {}),
    ):
        assert plane.authorize(tool, arguments).allowed
    report = report_of(plane)
    assert groups(report) == {
        ("verify-before-delete", "delete_artifact"): 2,
        ("ask-before-verify", "verify_release"): 1,
        ("unbound_tool", "wipe_disk"): 1,
        ("bad_arguments", "delete_artifact"): 1,
    }
    assert (report.would, report.decisions) == (
        {Fate.BLOCKED: 2, Fate.ASKED: 1, Fate.FAILED_CLOSED: 2, Fate.NOT_ASSEMBLED: 0},
        6,
    )
    assert not any(report.stopped.values())
    first = report.groups[0].examples[0]
    assert first.actor == ("release-bot",)
    assert "acme/api" in dict(first.values)["object.repository"]


def test_an_assembly_that_would_fail_closed_is_in_the_report() -> None:
    """Overloads of control and window, and anything else that forbids the model call, are counted with their sizes."""
    plane = release_plane(mode="observe", control_budget=1)
    with pytest.raises(ControlOverloadError):
        plane.capsule(TOOLS)
    roomy = release_plane(mode="observe")
    with pytest.raises(ControlOverloadError) as overload:
        assemble(roomy, TOOLS, data_tokens=10**9, candidate_tokens=10**9)
    capsule = roomy.capsule()
    with pytest.raises(ControlError) as lost:
        roomy.seal(Assembly(capsule=capsule, message="", offset=0, data_tokens=0, candidate_tokens=0))
    assert roomy.would_fail(overload.value)
    assert roomy.would_fail(lost.value)
    assert groups(report_of(plane)) == {("control overload", None): 1}
    assert report_of(plane).groups[0].examples[0].values[0][0] == "needed"
    report = report_of(roomy)
    assert groups(report) == {("window overload", None): 1, ("CarriageIntegrityError", None): 1}
    assert report.would[Fate.NOT_ASSEMBLED] == 2
    enforced = release_plane(control_budget=1)
    with pytest.raises(ControlOverloadError):
        enforced.capsule()
    assert report_of(enforced).stopped[Fate.NOT_ASSEMBLED] == 1
    assert not report_of(enforced).anything


def test_a_rule_on_trial_is_counted_where_it_alone_would_have_stopped_the_call() -> None:
    """On an enforcing plane: what ran, and apart from it what was stopped for another reason anyway."""
    plane = release_plane(CONFIRM_POLICY)
    deny = plane.registry.policies[0]
    trial = dataclasses.replace(
        deny, id="trial", mode=Mode.OBSERVE, unless=None, evidence=(), where=None, object_type=None, actions=("*",)
    )
    plane.admit(trial, by=trial.issuer)
    assert not plane.authorize("delete_artifact", DELETE).allowed
    assert plane.authorize("verify_release", VERIFY).verdict.outcome is Outcome.CONFIRM
    plane.approve("verify_release", VERIFY, by="alice")
    approved = plane.authorize("verify_release", VERIFY)
    assert approved.allowed
    plane.settle(approved, Settlement.EXECUTED, {"status": "succeeded"})
    report = report_of(plane)
    rows = {(group.rule, group.tool): (group.count, group.anyway) for group in report.groups}
    assert rows == {("trial", "verify_release"): (1, 1), ("trial", "delete_artifact"): (0, 1)}
    assert report.would[Fate.BLOCKED] == 1
    assert report.stopped == {Fate.BLOCKED: 1, Fate.ASKED: 1, Fate.FAILED_CLOSED: 0, Fate.NOT_ASSEMBLED: 0}


@settings(max_examples=min(300, settings.default.max_examples))
@given(worlds().flatmap(lambda world: st.tuples(st.just(world), proposals(("delete", "send", "verify_release")))))
def test_the_report_is_what_enforcement_does(case: tuple[World, list[tuple[str, Any]]]) -> None:
    """Whatever the rules and calls: the observed log, counted, is the enforced plane's refusals, counted."""
    world, calls = case
    observed, enforced = (world.plane(tenant="acme", actor="bot", mode=mode) for mode in ("observe", "enforce"))
    fates: Counter[str] = Counter()
    for tool, arguments in calls:
        assert observed.authorize(tool, arguments).allowed
        verdict = enforced.check(tool, arguments)
        # Rules on trial count in a plane that observes, so they are left out of the comparison of single verdicts.
        stricter = verdict.outcome if verdict.would is None else verdict.would
        fates[stricter.value] += 1
    report = report_of(observed)
    would = report.would
    assert would[Fate.ASKED] == fates["confirm"]
    assert would[Fate.BLOCKED] + would[Fate.FAILED_CLOSED] == fates["deny"]
    assert sum(report.stopped.values()) == 0
    assert report.decisions == len(calls)
    for group in report.groups:
        assert group.count
        assert 1 <= len(group.examples) <= EXAMPLES


def test_names_a_model_makes_up_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Past the limit of groups what follows is counted together; nothing is dropped from the totals."""
    monkeypatch.setattr(observations, "MAX_GROUPS", 3)
    plane = release_plane(mode="observe")
    for number in range(9):
        plane.authorize(f"tool_{number}", {})
    report = report_of(plane)
    assert groups(report)[OTHER, OTHER] == 6
    assert report.would[Fate.FAILED_CLOSED] == 9


def test_a_secret_value_is_no_example() -> None:
    """The report shows what the record shows, and the record masks."""
    text = CONFIRM_POLICY.replace("repository: repo}", "repository: {argument: repo, secret: true}}", 1)
    plane = release_plane(text, mode="observe")
    plane.authorize("delete_artifact", DELETE)
    values = dict(report_of(plane).groups[0].examples[0].values)
    assert values["object.repository"] == "(secret)"


def test_a_log_that_was_tampered_with_is_counted_and_named() -> None:
    """A changed entry breaks the chain; what lies behind it is still counted, and the report says where it broke."""
    plane = release_plane(mode="observe")
    for _ in range(3):
        plane.authorize("delete_artifact", DELETE)
    assert isinstance(plane.sink, MemorySink)
    entries = [entry.as_json() for entry in plane.sink.entries]
    entries[1] = {**entries[1], "body": {**entries[1]["body"], "would": None, "would_code": None}}  # type: ignore[dict-item]
    report = observations.observations(entries)
    assert (report.chain.intact, report.chain.broken_at) == (False, 1)
    assert (report.entries, report.would[Fate.BLOCKED]) == (3, 2)
    whole = [entry.as_json() for entry in plane.sink.entries]
    assert observations.observations(whole, checkpoint=plane.head).chain.assurance == "matches the checkpoint"
    assert not observations.observations(whole[:-1], checkpoint=plane.head).chain.intact


DECISION: dict[str, Any] = {"verdict": "allow", "would": None, "tool": "t", "reasons": [], "code": "allowed"}
BROKEN: tuple[Any, ...] = (
    [],
    {},
    {"kind": "decision"},
    {"kind": "noise", "body": {}},
    {"kind": "decision", "body": {}},
    {"kind": "decision", "body": {**DECISION, "verdict": "maybe"}},
    {"kind": "decision", "body": {**DECISION, "would": "perhaps"}},
    {"kind": "decision", "body": {**DECISION, "tool": 1}},
    {"kind": "decision", "body": {**DECISION, "reasons": "none"}},
    {"kind": "decision", "body": {**DECISION, "reasons": [{"policy": "a"}]}},
    {"kind": "decision", "body": {**DECISION, "would": "deny", "would_code": 7}},
    {"kind": "assembly", "body": {"outcome": "lost"}},
    {"kind": "assembly", "body": {"outcome": "would_fail_closed", "problem": 3}},
)


@pytest.mark.parametrize("entry", BROKEN, ids=str)
def test_what_no_plane_wrote_is_not_counted_as_harmless(entry: Any) -> None:
    """An entry that cannot be read stops the report: skipping it would call a log clean that is not."""
    with pytest.raises(ObservationError):
        observations.observations([entry])
    with pytest.raises(CarriageError):
        observations.observations([])


def test_a_mark_without_its_cause_is_still_counted() -> None:
    """A record of an older version without a code counts under a name that says so."""
    entry = {"kind": "decision", "body": {**DECISION, "would": "deny"}}
    assert groups(observations.observations([entry])) == {("cause not recorded", "t"): 1}


def test_the_log_on_disk_gives_the_same_report(tmp_path: Path) -> None:
    """What a JsonlSink wrote, read line by line, is what memory holds."""
    path = tmp_path / "log.jsonl"
    sink = JsonlSink(path)
    written = release_plane(mode="observe", sink=sink)
    kept = release_plane(mode="observe")
    for plane in (written, kept):
        plane.authorize("delete_artifact", DELETE, call_id="c1")
        plane.authorize("wipe_disk", {})
    sink.close()
    with path.open(encoding="utf-8") as stream:
        report = observations.observations(json.loads(line) for line in stream)
    assert dataclasses.replace(report, chain=report_of(kept).chain) == report_of(kept)
    assert report.groups[0].examples[0].call_id in {"c1", None}
