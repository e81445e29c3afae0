"""Evidence and approvals: what lifts a rule, for whom, for how long, and how often."""

import enum
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, override

import pytest
from pydantic import BaseModel

from carriage_core import (
    CarriageError,
    ControlPlane,
    Effect,
    EntryKind,
    EvidenceRecord,
    MemorySink,
    Outcome,
    Policy,
    PolicyFileError,
    RuntimeState,
    Settlement,
    Utf8UpperBound,
    parse_policy_text,
)
from carriage_core.runtime import EvidenceLedger, Moment
from integration_tests.core.samples import (
    CONFIRM_POLICY,
    DELETE,
    RELEASE_POLICY,
    START,
    VERIFY,
    Hands,
    release_plane,
    verify,
)
from integration_tests.core.strategies import ORGANIZATION


def deletes(plane: ControlPlane, **change: Any) -> bool:
    return plane.check("delete_artifact", {**DELETE, **change}).allowed


# -- evidence ------------------------------------------------------------------------------------


def test_expired_evidence_lifts_nothing() -> None:
    """Evidence lives for less than its hour, and not a moment longer."""
    hands = Hands()
    plane = release_plane(hands=hands)
    verify(plane)
    hands.move(minutes=59, seconds=59)
    assert deletes(plane)
    hands.move(seconds=1)
    assert not deletes(plane)


@pytest.mark.parametrize(
    "other", [{"tenant": "acme", "task": "t2"}, {"tenant": "acme", "task": None}, {"tenant": None, "task": "t1"}]
)
def test_evidence_of_another_task_or_tenant_lifts_nothing(other: dict[str, Any]) -> None:
    """A verification made for one tenant and task is not one for another."""
    first = release_plane()
    verify(first)
    second = release_plane(**other)
    second._bind_to(first._state, second.runtime, second.mode)
    assert deletes(first)
    assert not deletes(second)


def test_evidence_of_another_agent_lifts_nothing() -> None:
    """What one agent verified, another has not."""
    plane = release_plane()
    verify(plane)
    assert deletes(plane)
    assert not deletes(plane.as_actor("deputy"))


def test_evidence_about_another_object_lifts_nothing() -> None:
    """A verification of one artifact says nothing about the next."""
    plane = release_plane()
    verify(plane, artifact_id="a2")
    assert not deletes(plane)
    assert deletes(plane, artifact_id="a2")


def test_evidence_is_spent_by_the_action_it_allowed() -> None:
    """A single-use record allows one deletion, not two; only a deletion that never started gives it back."""
    plane = release_plane()
    verify(plane)
    first = plane.authorize("delete_artifact", DELETE)
    assert first.allowed
    assert not plane.authorize("delete_artifact", DELETE).allowed
    plane.settle(first, Settlement.NOT_STARTED)
    second = plane.authorize("delete_artifact", DELETE)
    assert second.allowed
    plane.settle(second, Settlement.EXECUTED)
    assert not deletes(plane)


@pytest.mark.parametrize("settlement", [Settlement.EXECUTED, Settlement.FAILED, Settlement.UNKNOWN])
def test_evidence_stays_spent_however_the_action_ended(settlement: Settlement) -> None:
    """An action that ran, failed or vanished may have had its effect, so its evidence is gone."""
    plane = release_plane()
    verify(plane)
    plane.settle(plane.authorize("delete_artifact", DELETE), settlement)
    assert not deletes(plane)
    verify(plane)
    assert deletes(plane)


def test_checking_or_denying_spends_nothing() -> None:
    """A look at a call, and a call that is denied for another reason, leave the evidence where it is."""
    plane = release_plane()
    verify(plane)
    for _ in range(3):
        assert deletes(plane)
    assert not plane.authorize("delete_artifact", {**DELETE, "artifact_id": ["a1", "a2"]}).allowed
    assert deletes(plane)


def test_evidence_for_one_branch_is_not_spent_by_another() -> None:
    """Where either of two proofs would do, only the one that did is spent."""
    text = RELEASE_POLICY.replace(
        "        single_use: true\n",
        "        single_use: true\n      ownership:\n        from_tool: check_owner\n        key: [artifact]\n"
        "        fields: {artifact: {argument: artifact_id}, owner: {result: owner}}\n        single_use: true\n",
    )
    text = text.replace(
        "  list_artifacts:",
        "  check_owner: {action: look, trusted_evidence: true, arguments: [artifact_id]}\n  list_artifacts:",
    )
    text = text.replace("      all:\n", "      any:\n").replace(
        "        - {attr: evidence.verification.artifact, eq: {attr: object.id}}\n",
        "        - {attr: evidence.ownership.owner, eq: release-bot}\n",
    )
    plane = release_plane(text)
    verify(plane)
    owner = plane.authorize("check_owner", VERIFY)
    plane.settle(owner, Settlement.EXECUTED, {"owner": "somebody else"})
    verdict = plane.check("delete_artifact", DELETE)
    assert verdict.allowed
    assert verdict.one_use == ("evidence-1",)


@pytest.mark.parametrize(
    ("settlement", "result"),
    [
        (Settlement.EXECUTED, {"status": "failed"}),
        (Settlement.EXECUTED, {"state": "succeeded"}),
        (Settlement.EXECUTED, {"status": None}),
        (Settlement.EXECUTED, {"status": ["succeeded"]}),
        (Settlement.EXECUTED, {"status": "succeeded\u200b"}),
        (Settlement.EXECUTED, '{"status": "succeeded"}'),
        (Settlement.EXECUTED, ["succeeded"]),
        (Settlement.EXECUTED, None),
        (Settlement.FAILED, {"status": "succeeded"}),
        (Settlement.UNKNOWN, {"status": "succeeded"}),
    ],
)
def test_a_verification_that_fails_after_one_that_succeeded_takes_the_evidence_away(
    settlement: Settlement, result: object
) -> None:
    """The latest answer counts: failed, unreadable, unstructured or unknown, the old one no longer holds."""
    plane = release_plane()
    verify(plane)
    assert deletes(plane)
    assert plane.settle(plane.authorize("verify_release", VERIFY), settlement, result) == () or result == {
        "status": "failed"
    }
    assert not deletes(plane)


def test_a_verification_that_never_ran_leaves_the_evidence() -> None:
    """An attempt that was not started proves nothing, for or against."""
    plane = release_plane()
    verify(plane)
    plane.settle(plane.authorize("verify_release", VERIFY), Settlement.NOT_STARTED)
    assert deletes(plane)


def test_a_result_that_is_text_is_no_evidence() -> None:
    """A string that says it succeeded is what a document could say; it is refused, and the log says so."""
    plane = release_plane()
    assert plane.settle(plane.authorize("verify_release", VERIFY), Settlement.EXECUTED, "status: succeeded") == ()
    assert not deletes(plane)
    assert isinstance(plane.sink, MemorySink)
    assert "not a structured object" in str(plane.sink.entries[-1].body["evidence_refused"])


def test_a_tool_not_declared_trusted_gives_no_evidence() -> None:
    """Whatever another tool returns, no record is filed."""
    plane = release_plane()
    for tool in ("delete_artifact", "list_artifacts"):
        decision = plane.authorize(tool, {"artifact_id": "a1", "repo": "other/x"})
        assert plane.settle(decision, Settlement.EXECUTED, {"status": "succeeded", "artifact": "a1"}) == ()
    assert not deletes(plane)


def test_one_trusted_tool_gives_no_evidence_for_another() -> None:
    """A declaration names its tool; what another trusted tool returned about the same object does not count."""
    text = RELEASE_POLICY.replace(
        "  list_artifacts:",
        "  check_owner: {action: look, trusted_evidence: true, arguments: [artifact_id]}\n  list_artifacts:",
    )
    plane = release_plane(text)
    decision = plane.authorize("check_owner", VERIFY)
    assert plane.settle(decision, Settlement.EXECUTED, {"status": "succeeded"}) == ()
    assert not deletes(plane)


@pytest.mark.parametrize("tool", ["terminal", "execute_bash", "fetch_url", "my-browser", "file_editor", "cat"])
def test_a_tool_that_repeats_what_it_read_cannot_be_trusted(tool: str) -> None:
    """Shells, browsers, fetchers and file readers return what anybody wrote, so they give no evidence."""
    with pytest.raises(PolicyFileError, match="trusted_evidence"):
        parse_policy_text(RELEASE_POLICY.replace("verify_release", tool))


def test_the_result_cannot_say_which_object_it_is_about() -> None:
    """A key field must come from the executed arguments; a result that names another object changes nothing."""
    with pytest.raises(PolicyFileError, match="comes from the result"):
        parse_policy_text(
            RELEASE_POLICY.replace("artifact: {argument: artifact_id}", "artifact: {result: artifact_id}")
        )
    plane = release_plane()
    verify(plane, {"status": "succeeded", "artifact": "a2", "artifact_id": "a2"})
    assert deletes(plane)
    assert not deletes(plane, artifact_id="a2")


class Status(enum.StrEnum):
    SUCCEEDED = "succeeded"


class Report(BaseModel):
    status: Status


@dataclass
class Record:
    status: str


@pytest.mark.parametrize("result", [Report(status=Status.SUCCEEDED), Record(status="succeeded")])
def test_a_structured_result_counts_whatever_class_it_has(result: object) -> None:
    """Pydantic models, dataclasses and enum members are read as what they hold."""
    plane = release_plane()
    verify(plane, result)
    assert deletes(plane)


class Broken(BaseModel):
    status: str = "succeeded"

    @override
    def model_dump(self, **_: Any) -> dict[str, Any]:
        raise RuntimeError("no")


def test_a_result_that_cannot_be_read_takes_the_evidence_away_and_is_recorded() -> None:
    """A fault while reading a result neither keeps the old answer nor loses the outcome from the log."""
    plane = release_plane()
    verify(plane)
    decision = plane.authorize("verify_release", VERIFY)
    plane.settle(decision, Settlement.EXECUTED, Broken())
    assert not deletes(plane)
    assert isinstance(plane.sink, MemorySink)
    last = plane.sink.entries[-1]
    assert (last.kind, last.body["decision"]) == (EntryKind.OUTCOME, decision.id)


def test_an_action_is_settled_once() -> None:
    """A second report of the same action is an error: it could file evidence for something that did not happen."""
    plane = release_plane()
    decision = plane.authorize("verify_release", VERIFY)
    plane.settle(decision, Settlement.NOT_STARTED)
    with pytest.raises(CarriageError):
        plane.settle(decision, Settlement.EXECUTED, {"status": "succeeded"})
    denied = plane.authorize("delete_artifact", DELETE)
    with pytest.raises(CarriageError):
        plane.settle(denied, Settlement.EXECUTED)
    assert not deletes(plane)


def test_decomposed_and_composed_names_are_one_object() -> None:
    """Evidence about an object counts for the same object spelt the other way, and only for that."""
    plane = release_plane()
    verify(plane, artifact_id="caf\u00e9")
    assert deletes(plane, artifact_id="cafe\u0301")
    assert not deletes(plane, artifact_id="cafe")


def test_time_that_runs_backwards_ends_what_expires() -> None:
    """After the clock jumped back, evidence with an end and approvals lapse, and denies persist."""
    hands = Hands()
    plane = release_plane(CONFIRM_POLICY, hands=hands)
    plane.approve("verify_release", VERIFY, by="ana")
    decision = plane.authorize("verify_release", VERIFY)
    plane.settle(decision, Settlement.EXECUTED, {"status": "succeeded"})
    plane.approve("verify_release", VERIFY, by="ana")
    assert deletes(plane)
    assert plane.check("verify_release", VERIFY).allowed
    hands.move(seconds=-1)
    assert not deletes(plane)
    assert plane.check("verify_release", VERIFY).code == "needs_approval"
    hands.move(hours=2)
    assert not deletes(plane)


def test_a_rule_whose_time_is_over_is_back_when_the_clock_cannot_be_trusted() -> None:
    """A validity window ends half-open; with an untrusted clock the deny holds again."""
    hands = Hands()
    plane = release_plane(RELEASE_POLICY + '    valid_until: "2026-06-01T13:00:00Z"\n', hands=hands)
    hands.move(minutes=59)
    assert not deletes(plane)
    hands.move(minutes=1)
    assert deletes(plane)
    hands.move(seconds=-1)
    assert not deletes(plane)


# -- approvals -----------------------------------------------------------------------------------


def test_an_approval_is_good_for_one_execution() -> None:
    """Once used, the same call needs another approval; if it never started, it does not."""
    plane = release_plane(CONFIRM_POLICY)
    assert plane.check("verify_release", VERIFY).code == "needs_approval"
    plane.approve("verify_release", VERIFY, by="ana")
    first = plane.authorize("verify_release", VERIFY)
    assert (first.verdict.outcome, first.verdict.code) == (Outcome.ALLOW, "approved")
    assert plane.check("verify_release", VERIFY).code == "needs_approval"
    plane.settle(first, Settlement.NOT_STARTED)
    second = plane.authorize("verify_release", VERIFY)
    assert second.allowed
    plane.settle(second, Settlement.EXECUTED, {"status": "succeeded"})
    assert plane.check("verify_release", VERIFY).code == "needs_approval"


def _argument(plane: ControlPlane) -> Any:
    return plane.check("verify_release", {"artifact_id": "a2"}, call_id="c1")


def _more(plane: ControlPlane) -> Any:
    return plane.check("verify_release", {**VERIFY, "force": None}, call_id="c1")


def _sort(plane: ControlPlane) -> Any:
    return plane.check("verify_release", {"artifact_id": ["a1"]}, call_id="c1")


def _call_id(plane: ControlPlane) -> Any:
    return plane.check("verify_release", VERIFY, call_id="c2")


def _no_call_id(plane: ControlPlane) -> Any:
    return plane.check("verify_release", VERIFY)


def _server(plane: ControlPlane) -> Any:
    return plane.check("verify_release", VERIFY, call_id="c1", server="elsewhere")


def _actor(plane: ControlPlane) -> Any:
    return plane.as_actor("deputy").check("verify_release", VERIFY, call_id="c1")


def _policy(plane: ControlPlane) -> Any:
    plane.admit(
        Policy(id="more", issuer=ORGANIZATION, effect=Effect.CONFIRM, text="Ask twice.", actions=("verify",)),
        by=ORGANIZATION,
    )
    return plane.check("verify_release", VERIFY, call_id="c1")


@pytest.mark.parametrize("change", [_argument, _more, _sort, _call_id, _no_call_id, _server, _actor, _policy])
def test_an_approval_fits_no_other_call(change: Callable[[ControlPlane], Any]) -> None:
    """Another argument, call id, server, agent or rule set, and the approval is refused."""
    plane = release_plane(CONFIRM_POLICY)
    plane.approve("verify_release", VERIFY, by="ana", call_id="c1")
    assert plane.check("verify_release", VERIFY, call_id="c1").allowed
    verdict = change(plane)
    assert (verdict.outcome, verdict.code) == (Outcome.CONFIRM, "needs_approval")


def test_an_approval_of_a_number_is_none_of_a_look_alike() -> None:
    """The digest of 1 is not that of 1.0, true, "1" or an object that spells it."""
    plane = release_plane(CONFIRM_POLICY)
    plane.approve("verify_release", {"artifact_id": 1}, by="ana")
    assert plane.check("verify_release", {"artifact_id": 1}).allowed
    for other in (1.0, True, "1", {"number": "1"}, [1]):
        assert not plane.check("verify_release", {"artifact_id": other}).allowed


def test_an_approval_ends() -> None:
    """An approval that waited too long is none."""
    hands = Hands()
    plane = release_plane(CONFIRM_POLICY, hands=hands)
    approval = plane.approve("verify_release", VERIFY, by="ana", life=timedelta(minutes=5))
    assert approval.expires_at == START + timedelta(minutes=5)
    hands.move(minutes=4, seconds=59)
    assert plane.check("verify_release", VERIFY).allowed
    hands.move(seconds=1)
    assert plane.check("verify_release", VERIFY).code == "needs_approval"


def test_a_denied_call_cannot_be_approved_away() -> None:
    """Deny is stricter than confirm: nobody's approval lifts it, and none is filed for a call that needs none."""
    plane = release_plane(CONFIRM_POLICY)
    for tool, arguments in (("delete_artifact", DELETE), ("list_artifacts", {}), ("wipe_disk", {})):
        with pytest.raises(CarriageError):
            plane.approve(tool, arguments, by="ana")
    assert not deletes(plane)


# -- two at once ---------------------------------------------------------------------------------


class Slow(str):
    """An id whose hash takes a while, so that two threads meet between looking and taking."""

    __slots__ = ()

    @override
    def __hash__(self) -> int:
        time.sleep(0.002)
        return super().__hash__()

    @override
    def __eq__(self, other: object) -> bool:
        return super().__eq__(other)


def at_once(count: int, act: Callable[[], bool]) -> int:
    """Run `act` in several threads that start together; count how often it was true."""
    ready = threading.Barrier(count)
    said: list[bool] = []

    def run() -> None:
        ready.wait(10)
        said.append(act())

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(said) == count
    return sum(said)


def test_two_actions_cannot_reserve_one_piece_of_evidence() -> None:
    """Of two threads that reserve the same record, exactly one gets it, every time."""
    for turn in range(20):
        ledger = EvidenceLedger()
        names = iter(("decision-1", "decision-2"))
        assert at_once(2, lambda: ledger.reserve((Slow("evidence-1"),), next(names))) == 1, turn  # noqa: B023  # run at once


def test_all_evidence_of_an_action_is_reserved_or_none() -> None:
    """Where one of two records is taken, the other stays free."""
    ledger = EvidenceLedger()
    assert ledger.reserve(("evidence-2",), "first")
    assert not ledger.reserve(("evidence-1", "evidence-2"), "second")
    assert ledger.reserve(("evidence-1",), "third")
    ledger.release("first")
    assert ledger.reserve(("evidence-2",), "fourth")


def test_two_agents_at_once_spend_one_verification_once() -> None:
    """Of several simultaneous deletions on one verification exactly one is allowed; so with one call id."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for turn in range(20):
            plane = release_plane()
            verify(plane)
            assert at_once(4, lambda: plane.authorize("delete_artifact", DELETE).allowed) == 1, turn  # noqa: B023
            free = {"artifact_id": "a1", "repo": "other/x"}
            assert at_once(4, lambda: plane.authorize("delete_artifact", free, call_id="c1").allowed) == 1, turn  # noqa: B023
    finally:
        sys.setswitchinterval(interval)


def test_deciding_and_reserving_are_one_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two decisions never both see a record free: the second finds it taken already, not while reserving it."""
    plane = release_plane()
    verify(plane)
    ledger = plane._state.ledger
    reserve = ledger.reserve
    both = threading.Barrier(2)
    codes: list[str] = []

    def late(items: Any, decision: str) -> bool:
        # Waits a moment for a second decision, which only comes this far where nothing is locked.
        with suppress(threading.BrokenBarrierError):
            both.wait(0.1)
        return reserve(items, decision)

    def decide() -> bool:
        verdict = plane.authorize("delete_artifact", DELETE).verdict
        codes.append(verdict.code)
        return verdict.allowed

    monkeypatch.setattr(ledger, "reserve", late)
    assert at_once(2, decide) == 1
    assert sorted(codes) == ["allowed", "rule"]


def test_the_plane_needs_no_clock_of_its_own() -> None:
    """Without a given clock the system's is used, and evidence counts at once."""
    plane = ControlPlane(parse_policy_text(RELEASE_POLICY), tenant="acme", counter=Utf8UpperBound())
    verify(plane)
    assert deletes(plane)


def test_evidence_without_expiry_lapses_when_the_clock_goes_back() -> None:
    """After a clock that ran backwards nothing recorded counts any more, whether it had an expiry or not."""
    moment = Moment(datetime(2026, 12, 1, tzinfo=UTC), trusted=False)
    record = EvidenceRecord(
        id="evidence-1",
        declaration="d",
        fields={},
        runtime=RuntimeState(),
        call_id=None,
        argument_digest="",
        recorded_at=moment.now,
        expires_at=None,
        single_use=False,
    )
    assert not record.live(moment)
    assert record.live(Moment(moment.now, trusted=True))
