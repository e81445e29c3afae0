"""The twenty losses of AutoGen's own contexts, each shown on the native class and closed in the drop-in."""

import asyncio
import copy
import json
import random

import pytest
from autogen_agentchat.agents import AssistantAgent, SocietyOfMindAgent
from autogen_agentchat.teams import MagenticOneGroupChat, RoundRobinGroupChat
from autogen_core import CancellationToken, Image
from autogen_core.model_context import (
    BufferedChatCompletionContext,
    ChatCompletionContext,
    HeadAndTailChatCompletionContext,
    TokenLimitedChatCompletionContext,
    UnboundedChatCompletionContext,
)
from autogen_core.models import AssistantMessage, SystemMessage, UserMessage
from autogen_core.tools import ImageResultContent, StaticWorkbench, TextResultContent, ToolResult
from autogen_ext.models.openai import OpenAIChatCompletionClient
from PIL import Image as Picture

from carriage_autogen import (
    ControlBufferedChatCompletionContext,
    ControlHeadAndTailChatCompletionContext,
    ControlledContext,
    ControlTokenLimitedChatCompletionContext,
    ControlUnboundedChatCompletionContext,
    GuardedWorkbench,
)


@pytest.fixture(scope="session")
def gpt():
    """The real client; nothing here calls a model with it."""
    return OpenAIChatCompletionClient(model="gpt-4o", api_key="none")


@pytest.fixture
def shown(make):
    """Fill a context and read it once."""

    def shown_(context, messages):
        return make.finish(make.fill(context, messages).get_messages())

    return shown_


@pytest.fixture
def limited(gpt, plane):
    """A native and a controlled token-limited context for the same limit, which is one below what `messages` take."""

    def limited_(messages, below=1, **more):
        limit = gpt.count_tokens(messages) - below
        return (
            TokenLimitedChatCompletionContext(gpt, token_limit=limit),
            ControlTokenLimitedChatCompletionContext(gpt, token_limit=limit, control=plane, **more),
        )

    return limited_


def test_01_a_buffer_shows_one_message_less_than_it_holds_and_loses_the_task(make, judge, plane, shown):
    """The task leaves a buffer of three. In ours the rules are there all the same, and the window is the native one."""
    history = [make.user("TASK"), make.calls("1"), make.results("1"), make.user("x"), make.says("y")]
    native = shown(BufferedChatCompletionContext(3), history)
    assert [message.content for message in native] == ["x", "y"]
    ours = shown(ControlBufferedChatCompletionContext(3, control=plane), history)
    assert ours[1:] == native
    assert judge.carried(ours) == judge.applicable("release-bot", "acme")


def test_02_a_system_message_falls_out_of_the_buffer(make, judge, plane, shown):
    """A policy that is a system message is gone after two turns; ours is not among what the buffer drops."""
    history = [make.system("POLICY"), make.user("u"), make.says("a")]
    assert not any(isinstance(message, SystemMessage) for message in shown(BufferedChatCompletionContext(2), history))
    ours = ControlBufferedChatCompletionContext(2, [make.system("POLICY")], control=plane)
    assert "POLICY" in judge.system_block(shown(ours, history[1:]))


def test_03_two_results_leave_an_orphan(make, judge, plane, shown):
    """Only one of two results whose call was dropped is dropped with it."""
    history = [make.user("u"), make.calls("1", "2"), make.results("1"), make.results("2"), make.says("a")]
    assert judge.unpaired(shown(BufferedChatCompletionContext(3), history))[2] == ["2"]
    assert judge.unpaired(shown(ControlBufferedChatCompletionContext(3, control=plane), history)) == ([], [], [])


@pytest.mark.asyncio
async def test_04_reflection_is_asked_with_an_empty_prompt(make, judge, plane, within):
    """With a buffer of one the model is asked to reflect on nothing at all."""

    async def look_up() -> str:
        """Look up."""
        return "42"

    prompts = []
    for context in (BufferedChatCompletionContext(1), ControlBufferedChatCompletionContext(1, control=plane)):
        client = make.client(make.proposes(("1", "look_up", {})), "done")
        agent = AssistantAgent(
            "a",
            client,
            tools=[look_up],
            model_context=context,
            reflect_on_tool_use=True,
            system_message=None,
        )
        await within(agent.run(task="go"))
        prompts.append(client.requests[1])
    native, ours = prompts
    assert native == []
    assert judge.results_in(ours) == [("1", "42")]


def test_05_head_and_tail_lose_the_result_that_is_reflected_on(make, judge, plane, shown):
    """A tail of one strips the result of the newest call, and the call stands in the gap."""
    history = [make.user("go"), make.calls("1"), make.results("1", text="42")]
    native = shown(HeadAndTailChatCompletionContext(1, 1), history)
    assert [message.content for message in native] == ["go", "Skipped 1 messages."]
    ours = shown(ControlHeadAndTailChatCompletionContext(1, 1, control=plane), history)
    assert ours[1:] == history


def test_06_a_head_that_ends_behind_a_call_keeps_the_call_without_its_result(make, judge, plane, shown):
    """A user message between call and result hides the split from the native check."""
    history = [
        make.user("T"),
        make.calls("1"),
        make.user("u"),
        make.results("1"),
        make.says("a"),
        make.says("b"),
        make.user("v"),
    ]
    assert judge.unpaired(shown(HeadAndTailChatCompletionContext(3, 3), history))[0] == ["1"]
    ours = shown(ControlHeadAndTailChatCompletionContext(3, 3, control=plane), history)
    assert judge.unpaired(ours) == ([], [], [])


def test_07_the_count_of_skipped_messages_is_wrong(make, judge, plane, shown):
    """Natively two are said to be skipped, four are, and an orphan is left."""
    history = [make.calls("1"), make.results("1"), make.says("a"), make.results("9"), make.results("9")]
    native = shown(HeadAndTailChatCompletionContext(1, 2), history)
    assert judge.unpaired(native)[2] == ["9"]
    assert native[0].content == "Skipped 2 messages."
    assert len(history) - (len(native) - 1) == 4
    ours = shown(ControlHeadAndTailChatCompletionContext(1, 2, control=plane), history)
    assert judge.unpaired(ours) == ([], [], [])
    # Of the three messages that can be sent at all, the round before the newest is skipped.
    assert [message.content for message in ours[1:]] == ["Skipped 2 messages.", "a"]


def test_08_one_token_too_many_takes_a_result_from_its_call(make, judge, limited, shown):
    """The token limit pops the message in the middle, which is a result."""
    history = [
        make.user("TASK"),
        make.says("ok"),
        make.calls("1"),
        make.results("1"),
        make.user("next"),
        make.says("done"),
    ]
    native, ours = limited(history)
    assert judge.unpaired(shown(native, history))[0] == ["1"]
    prompt = shown(ours, history)
    assert judge.unpaired(prompt) == ([], [], [])
    assert [message.content for message in prompt[1:3]] == ["TASK", "ok"]
    assert [message.content for message in prompt[-2:]] == ["next", "done"]


def test_09_a_tool_loop_over_the_limit_is_refused_by_the_provider(make, judge, limited, shown):
    """The same in the loop every tool-using agent runs."""
    history = [make.user("TASK"), make.calls("1"), make.results("1"), make.calls("2"), make.results("2")]
    native, ours = limited(history)
    assert judge.unpaired(shown(native, history))[0] == ["1"]
    prompt = shown(ours, history)
    assert prompt[1:] == [history[0], *history[3:]]


def test_10_the_newest_request_is_popped_because_it_is_large(make, limited, shown):
    """A policy and a large newest message: the newest message goes. In ours it never goes before what is older."""
    history = [make.system("POLICY"), make.user("large " * 50)]
    native, ours = limited(history)
    assert shown(native, history) == [history[0]]
    assert shown(ours, history)[-1] is history[1]


def test_11_an_oversize_system_message_empties_the_prompt_without_an_error(make, judge, plane, gpt, shown):
    """Natively nothing is left, and nothing is said; in ours the newest request and the rules are."""
    history = [make.system("POLICY " * 100), make.user("go")]
    native = TokenLimitedChatCompletionContext(gpt, token_limit=5)
    assert shown(native, history) == []
    ours = shown(ControlTokenLimitedChatCompletionContext(gpt, token_limit=5, control=plane), history)
    assert ours[-1] is history[1]
    assert judge.carried(ours) == judge.applicable("release-bot", "acme")


@pytest.mark.parametrize("share", [0.75, 0.5, 0.25])
def test_12_most_long_tool_histories_are_broken_by_the_token_limit(make, judge, plane, gpt, shown, share):
    """Over random tool histories of 60 messages: native pairing is broken in about half, ours in none."""
    random_ = random.Random(int(share * 100))  # noqa: S311  # the same histories each time
    broken = {"native": 0, "ours": 0}
    for _ in range(12):
        history = []
        while len(history) < 60:
            number = str(len(history))
            if random_.random() < 0.6:
                history += [make.calls(number), make.results(number, text="w " * random_.randrange(1, 30))]
            else:
                history.append(random_.choice([make.user, make.says])("w " * random_.randrange(1, 30)))
        limit = int(gpt.count_tokens(history) * share)
        contexts = {
            "native": TokenLimitedChatCompletionContext(gpt, token_limit=limit),
            "ours": ControlTokenLimitedChatCompletionContext(gpt, token_limit=limit, control=plane),
        }
        for name, context in contexts.items():
            broken[name] += any(judge.unpaired(shown(context, history)))
        assert gpt.count_tokens(shown(contexts["ours"], [])[1:]) <= limit
    assert broken["native"] >= 3
    assert broken["ours"] == 0


@pytest.mark.asyncio
@pytest.mark.parametrize("how", ["clear", "team reset", "society of mind", "magentic one"])
async def test_13_initial_messages_are_gone_after_a_reset(make, judge, plane, within, how):
    """However a reset comes about, the next prompt holds the initial messages and the rules again."""
    note = make.user("INITIAL")

    async def prompts(context):
        client = make.client("one", "two", "three")
        agent = AssistantAgent("worker", client, model_context=context, description="works")
        team = RoundRobinGroupChat([agent], max_turns=1)
        match how:
            case "clear":
                await within(agent.run(task="a"))
                await context.clear()
                await within(agent.run(task="b"))
            case "team reset":
                await within(team.run(task="a"))
                await within(team.reset())
                await within(team.run(task="b"))
            case "society of mind":
                society = SocietyOfMindAgent("society", team, make.client("x", "y"))
                await within(society.run(task="a"))
                await within(society.run(task="b"))
            case _:
                ledger = {
                    key: {"answer": answer, "reason": ""}
                    for key, answer in {
                        "is_request_satisfied": False,
                        "is_in_loop": False,
                        "is_progress_being_made": True,
                        "instruction_or_question": "do it",
                        "next_speaker": "worker",
                    }.items()
                }
                orchestrator = make.client("facts", "plan", json.dumps(ledger), json.dumps(ledger), "answer")
                magentic = MagenticOneGroupChat([agent], orchestrator, max_turns=1)
                await within(magentic.run(task="a"))
        return client.requests

    def holds(prompt):
        return any(message.content == "INITIAL" for message in prompt)

    assert not holds((await prompts(UnboundedChatCompletionContext([note])))[-1])
    ours = (await prompts(ControlUnboundedChatCompletionContext([note], control=plane)))[-1]
    assert holds(ours)
    assert judge.carried(ours) == judge.applicable("release-bot", "acme")


def test_14_reloaded_initial_messages_are_dicts(make, plane, shown):
    """A dumped and loaded buffered context hands dicts to the client; ours hands out messages."""
    kinds = BufferedChatCompletionContext, ControlBufferedChatCompletionContext
    contexts = kinds[0](3, [make.user("hi")]), kinds[1](3, [make.user("hi")], control=plane)
    native, ours = (shown(ChatCompletionContext.load_component(context.dump_component()), []) for context in contexts)
    assert isinstance(native[0], dict)
    assert ours[-1] == make.user("hi")


def test_15_the_stored_list_is_handed_out(make, plane, gpt, shown):
    """A caller that pops from what it got deletes history; from ours it deletes nothing."""
    history = [make.user("a"), make.says("b")]
    native = UnboundedChatCompletionContext()
    shown(native, history).pop(0)
    assert len(make.finish(native.get_messages())) == 1
    for ours in (
        ControlUnboundedChatCompletionContext(control=plane),
        ControlHeadAndTailChatCompletionContext(5, 5, control=plane),
        ControlBufferedChatCompletionContext(5, control=plane),
        ControlTokenLimitedChatCompletionContext(gpt, control=plane),
        ControlledContext(UnboundedChatCompletionContext(), control=plane),
    ):
        prompt = shown(ours, history)
        prompt[2].content = prompt[2].content.rstrip("b")  # what some clients do to the last answer
        prompt.clear()
        assert make.finish(ours.get_messages())[1:] == [make.user("a"), make.says("b")]


class ReasoningModelContext(UnboundedChatCompletionContext):
    """As AutoGen documents it."""

    async def get_messages(self):
        messages = await super().get_messages()
        messages_out = []
        for message in messages:
            if isinstance(message, AssistantMessage):
                message.thought = None
            messages_out.append(message)
        return messages_out


def test_16_the_documented_reasoning_context_erases_stored_thoughts(make, plane, shown):
    """Wrapped, it sends no thoughts and keeps them."""
    native = ReasoningModelContext()
    shown(native, [make.says("a", thought="hm")])
    assert make.finish(native.save_state())["messages"][0]["thought"] is None
    ours = ControlledContext(ReasoningModelContext(), control=plane)
    assert shown(ours, [make.says("a", thought="hm")])[-1].thought is None
    assert make.finish(ours.save_state())["messages"][0]["thought"] == "hm"


@pytest.mark.asyncio
async def test_19_an_image_result_floods_the_prompt(make, judge, plane, within):
    """An image a tool returns becomes thousands of characters of base64 that no model can see; ours says so instead."""
    picture = Image(Picture.effect_noise((100, 100), 90))

    class Camera(StaticWorkbench):
        def __init__(self):
            super().__init__([])

        async def list_tools(self):
            return [{"name": "list_artifacts", "description": "", "parameters": {"type": "object", "properties": {}}}]

        async def call_tool(self, name, arguments=None, cancellation_token=None, call_id=None):
            content = [TextResultContent(content="here"), ImageResultContent(content=picture)]
            return ToolResult(name=name, result=content, is_error=False)

    texts = []
    for workbench in (Camera(), GuardedWorkbench(Camera(), control=plane)):
        client = make.client(make.proposes(("1", "list_artifacts", {})), "done")
        agent = AssistantAgent("a", client, workbench=workbench, reflect_on_tool_use=True)
        await within(agent.run(task="look"))
        texts.append(judge.results_in(client.requests[1])[0][1])
    native, ours = texts
    assert len(native) > 5_000
    assert ours == "here\n[an image, which is not shown]"


def test_20_a_thought_is_not_counted(make, plane, gpt, shown):
    """The thought of a text answer is not in the native count; every thought is in the plane's, before the window."""
    thought = "because " * 500
    assert gpt.count_tokens([make.says("a", thought=thought)]) == gpt.count_tokens([make.says("a")])
    shown(ControlTokenLimitedChatCompletionContext(gpt, control=plane), [make.says("a", thought=thought)])
    assert plane.last_manifest.data_tokens >= plane.count(thought)


# -- rows that need two runs ----------------------------------------------------------------------


@pytest.mark.asyncio
async def test_18_a_cancel_inside_a_tool_breaks_every_later_prompt(make, judge, plane, within):
    """After a cancelled tool the native history holds a call without a result for good; ours answers it."""

    async def run(context, workbench_of):
        started = asyncio.Event()

        async def list_artifacts() -> str:
            """List."""
            started.set()
            await asyncio.sleep(60)
            return "never"

        client = make.client(make.proposes(("1", "list_artifacts", {})), "again")
        agent = AssistantAgent("a", client, model_context=context, **workbench_of(list_artifacts))
        running = asyncio.ensure_future(agent.run(task="go", cancellation_token=CancellationToken()))
        await within(started.wait())
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await within(running)
        await within(agent.run(task="go on"))
        return client.requests[1]

    native = await run(UnboundedChatCompletionContext(), lambda tool: {"tools": [tool]})
    assert judge.unpaired(native)[0] == ["1"]
    ours = await run(
        ControlUnboundedChatCompletionContext(control=plane),
        lambda tool: {"workbench": GuardedWorkbench([tool], control=plane)},
    )
    assert judge.unpaired(ours) == ([], [], [])
    assert judge.results_in(ours) == [("1", "No result was recorded for this call; its outcome is unknown.")]


def test_nothing_stored_changes(make, plane, gpt, shown):
    """Reading a context, however often, leaves its history as it was."""
    history = [make.system("s"), make.calls("1"), make.user("u"), make.results("1"), make.says("a ", thought="t")]
    before = copy.deepcopy(history)
    for ours in (
        ControlUnboundedChatCompletionContext(control=plane),
        ControlHeadAndTailChatCompletionContext(1, 1, control=plane),
        ControlBufferedChatCompletionContext(2, control=plane),
        ControlTokenLimitedChatCompletionContext(gpt, token_limit=20, control=plane),
        ControlledContext(UnboundedChatCompletionContext(), control=plane),
    ):
        shown(ours, history)
        shown(ours, [])
        assert history == before
        assert [type(each) for each in history[:1]] == [SystemMessage]
        assert isinstance(history[2], UserMessage)
