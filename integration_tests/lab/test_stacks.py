"""The stacks: what a manager is given, and what goes to the provider, must be the framework's own."""

from pathlib import Path

import pytest

from carriage_lab.placement import Placement
from carriage_lab.sources import read_file
from carriage_lab.stack import Bench, open_stack
from carriage_lab.trace import TraceFormatError
from carriage_lab.validity import defects
from carriage_lab.wire import blocks_of, counted, head_length, tokens
from integration_tests.lab.conftest import action, observation, openhands_log, tau_message, tau_run, text

POLICY = "Never push to main."


@pytest.fixture
def session(lines, control):
    """Open a one-trace file on its stack."""

    def open_(name, records):
        [trace] = read_file(lines(name, records))
        bench = Bench(policy=POLICY, count=lambda words: len(words.split()), control=control)
        return trace, open_stack(trace.stack, bench).open(trace)

    return open_


def spoken(session, case):
    return session.provider([*case.fixed, *case.history])


def test_autogen_messages_go_out_as_the_openai_client_sends_them(session):
    """The judge must see what a provider would. The client's conversion is private, so it is compared."""
    from autogen_ext.models.openai._openai_client import to_oai_type  # noqa: PLC0415

    run = tau_run(rounds=2)
    run["messages"][2]["content"] = "let me look"
    trace, opened = session("a.jsonl", [run])
    case = opened.case(Placement.LATER, len(trace.items), ours=False)
    theirs = [dict(raw) for message in case.history for raw in to_oai_type(message, model="gpt-4o")]
    for raw in theirs:
        raw.pop("name", None)  # of the speaker; nobody judges it
    assert [message.raw for message in spoken(opened, case)] == theirs


def test_openhands_groups_join_as_the_whole_list_does(session):
    """The SDK joins neighbouring user messages and parallel actions; groups must not part them."""
    from openhands.sdk.event import LLMConvertibleEvent  # noqa: PLC0415

    log = openhands_log(steps=2)
    log += [
        action(6, "c1", "r9", "both"),
        action(7, "c2", "r9"),
        observation(8, "c1", 6),
        observation(9, "c2", 7),
    ]
    trace, opened = session("a.jsonl", log)
    for placement in Placement:
        for length in (*trace.calls, len(trace.items)):
            history = list(opened.case(placement, length, ours=False).history)
            whole = LLMConvertibleEvent.events_to_messages(history)
            sent = opened.provider(history)
            assert [message.raw["role"] for message in sent] == [message.role for message in whole]
            assert [blocks_of(message.raw) for message in sent] == [
                tuple(block.text for block in message.content) for message in whole
            ]
            assert [len(message.raw.get("tool_calls", ())) for message in sent] == [
                len(message.tool_calls or ()) for message in whole
            ]


@pytest.mark.parametrize(("name", "records"), [("a.jsonl", [tau_run()]), ("b.jsonl", openhands_log())])
def test_placed_text_costs_data_and_protected_text_does_not(session, name, records):
    """Data is what follows the system messages; a placed policy is data, a protected one is not."""
    trace, opened = session(name, records)
    cost = {}
    for placement in Placement:
        sent = spoken(opened, opened.case(placement, trace.calls[-1], ours=False))
        cost[placement] = tokens(sent[head_length(sent) :])
    assert cost[Placement.FIRST] == cost[Placement.LATER] == cost[Placement.PROTECTED] + 4


def test_ours_has_the_policy_in_the_registry_only(session):
    """The protected case of a drop-in holds no natively placed text."""
    trace, opened = session("a.jsonl", openhands_log())
    ours, native = (spoken(opened, opened.case(Placement.PROTECTED, 6, ours=ours)) for ours in (True, False))
    assert POLICY not in str([message.raw for message in ours])
    assert blocks_of(native[0].raw) == ("You fix bugs.", POLICY)
    assert trace.calls


def test_an_event_the_sdk_refuses_is_named_by_its_line(session):
    """Known kind, wrong fields: the log is of another SDK."""
    log = openhands_log()
    log[4]["action"] = {"kind": "GhostAction"}
    with pytest.raises(TraceFormatError, match="refuses the event") as caught:
        session("a.jsonl", log)
    assert caught.value.line == 5


def test_a_block_list_is_not_taken_for_an_empty_turn():
    """The judge reads strings; an assistant's words in blocks are words."""
    said = counted({"role": "assistant", "content": [text("Done.")]}, len)
    nothing = counted({"role": "assistant", "content": []}, len)
    assert not defects([said])
    assert list(defects([nothing])) == [("empty_assistant_turn", None)]


def test_an_empty_reply_in_the_recording_is_not_our_defect(session, tmp_path: Path):
    """Some recorded histories are not clean; what matters is what a manager adds."""
    run = tau_run(rounds=0)
    run["messages"].insert(2, tau_message("assistant", ""))
    trace, opened = session("a.jsonl", [run])
    sent = spoken(opened, opened.case(Placement.PROTECTED, 3, ours=False))
    assert list(defects(sent)) == [("empty_assistant_turn", None)]
    assert trace.calls == (2, 3)
