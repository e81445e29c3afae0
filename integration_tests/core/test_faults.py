"""Invariant 11: a fault anywhere denies or raises. It never lets a call through unseen."""

from contextlib import suppress
from datetime import datetime
from typing import Any

import pytest

from carriage_core import (
    CarriageError,
    Clock,
    ControlError,
    ControlPlane,
    Effect,
    Entry,
    EntryKind,
    JsonlSink,
    Outcome,
    Policy,
    Settlement,
    SinkError,
    TiktokenCounter,
    ToolCall,
    Utf8UpperBound,
    WhitespaceCounter,
    applicability,
    arguments,
    binding,
    gate,
    monitor,
    parse_policy_text,
    ruling,
    runtime,
)
from integration_tests.core.samples import (
    CONFIRM_POLICY,
    DELETE,
    RELEASE_POLICY,
    START,
    VERIFY,
    Hands,
    assemble,
    judge,
    release_plane,
    verify,
)
from integration_tests.core.strategies import ORGANIZATION

FREE = {"artifact_id": "a1", "repo": "other/x"}


class Faulty:
    """A sink that can be told to fail."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.broken = False

    def write(self, entry: Entry) -> None:
        if self.broken:
            raise OSError(28, "No space left on device")
        self.entries.append(entry)


def test_a_decision_that_cannot_be_recorded_is_a_denial() -> None:
    """With a full disk nothing runs, and what was reserved for it is free again afterwards."""
    sink = Faulty()
    plane = release_plane(sink=sink)
    verify(plane)
    sink.broken = True
    decision = plane.authorize("delete_artifact", DELETE, call_id="c1")
    assert (decision.allowed, decision.verdict.code) == (False, "sink_fault")
    with pytest.raises(CarriageError):
        plane.settle(decision, Settlement.EXECUTED)
    sink.broken = False
    assert plane.authorize("delete_artifact", DELETE, call_id="c1").allowed
    assert [entry.sequence for entry in sink.entries] == list(range(len(sink.entries)))


def test_an_assembly_that_cannot_be_recorded_is_not_made() -> None:
    """No manifest, no model call."""
    sink = Faulty()
    plane = release_plane(sink=sink)
    sink.broken = True
    with pytest.raises(SinkError):
        assemble(plane)
    assert plane.last_manifest is None


def test_an_outcome_that_cannot_be_recorded_is_no_evidence() -> None:
    """A verification that the log does not name lifts no rule."""
    sink = Faulty()
    plane = release_plane(sink=sink)
    decision = plane.authorize("verify_release", VERIFY)
    sink.broken = True
    with pytest.raises(SinkError):
        plane.settle(decision, Settlement.EXECUTED, {"status": "succeeded"})
    sink.broken = False
    assert plane.check("delete_artifact", DELETE).outcome is Outcome.DENY


def test_an_admission_or_approval_that_cannot_be_recorded_does_not_happen() -> None:
    """Registry and approvals stay as they were where the log could not say what changed."""
    sink = Faulty()
    plane = release_plane(CONFIRM_POLICY, sink=sink)
    before = plane.registry
    sink.broken = True
    with pytest.raises(SinkError):
        plane.admit(Policy(id="new", issuer=ORGANIZATION, effect=Effect.DENY, text="New."), by=ORGANIZATION)
    with pytest.raises(SinkError):
        plane.withdraw(before.policies[0].identity, by=ORGANIZATION)
    with pytest.raises(SinkError):
        plane.approve("verify_release", VERIFY, by="ana")
    sink.broken = False
    assert plane.registry is before
    assert plane.check("verify_release", VERIFY).code == "needs_approval"


def test_an_overload_that_cannot_be_recorded_still_stops_the_call() -> None:
    """Whatever error wins, no capsule comes out."""
    sink = Faulty()
    plane = release_plane(sink=sink, control_budget=10)
    sink.broken = True
    with pytest.raises(ControlError):
        plane.capsule()


def test_a_closed_log_denies(tmp_path: Any) -> None:
    """After its file was closed a plane decides nothing any more."""
    sink = JsonlSink(tmp_path / "log.jsonl")
    plane = release_plane(sink=sink)
    assert plane.authorize("delete_artifact", FREE).allowed
    sink.close()
    assert plane.authorize("delete_artifact", FREE).verdict.code == "sink_fault"


@pytest.mark.parametrize(
    ("module", "name"),
    [
        (arguments, "plain_arguments"),
        (arguments, "argument_digest"),
        (monitor, "a_star"),
        (monitor, "views"),
        (monitor, "rule_on"),
        (monitor, "standing"),
        (ruling, "prepared"),
        (ruling, "_explained"),
        (applicability, "prepared"),
        (applicability, "in_scope"),
        (applicability, "in_force"),
        (binding, "normal"),
        (binding.AttributeSource, "values"),
        (gate, "judge"),
        (runtime, "Moment"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
@pytest.mark.parametrize(
    "fault", [RuntimeError, RecursionError, MemoryError, KeyError, ZeroDivisionError, AssertionError]
)
def test_a_fault_inside_the_monitor_is_a_denial(
    monkeypatch: pytest.MonkeyPatch, module: object, name: str, fault: type[Exception]
) -> None:
    """Whatever part of judging breaks, the call is denied and the denial is recorded."""

    def broken(*_: object, **__: object) -> None:
        raise fault

    sink = Faulty()
    plane = release_plane(sink=sink)
    verify(plane)
    monkeypatch.setattr(module, name, broken)
    assert plane.check("delete_artifact", DELETE).outcome is Outcome.DENY or name == "_explained"
    monkeypatch.undo()
    plane = release_plane(sink=sink)
    monkeypatch.setattr(module, name, broken)
    decision = plane.authorize("delete_artifact", DELETE)
    code = "bad_arguments" if name == "argument_digest" else "internal_fault"
    assert (decision.allowed, decision.verdict.code) == (False, code)
    assert sink.entries[-1].kind is EntryKind.DECISION
    assert sink.entries[-1].body["code"] == code


@pytest.mark.parametrize("fault", [RuntimeError, RecursionError, MemoryError])
def test_judging_is_total(monkeypatch: pytest.MonkeyPatch, fault: type[Exception]) -> None:
    """The monitor on its own answers every fault with a denial; nothing outside it has to catch one."""

    def broken(*_: object, **__: object) -> None:
        raise fault

    monkeypatch.setattr(monitor, "a_star", broken)
    verdict = judge(
        ToolCall(tool="delete_artifact", arguments=DELETE),
        registry=parse_policy_text(RELEASE_POLICY),
        runtime=runtime.RuntimeState(tenant="acme"),
        ledger=runtime.EvidenceLedger(),
        moment=runtime.Moment(START, True),
    )
    assert (verdict.outcome, verdict.code) == (Outcome.DENY, "internal_fault")


@pytest.mark.parametrize("name", ["live", "approval", "reserve"])
def test_a_fault_of_the_ledger_is_a_denial(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Evidence that cannot be looked up, or not be reserved, allows nothing: it denies or raises."""

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError

    plane = release_plane(CONFIRM_POLICY)
    plane.approve("verify_release", VERIFY, by="ana")
    decision = plane.authorize("verify_release", VERIFY)
    plane.settle(decision, Settlement.EXECUTED, {"status": "succeeded"})
    plane.approve("verify_release", VERIFY, by="ana")
    monkeypatch.setattr(plane._state.ledger, name, broken)
    tool, arguments = ("verify_release", VERIFY) if name == "approval" else ("delete_artifact", DELETE)
    try:
        allowed = plane.authorize(tool, arguments).allowed
    except RuntimeError:
        allowed = False
    assert not allowed


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_an_interrupt_passes_through_and_nothing_is_left_open(
    monkeypatch: pytest.MonkeyPatch, interrupt: type[BaseException]
) -> None:
    """Cancellation is not a verdict: it reaches the caller, with the tool not started and nothing reserved."""

    def stop(*_: object, **__: object) -> None:
        raise interrupt

    plane = release_plane()
    verify(plane)
    monkeypatch.setattr(monitor, "a_star", stop)
    with pytest.raises(interrupt):
        plane.authorize("delete_artifact", DELETE, call_id="c1")
    monkeypatch.undo()
    assert plane.authorize("delete_artifact", DELETE, call_id="c1").allowed


def _naive() -> datetime:
    return START.replace(tzinfo=None)


def _broken() -> datetime:
    raise OSError


@pytest.mark.parametrize("source", [_naive, _broken])
def test_a_clock_that_cannot_be_read_denies(source: Any) -> None:
    """Without a usable time nothing is allowed."""
    plane = ControlPlane(parse_policy_text(RELEASE_POLICY), counter=Utf8UpperBound(), clock=Clock(source))
    decision = plane.authorize("list_artifacts", {})
    assert (decision.allowed, decision.verdict.code) == (False, "internal_fault")


def test_a_clock_that_breaks_while_a_result_is_filed_files_nothing() -> None:
    """The earlier verification does not outlive a later one whose time is not known."""
    hands = Hands()
    broken = False

    def source() -> datetime:
        if broken:
            raise OSError
        return hands()

    plane = release_plane(hands=source)
    verify(plane)
    decision = plane.authorize("verify_release", VERIFY)
    broken = True
    with suppress(CarriageError, OSError):
        plane.settle(decision, Settlement.EXECUTED, {"status": "succeeded"})
    broken = False
    assert plane.check("delete_artifact", DELETE).outcome is Outcome.DENY


# -- counters ------------------------------------------------------------------------------------


class Wrong:
    """A counter that answers with what it was given."""

    name = "wrong"

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def count(self, text: str) -> Any:
        if isinstance(self.answer, type):
            raise self.answer
        return self.answer


@pytest.mark.parametrize("answer", [0, -1, None, 1.5, "12", float("nan"), RuntimeError, ValueError, MemoryError])
def test_a_counter_that_fails_stops_the_call(answer: Any) -> None:
    """A tokenizer that raises, or answers 0 or nonsense for text, is a failed preflight, never a small prompt."""
    plane = release_plane(counter=Wrong(answer))
    with pytest.raises(ControlError):
        plane.capsule()
    with pytest.raises(ControlError):
        plane.count("some text")


@pytest.mark.parametrize("counter", [Utf8UpperBound(), WhitespaceCounter()])
@pytest.mark.parametrize("text", ["a", " ", "\n", "\u200b", "é", "🗑️", "\ud800", "a b  c"])
def test_no_counter_calls_a_text_empty(counter: Any, text: str) -> None:
    """Every non-empty text has at least one token, and the empty one none."""
    assert counter.count(text) >= 1
    assert counter.count("") == 0


def test_the_upper_bound_is_one() -> None:
    """The byte counter never counts less than a real tokenizer, special-token spellings and long texts included."""
    exact, bound = TiktokenCounter(), Utf8UpperBound()
    for text in ("Do not delete.", "<|endoftext|>", "客户 🗑️ é", "x" * 250_000, "\x00\x01", "a\nb\n\n\nc"):
        assert 1 <= exact.count(text) <= bound.count(text)


def test_an_unknown_encoding_is_an_error_with_a_mend() -> None:
    """A misspelt encoding names the ones there are."""
    with pytest.raises(ControlError, match="o200k_base"):
        TiktokenCounter("o200k")


@pytest.mark.parametrize(
    "size",
    [
        {"control_budget": 0},
        {"control_budget": -1},
        {"control_budget": True},
        {"control_budget": 1.5},
        {"window": -1},
        {"reserved_output": -1},
        {"fixed_overhead": -1},
        {"window": 1_000, "reserved_output": 0, "control_budget": 1_000},
        {"window": 4_000},
    ],
    ids=str,
)
def test_a_budget_that_no_call_could_meet_is_refused(size: dict[str, Any]) -> None:
    """Sizes that leave nothing of the window fail when the plane is made."""
    with pytest.raises(CarriageError):
        ControlPlane(parse_policy_text(RELEASE_POLICY), counter=Utf8UpperBound(), **size)
