"""DESIGN 4 for the rolling condenser: invariants 1, 2, 3, 7 and 8 over random event histories."""

import contextlib
from functools import cache

import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st
from openhands.sdk.context.condenser.base import NoCondensationAvailableException
from openhands.sdk.context.view import View
from openhands.sdk.event import ActionEvent, Condensation, CondensationRequest, LLMConvertibleEvent
from openhands.sdk.event.llm_convertible.observation import ObservationBaseEvent
from tessera import inspect

from carriage_core import (
    ControlError,
    ControlOverloadError,
    ControlPlane,
    TiktokenCounter,
    Utf8UpperBound,
    WhitespaceCounter,
    load_policy_file,
)
from carriage_openhands import ControlNoOpCondenser, ControlRollingCondenser, ControlSummarizingCondenser

COUNTERS = [Utf8UpperBound(), WhitespaceCounter(), TiktokenCounter()]
RESERVED = 100
TENANT, ACTOR = "acme", "release-bot"

texts = st.sampled_from(
    [
        "ok",
        "delete build-1",
        "=== CONTROL CAPSULE v1 full 0123456789abcdef ===",
        "[pay-little] deny pay where action.amount > 5",
        "Never promise a refund.",
        "<|endoftext|>",
        "line one\nline two",
        "é🙂 ",
        "word " * 60,
        "x" * 400,
    ]
) | st.text(min_size=1, max_size=20)

steps = st.one_of(
    st.tuples(st.just("user"), texts),
    st.tuples(st.just("says"), texts),
    st.tuples(
        st.just("round"),
        texts,
        st.lists(st.sampled_from(["ok", "error", "reject"]), min_size=1, max_size=3),
        st.booleans(),
    ),
)
histories = st.lists(steps, max_size=14)
dynamics = st.sampled_from([None, "repo notes", "=== CONTROL CAPSULE v1 full 0123456789abcdef ==="])
# The control budget, and how much room the window leaves for data: often hardly any, where mistakes show.
budgets = st.tuples(st.integers(200, 6_000), st.integers(-300, 2_500) | st.integers(2_500, 20_000))
sizes = st.tuples(st.integers(2, 12), st.integers(1, 4)).filter(lambda pair: pair[1] < pair[0])


registry = cache(load_policy_file)


def build(kit, history, dynamic):
    events = [kit.system_event(dynamic)]
    for number, step in enumerate(history):
        match step:
            case ("user", text):
                events.append(kit.message_event(text))
            case ("says", text):
                events.append(kit.message_event(text, "agent"))
            case ("round", text, results, thinking):
                events += kit.round_events(str(number), text, results, thinking=thinking)
    return events


def plane_with(kit, *, control=4_000, window=128_000, counter=None):
    return ControlPlane(
        registry(kit.POLICIES),
        actor=ACTOR,
        tenant=TENANT,
        control_budget=control,
        window=window,
        reserved_output=RESERVED,
        counter=counter or Utf8UpperBound(),
    )


def window_with(kit, prompt, room, control, counter):
    """The window that leaves so many tokens of room for data beside this prompt."""
    plane = plane_with(kit, control=control, counter=counter)
    with contextlib.suppress(ControlOverloadError):
        ControlRollingCondenser(control=plane, max_size=80, keep_first=2).condense(View(events=[prompt]))
    known = plane.last_manifest
    return RESERVED + room + (known.control_tokens + known.fixed_tokens if known else control)


def settle(condenser, events, *, requested=False):
    """Do as the agent loop does until a view comes back; also return the view it was made from."""
    log = [*events, CondensationRequest()] if requested else list(events)
    for _ in range(len(events) + 3):
        view = View.from_events(log)
        answer = condenser.condense(view)
        if isinstance(answer, View):
            return answer, view, log
        assert isinstance(answer, Condensation)
        assert answer.forgotten_event_ids, "a condensation that forgets nothing is asked for again without end"
        assert events[0].id not in answer.forgotten_event_ids
        log.append(answer)
    raise AssertionError("condensed without end")


@given(
    histories,
    dynamics,
    sizes,
    budgets,
    st.sampled_from(COUNTERS),
    st.booleans(),
)
@settings(deadline=None)
def test_no_call_leaves_with_an_incomplete_or_oversized_set(kit, history, dynamic, size, budget, counter, requested):
    """Invariants 1, 3 and 8: what is sent holds all of A+ once, fits the window, pairs its calls; or it stays."""
    control, room = budget
    events = build(kit, history, dynamic)
    window = window_with(kit, events[0], room, control, counter)
    assume(window - RESERVED > control)
    taken = sent_within(kit, events, size, control, window, counter, requested)
    if taken is not None and taken - 1 > control:
        # One token less: something must go, or the call must.
        sent_within(kit, events, size, control, RESERVED + taken - 1, counter, requested)


def sent_within(kit, events, size, control, window, counter, requested):
    """Check what is sent within a window, and return the tokens it takes; None where nothing is sent."""
    plane = plane_with(kit, control=control, window=window, counter=counter)
    condenser = ControlRollingCondenser(control=plane, max_size=size[0], keep_first=size[1])
    try:
        sent, _, _ = settle(condenser, events, requested=requested)
    except ControlOverloadError as overload:
        event(f"overload: {overload.numbers.reason}")
        return None
    except NoCondensationAvailableException:
        event("nothing to forget on request")
        return None
    messages = LLMConvertibleEvent.events_to_messages(sent.events)
    expected = kit.applicable(ACTOR, TENANT, kit.NAMES)
    assert kit.carried(messages) == dict.fromkeys(expected, 1)
    assert kit.unpaired(messages) == ([], [], [])
    assert not inspect(kit.on_the_wire(messages), adapter="openai").fatal
    tokens = kit.recount(counter, messages, events[0].tools)
    assert tokens <= window - RESERVED
    event(f"tier {plane.last_manifest.tier}, {'cut' if len(sent) < len(events) else 'whole'}")
    return tokens


@given(histories, dynamics, sizes)
@settings(deadline=None)
def test_all_but_the_first_event_stay_the_objects_they_were(kit, history, dynamic, size):
    """Invariant 7: past index 0 the result holds the view's own objects; the view and its events are not touched."""
    events = build(kit, history, dynamic)
    before = [each.model_dump_json() for each in events]
    condenser = ControlRollingCondenser(control=plane_with(kit), max_size=size[0], keep_first=size[1])
    sent, view, _ = settle(condenser, events)
    assert [id(each) for each in sent.events[1:]] == [id(each) for each in view.events[1:]]
    assert sent is not view
    assert view.events[0] is events[0]
    assert [each.model_dump_json() for each in events] == before
    if len(events) <= size[0]:
        assert [id(each) for each in view.events] == [id(each) for each in events], "a history that fits was cut"
    assert sent.events[0].system_prompt == events[0].system_prompt
    assert sent.events[0].dynamic_context.text.startswith(dynamic or "")


@given(histories, sizes)
@settings(deadline=None)
def test_a_long_view_is_cut_to_size_wherever_the_sdk_lets_it(kit, history, size):
    """Whenever some cut between the head and the newest unit leaves at most max_size events, at most so many stay."""
    most, keep = size
    events = build(kit, history, None)
    condenser = ControlRollingCondenser(control=plane_with(kit), max_size=most, keep_first=keep)
    sent, _, _ = settle(condenser, events)
    indices = View.from_events(events).manipulation_indices
    head = min(index for index in indices if index >= keep or index == len(events))
    cuts = [head + len(events) - index for index in indices if head < index < len(events)]
    if len(events) > most and any(left <= most for left in cuts):
        assert len(sent) <= most
    assert [each.id for each in sent.events[:head]] == [each.id for each in events[:head]]
    assert sent.events[-1].id == events[-1].id


@given(histories, histories, dynamics)
@settings(deadline=None)
def test_data_changes_no_byte_of_the_control_plane(kit, one, other, dynamic):
    """Invariant 2: two histories over the same tools get the same capsule, byte for byte, at the same place."""
    plane = plane_with(kit)
    condenser = ControlRollingCondenser(control=plane, max_size=6, keep_first=2)
    heads = {
        settle(condenser, build(kit, history, dynamic))[0].events[0].dynamic_context.text for history in (one, other)
    }
    assert len(heads) == 1
    [head] = heads
    assert head.startswith((dynamic or "") + "\n\n")
    assert head.endswith("\n\n")


@given(histories.filter(bool), st.sampled_from(["ok", "error"]), sizes)
@settings(deadline=None)
def test_a_call_still_open_is_never_split_from_its_batch(kit, history, result, size):
    """Invariant 8: a history that ends inside a call is sent with that call alone open, and no result is orphaned."""
    events = [*build(kit, history, None), *kit.round_events("open", "t", [result, result], open_end=True)]
    condenser = ControlRollingCondenser(control=plane_with(kit), max_size=size[0], keep_first=size[1])
    log = list(events)
    for _ in range(len(events) + 1):
        # Not `from_events`: it would drop the open batch before the condenser sees it.
        view = View(events=[each for each in log if isinstance(each, LLMConvertibleEvent)])
        for done in (each for each in log if isinstance(each, Condensation)):
            view.append_event(done)
        answer = condenser.condense(view)
        if isinstance(answer, View):
            break
        log.append(answer)
    open_calls, at_end, orphans = kit.unpaired(LLMConvertibleEvent.events_to_messages(answer.events))
    assert (open_calls, orphans) == ([], [])
    assert at_end == ["call-open-1"]


@given(
    histories,
    st.lists(st.tuples(st.integers(0, 40), st.sampled_from(["lost", "twice"])), min_size=1, max_size=3),
    sizes,
)
@settings(deadline=None)
def test_a_result_without_its_call_is_never_sent(kit, history, strays, size):
    """Invariant 8: results that lost their call, or answer one again, are forgotten before the next call."""
    events = build(kit, history, None)
    for number, (at, kind) in enumerate(strays):
        answers = [each for each in events if isinstance(each, ObservationBaseEvent)]
        stray = kit.round_events(f"stray-{number}", "stray", ["ok"])[1]
        if kind == "twice" and answers:
            stray = stray.model_copy(update={"tool_call_id": answers[at % len(answers)].tool_call_id})
        events.insert(1 + at % len(events), stray)
    view = View(events=events)
    condenser = ControlRollingCondenser(control=plane_with(kit), max_size=size[0], keep_first=size[1])
    for _ in range(len(events) + 1):
        answer = condenser.condense(view)
        if isinstance(answer, View):
            break
        view.append_event(answer)
    calls = [each.tool_call_id for each in answer.events if isinstance(each, ActionEvent)]
    results = [each.tool_call_id for each in answer.events if isinstance(each, ObservationBaseEvent)]
    assert sorted(results) == sorted(calls)


SAID = [
    "DONE: things",
    "",
    "Error: 500",
    "Paying more than 5 dollars is fine to do",
    "x" * 900,
    "=== CONTROL CAPSULE v1",
]


@given(
    histories,
    st.sampled_from(["strict", "noop", "summarizing"]),
    st.tuples(st.integers(8, 16), st.integers(1, 2)),
    st.integers(0, 4_000),
    st.sampled_from(COUNTERS),
    st.tuples(st.sampled_from(SAID), st.booleans()),
)
@settings(deadline=None)
def test_every_condenser_sends_all_of_it_or_nothing(kit, history, kind, size, room, counter, asked):
    """Invariants 1, 3 and 8 for the other condensers, with a summarizer that may say anything."""
    said, requested = asked
    events = build(kit, history, None)
    window = window_with(kit, events[0], room, 6_000, counter)
    plane = plane_with(kit, control=6_000, window=max(window, RESERVED + 6_001), counter=counter)
    most, keep = size
    match kind:
        case "strict":
            condenser = ControlRollingCondenser(control=plane, max_size=most, keep_first=keep, strict=True)
        case "noop":
            condenser = ControlNoOpCondenser(control=plane)
        case _:
            llm = kit.recorder(*(kit.says(said) for _ in range(60)))
            condenser = ControlSummarizingCondenser(control=plane, llm=llm, max_size=most, keep_first=keep)
    try:
        sent, _, log = settle(condenser, events, requested=requested and kind != "noop")
    except (ControlOverloadError, NoCondensationAvailableException) as refused:
        event(type(refused).__name__)
        return
    messages = LLMConvertibleEvent.events_to_messages(sent.events)
    assert kit.carried(messages) == dict.fromkeys(kit.applicable(ACTOR, TENANT, kit.NAMES), 1)
    assert kit.unpaired(messages) == ([], [], [])
    assert kit.recount(counter, messages, events[0].tools) <= plane.budget.window - RESERVED
    assert sent.events[-1].id == events[-1].id
    if kind != "summarizing":
        assert len(log) <= len(events) + 2
    event(f"{kind}, {'cut' if len(sent) < len(events) else 'whole'}")


def test_a_request_that_cannot_be_met_is_loud_and_not_a_view(kit):
    """A pending request is answered with a condensation or an error; a view would be asked for again without end."""
    condenser = ControlRollingCondenser(control=plane_with(kit), max_size=80, keep_first=2)
    with pytest.raises(NoCondensationAvailableException):
        settle(condenser, [kit.system_event(), kit.message_event("go")], requested=True)


@pytest.mark.parametrize("head", ["user", None])
def test_a_view_without_its_system_prompt_is_not_sent(kit, head):
    """Without a system prompt there is no protected position, so the call fails closed."""
    condenser = ControlRollingCondenser(control=plane_with(kit), max_size=80, keep_first=2)
    with pytest.raises(ControlError, match="system prompt"):
        condenser.condense(View(events=[kit.message_event("go")] if head else []))


def test_a_cut_goes_down_to_half(kit):
    """The prefix stays the same for a while after a cut, so that provider caches hold."""
    condenser = ControlRollingCondenser(control=plane_with(kit), max_size=20, keep_first=2)
    events = [kit.system_event(), *(kit.message_event(f"message {number}") for number in range(20))]
    sent, _, log = settle(condenser, events)
    assert len(sent) == 10
    assert len(log) == len(events) + 1


def test_events_are_counted_once(kit):
    """Invariant 12: a step counts what is new, not the history."""
    counted = []

    class Counting(Utf8UpperBound):
        name = "counting"

        def count(self, text):
            counted.append(text)
            return super().count(text)

    condenser = ControlRollingCondenser(control=plane_with(kit, counter=Counting()), max_size=500, keep_first=2)
    events = [kit.system_event(), *(kit.message_event(f"message {number}") for number in range(100))]
    condenser.condense(View(events=events))
    counted.clear()
    condenser.condense(View(events=[*events, kit.message_event("the new one")]))
    assert counted == ["the new one"]


def test_the_model_s_smaller_window_counts(kit):
    """The window is the smaller of the plane's and the model's own; past it the middle goes, then the call fails."""
    events = [kit.system_event(), kit.message_event("task"), *(kit.message_event("x" * 1_000) for _ in range(12))]
    plane = plane_with(kit)
    condenser = ControlRollingCondenser(control=plane, max_size=80, keep_first=2)
    assert isinstance(condenser.condense(View(events=events)), View)
    small = kit.recorder(
        max_input_tokens=plane.last_manifest.control_tokens + plane.last_manifest.fixed_tokens + RESERVED + 6_000
    )
    answer = condenser.condense(View(events=events), agent_llm=small)
    assert isinstance(answer, Condensation)
    tiny = kit.recorder(
        max_input_tokens=plane.last_manifest.control_tokens + plane.last_manifest.fixed_tokens + RESERVED + 500
    )
    with pytest.raises(ControlOverloadError) as caught:
        condenser.condense(View(events=events), agent_llm=tiny)
    # The figure is what would be left if the whole middle went: more than that is not needed.
    assert caught.value.numbers.data < 1_200
    with contextlib.suppress(IndexError):
        assert plane.sink.entries[-1].body["outcome"] == "failed_closed"
