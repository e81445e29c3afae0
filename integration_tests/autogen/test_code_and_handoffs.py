"""Code, handoffs and agents that are tools: judged where they run, and nothing of them runs unseen."""

import asyncio
from pathlib import Path

import pytest
from autogen_agentchat.agents import AssistantAgent, CodeExecutorAgent
from autogen_agentchat.messages import HandoffMessage, ToolCallExecutionEvent
from autogen_agentchat.tools import AgentTool
from autogen_core import CancellationToken
from autogen_core.code_executor import CodeBlock, CodeExecutor, CodeResult
from autogen_ext.code_executors.local import LocalCommandLineCodeExecutor
from autogen_ext.tools.code_execution import PythonCodeExecutionTool
from pydantic import BaseModel

from carriage_autogen import (
    ControlUnboundedChatCompletionContext,
    GuardedCodeExecutor,
    GuardedWorkbench,
    guard_handoffs,
)
from carriage_core import ControlNotFoundError, MemorySink

# The executor says at each construction that it is not a sandbox.
pytestmark = pytest.mark.filterwarnings("ignore:Using LocalCommandLineCodeExecutor")

POLICIES = Path(__file__).with_name("policies_agents.yaml")


@pytest.fixture
def plane(make_plane):
    return make_plane(POLICIES, actor="boss")


class Spy(CodeExecutor):
    """Writes down what it is told to run."""

    component_config_schema = BaseModel

    def __init__(self, result=None, problem=None):
        self.ran, self.heard, self.result, self.problem = [], [], result, problem

    async def execute_code_blocks(self, code_blocks, cancellation_token):
        self.ran.append([(block.language, block.code) for block in code_blocks])
        if self.problem is not None:
            raise self.problem
        return self.result or CodeResult(exit_code=0, output="done")

    async def start(self):
        self.heard.append("start")

    async def stop(self):
        self.heard.append("stop")

    async def restart(self):
        self.heard.append("restart")


def outcomes(plane):
    return [entry.body["outcome"] for entry in plane.sink.entries if entry.kind == "outcome"]


# -- code -----------------------------------------------------------------------------------------


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("language", "code", "runs"),
    [
        ("python", "print(1)", True),
        ("Python ", "import socket", False),
        ("sh", "ls /tmp", True),
        ("bash", "rm -rf /tmp/x", False),
        ("sh", "python3 -c 'x'", False),
        ("sh", "$X /tmp", False),
        ("javascript", "1", False),
        ("", "print(1)", False),
    ],
)
async def test_each_language_is_judged_by_what_it_would_do(plane, language, code, runs):
    """Shell by its commands, Python by its binding, and a language nobody bound not at all."""
    spy = Spy()
    guarded = GuardedCodeExecutor(spy, control=plane)
    result = await guarded.execute_code_blocks([CodeBlock(code=code, language=language)], CancellationToken())
    assert spy.ran == ([[(language, code)]] if runs else [])
    assert (result.exit_code == 0) is runs
    assert result.output.startswith("POLICY_DENIED") is not runs


@pytest.mark.asyncio
async def test_one_refused_block_stops_all(plane):
    """AutoGen asks once for all blocks joined; here each is judged, before the first runs, and the log says so."""
    spy = Spy()
    blocks = [CodeBlock(code="print(1)", language="python"), CodeBlock(code="rm x", language="sh")]
    await GuardedCodeExecutor(spy, control=plane).execute_code_blocks(blocks, CancellationToken())
    assert spy.ran == []
    assert outcomes(plane) == ["not_started"]
    verdicts = [entry.body["verdict"] for entry in plane.sink.entries if entry.kind == "decision"]
    assert verdicts == ["allow", "deny"]


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("spy", "outcome"),
    [
        (Spy(CodeResult(exit_code=0, output="")), "executed"),
        (Spy(CodeResult(exit_code=2, output="")), "failed"),
        (Spy(problem=TimeoutError()), "outcome_unknown"),
        (Spy(problem=asyncio.CancelledError()), "outcome_unknown"),
    ],
)
async def test_what_became_of_the_code_is_in_the_log(plane, spy, outcome):
    """Errors of the executor pass through, and nobody claims to know what the code did."""
    guarded = GuardedCodeExecutor(spy, control=plane)
    run = guarded.execute_code_blocks([CodeBlock(code="print(1)", language="python")], CancellationToken())
    if spy.problem is None:
        await run
    else:
        with pytest.raises(type(spy.problem)):
            await run
    assert outcomes(plane) == [outcome]


@pytest.mark.asyncio
async def test_a_flood_of_output_is_cut(make_plane):
    """Output that would fill the window is cut before any agent stores it."""
    plane = make_plane(POLICIES, actor="boss", control_budget=2_000, window=8_000, reserved_output=0)
    spy = Spy(CodeResult(exit_code=0, output="x" * 1_000_000))
    result = await GuardedCodeExecutor(spy, control=plane).execute_code_blocks(
        [CodeBlock(code="print(1)", language="python")], CancellationToken()
    )
    assert len(result.output) <= 1_500
    assert result.output.endswith("[shortened: the rest of this result did not fit]")


@pytest.mark.asyncio
@pytest.mark.filterwarnings("ignore:No approval function")
async def test_an_agent_that_writes_code_is_told_why_it_did_not_run(make, plane, tmp_path, within):
    """CodeExecutorAgent with a real local executor: the denial is what it reflects on."""
    client = make.client(f"```sh\nrm -rf {tmp_path}\n```", "I may not.")
    (tmp_path / "keep").write_text("x")
    executor = GuardedCodeExecutor(LocalCommandLineCodeExecutor(work_dir=tmp_path / "w"), control=plane)
    context = ControlUnboundedChatCompletionContext(control=plane)
    # Which languages it knows by default differs between versions.
    agent = CodeExecutorAgent("boss", executor, model_client=client, model_context=context, supported_languages=["sh"])
    await within(agent.run(task="clean up"))
    assert (tmp_path / "keep").exists()
    assert "POLICY_DENIED" in client.requests[1][-1].content


@pytest.mark.asyncio
@pytest.mark.parametrize(("code", "output"), [("print(6*7)", "42"), ("import socket; print(6*7)", "POLICY_DENIED")])
async def test_a_tool_that_executes_code_is_covered_too(make_plane, tmp_path, within, code, output):
    """PythonCodeExecutionTool runs its executor on its own; the guard stands there."""
    plane = make_plane(POLICIES, actor="boss")
    tool = PythonCodeExecutionTool(GuardedCodeExecutor(LocalCommandLineCodeExecutor(work_dir=tmp_path), control=plane))
    result = await within(tool.run_json({"code": code}, CancellationToken()))
    assert output in result.output


@pytest.mark.asyncio
async def test_lifecycle_reaches_the_inner_executor(plane):
    """Start, restart and stop, also as a context manager."""
    spy = Spy()
    async with GuardedCodeExecutor(spy, control=plane) as guarded:
        await guarded.restart()
    assert spy.heard == ["start", "restart", "stop"]


def test_a_loaded_executor_is_guarded(plane, tmp_path):
    """Invariant 9."""
    config = GuardedCodeExecutor(LocalCommandLineCodeExecutor(work_dir=tmp_path), control=plane).dump_component()
    loaded = CodeExecutor.load_component(config)
    assert isinstance(loaded, GuardedCodeExecutor)
    assert isinstance(loaded.executor, LocalCommandLineCodeExecutor)
    config.config["control_reference"] = "sha256:" + "0" * 64
    with pytest.raises(ControlNotFoundError):
        CodeExecutor.load_component(config)


# -- handoffs -------------------------------------------------------------------------------------


def handing(client, plane, **more):
    agent = AssistantAgent("boss", client, handoffs=["root", "clerk"], **more)
    guard_handoffs(agent, plane)
    return agent


async def last_message(agent, within):
    return (await within(agent.run(task="go"))).messages[-1]


@pytest.mark.asyncio
async def test_an_allowed_handoff_hands_over(make, plane, within):
    """As without us, and on the record."""
    message = await last_message(handing(make.client(make.proposes(("1", "transfer_to_clerk", {}))), plane), within)
    assert isinstance(message, HandoffMessage)
    assert message.target == "clerk"
    assert message.content == "Transferred to clerk, adopting the role of clerk immediately."
    assert outcomes(plane) == ["executed"]


@pytest.mark.asyncio
async def test_a_denied_handoff_does_not_hand_over(make, plane, within):
    """AutoGen would hand over whatever the tool returned; the agent stays and reads why."""
    native = AssistantAgent("boss", make.client(make.proposes(("1", "transfer_to_root", {}))), handoffs=["root"])
    assert isinstance(await last_message(native, within), HandoffMessage)
    message = await last_message(handing(make.client(make.proposes(("1", "transfer_to_root", {}))), plane), within)
    assert not isinstance(message, HandoffMessage)
    assert message.content.startswith("POLICY_DENIED rule")


@pytest.mark.asyncio
async def test_a_refused_handoff_is_open_again_when_it_is_allowed(make, make_plane, within):
    """Refusal is of one call, not of the way."""
    plane = make_plane(POLICIES, actor="boss")
    client = make.client(make.proposes(("1", "transfer_to_root", {})), make.proposes(("2", "transfer_to_root", {})))
    agent = handing(client, plane)
    assert not isinstance(await last_message(agent, within), HandoffMessage)
    [policy] = [policy for policy in plane.registry.policies if policy.id == "no-way-to-root"]
    plane.withdraw(policy.identity, by=policy.issuer)
    assert isinstance(await last_message(agent, within), HandoffMessage)


@pytest.mark.asyncio
@pytest.mark.parametrize("arguments", ["[1]", '"x"', "null", "3", '{"nobody": "asked"}'])
async def test_arguments_of_a_handoff_cannot_hang_the_agent(make, plane, within, arguments):
    """Natively a list hangs it for good, for its exception ends no stream; here it is refused, in words."""
    message = await last_message(
        handing(make.client(make.proposes(("1", "transfer_to_clerk", arguments))), plane), within
    )
    assert "POLICY_DENIED" in message.content
    assert not isinstance(message, HandoffMessage)


class Failing(MemorySink):
    failing = False

    def write(self, entry):
        if self.failing:
            raise OSError("disk full")
        super().write(entry)


@pytest.mark.asyncio
async def test_a_handoff_that_cannot_be_recorded_does_not_happen(make, make_plane, within):
    """Invariant 11 for handoffs."""
    sink = Failing()
    plane = make_plane(POLICIES, actor="boss", sink=sink)
    agent = handing(make.client(make.proposes(("1", "transfer_to_clerk", {}))), plane)
    sink.failing = True
    assert not isinstance(await last_message(agent, within), HandoffMessage)


# -- agents that are tools ------------------------------------------------------------------------


@pytest.mark.asyncio
async def test_an_inner_agent_answers_for_the_one_that_called_it(make, make_plane, within):
    """A rule for the outer agent binds what the inner one does on its behalf, and evidence of who asked is kept."""
    plane, published = make_plane(POLICIES, actor="boss"), []

    def publish(page: str) -> str:
        """Publish a page."""
        published.append(page)
        return "ok"

    async def yes(question):
        return "dana"

    inner_plane = plane.delegate("writer")
    inner_client = make.client(
        make.proposes(("1", "publish", {"page": "secret"}), ("2", "publish", {"page": "home"})), "done"
    )
    writer = AssistantAgent(
        "writer",
        inner_client,
        workbench=GuardedWorkbench([publish], control=inner_plane, confirm=yes),
        reflect_on_tool_use=True,
    )
    from carriage_autogen.bindings import delegation  # noqa: PLC0415  # what `attach` ships

    plane.bind([delegation("writer", "writer")])
    boss = AssistantAgent(
        "boss",
        make.client(make.proposes(("9", "writer", {"task": "publish"}))),
        workbench=GuardedWorkbench([AgentTool(writer)], control=plane),
    )
    events = [event async for event in boss.run_stream(task="go")]
    assert published == ["home"]
    inner = [event for event in events if isinstance(event, ToolCallExecutionEvent) and event.source == "writer"]
    assert [result.is_error for result in inner[0].content] == [True, False]
    chains = {tuple(entry.body["chain"]) for entry in plane.sink.entries if entry.kind == "decision"}
    assert chains == {("boss",), ("boss", "writer")}
