"""Reports that AutoGen's users filed, each reproduced on the native classes where it still occurs, and closed in ours.

The numbers are those of the reports at microsoft/autogen.
"""

import asyncio

import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core import CancellationToken
from autogen_core.memory import ListMemory, MemoryContent, MemoryMimeType
from autogen_core.model_context import TokenLimitedChatCompletionContext, UnboundedChatCompletionContext
from autogen_core.models import SystemMessage
from autogen_core.tools import FunctionTool, StaticStreamWorkbench
from autogen_ext.models.anthropic import AnthropicChatCompletionClient
from autogen_ext.models.openai import OpenAIChatCompletionClient

from carriage_autogen import (
    ControlledChatCompletionClient,
    ControlTokenLimitedChatCompletionContext,
    ControlUnboundedChatCompletionContext,
    GuardedWorkbench,
    attach,
)
from carriage_core import verify_chain

INFO = {
    "vision": False,
    "function_calling": True,
    "json_output": False,
    "family": "unknown",
    "structured_output": False,
}


@pytest.fixture
def agent_for(make):
    def agent_for_(*answers, **more):
        client = make.client(*answers)
        return AssistantAgent("a", client, **more), client

    return agent_for_


@pytest.mark.asyncio
async def test_4894_a_tool_runs_before_anybody_could_approve_it(make, plane, tools, effects, agent_for, within):
    """Natively the model's call runs at once. Ours waits for a person, and tells the model so in plain words."""
    call = make.proposes(("1", "publish", {"page": "home"}))
    native, _ = agent_for(call, tools=tools)
    await within(native.run(task="go"))
    assert effects.names == ["publish"]
    effects.done.clear()
    ours, _ = agent_for(call, tools=tools)
    attach(ours, control=plane)
    answer = (await within(ours.run(task="go"))).messages[-1].content
    assert effects.names == []
    assert answer.startswith("POLICY_DENIED needs_approval")
    assert "approval by a person" in answer


@pytest.mark.asyncio
async def test_5891_an_approval_is_for_a_tool_and_not_for_the_call(make, plane, tools, effects, agent_for, within):
    """What is approved is one call with its arguments; the same tool with others is asked about again."""

    async def only_home(question):
        return "dana" if question.arguments == {"page": "home"} else None

    calls = [make.proposes((page, "publish", {"page": page})) for page in ("home", "payroll")]
    ours, _ = agent_for(*calls, "done", tools=tools, max_tool_iterations=3)
    attach(ours, control=plane, confirm=only_home)
    await within(ours.run(task="go"))
    assert [arguments for _, arguments, _ in effects.done] == [{"page": "home"}]


@pytest.mark.asyncio
async def test_7405_a_guard_on_one_entry_is_walked_around(make, plane, tools, effects, agent_for, within):
    """A guard in `call_tool` of a stream workbench is bypassed in silence; ours stands in every entry."""

    class Naive(StaticStreamWorkbench):
        async def call_tool(self, name, arguments=None, cancellation_token=None, call_id=None):
            raise AssertionError("never asked")

    as_tools = [FunctionTool(tool, description="d") for tool in tools]
    call = make.proposes(("1", "pay", {"amount": 9}))
    native, _ = agent_for(call, workbench=Naive(as_tools))
    await within(native.run(task="go"))
    assert effects.names == ["pay"]
    effects.done.clear()
    guarded = GuardedWorkbench(as_tools, control=plane)
    assert (await within(guarded.call_tool("pay", {"amount": 9}, call_id="1"))).is_error
    async for event in guarded.call_tool_stream("pay", {"amount": 9}, call_id="2"):
        assert event.is_error
    ours, _ = agent_for(call, workbench=guarded)
    await within(ours.run(task="go"))
    assert effects.names == []


@pytest.mark.asyncio
async def test_8008_what_nobody_allowed_runs(  # noqa: PLR0917  # fixtures
    make, make_plane, tools, effects, agent_for, policy_file, tmp_path, within
):
    """Deny by default: with it only what a rule permits runs, and a tool that nobody bound never does."""
    path = tmp_path / "policies.yaml"
    permit = """  - id: small-payments
    issuer: {kind: developer, name: policy-file}
    action: pay
    where: {attr: action.amount, le: 3}
    effect: permit
    text: Payments up to 3 dollars are fine.
"""
    text = policy_file.read_text().replace("default: allow", "default: deny")
    path.write_text(text.replace("policies:\n", f"policies:\n{permit}", 1))
    plane = make_plane(path)
    calls = [make.proposes((str(amount), "pay", {"amount": amount})) for amount in (3, 4)]
    ours, _ = agent_for(*calls, "done", tools=tools, max_tool_iterations=3)
    attach(ours, control=plane)
    await within(ours.run(task="go"))
    assert [arguments for _, arguments, _ in effects.done] == [{"amount": 3}]


def test_6789_the_middle_of_a_round_is_popped_and_the_provider_answers_400(make, judge, plane):
    """A call without its result is what providers refuse; ours never shows one."""
    client = OpenAIChatCompletionClient(model="gpt-4o", api_key="k")
    history = [make.user("TASK"), make.calls("1"), make.results("1"), make.calls("2"), make.results("2")]
    limit = client.count_tokens(history) - 1
    native = make.fill(TokenLimitedChatCompletionContext(client, token_limit=limit), history)
    ours = make.fill(ControlTokenLimitedChatCompletionContext(client, token_limit=limit, control=plane), history)
    assert judge.unpaired(make.finish(native.get_messages()))[0] == ["1"]
    assert judge.unpaired(make.finish(ours.get_messages())) == ([], [], [])


def test_7955_a_result_without_its_call_stands_in_the_middle(make, judge, plane):
    """Natively only an orphan at the very front is taken out."""
    client = OpenAIChatCompletionClient(model="gpt-4o", api_key="k")
    history = [
        make.user("TASK"),
        make.says("a"),
        make.user("b"),
        make.calls("1"),
        make.results("1"),
        make.says("c"),
    ]
    limit = client.count_tokens(history) - 1
    native = make.fill(TokenLimitedChatCompletionContext(client, token_limit=limit), history)
    ours = make.fill(ControlTokenLimitedChatCompletionContext(client, token_limit=limit, control=plane), history)
    assert judge.unpaired(make.finish(native.get_messages()))[2] == ["1"]
    assert judge.unpaired(make.finish(ours.get_messages())) == ([], [], [])


@pytest.mark.asyncio
async def test_7770_rules_are_suggestions_and_are_lost_on_reset(make, judge, plane, tools, effects, within):
    """A rule in the conversation is gone after a reset and stops nothing; ours is there again, and stops the call."""
    rule = SystemMessage(content="Never pay more than 5 dollars.")
    call = make.proposes(("1", "pay", {"amount": 9}))

    async def run(team_control):
        client = make.client("ok", call)
        context = UnboundedChatCompletionContext([rule])
        team = RoundRobinGroupChat([AssistantAgent("a", client, tools=tools, model_context=context)], max_turns=1)
        if team_control is not None:
            attach(team, control=team_control)
        await within(team.run(task="first"))
        await within(team.reset())
        await within(team.run(task="second"))
        return client.requests[1]

    native = await run(None)
    assert not any("Never pay" in str(message.content) for message in native)
    assert effects.names == ["pay"]
    effects.done.clear()
    ours = await run(plane)
    assert "pay-little" in judge.carried(ours)
    assert effects.names == []


class Sent(BaseException):
    """What would have left the process."""


@pytest.fixture
def unsent(monkeypatch):
    """Stop a real client where it would send."""

    def unsent_(client):
        async def send(*_, **sent):
            raise Sent(sent)

        if isinstance(client, AnthropicChatCompletionClient):
            monkeypatch.setattr(client._client.messages, "create", send)
        else:
            monkeypatch.setattr(client._client.chat.completions, "create", send)
        return client

    return unsent_


@pytest.mark.asyncio
async def test_7085_memory_makes_every_call_raise(make, plane, unsent, within):
    """Memory appends a system message; models that take one block then fail with ValueError. Ours sends it as data."""
    memory = ListMemory()
    await memory.add(MemoryContent(content="likes tea", mime_type=MemoryMimeType.TEXT))

    def agent():
        client = OpenAIChatCompletionClient(model="own", api_key="k", base_url="http://x", model_info=INFO)
        return AssistantAgent("a", unsent(client), memory=[memory])

    with pytest.raises(ValueError, match="Not continuous system messages"):
        await within(agent().run(task="go"))
    ours = agent()
    attach(ours, control=plane)
    with pytest.raises(Sent) as sent:
        await within(ours.run(task="go"))
    roles = [message["role"] for message in sent.value.args[0]["messages"]]
    assert roles == ["system", "user", "user"]
    assert "likes tea" in sent.value.args[0]["messages"][2]["content"]


@pytest.mark.asyncio
async def test_7956_a_cancelled_tool_hangs_the_agent(make, plane, agent_for, within):
    """An exception out of a workbench ends no stream: natively the agent waits for ever. Ours answers at once."""
    started = asyncio.Event()

    async def list_artifacts() -> str:
        """List."""
        started.set()
        await asyncio.sleep(60)
        return ""

    async def run(agent):
        started.clear()
        token = CancellationToken()
        running = asyncio.ensure_future(agent.run(task="go", cancellation_token=token))
        await within(started.wait())
        token.cancel()
        return await asyncio.wait_for(running, 1)

    call = make.proposes(("1", "list_artifacts", {}))
    native, _ = agent_for(call, tools=[list_artifacts])
    with pytest.raises(asyncio.TimeoutError):
        await run(native)
    ours, _ = agent_for(call, tools=[list_artifacts])
    attach(ours, control=plane)
    # AutoGen's `run` links the same token to its own work, which may end first.
    try:
        result = await run(ours)
        assert "outcome is unknown" in result.messages[-1].content
    except asyncio.CancelledError:
        pass


@pytest.mark.asyncio
@pytest.mark.parametrize("kind", ["anthropic", "gemini"])
async def test_6116_only_one_of_several_system_messages_is_obeyed(make, plane, unsent, within, kind):
    """Whatever the provider makes of several, it gets one, with all of them in it and the rules first."""
    client = (
        AnthropicChatCompletionClient(model="claude-3-5-sonnet-20241022", api_key="k")
        if kind == "anthropic"
        else OpenAIChatCompletionClient(model="gemini-1.5-pro", api_key="k")
    )
    call = [SystemMessage(content="one"), SystemMessage(content="two")]
    gate = ControlledChatCompletionClient(unsent(client), control=plane)
    with pytest.raises(Sent) as sent:
        await within(gate.create([*call, make.user("go")]))
    what = sent.value.args[0]
    text = what["system"] if kind == "anthropic" else what["messages"][0]["content"]
    assert text.startswith("=== CONTROL CAPSULE")
    assert text.endswith("=== END CONTROL CAPSULE ===\n\none\n\ntwo")


@pytest.mark.asyncio
async def test_7613_nobody_can_say_afterwards_what_was_in_force(make, plane, tools, agent_for, within):
    """Every call and every decision is an entry of a chain that a reader checks, with the rules it rests on."""
    ours, _ = agent_for(make.proposes(("1", "pay", {"amount": 9})), "done", tools=tools, max_tool_iterations=2)
    attach(ours, control=plane)
    await within(ours.run(task="go"))
    assert verify_chain([entry.as_json() for entry in plane.sink.entries]).intact
    [decision] = [entry.body for entry in plane.sink.entries if entry.kind == "decision"]
    assert (decision["verdict"], decision["policies"], decision["tool"]) == ("deny", ["pay-little"], "pay")
    assert len([entry for entry in plane.sink.entries if entry.body.get("outcome") == "assembled"]) >= 2


def test_nothing_native_was_lost_on_the_way(make, plane):
    """The control for all of the above: without pressure, ours shows what the native context shows."""
    history = [make.user("a"), make.calls("1"), make.results("1"), make.says("b")]
    ours = make.fill(ControlUnboundedChatCompletionContext(control=plane), history)
    assert make.finish(ours.get_messages())[1:] == history
