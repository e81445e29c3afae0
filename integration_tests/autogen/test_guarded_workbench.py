"""The reference monitor in front of AutoGen's tools: what must not run, what is written down, what never hangs."""

import asyncio
import threading
import time
from typing import Annotated

import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_core import CancellationToken
from autogen_core.tools import BaseTool, FunctionTool
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, SecretStr, StringConstraints

from carriage_autogen import ControlBufferedChatCompletionContext, GuardedWorkbench
from carriage_core import (
    CarriageError,
    ControlPlane,
    MemorySink,
    ToolBindingError,
    WhitespaceCounter,
    load_policy_file,
)

DELETE = {"artifact_id": "build-1", "repo": "acme/payments"}
VERIFY = {"artifact_id": "build-1"}


@pytest.fixture
def workbench(plane, tools):
    return GuardedWorkbench(tools, control=plane)


def bodies(plane, kind):
    return [entry.body for entry in plane.sink.entries if entry.kind == kind]


def one_decision_before(effect, call_id):
    """Whether exactly one allowed decision for that call was in the log when the tool ran."""
    tool, _, entries = effect
    made = [
        entry.body
        for entry in entries
        if entry.kind == "decision" and entry.body["tool"] == tool and entry.body["call_id"] == call_id
    ]
    return [body["verdict"] for body in made].count("allow") == 1


# -- denied, verified, once -----------------------------------------------------------------------


@pytest.mark.asyncio
async def test_a_denied_call_does_not_run(plane, workbench, effects):
    """An unverified deletion leaves no effect, one denial in the log, and a text that says so."""
    result = await workbench.call_tool("delete_artifact", DELETE, call_id="1")
    assert effects.done == []
    assert result.is_error
    assert result.name == "delete_artifact"
    assert result.to_text().startswith("POLICY_DENIED rule: Denied by policy verify-before-delete")
    assert "verify_release" in result.to_text()  # what would lift it
    assert [body["verdict"] for body in bodies(plane, "decision")] == ["deny"]
    assert bodies(plane, "outcome") == []


@pytest.mark.asyncio
async def test_evidence_opens_one_deletion_only(plane, workbench, effects):
    """Verify, delete, delete again: the second deletion has no evidence left."""
    texts = []
    for call_id, tool, arguments in (
        ("1", "verify_release", VERIFY),
        ("2", "delete_artifact", DELETE),
        ("3", "delete_artifact", DELETE),
        ("4", "verify_release", {"artifact_id": "build-2"}),
        ("5", "delete_artifact", DELETE),
    ):
        texts.append((await workbench.call_tool(tool, arguments, call_id=call_id)).to_text())
    assert effects.names == ["verify_release", "delete_artifact", "verify_release"]
    assert [text.startswith("POLICY_DENIED") for text in texts] == [False, False, True, False, True]
    assert one_decision_before(effects.done[1], "2")
    [outcome] = [
        body for body in bodies(plane, "outcome") if body["decision"] == bodies(plane, "decision")[1]["decision"]
    ]
    assert outcome["outcome"] == "executed"


@pytest.mark.asyncio
async def test_failed_verification_opens_nothing(plane, make_tools, effects):
    """Evidence that says 'failed' is no permission, whatever text the model saw."""
    workbench = GuardedWorkbench(make_tools(effects, status="failed"), control=plane)
    await workbench.call_tool("verify_release", VERIFY, call_id="1")
    assert (await workbench.call_tool("delete_artifact", DELETE, call_id="2")).is_error
    assert effects.names == ["verify_release"]


@pytest.mark.asyncio
async def test_a_verification_that_raises_takes_the_old_evidence_back(plane, effects, tools):
    """What was verified before is not known to hold once the verification fails."""
    broken = False

    def verify_release(artifact_id: str) -> dict:
        """Run verification Z."""
        if broken:
            raise OSError("scanner is down")
        return {"status": "succeeded"}

    workbench = GuardedWorkbench([tools[0], verify_release], control=plane)
    await workbench.call_tool("verify_release", VERIFY, call_id="1")
    broken = True
    result = await workbench.call_tool("verify_release", VERIFY, call_id="2")
    assert (result.is_error, "scanner is down" in result.to_text()) == (True, True)
    assert (await workbench.call_tool("delete_artifact", DELETE, call_id="3")).is_error
    assert effects.names == []
    assert [body["outcome"] for body in bodies(plane, "outcome")] == ["executed", "failed"]


class Report(BaseModel):
    """What a verification returns as a model."""

    status: str


@pytest.mark.parametrize(
    ("returned", "opens"),
    [(Report(status="succeeded"), True), ('{"status": "succeeded"}', False), ("succeeded", False), (None, False)],
)
@pytest.mark.asyncio
async def test_only_a_structured_result_is_evidence(plane, effects, tools, returned, opens):
    """A model counts as the mapping it is; text that looks like one does not count."""

    def verify_release(artifact_id: str) -> object:
        """Run verification Z."""
        return returned

    workbench = GuardedWorkbench([tools[0], verify_release], control=plane)
    await workbench.call_tool("verify_release", VERIFY, call_id="1")
    await workbench.call_tool("delete_artifact", DELETE, call_id="2")
    assert effects.names == ["delete_artifact"] * opens


@pytest.mark.asyncio
async def test_a_call_id_runs_once(workbench, effects):
    """A replayed call is denied even where the rule would allow it again."""
    await workbench.call_tool("list_artifacts", {}, call_id="same")
    again = await workbench.call_tool("list_artifacts", {}, call_id="same")
    assert effects.names == ["list_artifacts"]
    assert again.to_text().startswith("POLICY_DENIED replayed_call")


@pytest.mark.asyncio
async def test_parallel_calls_share_one_use_of_evidence(plane, workbench, effects):
    """Five deletions at once on one verification: exactly one runs."""
    await workbench.call_tool("verify_release", VERIFY, call_id="v")
    results = await asyncio.gather(
        *(workbench.call_tool("delete_artifact", DELETE, call_id=f"d{number}") for number in range(5))
    )
    assert effects.names.count("delete_artifact") == 1
    assert sorted(result.is_error for result in results) == [False, True, True, True, True]


@pytest.mark.asyncio
async def test_parallel_calls_of_an_agent_share_one_use_of_evidence(make, plane, workbench, effects, within):
    """The same through a real agent's gather, in one model answer."""
    client = make.client(
        make.proposes(("v", "verify_release", VERIFY)),
        make.proposes(*((f"d{number}", "delete_artifact", DELETE) for number in range(3))),
        "done",
    )
    agent = AssistantAgent(
        "release_bot",
        model_client=client,
        max_tool_iterations=3,
        model_context=ControlBufferedChatCompletionContext(6, control=plane),
        workbench=workbench,
    )
    result = await within(agent.run(task="clean up"))
    assert effects.names == ["verify_release", "delete_artifact"]
    assert result.messages[-1].content == "done"
    assert one_decision_before(
        effects.done[1], next(call for call in ("d0", "d1", "d2") if one_decision_before(effects.done[1], call))
    )


@pytest.mark.asyncio
async def test_another_actors_evidence_opens_nothing(plane, tools, effects):
    """What one agent verified does not let another delete."""
    clerk = GuardedWorkbench(tools, control=plane.as_actor("clerk"))
    bot = GuardedWorkbench(tools, control=plane)
    await clerk.call_tool("verify_release", VERIFY, call_id="1")
    assert (await bot.call_tool("delete_artifact", DELETE, call_id="2")).is_error
    assert effects.names == ["verify_release"]


# -- the call judged is the call executed ---------------------------------------------------------


@pytest.mark.asyncio
async def test_coerced_arguments_are_judged_and_run_alike(plane, workbench, effects):
    """'7' is judged as 7 and denied; '3' is judged as 3 and 3 is what runs."""
    seven = await workbench.call_tool("pay", {"amount": "7"}, call_id="1")
    three = await workbench.call_tool("pay", {"amount": "3"}, call_id="2")
    assert "action.amount = 7" in seven.to_text()
    assert three.to_text() == "paid 3"
    assert [(tool, arguments) for tool, arguments, _ in effects.done] == [("pay", {"amount": 3})]
    assert plane.check("pay", {"amount": 3}).argument_digest == bodies(plane, "decision")[1]["arguments"]


@pytest.mark.parametrize(
    "arguments",
    [
        {"amount": 3, "note": "undeclared"},
        {"amount": float("nan")},
        {"amount": "\ud800"},
        {"amount": {}},
        {},
        [3],
        "amount",
        3,
    ],
)
@pytest.mark.asyncio
async def test_arguments_that_cannot_be_judged_do_not_run(workbench, effects, arguments):
    """Undeclared keys, NaN, lone surrogates, wrong types and things that are no object are errors without effect."""
    result = await workbench.call_tool("pay", arguments, call_id="1")
    assert result.is_error
    assert "not executed" in result.to_text()
    assert effects.done == []


@pytest.mark.asyncio
async def test_a_refused_schema_spends_no_evidence(plane, effects, tools):
    """A call that does not fit the schema is not started, so its evidence and its call id stay good."""
    workbench = GuardedWorkbench(tools, control=plane)
    await workbench.call_tool("verify_release", VERIFY, call_id="1")
    misfit = await workbench.call_tool("delete_artifact", {"artifact_id": "build-1"}, call_id="2")
    assert (misfit.is_error, effects.names) == (True, ["verify_release"])
    await workbench.call_tool("delete_artifact", DELETE, call_id="2")
    assert effects.names == ["verify_release", "delete_artifact"]


class Aliased(BaseModel):
    artifact_id: Annotated[str, StringConstraints(strip_whitespace=True)] = Field(alias="artifactId")
    repo: Annotated[str, StringConstraints(strip_whitespace=True)] = Field(default="acme/payments", alias="repository")


class Done(BaseModel):
    status: str


ALIASED = """
carriage: 1
default: allow
tools:
  wipe:
    action: delete
    object: {type: release_artifact, id: artifactId, repository: repository}
policies:
  - id: keep-acme
    issuer: {kind: organization, name: platform-security}
    version: 1
    action: delete
    object: {type: release_artifact, repository: {glob: "acme/*"}}
    effect: deny
    text: Never delete artifacts of acme.
"""


@pytest.mark.asyncio
async def test_an_alias_does_not_hide_coercion_from_the_monitor(make_plane, tmp_path):
    """Blanks that the tool strips are stripped before judgement too, also where arguments have aliases."""
    file = tmp_path / "policies.yaml"
    file.write_text(ALIASED)
    ran = []

    class Wipe(BaseTool[Aliased, Done]):
        def __init__(self):
            super().__init__(Aliased, Done, "wipe", "Wipe an artifact.")

        async def run(self, args, cancellation_token):
            ran.append((args.artifact_id, args.repo))
            return Done(status="gone")

    workbench = GuardedWorkbench([Wipe()], control=make_plane(file))
    for number, repository in enumerate([" acme/payments", "acme/payments", None]):
        arguments = {"artifactId": " build-1 "} | ({} if repository is None else {"repository": repository})
        assert (await workbench.call_tool("wipe", arguments, call_id=str(number))).is_error
    assert ran == []
    await workbench.call_tool("wipe", {"artifactId": "build-1 ", "repository": " other/x "}, call_id="9")
    assert ran == [("build-1", "other/x")]


@pytest.mark.asyncio
async def test_a_mask_is_never_executed_as_a_secret(plane):
    """An argument type that does not survive validation twice, such as a secret, is refused instead of run masked."""
    ran = []

    class Login(BaseModel):
        password: SecretStr

    class Listing(BaseTool[Login, Done]):
        def __init__(self):
            super().__init__(Login, Done, "list_artifacts", "List with a password.")

        async def run(self, args, cancellation_token):
            ran.append(args.password.get_secret_value())
            return Done(status="ok")

    result = await GuardedWorkbench([Listing()], control=plane).call_tool(
        "list_artifacts", {"password": "pw"}, call_id="1"
    )
    assert ran in ([], ["pw"])
    assert result.is_error is (ran == [])


# -- faults deny, never raise, never hang ---------------------------------------------------------


@pytest.mark.asyncio
async def test_a_fault_of_the_monitor_denies(monkeypatch, plane, workbench, effects):
    """If deciding itself raises, the call is refused and the agent gets a result to read."""

    def broken(*_, **__):
        raise RuntimeError("boom")

    monkeypatch.setattr(plane, "authorize", broken)
    result = await workbench.call_tool("list_artifacts", {}, call_id="1")
    assert result.to_text().startswith("POLICY_DENIED internal_fault")
    assert "boom" not in result.to_text()
    assert effects.done == []


@pytest.mark.asyncio
async def test_a_fault_inside_the_judgement_denies(monkeypatch, workbench, effects):
    """A bug in the evaluation of conditions is a denial, recorded like any other."""
    from carriage_core import monitor  # noqa: PLC0415  # the fault is put in where it would be

    def broken(*_, **__):
        raise ZeroDivisionError

    monkeypatch.setattr(monitor, "a_star", broken)
    result = await workbench.call_tool("delete_artifact", DELETE, call_id="1")
    assert result.to_text().startswith("POLICY_DENIED internal_fault")
    assert effects.done == []


class Fading(MemorySink):
    """A log that stops taking one kind of entry."""

    refused = ""

    def write(self, entry):
        if entry.kind == self.refused:
            raise OSError("no space left")
        super().write(entry)


@pytest.fixture
def fading(make_plane, make_tools, make_effects):
    """A plane, a workbench on it, and what its tools did, over a log that can be made to fail."""
    sink = Fading()
    plane, effects = make_plane(sink=sink), make_effects(sink)
    return sink, plane, GuardedWorkbench(make_tools(effects), control=plane), effects


@pytest.mark.asyncio
async def test_what_cannot_be_recorded_does_not_run(fading):
    """A log that cannot take the decision denies it; the evidence is not spent."""
    sink, _, workbench, effects = fading
    await workbench.call_tool("verify_release", VERIFY, call_id="1")
    sink.refused = "decision"
    result = await workbench.call_tool("delete_artifact", DELETE, call_id="2")
    assert result.to_text().startswith("POLICY_DENIED sink_fault")
    assert effects.names == ["verify_release"]
    sink.refused = ""
    await workbench.call_tool("delete_artifact", DELETE, call_id="2")
    assert effects.names == ["verify_release", "delete_artifact"]


@pytest.mark.asyncio
async def test_an_outcome_that_cannot_be_recorded_is_reported(make, fading, within):
    """The tool ran and the log failed afterwards: the agent is told the outcome is unknown, and does not hang."""
    sink, plane, workbench, effects = fading
    sink.refused = "outcome"
    client = make.client(make.proposes(("1", "list_artifacts", {})), "done")
    agent = AssistantAgent(
        "release_bot",
        model_client=client,
        max_tool_iterations=2,
        model_context=ControlBufferedChatCompletionContext(6, control=plane),
        workbench=workbench,
    )
    await within(agent.run(task="look"))
    assert effects.names == ["list_artifacts"]
    [result] = client.requests[1][-1].content
    assert result.is_error
    assert "SinkError" in result.content
    assert "outcome is unknown" in result.content


@pytest.mark.asyncio
async def test_evidence_that_no_log_entry_names_opens_nothing(fading):
    """If the entry that files the evidence cannot be written, the evidence does not count."""
    sink, _, workbench, effects = fading
    sink.refused = "outcome"
    await workbench.call_tool("verify_release", VERIFY, call_id="1")
    sink.refused = ""
    assert (await workbench.call_tool("delete_artifact", DELETE, call_id="2")).is_error
    assert effects.names == ["verify_release"]


@pytest.mark.asyncio
async def test_a_tool_that_raises_is_an_error_result(plane, within):
    """As with the native workbench, the model reads the tool's error."""

    def list_artifacts() -> str:
        """List artifacts."""
        raise OSError("registry is down")

    result = await within(
        GuardedWorkbench([list_artifacts], control=plane).call_tool("list_artifacts", {}, call_id="1")
    )
    assert (result.is_error, result.to_text()) == (True, "registry is down")
    assert [body["outcome"] for body in bodies(plane, "outcome")] == ["failed"]


@pytest.mark.asyncio
async def test_a_value_that_has_no_text_does_not_hang(plane, within):
    """A fault after the tool ran, while its value is turned into text, is reported as an unknown outcome."""

    class Mute(FunctionTool):
        spoken = 0

        def return_value_as_string(self, value):
            self.spoken += 1
            if self.spoken == 1:
                return "for the event log"  # `run_json` itself asks first
            raise ValueError

    tool = Mute(lambda: 1, description="List artifacts.", name="list_artifacts")
    result = await within(GuardedWorkbench([tool], control=plane).call_tool("list_artifacts", {}, call_id="1"))
    assert result.is_error
    assert "outcome is unknown" in result.to_text()
    assert [body["outcome"] for body in bodies(plane, "outcome")] == ["outcome_unknown"]


# -- cancellation ---------------------------------------------------------------------------------


@pytest.fixture
def slow(plane):
    """A workbench whose deletion takes long, in a thread that cannot be stopped."""
    begun, release = threading.Event(), threading.Event()

    def delete_artifact(artifact_id: str, repo: str) -> dict:
        """Delete a release artifact."""
        begun.set()
        release.wait(10)
        return {}

    def verify_release(artifact_id: str) -> dict:
        """Run verification Z."""
        return {"status": "succeeded"}

    return GuardedWorkbench([delete_artifact, verify_release], control=plane), begun, release


async def until(event):
    """Wait for an event that a tool's thread sets."""
    assert await asyncio.to_thread(event.wait, 10)


@pytest.mark.asyncio
async def test_a_cancelled_tool_has_an_unknown_outcome(plane, slow, within):
    """After `token.cancel()` the result says the outcome is unknown, and the evidence stays spent."""
    workbench, begun, release = slow
    await workbench.call_tool("verify_release", VERIFY, call_id="1")
    token = CancellationToken()
    call = asyncio.create_task(workbench.call_tool("delete_artifact", DELETE, token, "2"))
    await within(until(begun))
    token.cancel()
    result = await within(call)
    release.set()  # the thread goes on to its end, unheard
    assert result.is_error
    assert result.to_text() == "The call was cancelled; its outcome is unknown."
    assert bodies(plane, "outcome")[-1]["outcome"] == "outcome_unknown"
    again = await workbench.call_tool("delete_artifact", DELETE, call_id="3")
    assert again.to_text().startswith("POLICY_DENIED rule")


@pytest.mark.asyncio
async def test_an_agent_survives_a_cancelled_tool(make, plane, slow, within):
    """`token.cancel()` inside a tool ends the run; it does not leave it waiting for an end that never comes."""
    workbench, begun, release = slow
    token = CancellationToken()
    client = make.client(
        make.proposes(("1", "verify_release", VERIFY)), make.proposes(("2", "delete_artifact", DELETE)), "stopped"
    )
    agent = AssistantAgent(
        "release_bot",
        model_client=client,
        max_tool_iterations=3,
        model_context=ControlBufferedChatCompletionContext(6, control=plane),
        workbench=workbench,
    )
    run = asyncio.create_task(agent.run(task="clean up", cancellation_token=token))
    await within(until(begun))
    token.cancel()
    result = await within(run)
    release.set()
    assert result.messages[-1].content == "stopped"
    assert "outcome is unknown" in client.requests[-1][-1].content[0].content


@pytest.mark.parametrize("log_fails", [False, True])
@pytest.mark.asyncio
async def test_cancelling_the_caller_is_not_swallowed(make_plane, within, log_fails):
    """The caller's own cancellation goes on as such, also if the log fails at that moment; the outcome is unknown."""
    sink = Fading()
    plane = make_plane(sink=sink)
    begun = asyncio.Event()

    async def list_artifacts() -> str:
        """List artifacts."""
        begun.set()
        await asyncio.sleep(30)
        return ""

    task = asyncio.create_task(
        GuardedWorkbench([list_artifacts], control=plane).call_tool("list_artifacts", {}, call_id="1")
    )
    await within(begun.wait())
    if log_fails:
        sink.refused = "outcome"
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await within(task)
    assert [body["outcome"] for body in bodies(plane, "outcome")] == ([] if log_fails else ["outcome_unknown"])


@pytest.mark.asyncio
async def test_a_timeout_around_a_call_is_a_timeout(plane, within):
    """`asyncio.timeout` works as around any other coroutine."""

    async def list_artifacts() -> str:
        """List artifacts."""
        await asyncio.sleep(30)
        return ""

    workbench = GuardedWorkbench([list_artifacts], control=plane)
    begin = time.monotonic()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await workbench.call_tool("list_artifacts", {}, call_id="1")
    assert time.monotonic() - begin < 10


@pytest.mark.asyncio
async def test_a_token_cancelled_before_the_call_runs_nothing(plane, workbench, effects, within):
    """A run that was stopped starts no more tools."""
    token = CancellationToken()
    token.cancel()
    result = await within(workbench.call_tool("list_artifacts", {}, token, "1"))
    assert result.is_error
    assert effects.done == []


# -- approvals ------------------------------------------------------------------------------------


@pytest.mark.asyncio
async def test_a_call_that_needs_a_person_waits_for_one(plane, workbench, effects):
    """Denied until approved; then this very call runs, once."""
    waiting = await workbench.call_tool("publish", {"page": "index"}, call_id="1")
    assert waiting.to_text().startswith("POLICY_DENIED needs_approval")
    assert "approval by a person" in waiting.to_text()
    plane.approve("publish", {"page": "index"}, by="ana", call_id="1")
    assert (await workbench.call_tool("publish", {"page": "index"}, call_id="1")).to_text() == "published index"
    assert (await workbench.call_tool("publish", {"page": "index"}, call_id="1")).is_error
    assert effects.names == ["publish"]


@pytest.mark.parametrize(("page", "call_id"), [("other", "1"), ("index", "2"), ("index", None)])
@pytest.mark.asyncio
async def test_an_approval_fits_no_other_call(plane, workbench, effects, page, call_id):
    """Other arguments or another call id: the approval does not apply."""
    plane.approve("publish", {"page": "index"}, by="ana", call_id="1")
    assert (await workbench.call_tool("publish", {"page": page}, call_id=call_id)).is_error
    assert effects.done == []


@pytest.mark.asyncio
async def test_an_approval_fits_no_other_agent(plane, tools, effects):
    """What was approved for one agent does not run for another."""
    plane.approve("publish", {"page": "index"}, by="ana", call_id="1")
    clerk = GuardedWorkbench(tools, control=plane.as_actor("clerk"))
    assert (await clerk.call_tool("publish", {"page": "index"}, call_id="1")).is_error
    assert effects.done == []


def test_a_denied_call_cannot_be_approved(plane):
    """A person can confirm what waits for a person, not what a rule denies."""
    with pytest.raises(CarriageError, match="does not wait for an approval"):
        plane.approve("delete_artifact", DELETE, by="ana", call_id="1")


# -- start-up -------------------------------------------------------------------------------------


def test_two_tools_of_one_name_are_refused(plane, tools):
    """The second could be called where the first was judged."""
    with pytest.raises(ToolBindingError, match="two tools are named 'pay'"):
        GuardedWorkbench([*tools, FunctionTool(lambda: None, description="another", name="pay")], control=plane)


def test_a_binding_that_names_no_argument_is_refused_with_its_line(plane, policy_file):
    """A rule on an argument that the tool does not have would never bind; the message names tool, argument and line."""

    def pay(sum_of_money: int) -> str:
        """Pay."""
        return ""

    line = 1 + policy_file.read_text().splitlines().index("  pay:")
    with pytest.raises(
        ToolBindingError, match=r"tools\.pay \(policy file line (\d+)\) names the argument 'amount'"
    ) as raised:
        GuardedWorkbench([pay], control=plane)
    assert abs(int(str(raised.value).split("line ")[1].split(")")[0]) - line) <= 1


@pytest.mark.asyncio
async def test_an_unbound_tool_is_named_at_the_start_and_denied(plane, tools, effects):
    """A tool no rule knows is reported when the agent is built, with the line to add, and never runs."""

    def wipe_disk() -> str:
        """Wipe the disk."""
        effects.note("wipe_disk")
        return ""

    with pytest.warns(UserWarning, match=r"wipe_disk: \{action: none\}"):
        workbench = GuardedWorkbench([*tools, wipe_disk], control=plane)
    result = await workbench.call_tool("wipe_disk", {}, call_id="1")
    assert result.to_text().startswith("POLICY_DENIED unbound_tool")
    assert effects.done == []


@pytest.mark.asyncio
async def test_a_tool_that_is_not_there_is_denied(workbench, within):
    """A name the model made up is a result, bound or not."""
    for number, name in enumerate(["nowhere", ""]):
        assert (await within(workbench.call_tool(name, {}, call_id=str(number)))).is_error


@pytest.mark.asyncio
async def test_a_bound_tool_that_this_agent_lacks_does_not_run(plane, tools, effects):
    """A tool the rules know and the agent does not have is not found, and its call id is not used up."""
    workbench = GuardedWorkbench([tools[0]], control=plane)
    result = await workbench.call_tool("list_artifacts", {}, call_id="1")
    assert result.is_error
    assert bodies(plane, "outcome")[-1]["outcome"] == "not_started"


@pytest.mark.parametrize("wrong", [[3], ["text"], [None]])
def test_what_is_no_tool_is_refused(plane, wrong):
    """A mistake in the list is an error when the agent is built."""
    with pytest.raises(TypeError, match="neither a tool nor a workbench"):
        GuardedWorkbench(wrong, control=plane)


# -- invariant 10 ---------------------------------------------------------------------------------

artifacts = st.sampled_from(["a", "b"])
proposals = st.lists(
    st.one_of(
        st.tuples(st.just("verify_release"), st.fixed_dictionaries({"artifact_id": artifacts | st.just("bad")})),
        st.tuples(
            st.just("delete_artifact"),
            st.fixed_dictionaries(
                {"artifact_id": artifacts | st.just("bad"), "repo": st.sampled_from(["acme/x", "other/x"])}
            ),
        ),
        st.tuples(st.just("pay"), st.fixed_dictionaries({"amount": st.sampled_from([1, "5", 5.0, 6, "7", "x", None])})),
        st.tuples(st.just("publish"), st.fixed_dictionaries({"page": artifacts})),
        st.tuples(st.just("approve"), st.fixed_dictionaries({"page": artifacts})),
        st.tuples(st.just("list_artifacts"), st.sampled_from([{}, {"more": 1}])),
        st.tuples(st.just("nowhere"), st.just({})),
    ).flatmap(lambda call: st.tuples(st.just(call), st.sampled_from(["", "1", "2", "3"]))),
    max_size=8,
)


@pytest.fixture(scope="session")
def registry(policy_file):
    return load_policy_file(policy_file)


class Rules:
    """A small model of the rules in the policy file, which shares no code with the monitor."""

    def __init__(self):
        self.verified, self.approved, self.used = set(), set(), set()

    def approve(self, page, call_id):
        """Whether a person can approve that call now."""
        if (page, call_id) in self.approved or (call_id and call_id in self.used):
            return False
        self.approved.add((page, call_id))
        return True

    def run(self, tool, arguments, call_id):
        """The effect that a call has, None if it must have none."""
        if tool == "nowhere" or "more" in arguments or (call_id and call_id in self.used):
            return None
        match tool, arguments:
            case "delete_artifact", {"artifact_id": artifact, "repo": "acme/x"}:
                if artifact not in self.verified:
                    return None
                self.verified.discard(artifact)
            case "verify_release", {"artifact_id": artifact}:
                (self.verified.discard if artifact == "bad" else self.verified.add)(artifact)
            case "pay", {"amount": amount}:
                if amount not in {1, "5", 5.0}:
                    return None
                arguments = {"amount": int(amount)}
            case "publish", {"page": page}:
                if (page, call_id) not in self.approved:
                    return None
                self.approved.discard((page, call_id))
        self.used.add(call_id)
        return tool, arguments


@pytest.fixture(scope="session")
def quick_tools():
    """The five tools as coroutines that never wait, made once; they note their effects where they are told to."""
    noted = []

    async def delete_artifact(artifact_id: str, repo: str) -> dict:
        noted[-1].note("delete_artifact", artifact_id=artifact_id, repo=repo)
        return {}

    async def verify_release(artifact_id: str) -> dict:
        noted[-1].note("verify_release", artifact_id=artifact_id)
        return {"status": "failed" if artifact_id == "bad" else "succeeded"}

    async def publish(page: str) -> str:
        noted[-1].note("publish", page=page)
        return page

    async def pay(amount: int) -> str:
        noted[-1].note("pay", amount=amount)
        return ""

    async def list_artifacts() -> str:
        noted[-1].note("list_artifacts")
        return ""

    functions = [delete_artifact, verify_release, publish, pay, list_artifacts]
    made = [FunctionTool(each, description="d") for each in functions]

    def quick_tools_(effects):
        noted[:] = [effects]
        return made

    return quick_tools_


@given(proposals=proposals)
def test_every_effect_has_one_decision_and_only_what_the_rules_allow_runs(
    registry, make_effects, quick_tools, proposals
):
    """Counted from effects the tools wrote down, and compared with a model of the rules."""
    plane = ControlPlane(registry, actor="release-bot", tenant="acme", counter=WhitespaceCounter())
    effects, rules, expected = make_effects(plane.sink), Rules(), []
    workbench = GuardedWorkbench(quick_tools(effects), control=plane)

    async def run():
        for (tool, arguments), call_id in proposals:
            if tool == "approve":
                if rules.approve(arguments["page"], call_id):
                    plane.approve("publish", arguments, by="ana", call_id=call_id or None)
                continue
            result = await workbench.call_tool(tool, arguments, call_id=call_id)
            effect = rules.run(tool, arguments, call_id)
            assert result.is_error is (effect is None)
            expected.extend([] if effect is None else [effect])
            assert len(effects.done) == len(expected)

    asyncio.run(run())
    assert [(tool, arguments) for tool, arguments, _ in effects.done] == expected
    started = [body["decision"] for body in bodies(plane, "outcome") if body["outcome"] != "not_started"]
    assert len(started) == len(effects.done) == len(set(started))
    for decision, (tool, _, entries) in zip(started, effects.done, strict=True):
        decisions = [entry.body for entry in entries if entry.kind == "decision"]
        assert [body["decision"] for body in decisions].count(decision) == 1
        assert (decisions[-1]["tool"], decisions[-1]["verdict"], decisions[-1]["decision"]) == (tool, "allow", decision)
