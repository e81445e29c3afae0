"""What a reader must not lose, invent or let pass."""

import gzip
import json
from pathlib import Path

import pytest

from carriage_lab.placement import Placement, after_first_exchange, position
from carriage_lab.sources import find_files, read_file
from carriage_lab.trace import LabError, TraceFormatError
from integration_tests.lab.conftest import (
    action,
    event,
    observation,
    openhands_log,
    tau_call,
    tau_message,
    tau_result,
    tau_run,
)


def test_results_of_one_round_become_one_message(lines):
    """Two parallel calls give two results; AutoGen stores them as one message, so a buffer counts one."""
    [trace] = read_file(lines("a.jsonl.gz", [tau_run(rounds=2)]))
    assert [item.role for item in trace.items] == ["agent", "user", "agent", "tool", "agent", "tool", "agent"]
    assert trace.items[3].answers == ("call_0a", "call_0b")
    assert trace.calls == (2, 4, 6)


def test_the_greeting_is_history_and_not_a_model_call(lines):
    """No model made it, but the model sees it."""
    [trace] = read_file(lines("a.jsonl", [tau_run(rounds=0)]))
    assert len(trace.items) == 3
    assert trace.calls == (2,)


def test_what_the_agent_never_saw_is_not_in_its_history(lines):
    """In telecom the simulated user works its own phone."""
    run = tau_run(rounds=1)
    hidden = tau_result("phone") | {"visible_to_agent": False}
    run["messages"].insert(2, hidden)
    [trace] = read_file(lines("a.jsonl", [run]))
    assert trace.calls == (2, 4)
    assert all("phone" not in item.answers for item in trace.items)


def test_a_recorded_condensation_does_not_shorten_the_history(lines):
    """The replay asks what another condenser makes of the same events; the run's own is left out."""
    log = openhands_log(steps=3)
    whole = read_file(lines("whole.jsonl", log))
    log.insert(4, event("Condensation", 90, "environment", forgotten_event_ids=["event-1"], llm_response_id="x"))
    assert read_file(lines("b.jsonl", log))[0].calls == whole[0].calls == (2, 4, 6)


def test_a_batch_of_actions_is_one_model_call(lines):
    """Parallel actions share a response; the second was not decided from the first."""
    log = openhands_log(steps=0)
    log += [
        action(2, "c1", "r1", "both"),
        action(3, "c2", "r1"),
        observation(4, "c1", 2),
        observation(5, "c2", 3),
    ]
    [trace] = read_file(lines("a.jsonl", log))
    assert trace.calls == (2,)
    assert after_first_exchange(trace) == 6


@pytest.mark.parametrize(
    ("placement", "places"),
    [
        (Placement.PROTECTED, [None, None, None]),
        (Placement.FIRST, [1, 1, 1]),
        (Placement.LATER, [2, 4, 4]),
    ],
)
def test_the_placed_message_never_moves_once_the_first_exchange_is_over(lines, placement, places):
    """It stands behind the first exchange; before that exchange is over, at the end."""
    [trace] = read_file(lines("a.jsonl", openhands_log(steps=3)))
    assert [position(placement, trace, length) for length in trace.calls] == places


def test_the_first_exchange_starts_with_the_user(lines):
    """A greeting asks nothing, so a reply to nobody is no exchange."""
    [trace] = read_file(lines("a.jsonl", [tau_run(rounds=2)]))
    assert after_first_exchange(trace) == 4
    assert position(Placement.FIRST, trace, 2) == 0


def _truncated(path: Path) -> None:
    path.write_bytes(gzip.compress((json.dumps(tau_run()) + "\n").encode() * 500)[:-200])


FAULTS = {
    "truncated gzip": (_truncated, "truncated"),
    "damaged gzip": (lambda path: path.write_bytes(gzip.compress(b"{}" * 99)[:10] + b"\xff" * 40), "damaged"),
    "empty": (lambda path: path.write_bytes(b""), "empty"),
    "not JSON": (lambda path: path.write_text("{'trace_id': 1}\n"), "not JSON"),
    "not text": (lambda path: path.write_bytes(b"\x00\xff\xfe\n"), "not UTF-8"),
    "a list": (lambda path: path.write_text("[1, 2]\n"), "list"),
    "foreign": (lambda path: path.write_text('{"run": {"suite": "banking"}}\n'), "neither a tau run"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_file_that_is_not_what_it_claims_is_refused_with_place_and_mend(tmp_path, fault):
    """No traceback, no half-read file: file, line, mend."""
    path = tmp_path / "bad.jsonl.gz"
    make, words = FAULTS[fault]
    make(path)
    with pytest.raises(TraceFormatError, match=words) as caught:
        read_file(path)
    assert str(caught.value).startswith(f"{path}:{caught.value.line}: ")
    assert caught.value.line >= 1
    assert caught.value.mend


def _with(records: list[dict], index: int, **change) -> list[dict]:
    return [record | change if number == index else record for number, record in enumerate(records)]


@pytest.mark.parametrize(
    ("records", "line", "words"),
    [
        (_with(openhands_log(), 4, kind="DreamEvent"), 5, "unknown event kind 'DreamEvent'"),
        (_with(openhands_log(), 4, id="event-2"), 5, "already on line 3"),
        (_with(openhands_log(), 3, tool_call_id=None), 4, "tool_call_id is missing"),
        (openhands_log()[1:], 1, "opens with MessageEvent"),
        ([*openhands_log(), {"trace_id": "x", "messages": []}], 19, "no OpenHands event"),
        ([tau_run(), {"kind": "x"}], 2, "no tau run"),
        (
            [tau_run(), {"trace_id": "x", "messages": [{"role": "critic"}]}],
            2,
            r"messages\[0\].role is 'critic'",
        ),
        ([{"trace_id": "x", "messages": [{"role": "user", "content": 7}]}], 1, r"messages\[0\].content"),
        ([{"trace_id": "x", "messages": [{"role": "user", "content": ""}]}], 1, "visible_to_agent"),
        ([{"trace_id": "x", "messages": [tau_message("tool", "r")]}], 1, "tool_call_id is missing"),
        ([{"trace_id": "x", "messages": [tau_call("a") | {"tool_calls": [{"id": "a"}]}]}], 1, "id and name"),
    ],
)
def test_a_wrong_record_is_named_by_its_line(lines, records, line, words):
    """One bad line refuses the file, and says which line."""
    with pytest.raises(TraceFormatError, match=words) as caught:
        read_file(lines("bad.jsonl", records))
    assert caught.value.line == line


def test_a_file_named_twice_is_counted_once(lines, tmp_path):
    """Once by its name and once by its folder."""
    path = lines("logs/a.jsonl", openhands_log())
    assert find_files([path, tmp_path, path]) == (path,)


@pytest.mark.parametrize("name", ["absent", "."])
def test_nothing_to_run_is_an_error(tmp_path, name):
    """A path that is not there, and a folder without traces, are never zero results."""
    with pytest.raises(LabError):
        find_files([tmp_path / name])


def test_text_is_kept_word_for_word(lines):
    """A reader that trims would let an unequal text pass as the policy."""
    run = tau_run(rounds=0)
    run["messages"][1]["content"] = "  two\r\n lines "
    [trace] = read_file(lines("a.jsonl", [run]))
    assert trace.items[1].record["content"] == "  two\r\n lines "


def conversation(tmp_path, log):
    """Write a log the way the SDK keeps a conversation."""
    events = tmp_path / "conversations" / "abc" / "events"
    events.mkdir(parents=True)
    (events.parent / "base_state.json").write_text("{}")
    for number, each in enumerate(log):
        (events / f"event-{number:05}-{each['id']}.json").write_text(json.dumps(each))
    return events


def test_a_conversation_folder_is_the_same_trace_as_its_log(tmp_path, lines):
    """Users have folders; the recorded sets have one file a conversation."""
    events = conversation(tmp_path, openhands_log(steps=12))
    [log] = read_file(lines("abc.jsonl", openhands_log(steps=12)))
    for path in (tmp_path / "conversations", events.parent, events):
        assert find_files([path]) == (events,)
    [folder] = read_file(events)
    assert (folder.id, folder.items, folder.calls) == (log.id, log.items, log.calls)


def test_a_damaged_event_file_is_named_itself(tmp_path):
    """Among thousands of small files, the folder's name would be no help; and nothing of the run is used."""
    events = conversation(tmp_path, openhands_log())
    torn = sorted(events.iterdir())[3]
    torn.write_text(torn.read_text()[:-5])
    with pytest.raises(TraceFormatError) as caught:
        read_file(events)
    assert caught.value.file == torn
