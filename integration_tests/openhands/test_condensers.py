"""What each condenser forgets, what it keeps, and what it does when the rules cannot be sent."""

import asyncio
import json

import pytest
from openhands.sdk.context.condenser.base import CondenserBase, NoCondensationAvailableException
from openhands.sdk.context.view import View
from openhands.sdk.conversation.exceptions import ConversationRunError
from openhands.sdk.conversation.state import ConversationExecutionStatus as Status
from openhands.sdk.event import Condensation, LLMConvertibleEvent
from openhands.sdk.llm.exceptions import LLMContextWindowExceedError

from carriage_core import (
    CarriageIntegrityError,
    ControlError,
    ControlOverloadError,
    ControlPlane,
    EntryKind,
    Utf8UpperBound,
)
from carriage_openhands import ControlNoOpCondenser, ControlRollingCondenser, GuardedAgent

ACTOR, TENANT = "release-bot", "acme"


def plane_of(kit, **options):
    return ControlPlane.from_file(kit.POLICIES, actor=ACTOR, tenant=TENANT, **options)


def history(kit, rounds):
    events = [kit.system_event(), kit.message_event("the task")]
    for number in range(rounds):
        events += kit.round_events(str(number), f"step {number}", ["ok"])
    return events


def either(condenser, view, llm=None):
    """Ask both ways; they must agree."""
    sync, later = condenser.condense(view, agent_llm=llm), asyncio.run(condenser.acondense(view, agent_llm=llm))
    assert type(sync) is type(later)
    return sync


def outcomes(plane):
    return [entry.body["outcome"] for entry in plane.sink.entries if entry.kind is EntryKind.ASSEMBLY]


# -- strict rolling -------------------------------------------------------------------------------


def test_a_strict_window_keeps_head_and_newest_and_stores_nothing(kit):
    """The paper's window: a fresh head and tail for each call; the history keeps every event."""
    condenser = ControlRollingCondenser(control=plane_of(kit), max_size=10, keep_first=2, strict=True)
    events = history(kit, 20)
    view = View(events=events)
    sent = either(condenser, view)
    assert isinstance(sent, View)
    assert len(sent) <= 10
    assert sent.events[1] is events[1]
    assert [id(each) for each in sent.events[2:]] == [id(each) for each in events[-(len(sent) - 2) :]]
    assert view.events == events
    messages = LLMConvertibleEvent.events_to_messages(sent.events)
    assert kit.carried(messages) == dict.fromkeys(kit.applicable(ACTOR, TENANT, kit.NAMES), 1)
    assert kit.unpaired(messages) == ([], [], [])


def test_a_strict_window_moves_with_each_step(kit, talk):
    """Every call of a run holds the newest events; no condensation is stored."""
    plane = plane_of(kit)
    chores = [kit.proposes((f"c{n}", "list_artifacts", {"names": [f"n{n}"]})) for n in range(12)]
    llm = kit.recorder(*chores, kit.says("done"))
    condenser = ControlRollingCondenser(control=plane, max_size=8, keep_first=2, strict=True)
    conversation = talk(GuardedAgent(llm=llm, tools=kit.tool_specs(), condenser=condenser))
    conversation.send_message("work")
    conversation.run()
    assert not any(isinstance(event, Condensation) for event in conversation.state.events)
    assert len(llm.requests) == 13
    for number, messages in enumerate(llm.requests):
        assert len(messages) <= 8
        assert kit.unpaired(messages) == ([], [], [])
        if number:
            assert messages[-1].tool_call_id == f"c{number - 1}"
    assert plane.last_manifest.data_tokens < plane.last_manifest.candidate_tokens


def test_a_strict_window_also_fits_the_tokens(kit):
    """The window is cut to what fits beside the capsule, not only to its number of events."""
    events = [kit.system_event(), kit.message_event("task"), *(kit.message_event("x" * 900) for _ in range(12))]
    plane = plane_of(kit, counter=Utf8UpperBound(), reserved_output=100, control_budget=6_000)
    whole = ControlRollingCondenser(control=plane, max_size=80, keep_first=2)
    assert len(whole.condense(View(events=events))) == 14
    used = plane.last_manifest.control_tokens + plane.last_manifest.fixed_tokens
    strict = ControlRollingCondenser(control=plane, max_size=80, keep_first=2, strict=True)
    sent = strict.condense(View(events=events), agent_llm=kit.recorder(max_input_tokens=used + 100 + 3_000))
    assert 3 <= len(sent) <= 5
    assert plane.last_manifest.candidate_tokens > plane.last_manifest.data_tokens


def test_a_request_to_a_strict_window_is_met_by_a_condensation(kit):
    """A view would be asked for again without end."""
    condenser = ControlRollingCondenser(control=plane_of(kit), max_size=40, keep_first=2, strict=True)
    view = View(events=history(kit, 6), unhandled_condensation_request=True)
    assert isinstance(either(condenser, view), Condensation)


# -- no-op ----------------------------------------------------------------------------------------


def test_the_no_op_carries_and_forgets_nothing(kit):
    """Every event after the first is the history's own object."""
    condenser = ControlNoOpCondenser(control=plane_of(kit))
    events = history(kit, 50)
    sent = either(condenser, View(events=events))
    assert [id(each) for each in sent.events[1:]] == [id(each) for each in events[1:]]
    messages = LLMConvertibleEvent.events_to_messages(sent.events)
    assert kit.carried(messages) == dict.fromkeys(kit.applicable(ACTOR, TENANT, kit.NAMES), 1)


def test_the_no_op_enforces_the_window(kit, talk):
    """Past the window no model is called; the native one would have sent it all."""
    llm = kit.recorder(kit.says("never"))
    plane = plane_of(kit, window=16_000, reserved_output=100, control_budget=3_000, counter=Utf8UpperBound())
    agent = GuardedAgent(llm=llm, tools=kit.tool_specs(kit.PayTool), condenser=ControlNoOpCondenser(control=plane))
    conversation = talk(agent)
    conversation.send_message("word " * 4_000)
    with pytest.raises(ConversationRunError) as caught:
        conversation.run()
    assert isinstance(caught.value.__cause__, ControlOverloadError)
    assert llm.requests == []


def test_an_overflow_under_the_no_op_ends_the_run_with_the_model_s_error(kit, talk):
    """It takes no condensation requests, so there is nothing to loop on."""
    llm = kit.recorder(LLMContextWindowExceedError(), kit.says("never"))
    conversation = talk(
        GuardedAgent(llm=llm, tools=kit.tool_specs(), condenser=ControlNoOpCondenser(control=plane_of(kit)))
    )
    conversation.send_message("work")
    with pytest.raises(ConversationRunError) as caught:
        conversation.run()
    assert isinstance(caught.value.__cause__, LLMContextWindowExceedError)
    assert len(llm.requests) == 1
    with pytest.raises(ValueError, match="does not handle"):
        conversation.condense()


# -- what every condenser saves -------------------------------------------------------------------


@pytest.mark.parametrize("kind", [ControlRollingCondenser, ControlNoOpCondenser])
def test_a_saved_condenser_says_what_to_install(kit, kind):
    """Where the package is missing the SDK only says that a kind is unknown; the saved text says what brings it."""
    saved = kind(control=plane_of(kit)).model_dump_json()
    assert "policy-carriage[openhands]" in json.loads(saved)["needs"]
    assert type(CondenserBase.model_validate_json(saved)) is kind


def test_no_kind_of_ours_clashes_with_one_of_the_sdk(kit):
    """`kind` is the bare class name; a clash breaks the loading of every condenser in the process."""
    saved = ['{"kind": "NoOpCondenser"}', ControlNoOpCondenser(control=plane_of(kit)).model_dump_json()]
    assert [type(CondenserBase.model_validate_json(text)).__name__ for text in saved] == [
        "NoOpCondenser",
        "ControlNoOpCondenser",
    ]


# -- observe mode ---------------------------------------------------------------------------------


def test_observing_an_overload_sends_the_native_view_and_records_it(kit, talk):
    """DESIGN 3.13: the native messages plus the whole capsule or none of it; nothing is blocked."""
    plane = plane_of(kit, mode="observe", control_budget=5)
    llm = kit.recorder(kit.says("done"))
    condenser = ControlRollingCondenser(control=plane, max_size=80, keep_first=2)
    conversation = talk(GuardedAgent(llm=llm, tools=kit.tool_specs(), condenser=condenser))
    conversation.send_message("work")
    conversation.run()
    assert len(llm.requests) == 1
    assert kit.carried(llm.requests[0]) == {}
    assert conversation.state.execution_status is Status.FINISHED
    assert outcomes(plane) == ["would_fail_closed"]


def test_observing_an_overfull_window_forgets_first_and_then_sends(kit):
    """What can be forgotten is; what then does not fit goes out as it is, and the log says so."""
    events = [kit.system_event(), kit.message_event("task"), kit.message_event("x" * 9_000)]
    plane = plane_of(kit, mode="observe", counter=Utf8UpperBound(), window=12_000, reserved_output=100)
    sent = ControlRollingCondenser(control=plane, max_size=80, keep_first=2).condense(View(events=events))
    assert [id(each) for each in sent.events] == [id(each) for each in events]
    assert outcomes(plane) == ["would_fail_closed"]


def test_observing_a_view_without_its_system_prompt_records_why(kit):
    """No protected position: the native view goes out and the log names the problem."""
    plane = plane_of(kit, mode="observe")
    view = View(events=[kit.message_event("go")])
    assert ControlNoOpCondenser(control=plane).condense(view) is view
    entry = plane.sink.entries[-1].body
    assert (entry["outcome"], entry["problem"]) == ("would_fail_closed", CarriageIntegrityError.__name__)


def test_observing_still_meets_a_request_with_a_condensation(kit):
    """Without a capsule too, a view in answer to a request would be asked for again without end."""
    plane = plane_of(kit, mode="observe", control_budget=5)
    condenser = ControlRollingCondenser(control=plane, max_size=80, keep_first=2)
    view = View(events=history(kit, 6), unhandled_condensation_request=True)
    assert isinstance(condenser.condense(view), Condensation)
    short = View(events=history(kit, 0), unhandled_condensation_request=True)
    with pytest.raises(NoCondensationAvailableException):
        condenser.condense(short)


def test_what_observing_lets_through_enforcing_stops(kit):
    """The same four failures, in enforce mode, make no view."""
    events = [kit.system_event(), kit.message_event("task"), kit.message_event("x" * 9_000)]
    small = plane_of(kit, control_budget=5)
    narrow = plane_of(kit, counter=Utf8UpperBound(), window=12_000, reserved_output=100)
    for plane, seen in ((small, events[:2]), (narrow, events), (small, events[1:])):
        with pytest.raises(ControlError):
            ControlRollingCondenser(control=plane, max_size=80, keep_first=2).condense(View(events=seen))
