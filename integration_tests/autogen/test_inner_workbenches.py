"""GuardedWorkbench over other workbenches and streaming tools: native behaviour behind the monitor."""

import asyncio
import inspect
from typing import Annotated

import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.messages import TextMessage, ToolCallExecutionEvent
from autogen_agentchat.tools import AgentTool
from autogen_core import CancellationToken
from autogen_core.tools import (
    BaseStreamTool,
    BaseTool,
    FunctionTool,
    StaticStreamWorkbench,
    StaticWorkbench,
    TextResultContent,
    ToolResult,
)
from pydantic import BaseModel, StringConstraints

from carriage_autogen import ControlBufferedChatCompletionContext, GuardedWorkbench
from carriage_core import ToolBindingError

DELETE = {"artifact_id": "build-1", "repo": "acme/payments"}
RENAMES = "tool_overrides" in inspect.signature(StaticWorkbench.__init__).parameters

inner_kinds = pytest.mark.parametrize("kind", [StaticWorkbench, StaticStreamWorkbench])


@pytest.fixture
def as_tools(tools):
    """The five tools as AutoGen's own workbenches take them."""
    return [FunctionTool(tool, description="d") for tool in tools]


@pytest.fixture
def agent_of(plane):
    def agent_of_(client, workbench, **more):
        return AssistantAgent(
            "release_bot",
            model_client=client,
            model_context=ControlBufferedChatCompletionContext(8, control=plane),
            workbench=workbench,
            **more,
        )

    return agent_of_


def outcomes(plane):
    return [entry.body["outcome"] for entry in plane.sink.entries if entry.kind == "outcome"]


async def listed(workbench):
    await workbench.list_tools()
    return workbench


@inner_kinds
@pytest.mark.asyncio
async def test_inner_tools_are_judged_too(kind, plane, as_tools, effects):
    """A workbench that exists already is guarded as it is: the denied call does not reach it, the allowed one does."""
    workbench = await listed(GuardedWorkbench(kind(as_tools), control=plane))
    denied = await workbench.call_tool("delete_artifact", DELETE, call_id="1")
    allowed = await workbench.call_tool("delete_artifact", DELETE | {"repo": "other/x"}, call_id="2")
    assert denied.to_text().startswith("POLICY_DENIED rule")
    assert not allowed.is_error
    assert effects.names == ["delete_artifact"]
    assert outcomes(plane) == ["executed"]


@inner_kinds
@pytest.mark.asyncio
async def test_text_of_an_inner_tool_is_no_evidence(kind, plane, as_tools, effects):
    """Another workbench gives text only; text that says 'succeeded' opens nothing."""
    workbench = await listed(GuardedWorkbench(kind(as_tools), control=plane))
    verified = await workbench.call_tool("verify_release", {"artifact_id": "build-1"}, call_id="1")
    assert "succeeded" in verified.to_text()
    assert (await workbench.call_tool("delete_artifact", DELETE, call_id="2")).is_error
    assert effects.names == ["verify_release"]


@inner_kinds
@pytest.mark.asyncio
async def test_inner_coercion_does_not_get_round_a_rule(kind, plane, effects):
    """What an inner tool would make of its arguments is judged, or the call denied; never one judged, another run."""

    class Stripped(BaseModel):
        artifact_id: str
        repo: Annotated[str, StringConstraints(strip_whitespace=True)]

    class Delete(BaseTool[Stripped, Deleted]):
        def __init__(self):
            super().__init__(Stripped, Deleted, "delete_artifact", "Delete.")

        async def run(self, args, cancellation_token):
            effects.note("delete_artifact", repo=args.repo)
            return Deleted(deleted=args.artifact_id)

    def pay(amount: int) -> str:
        """Pay."""
        effects.note("pay", amount=amount)
        return ""

    inner = kind([Delete(), FunctionTool(pay, description="d")])
    workbench = await listed(GuardedWorkbench(inner, control=plane))
    await workbench.call_tool("delete_artifact", DELETE | {"repo": " acme/payments"}, call_id="1")
    await workbench.call_tool("pay", {"amount": "7"}, call_id="2")
    assert effects.done == []


@pytest.mark.asyncio
async def test_several_inner_workbenches_are_one(make, plane, as_tools, effects, agent_of, within):
    """Each call goes to the workbench that lists the tool, through a real agent."""
    guarded = GuardedWorkbench([StaticWorkbench(as_tools[:2]), StaticStreamWorkbench(as_tools[2:])], control=plane)
    client = make.client(
        make.proposes(
            ("1", "delete_artifact", DELETE), ("2", "verify_release", {"artifact_id": "a"}), ("3", "pay", {"amount": 1})
        ),
        "done",
    )
    await within(agent_of(client, guarded, max_tool_iterations=2).run(task="go"))
    assert sorted(effects.names) == ["pay", "verify_release"]
    assert [result.is_error for result in client.requests[1][-1].content] == [True, False, False]


@pytest.mark.asyncio
async def test_two_workbenches_with_one_name_are_refused(make, plane, as_tools, agent_of, within):
    """AutoGen lets the first of two tools of one name win silently; here no model call is made."""
    guarded = GuardedWorkbench([StaticWorkbench(as_tools), StaticWorkbench(as_tools[:1])], control=plane)
    client = make.client("never")
    with pytest.raises(ToolBindingError, match="two tools are named 'delete_artifact'"):
        await within(agent_of(client, guarded).run(task="go"))
    assert client.requests == []


@pytest.mark.asyncio
async def test_tools_and_workbenches_stand_side_by_side(plane, tools, effects):
    """Both are listed, judged and run; a name that is in both is refused."""
    by_name = {tool.__name__: tool for tool in tools}
    inner = StaticWorkbench([FunctionTool(by_name["pay"], description="d")])
    workbench = GuardedWorkbench([by_name["list_artifacts"], inner], control=plane)
    assert [schema["name"] for schema in await workbench.list_tools()] == ["list_artifacts", "pay"]
    assert not (await workbench.call_tool("list_artifacts", {}, call_id="1")).is_error
    assert not (await workbench.call_tool("pay", {"amount": 1}, call_id="2")).is_error
    assert (await workbench.call_tool("pay", {"amount": 9}, call_id="3")).is_error
    assert effects.names == ["list_artifacts", "pay"]
    with pytest.raises(ToolBindingError, match="two tools are named 'pay'"):
        await GuardedWorkbench([by_name["pay"], inner], control=plane).list_tools()


@pytest.mark.asyncio
async def test_a_bound_argument_that_an_inner_tool_lacks_is_refused(plane):
    """Found at the first listing, before any model call."""

    def pay(money: int) -> str:
        """Pay."""
        return ""

    guarded = GuardedWorkbench(StaticWorkbench([FunctionTool(pay, description="d")]), control=plane)
    with pytest.raises(ToolBindingError, match=r"tools\.pay \(policy file line \d+\)"):
        await guarded.list_tools()


# -- listing that changes or fails ----------------------------------------------------------------


class Moody(StaticWorkbench):
    """A workbench whose list can fail or change while an agent runs, as an MCP server's can."""

    fault = None
    fails_after = None
    listings = 0

    async def list_tools(self):
        self.listings += 1
        if self.fault is not None or (self.fails_after is not None and self.listings > self.fails_after):
            raise self.fault or ConnectionError("server is gone")
        return await super().list_tools()


@pytest.mark.asyncio
async def test_a_listing_that_fails_later_denies_and_does_not_hang(make, plane, as_tools, effects, agent_of, within):
    """AutoGen lists again while it executes, and hangs on an exception there; the call is denied instead."""
    inner = Moody(as_tools)
    inner.fails_after = 1
    client = make.client(make.proposes(("1", "list_artifacts", {})), "done")
    result = await within(
        agent_of(client, GuardedWorkbench(inner, control=plane), max_tool_iterations=2).run(task="go")
    )
    [event] = [message for message in result.messages if isinstance(message, ToolCallExecutionEvent)]
    assert event.content[0].content.startswith("POLICY_DENIED internal_fault")
    assert "server is gone" not in event.content[0].content
    assert effects.done == []


@pytest.mark.asyncio
async def test_a_listing_that_recovers_allows_again(plane, as_tools, effects):
    """A moment without connection does not lock the agent out for good, and spends neither evidence nor call ids."""
    inner = Moody(as_tools)
    workbench = await listed(GuardedWorkbench(inner, control=plane))
    inner.fault = ConnectionError()
    await workbench.list_tools()
    assert (await workbench.call_tool("list_artifacts", {}, call_id="1")).is_error
    inner.fault = None
    await workbench.list_tools()
    assert not (await workbench.call_tool("list_artifacts", {}, call_id="1")).is_error
    assert effects.names == ["list_artifacts"]


@pytest.mark.asyncio
async def test_a_first_listing_that_fails_makes_no_call(make, plane, as_tools, agent_of, within):
    """An agent whose tools cannot be listed does not start."""
    inner = Moody(as_tools)
    inner.fault = ConnectionError("server is gone")
    client = make.client("never")
    with pytest.raises(ConnectionError):
        await within(agent_of(client, GuardedWorkbench(inner, control=plane)).run(task="go"))
    assert client.requests == []


@pytest.mark.asyncio
async def test_a_tool_that_changes_its_schema_is_denied(plane, as_tools, effects):
    """A server that swaps a tool under its name after the rules were checked gets no call through."""
    inner = StaticWorkbench(list(as_tools))
    workbench = await listed(GuardedWorkbench(inner, control=plane))

    def list_artifacts(everything: bool) -> str:
        """List, or so it says."""
        effects.note("swapped")
        return ""

    inner._tools[-1] = FunctionTool(list_artifacts, description="d")
    await workbench.list_tools()
    result = await workbench.call_tool("list_artifacts", {"everything": True}, call_id="1")
    assert result.to_text().startswith("POLICY_DENIED changed_schema")
    assert effects.done == []


@pytest.mark.asyncio
async def test_a_tool_that_appears_later_is_denied(plane, as_tools, effects):
    """A new tool that no rule knows is denied, and does not stop the others."""
    inner = StaticWorkbench(list(as_tools))
    workbench = await listed(GuardedWorkbench(inner, control=plane))

    def wipe_disk() -> str:
        """Wipe."""
        effects.note("wipe_disk")
        return ""

    inner._tools.append(FunctionTool(wipe_disk, description="d"))
    await workbench.list_tools()
    assert (await workbench.call_tool("wipe_disk", {}, call_id="1")).to_text().startswith("POLICY_DENIED unbound_tool")
    assert not (await workbench.call_tool("list_artifacts", {}, call_id="2")).is_error
    assert effects.names == ["list_artifacts"]


@pytest.mark.asyncio
async def test_an_unbound_inner_tool_is_named_at_first_listing(plane, effects):
    """Before the first model call, not in the middle of a run."""

    def wipe_disk() -> str:
        """Wipe."""
        return ""

    guarded = GuardedWorkbench(StaticWorkbench([FunctionTool(wipe_disk, description="d")]), control=plane)
    with pytest.warns(UserWarning, match=r"wipe_disk: \{action: none\}"):
        await guarded.list_tools()


@pytest.mark.asyncio
async def test_an_inner_workbench_that_raises_is_an_unknown_outcome(plane, as_tools, within):
    """Some workbenches raise from `call_tool`; the agent reads a result, and what was reserved stays spent."""

    class Raising(StaticWorkbench):
        async def call_tool(self, *args, **more):
            raise ConnectionError("lost in the middle")

    workbench = await listed(GuardedWorkbench(Raising(as_tools), control=plane))
    result = await within(workbench.call_tool("list_artifacts", {}, call_id="1"))
    assert result.is_error
    assert "outcome is unknown" in result.to_text()
    assert outcomes(plane) == ["outcome_unknown"]


@inner_kinds
@pytest.mark.asyncio
async def test_cancelling_an_inner_tool_does_not_hang(kind, plane, within):
    """The token reaches the inner tool; the result says the outcome is unknown."""
    begun = asyncio.Event()

    async def list_artifacts() -> str:
        """List."""
        begun.set()
        await asyncio.sleep(30)
        return ""

    workbench = await listed(GuardedWorkbench(kind([FunctionTool(list_artifacts, description="d")]), control=plane))
    token = CancellationToken()
    call = asyncio.create_task(workbench.call_tool("list_artifacts", {}, token, "1"))
    await within(begun.wait())
    token.cancel()
    assert "outcome is unknown" in (await within(call)).to_text()
    assert outcomes(plane) == ["outcome_unknown"]


# -- streams --------------------------------------------------------------------------------------


class Wanted(BaseModel):
    artifact_id: str
    repo: str


class Progress(BaseModel):
    percent: int


class Deleted(BaseModel):
    deleted: str


class StreamingDelete(BaseStreamTool[Wanted, Progress, Deleted]):
    """Deletes and tells how far it is."""

    def __init__(self, effects, *, breaks=False):
        super().__init__(Wanted, Deleted, "delete_artifact", "Delete a release artifact.")
        self._effects = effects
        self._breaks = breaks

    async def run(self, args, cancellation_token):
        self._effects.note("delete_artifact", artifact_id=args.artifact_id)
        return Deleted(deleted=args.artifact_id)

    async def run_stream(self, args, cancellation_token):
        self._effects.note("delete_artifact", artifact_id=args.artifact_id)
        yield Progress(percent=50)
        if self._breaks:
            raise OSError("half way")
        yield Progress(percent=100)
        yield Deleted(deleted=args.artifact_id)


streamed = pytest.mark.parametrize(
    "wrap", [lambda tool: [tool], lambda tool: StaticStreamWorkbench([tool])], ids=["tool", "inner"]
)


@streamed
@pytest.mark.asyncio
async def test_events_of_a_streaming_tool_pass_through(wrap, plane, effects):
    """A tool that streams is heard as it runs, then gives its one result; a denied one is not heard at all."""
    workbench = await listed(GuardedWorkbench(wrap(StreamingDelete(effects)), control=plane))
    denied = [event async for event in workbench.call_tool_stream("delete_artifact", DELETE, call_id="1")]
    assert [type(event).__name__ for event in denied] == ["ToolResult"]
    assert effects.done == []
    allowed = [
        event
        async for event in workbench.call_tool_stream("delete_artifact", DELETE | {"repo": "other/x"}, call_id="2")
    ]
    assert [event.percent for event in allowed if isinstance(event, Progress)] == [50, 100]
    assert isinstance(allowed[-1], ToolResult)
    assert not allowed[-1].is_error
    assert "build-1" in allowed[-1].to_text()
    assert effects.names == ["delete_artifact"]


@streamed
@pytest.mark.asyncio
async def test_a_stream_that_breaks_ends_in_an_error_result(wrap, plane, effects, within):
    """A fault half way is the model's to read; the log says it failed."""
    workbench = await listed(GuardedWorkbench(wrap(StreamingDelete(effects, breaks=True)), control=plane))
    result = await within(workbench.call_tool("delete_artifact", DELETE | {"repo": "other/x"}, call_id="1"))
    assert result.is_error
    assert "half way" in result.to_text()
    assert outcomes(plane) == ["failed"]


@pytest.mark.asyncio
async def test_a_stream_nobody_listens_to_has_an_unknown_outcome(plane, effects):
    """A consumer that stops half way leaves no open decision behind."""
    workbench = GuardedWorkbench([StreamingDelete(effects)], control=plane)
    stream = workbench.call_tool_stream("delete_artifact", DELETE | {"repo": "other/x"}, call_id="1")
    async for event in stream:
        assert event.percent == 50
        break
    await stream.aclose()
    assert outcomes(plane) == ["outcome_unknown"]


@streamed
@pytest.mark.asyncio
async def test_an_agent_as_a_tool_is_heard(wrap, make, plane, agent_of, within):
    """AgentTool streams its inner agent's messages through the guard into the outer run, as it does natively."""
    inner = AssistantAgent(
        "list_artifacts", model_client=make.client("there is build-1"), description="Lists artifacts."
    )
    client = make.client(make.proposes(("1", "list_artifacts", {"task": "look"})), "done")
    outer = agent_of(client, GuardedWorkbench(wrap(AgentTool(inner)), control=plane), max_tool_iterations=2)
    messages = [message async for message in outer.run_stream(task="go")]
    assert [
        message.content
        for message in messages
        if isinstance(message, TextMessage) and message.source == "list_artifacts"
    ] == ["there is build-1"]
    assert "there is build-1" in client.requests[1][-1].content[0].content


# -- renamed tools --------------------------------------------------------------------------------


@pytest.mark.skipif(not RENAMES, reason="this AutoGen has no tool overrides")
@inner_kinds
@pytest.mark.asyncio
async def test_a_renamed_tool_is_judged_by_the_name_the_model_uses(kind, plane, effects):
    """Rules bind the name that is offered; the tool behind it runs, also where AutoGen's stream would not find it."""
    from autogen_core.tools import ToolOverride  # noqa: PLC0415  # from 0.6.4 on

    def remove(artifact_id: str, repo: str) -> str:
        """Remove."""
        effects.note("remove", repo=repo)
        return "removed"

    inner = kind([FunctionTool(remove, description="d")], {"remove": ToolOverride(name="delete_artifact")})
    workbench = await listed(GuardedWorkbench(inner, control=plane))
    assert [schema["name"] for schema in await workbench.list_tools()] == ["delete_artifact"]
    assert (await workbench.call_tool("delete_artifact", DELETE, call_id="1")).is_error
    assert effects.done == []
    allowed = await workbench.call_tool("delete_artifact", DELETE | {"repo": "other/x"}, call_id="2")
    assert allowed.to_text() == "removed"
    hidden = await workbench.call_tool("remove", DELETE | {"repo": "other/x"}, call_id="3")
    assert hidden.is_error  # the name behind is not offered, so it is not bound
    assert effects.names == ["remove"]


# -- lifecycle ------------------------------------------------------------------------------------


@pytest.mark.asyncio
async def test_start_stop_reset_and_state_reach_the_inner_workbench(plane, as_tools):
    """What is guarded is started, stopped, reset, saved and loaded as if it stood alone."""
    heard = []

    class Keeping(StaticWorkbench):
        async def start(self):
            heard.append("start")

        async def stop(self):
            heard.append("stop")

        async def reset(self):
            heard.append("reset")

        async def save_state(self):
            return {"kept": len(heard)}

        async def load_state(self, state):
            heard.append(state["kept"])

    workbench = GuardedWorkbench([Keeping(as_tools[:2]), Keeping(as_tools[2:])], control=plane)
    async with workbench:
        await workbench.reset()
        state = await workbench.save_state()
        await workbench.load_state(state)
    assert heard == ["start", "start", "reset", "reset", 4, 4, "stop", "stop"]


@pytest.mark.asyncio
async def test_a_result_of_an_inner_tool_is_handed_on_whole(plane):
    """Images, several parts and the inner error flag are not flattened."""

    class Rich(StaticWorkbench):
        async def call_tool(self, name, *args, **more):
            return ToolResult(name=name, result=[TextResultContent(content="one"), TextResultContent(content="two")])

    def list_artifacts() -> str:
        """List."""
        return ""

    workbench = await listed(GuardedWorkbench(Rich([FunctionTool(list_artifacts, description="d")]), control=plane))
    result = await workbench.call_tool("list_artifacts", {}, call_id="1")
    assert [part.content for part in result.result] == ["one", "two"]
