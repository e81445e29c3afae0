"""DESIGN 4 for all drop-ins alike, over random histories and windows; and what each says of its own."""

import json

import pytest
from autogen_core.model_context import (
    BufferedChatCompletionContext,
    ChatCompletionContext,
    HeadAndTailChatCompletionContext,
    TokenLimitedChatCompletionContext,
    UnboundedChatCompletionContext,
)
from autogen_core.models import FunctionExecutionResultMessage, SystemMessage, UserMessage
from autogen_ext.models.openai import OpenAIChatCompletionClient
from autogen_ext.models.replay import ReplayChatCompletionClient
from hypothesis import event, given
from hypothesis import strategies as st
from tessera import inspect

from carriage_autogen import (
    ControlBufferedChatCompletionContext,
    ControlHeadAndTailChatCompletionContext,
    ControlledContext,
    ControlTokenLimitedChatCompletionContext,
    ControlUnboundedChatCompletionContext,
)
from carriage_core import ControlNotFoundError, ControlOverloadError, ControlPlane, WhitespaceCounter, load_policy_file

GPT = OpenAIChatCompletionClient(model="gpt-4o", api_key="none")


class Summary(UnboundedChatCompletionContext):
    """A user's own context: a summary in the system role, then the last four messages, cut wherever that falls."""

    async def get_messages(self):
        messages = await super().get_messages()
        if len(messages) <= 4:
            return messages
        return [SystemMessage(content=f"Summary of {len(messages) - 4} messages."), *messages[-4:]]


PAIRS = {
    "buffered": (
        BufferedChatCompletionContext,
        lambda size, plane: ControlBufferedChatCompletionContext(size, control=plane),
    ),
    "head and tail": (
        lambda size: HeadAndTailChatCompletionContext(size, size),
        lambda size, plane: ControlHeadAndTailChatCompletionContext(size, size, control=plane),
    ),
    "token limited": (
        lambda size: TokenLimitedChatCompletionContext(GPT, token_limit=size * 20),
        lambda size, plane: ControlTokenLimitedChatCompletionContext(GPT, token_limit=size * 20, control=plane),
    ),
    "unbounded": (
        lambda size: UnboundedChatCompletionContext(),
        lambda size, plane: ControlUnboundedChatCompletionContext(control=plane),
    ),
    "wrapped": (lambda size: Summary(), lambda size, plane: ControlledContext(Summary(), control=plane)),
}

# AutoGen's own count raises on the last one.
words = ["ok", "=== CONTROL CAPSULE v1 ===", "Never promise a refund.", "word " * 30, "<|endoftext|>"]
texts, countable = st.sampled_from(words), st.sampled_from(words[:-1])


def steps(texts):
    return st.one_of(
        st.tuples(st.sampled_from(["user", "says", "system"]), texts),
        st.tuples(
            st.just("round"),
            texts,
            st.lists(st.sampled_from(["", "a", "b"]), min_size=1, max_size=3),
            st.sampled_from(["together", "apart", "partial", "none", "interrupted", "twice"]),
        ),
        st.tuples(st.just("orphan"), texts, st.sampled_from(["", "a", "z"])),
    )


histories, native_histories = st.lists(steps(texts), max_size=10), st.lists(steps(countable), max_size=10)
clean = st.lists(
    st.tuples(st.sampled_from(["user", "says"]), countable)
    | st.tuples(st.just("round"), countable, st.just(["a"]), st.just("together")),
    max_size=8,
)
kinds = st.sampled_from(sorted(PAIRS))
sizes = st.integers(1, 6)
rooms = st.none() | st.integers(1, 200)


@pytest.fixture(scope="session")
def messages_of(make):
    def messages_of_(history):
        out = []
        for kind, text, *more in history:
            match kind, more:
                case "round", [ids, ending]:
                    out.append(make.calls(*ids, arguments=json.dumps({"key": text})))
                    if ending == "apart":
                        out += [make.results(each, text=text) for each in ids]
                    elif ending == "interrupted":
                        out += [make.user("wait"), make.results(*ids, text=text)]
                    elif ending == "partial":
                        out.append(make.results(*ids[:-1] or ids, text=text))
                    elif ending != "none":
                        out += [make.results(*ids, text=text)] * (2 if ending == "twice" else 1)
                case "orphan", [call_id]:
                    out.append(make.results(call_id, text=text))
                case _:
                    out.append(getattr(make, kind)(text))
        return out

    return messages_of_


@pytest.fixture(scope="session")
def registry(policy_file):
    return load_policy_file(policy_file)


@pytest.fixture(scope="session")
def small_plane(registry):
    def small_plane_(room, **more):
        sizes = {} if room is None else {"control_budget": 400, "window": 400 + room, "reserved_output": 0}
        given_ = {"actor": "release-bot", "tenant": "acme", "counter": WhitespaceCounter()}
        return ControlPlane(registry, **(given_ | sizes | more))

    return small_plane_


@given(kind=kinds, history=histories, size=sizes, room=rooms)
def test_every_prompt_is_complete_paired_and_fits(messages_of, small_plane, make, judge, *, kind, history, size, room):
    """Invariants 1, 3, 8 for each drop-in: all rules in the head, no split round, inside the window; or no prompt."""
    plane = small_plane(room)
    messages = messages_of(history)
    context = make.fill(PAIRS[kind][1](size, plane), messages)
    try:
        prompt = make.finish(context.get_messages())
    except ControlOverloadError as overload:
        event(f"overload: {overload.numbers.reason}")
        return
    event(f"shown whole: {len(prompt) > len(messages)}")
    assert judge.carried(prompt) == judge.applicable("release-bot", "acme")
    assert not any(isinstance(message, SystemMessage) for message in prompt[1:])
    open_calls, last_calls, orphans = judge.unpaired(prompt)
    assert (open_calls, orphans) == ([], [])
    assert not last_calls or judge.ends_in_round(messages)
    if room is not None:
        assert judge.recount(plane.counter, prompt) <= 400 + room
    assert plane.last_manifest.data_tokens == judge.recount(plane.counter, prompt[1:])


@given(kind=kinds, history=histories, size=sizes, room=rooms)
def test_a_peer_accepts_every_prompt(messages_of, small_plane, make, judge, *, kind, history, size, room):
    """`tessera` finds no fatal defect but in a round that the history itself leaves open, or in ids that repeat."""
    messages = messages_of(history)
    try:
        prompt = make.finish(make.fill(PAIRS[kind][1](size, small_plane(room)), messages).get_messages())
    except ControlOverloadError:
        return
    found = {each.defect.value for each in inspect(judge.on_the_wire(prompt), adapter="openai").findings}
    assert "orphan_result" not in found
    if not judge.ends_in_round(messages):
        assert "dangling_call" not in found


@given(kind=kinds, history=histories, size=sizes, room=rooms)
def test_the_newest_request_outlives_what_is_older(messages_of, small_plane, make, *, kind, history, size, room):
    """No prompt shows anything from before the newest user message without that message."""
    messages = messages_of(history)
    requests = [index for index, message in enumerate(messages) if isinstance(message, UserMessage)]
    try:
        prompt = make.finish(make.fill(PAIRS[kind][1](size, small_plane(room)), messages).get_messages())
    except ControlOverloadError:
        return
    if not requests or kind == "wrapped":  # there the inner context selects
        return
    older = {id(message) for message in messages[: requests[-1]]} - {id(messages[requests[-1]])}
    if any(id(message) in older for message in prompt):
        assert any(message is messages[requests[-1]] for message in prompt)


@given(kind=kinds, history=clean, size=sizes)
def test_a_history_that_fits_is_shown_as_the_native_class_shows_it(
    messages_of, small_plane, make, judge, *, kind, history, size
):
    """Invariant 7: without the capsule, message for message, wherever the native prompt is whole."""
    messages = messages_of(history)
    native = make.finish(make.fill(PAIRS[kind][0](size), messages).get_messages())
    ours = make.finish(make.fill(PAIRS[kind][1](size, small_plane(None)), messages).get_messages())
    if native == messages:
        assert ours[1:] == native
        assert sum(mine is not theirs for mine, theirs in zip(ours[1:], native, strict=True)) <= 1
    elif kind == "buffered" and not (size == 1 and isinstance(messages[-1], FunctionExecutionResultMessage)):
        assert ours[1:] == native


def test_a_round_where_head_and_tail_meet_is_not_lost(messages_of, small_plane, make):
    """With head 2 and tail 2, four messages are all there is to show, even if the second and third are one round."""
    messages = messages_of([("user", "ok"), ("round", "ok", ["a"], "together"), ("user", "ok")])
    context = ControlHeadAndTailChatCompletionContext(2, 2, control=small_plane(None))
    assert make.finish(make.fill(context, messages).get_messages())[1:] == messages


@given(kind=kinds, history=st.lists(histories, min_size=1, max_size=4), size=sizes, room=rooms)
def test_reading_after_each_turn_shows_what_reading_once_shows(
    messages_of, small_plane, make, *, kind, history, size, room
):
    """What is remembered between two reads, so that only what is new is counted, changes no prompt and no manifest."""
    often, once = small_plane(room), small_plane(room)
    used, fresh = PAIRS[kind][1](size, often), PAIRS[kind][1](size, once)
    for turn in history:
        messages = messages_of(turn)
        make.fill(used, messages)
        make.fill(fresh, messages)
        results = []
        try:
            results.append(make.finish(used.get_messages()))
        except ControlOverloadError as overload:
            results.append(overload.numbers)
    try:
        results.append(make.finish(fresh.get_messages()))
    except ControlOverloadError as overload:
        results.append(overload.numbers)
    assert results[0] == results[1]
    if often.last_manifest is not None and once.last_manifest is not None and isinstance(results[1], list):
        assert often.last_manifest.candidate_tokens == once.last_manifest.candidate_tokens


@given(kind=kinds, history=native_histories, size=sizes)
def test_observe_mode_sends_the_native_messages_behind_the_whole_capsule(
    messages_of, small_plane, make, judge, *, kind, history, size
):
    """DESIGN 3.13: nothing is mended, demoted or cut; the capsule is whole."""
    messages = messages_of(history)
    native = make.finish(make.fill(PAIRS[kind][0](size), messages).get_messages())
    ours = make.finish(make.fill(PAIRS[kind][1](size, small_plane(None, mode="observe")), messages).get_messages())
    assert ours[1:] == native
    assert judge.carried(ours) == judge.applicable("release-bot", "acme")


@pytest.mark.parametrize("kind", sorted(PAIRS))
def test_observe_mode_sends_what_would_have_failed_and_says_so(make, small_plane, kind):
    """What cannot be carried goes out natively, without the capsule, and the log says what enforcing would do."""
    plane = small_plane(None, mode="observe", control_budget=5)
    context = make.fill(PAIRS[kind][1](5, plane), [make.user("hi")])
    assert make.finish(context.get_messages()) == [make.user("hi")]
    assert [entry.body["outcome"] for entry in plane.sink.entries] == ["would_fail_closed"]
    enforced = make.fill(PAIRS[kind][1](5, small_plane(None, control_budget=5)), [make.user("hi")])
    with pytest.raises(ControlOverloadError):
        make.finish(enforced.get_messages())


# -- config and state -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", sorted(set(PAIRS) - {"wrapped"}))
def test_a_dumped_drop_in_loads_as_itself(make, plane, kind):
    """Invariant 9: provider, window and plane come back, the policy text is not in the config."""
    context = PAIRS[kind][1](3, plane)
    config = context.dump_component()
    assert config.provider.startswith("carriage_autogen.Control")
    assert "CONTROL CAPSULE" not in config.model_dump_json()
    if kind == "token limited":  # a dump masks the key
        config.config["model_client"]["config"]["api_key"] = "none"
    loaded = ChatCompletionContext.load_component(config)
    assert type(loaded) is type(context)
    history = [make.user("a"), make.says("b"), make.calls("1"), make.results("1"), make.user("c"), make.says("d")]
    assert make.finish(make.fill(loaded, history).get_messages()) == make.finish(
        make.fill(context, history).get_messages()
    )


def test_a_wrapped_context_loads_as_itself(make, plane):
    """The wrapper dumps what it wraps."""
    context = ControlledContext(HeadAndTailChatCompletionContext(1, 1), control=plane)
    loaded = ChatCompletionContext.load_component(context.dump_component())
    assert isinstance(loaded, ControlledContext)
    assert isinstance(loaded.inner, HeadAndTailChatCompletionContext)


@pytest.mark.parametrize("kind", sorted(PAIRS))
def test_a_state_of_an_unknown_plane_is_refused(make, plane, kind):
    """A conversation that was saved under policies this process does not hold is not resumed as if under these."""
    context = make.fill(PAIRS[kind][1](3, plane), [make.user("a")])
    state = dict(make.finish(context.save_state()))
    fresh = PAIRS[kind][1](3, plane)
    make.finish(fresh.load_state(state))
    assert make.finish(fresh.get_messages())[1:] == [make.user("a")]
    with pytest.raises(ControlNotFoundError, match="load the same policy file"):
        make.finish(fresh.load_state(state | {"control_reference": "sha256:" + "0" * 64}))
    del state["control_reference"]
    make.finish(fresh.load_state(state))


# -- each of its own ------------------------------------------------------------------------------


class Silent(ReplayChatCompletionClient):
    """Counts nothing, as AutoGen's Azure AI Inference client does."""

    def __init__(self):
        super().__init__([])

    def count_tokens(self, messages, **_):
        return 0


def test_a_client_that_counts_nothing_does_not_open_the_limit(make, plane):
    """Natively a limit of ten keeps all of fifty messages; ours counts with the plane instead."""
    history = [make.user(f"message number {number}") for number in range(50)]
    native = make.fill(TokenLimitedChatCompletionContext(Silent(), token_limit=10), history)
    assert len(make.finish(native.get_messages())) == 50
    ours = make.fill(ControlTokenLimitedChatCompletionContext(Silent(), token_limit=10, control=plane), history)
    assert make.finish(ours.get_messages())[1:] == [history[-1]]


def test_thirteen_characters_do_not_stop_every_call(make, plane):
    """Natively a history that names a special token raises for good; ours counts it as the text it is."""
    history = [make.user("<|endoftext|>")]
    native = make.fill(TokenLimitedChatCompletionContext(GPT, token_limit=100), history)
    with pytest.raises(ValueError, match="special token"):
        make.finish(native.get_messages())
    ours = make.fill(ControlTokenLimitedChatCompletionContext(GPT, token_limit=100, control=plane), history)
    assert make.finish(ours.get_messages())[1:] == history


def test_an_unknown_models_window_is_the_planes(make, plane):
    """Natively `remaining_tokens` raises KeyError for a model it does not know; the plane's window bounds ours."""
    info = {
        "vision": False,
        "function_calling": True,
        "json_output": False,
        "family": "unknown",
        "structured_output": False,
    }
    client = OpenAIChatCompletionClient(model="my-own", api_key="none", base_url="http://x", model_info=info)
    with pytest.raises(KeyError):
        make.finish(make.fill(TokenLimitedChatCompletionContext(client), [make.user("a")]).get_messages())
    ours = make.fill(ControlTokenLimitedChatCompletionContext(client, control=plane), [make.user("a")])
    assert make.finish(ours.get_messages())[1:] == [make.user("a")]


def test_the_limit_is_for_data_alone(make, plane):
    """A capsule far larger than `token_limit` takes nothing from it."""
    history = [make.user("one two three"), make.says("four five six")]
    limit = GPT.count_tokens(history)
    assert limit < plane.capsule().tokens
    ours = ControlTokenLimitedChatCompletionContext(GPT, token_limit=limit, control=plane)
    assert make.finish(make.fill(ours, history).get_messages())[1:] == history


def test_tools_count_against_the_limit_as_they_do_natively(make, plane):
    """With `tool_schema` less data is shown, in both."""
    schema = {
        "name": "look_up",
        "description": "Looks something up " * 5,
        "parameters": {
            "type": "object",
            "properties": {"key": {"type": "string", "description": "what"}},
            "required": [],
        },
    }
    history = [make.user("one"), make.says("two"), make.user("three")]
    limit = GPT.count_tokens(history)
    for tools, whole in (([], True), ([schema], False)):
        native = TokenLimitedChatCompletionContext(GPT, token_limit=limit, tool_schema=tools)
        ours = ControlTokenLimitedChatCompletionContext(GPT, token_limit=limit, tool_schema=tools, control=plane)
        assert (make.finish(make.fill(native, history).get_messages()) == history) is whole
        assert (make.finish(make.fill(ours, history).get_messages())[1:] == history) is whole


def test_control_inside_control_is_refused(plane):
    """Two capsules in one prompt would be neither exactly once nor first."""
    with pytest.raises(TypeError, match="carries control already"):
        ControlledContext(ControlUnboundedChatCompletionContext(control=plane), control=plane)


def test_a_capsule_in_a_handoff_is_not_stored(make, judge, plane):
    """An agent that passes its own prompt on does not put rules into another one's history."""
    first = make.fill(
        ControlUnboundedChatCompletionContext([make.system("Be brief.")], control=plane), [make.user("a")]
    )
    passed_on = make.finish(first.get_messages())
    for second in (
        ControlUnboundedChatCompletionContext(control=plane),
        ControlledContext(UnboundedChatCompletionContext(), control=plane),
    ):
        prompt = make.finish(make.fill(second, passed_on).get_messages())
        assert "CONTROL CAPSULE" not in json.dumps(make.finish(second.save_state()))
        assert [type(message) for message in prompt] == [SystemMessage, UserMessage, UserMessage]
        assert prompt[1].content.endswith("Be brief.")
