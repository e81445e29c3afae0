"""Recorded runs, replayed step by step: what every call would have been sent."""

import gzip
import json

import pytest
from openhands.sdk.context.view import View
from openhands.sdk.event import ActionEvent, Condensation, CondensationRequest, Event, LLMConvertibleEvent
from tessera import inspect

from carriage_core import ControlPlane
from carriage_openhands import ControlRollingCondenser

RUNS = ("ef56c89a61cd4e7392e60bd1ac69b83d", "b2688296b4844863aaede6f60a88b9da")


def read(file):
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("most", [12, 80])
def test_every_call_of_a_recorded_run_is_carried_and_paired(kit, recorded_data, run, most):
    """Before each recorded action: the capsule once, no orphan, and the events themselves after index 0.

    The recorded tools are not bound, so any rule could apply to them and all in scope are carried.
    """
    plane = ControlPlane.from_file(kit.POLICIES, actor="release-bot", tenant="acme")
    condenser = ControlRollingCondenser(control=plane, max_size=most, keep_first=2)
    view, calls, cuts, responses = View(), 0, 0, set()
    for record in read(recorded_data / "openhands" / "sdk158" / f"{run}.jsonl.gz"):
        event = Event.model_validate(record)
        if isinstance(event, Condensation | CondensationRequest):
            continue  # what the run's own condenser did
        if isinstance(event, ActionEvent) and event.llm_response_id not in responses:
            responses.add(event.llm_response_id)
            while isinstance(answer := condenser.condense(view), Condensation):
                view.append_event(answer)
                cuts += 1
            assert [id(each) for each in answer.events[1:]] == [id(each) for each in view.events[1:]]
            messages = LLMConvertibleEvent.events_to_messages(answer.events)
            assert kit.carried(messages) == dict.fromkeys(kit.applicable("release-bot", "acme", kit.NAMES), 1)
            assert kit.unpaired(messages) == ([], [], [])
            assert not inspect(kit.on_the_wire(messages), adapter="openai").fatal
            assert len(answer.events) <= most
            calls += 1
        view.append_event(event)
    assert calls > 10
    assert cuts > 0 or most == 80
