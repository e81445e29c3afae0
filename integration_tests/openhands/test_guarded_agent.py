"""The guarded agent on real conversations: what reaches the model, what runs, and what happens when it must not."""

import asyncio
import gc
import json
import subprocess
import sys
import textwrap
import uuid
import warnings

import mcp.types
import pytest
from openhands.sdk import Agent
from openhands.sdk.agent.base import AgentBase
from openhands.sdk.context.condenser import NoOpCondenser
from openhands.sdk.conversation.exceptions import ConversationRunError
from openhands.sdk.conversation.state import ConversationExecutionStatus as Status
from openhands.sdk.event import AgentErrorEvent, Condensation, UserRejectObservation
from openhands.sdk.llm.exceptions import LLMContextWindowExceedError
from openhands.sdk.mcp.definition import MCPToolObservation
from openhands.sdk.mcp.tool import MCPToolDefinition

from carriage_core import (
    ControlError,
    ControlNotFoundError,
    ControlOverloadError,
    ControlPlane,
    Effect,
    EntryKind,
    Issuer,
    IssuerKind,
    Policy,
    ToolBindingError,
    Utf8UpperBound,
)
from carriage_openhands import ADAPTER, ControlRollingCondenser, GuardedAgent, PolicyDenied
from carriage_openhands.control import ControlCondenser

ACTOR, TENANT = "release-bot", "acme"
DELETE = {"artifact_id": "build-1", "repo": "acme/payments"}
VERIFY = {"artifact_id": "build-1"}


@pytest.fixture
def plane(kit):
    return ControlPlane.from_file(kit.POLICIES, actor=ACTOR, tenant=TENANT)


def agent_of(kit, plane, llm, *, max_size=80, tools=(), **more):
    condenser = ControlRollingCondenser(control=plane, max_size=max_size, keep_first=2)
    return GuardedAgent(llm=llm, tools=kit.tool_specs(*tools), condenser=condenser, **more)


def decisions(plane):
    return [entry for entry in plane.sink.entries if entry.kind is EntryKind.DECISION]


def outcomes(plane):
    return [entry.body["outcome"] for entry in plane.sink.entries if entry.kind is EntryKind.OUTCOME]


def errors(conversation):
    """What the model was told about calls that did not run, by the SDK's own event or the executor's error."""
    return [
        event.error if isinstance(event, AgentErrorEvent) else event.rejection_reason
        for event in conversation.state.events
        if isinstance(event, AgentErrorEvent | UserRejectObservation)
    ]


def every_call_carries(kit, llm, count=None, *, actor=ACTOR):
    """The judge: each recorded call holds each applicable rule once, in its system message, and pairs its calls."""
    assert llm.requests
    assert count is None or len(llm.requests) == count
    for messages, offered in zip(llm.requests, llm.offered, strict=True):
        assert kit.carried(messages) == dict.fromkeys(kit.applicable(actor, TENANT, offered), 1)
        assert kit.unpaired(messages) == ([], [], [])


def chores(kit, count, first=0):
    return [
        kit.proposes((f"c{number}", "list_artifacts", {"names": [f"n{number}"]}))
        for number in range(first, first + count)
    ]


# -- carriage -------------------------------------------------------------------------------------


def test_every_call_of_a_run_carries_the_rules(kit, plane, talk):
    """Sync, with many condensations: the capsule is in every call once, its bytes never change, the log holds none."""
    llm = kit.recorder(*chores(kit, 30), kit.says("done"))
    conversation = talk(agent_of(kit, plane, llm, max_size=9))
    conversation.send_message("work")
    conversation.run()
    every_call_carries(kit, llm, 31)
    assert sum(isinstance(event, Condensation) for event in conversation.state.events) > 3
    assert len({kit.text_of(messages[0]) for messages in llm.requests}) == 1
    assert kit.DELETE not in json.dumps([event.model_dump(mode="json") for event in conversation.state.events])
    assert plane.last_manifest.complete


def test_every_call_of_an_async_run_carries_the_rules(kit, plane, talk):
    """The same through `arun`."""
    llm = kit.recorder(*chores(kit, 12), kit.says("done"))
    conversation = talk(agent_of(kit, plane, llm, max_size=9))
    conversation.send_message("work")
    asyncio.run(conversation.arun())
    every_call_carries(kit, llm, 13)
    assert len(kit.EFFECTS) == 12


def test_a_fork_carries_the_rules(kit, plane, talk):
    """`fork` rebuilds the agent from JSON; it finds the same plane again and is guarded by it."""
    conversation = talk(agent_of(kit, plane, kit.recorder(*chores(kit, 2), kit.says("done"))))
    conversation.send_message("work")
    conversation.run()
    fork = conversation.fork()
    llm = kit.recorder(kit.proposes(("d1", "delete_artifact", DELETE)), kit.says("done"), usage_id="fork")
    fork.switch_llm(llm)
    fork.send_message("go on")
    fork.run()
    fork.close()
    assert fork.agent.control_condenser.control is plane
    every_call_carries(kit, llm, 2)
    assert [tool for tool, _ in kit.EFFECTS] == ["list_artifacts", "list_artifacts"]


def test_another_model_carries_the_rules(kit, plane, talk):
    """`switch_llm` keeps the condenser and its plane."""
    conversation = talk(agent_of(kit, plane, kit.recorder(kit.says("one"))))
    conversation.send_message("work")
    conversation.run()
    llm = kit.recorder(kit.says("two"), usage_id="other")
    conversation.switch_llm(llm)
    conversation.send_message("again")
    conversation.run()
    every_call_carries(kit, llm, 1)


def test_a_resumed_conversation_carries_the_rules(kit, plane, talk, tmp_path):
    """From disk, with the agent read back from its own JSON: the same decision state."""
    identity = uuid.uuid4()
    first = agent_of(kit, plane, kit.recorder(*chores(kit, 2), kit.says("done")))
    conversation = talk(first, persistence_dir=tmp_path / "saved", conversation_id=identity, delete_on_close=False)
    conversation.send_message("work")
    conversation.run()
    conversation.close()
    llm = kit.recorder(kit.proposes(("d1", "delete_artifact", DELETE)), kit.says("done"))
    saved = AgentBase.model_validate_json(first.model_dump_json())
    again = talk(
        saved.model_copy(update={"llm": llm}),
        persistence_dir=tmp_path / "saved",
        conversation_id=identity,
        delete_on_close=False,
    )
    again.send_message("go on")
    again.run()
    assert again.agent.control_condenser.control is plane
    every_call_carries(kit, llm, 2)
    assert "POLICY_DENIED" in errors(again)[-1]


def test_agent_and_condenser_survive_json(kit, plane):
    """What is saved of the plane is its reference; everything else round-trips."""
    agent = agent_of(kit, plane, kit.recorder(), max_size=33)
    again = AgentBase.model_validate_json(agent.model_dump_json())
    assert isinstance(again, GuardedAgent)
    assert again.condenser.model_dump() == agent.condenser.model_dump()
    assert set(agent.condenser.model_dump()) == {
        "kind",
        "control_reference",
        "keep_first",
        "max_size",
        "needs",
        "strict",
    }
    assert again.control_condenser.control is plane


def test_the_next_process_finds_the_plane_by_its_file(kit, plane, tmp_path):
    """A process that loads the same file finds the plane; one that does not fails closed, with no model call."""
    saved = tmp_path / "agent.json"
    saved.write_text(agent_of(kit, plane, kit.recorder()).model_dump_json())
    program = textwrap.dedent(
        """
        import sys, logging
        from openhands.sdk.agent.base import AgentBase
        from openhands.sdk import Conversation
        from openhands.sdk.conversation.exceptions import ConversationRunError
        from openhands.sdk.testing import TestLLM
        from openhands.sdk.llm import Message, TextContent
        import carriage_openhands
        from carriage_core import ControlPlane
        logging.disable(logging.CRITICAL)
        saved, policies, folder, load = sys.argv[1:]
        if load == "yes":
            plane = ControlPlane.from_file(policies, actor="release-bot", tenant="acme")
        agent = AgentBase.model_validate_json(open(saved).read())
        llm = TestLLM.from_messages([Message(role="assistant", content=[TextContent(text="done")])])
        agent = agent.model_copy(update={"llm": llm, "tools": []})
        talk = Conversation(agent, workspace=folder, visualizer=None)
        talk.send_message("go")
        try:
            talk.run()
        except ConversationRunError as problem:
            print(type(problem.__cause__).__name__, end=" ")
        print(llm.call_count, talk.state.execution_status.value)
        """
    )
    said = [
        subprocess.run(
            [sys.executable, "-c", program, str(saved), str(kit.POLICIES), str(tmp_path), load],
            capture_output=True, text=True, check=True,
        ).stdout.strip()
        for load in ("yes", "no")
    ]  # fmt: skip
    assert said == ["1 finished", "ControlNotFoundError 0 error"]


def test_a_lost_plane_fails_closed_and_nothing_runs(kit, talk):
    """Once the plane is gone, no model is called and no tool runs, on any path."""
    plane = ControlPlane.from_file(kit.POLICIES, actor="gone", tenant=TENANT)
    text = agent_of(kit, plane, kit.recorder()).model_dump_json()
    del plane
    gc.collect()
    llm = kit.recorder(kit.says("never"))
    conversation = talk(AgentBase.model_validate_json(text).model_copy(update={"llm": llm}))
    conversation.send_message("go")
    with pytest.raises(ConversationRunError) as caught:
        conversation.run()
    assert isinstance(caught.value.__cause__, ControlNotFoundError)
    with pytest.raises(ControlNotFoundError):
        conversation.execute_tool("list_artifacts", kit.ListArtifactsAction())
    assert llm.requests == []
    assert kit.EFFECTS == []


def test_rules_admitted_in_a_run_are_in_the_next_call(kit, plane, talk):
    """A policy admitted between two calls is carried by the second."""
    llm = kit.recorder(kit.says("one"), kit.says("two"))
    conversation = talk(agent_of(kit, plane, llm))
    conversation.send_message("work")
    conversation.run()
    issuer = Issuer(kind=IssuerKind.ORGANIZATION, name="security")
    plane.admit(
        Policy(id="late", issuer=issuer, version=1, actions=("pay",), effect=Effect.DENY, text="Never pay on Mondays."),
        by=issuer,
    )
    conversation.send_message("again")
    conversation.run()
    assert ["Never pay on Mondays." in kit.text_of(messages[0]) for messages in llm.requests] == [False, True]


def test_a_context_overflow_is_answered_by_forgetting(kit, plane, talk):
    """The model says the context is too long: the middle goes, and the next call still carries the rules."""
    llm = kit.recorder(*chores(kit, 6), LLMContextWindowExceedError(), kit.says("done"))
    conversation = talk(agent_of(kit, plane, llm))
    conversation.send_message("work")
    conversation.run()
    every_call_carries(kit, llm, 8)
    assert sum(isinstance(event, Condensation) for event in conversation.state.events) == 1


def test_an_overflow_with_nothing_to_forget_ends_loudly(kit, plane, talk):
    """No livelock: the run ends in an error after one call, not after the iteration limit."""
    llm = kit.recorder(LLMContextWindowExceedError(), kit.says("never"))
    conversation = talk(agent_of(kit, plane, llm))
    conversation.send_message("work")
    with pytest.raises(ConversationRunError):
        conversation.run()
    assert len(llm.requests) == 1
    assert conversation.state.execution_status is Status.ERROR


def test_ask_agent_does_not_reach_the_model_without_the_rules(kit, plane, talk):
    """The SDK answers such questions past the condenser, so they are refused."""
    llm = kit.recorder(kit.says("never"))
    conversation = talk(agent_of(kit, plane, llm))
    conversation.send_message("work")
    with pytest.raises(ControlError, match="ask_agent"):
        conversation.ask_agent("may I delete it?")
    assert llm.requests == []


# -- overload -------------------------------------------------------------------------------------


def test_overload_makes_no_call_and_can_be_resumed(kit, talk, tmp_path):
    """A budget too small: status ERROR, no call, no policy text in the error; with a larger one the run goes on."""
    identity = uuid.uuid4()

    def start(budget, llm):
        small = ControlPlane.from_file(kit.POLICIES, actor=ACTOR, tenant=TENANT, control_budget=budget)
        place = {"persistence_dir": tmp_path / "saved", "conversation_id": identity, "delete_on_close": False}
        return small, talk(agent_of(kit, small, llm), **place)

    llm = kit.recorder(kit.says("done"))
    plane, conversation = start(5, llm)
    conversation.send_message("work")
    for _ in range(2):
        with pytest.raises(ConversationRunError) as caught:
            conversation.run()
        assert isinstance(caught.value.__cause__, ControlOverloadError)
        assert conversation.state.execution_status is Status.ERROR
    assert llm.requests == []
    told = json.dumps([event.model_dump(mode="json") for event in conversation.state.events if "Error" in event.kind])
    assert "overload" in told
    assert not any(fact[3] in told for fact in kit.FACTS.values())
    assert plane.sink.entries[-1].body["outcome"] == "failed_closed"
    conversation.close()
    _, again = start(2_000, llm)
    again.run()
    assert again.state.execution_status is Status.FINISHED
    every_call_carries(kit, llm, 1)


def test_one_message_too_large_fails_closed_and_a_long_history_does_not(kit, talk):
    """Data over the window: the middle is forgotten first; what cannot be forgotten stops the call."""
    plane = ControlPlane.from_file(
        kit.POLICIES,
        actor=ACTOR,
        tenant=TENANT,
        window=16_000,
        reserved_output=100,
        control_budget=3_000,
        counter=Utf8UpperBound(),
    )
    llm = kit.recorder(*(kit.says("ok") for _ in range(9)))
    conversation = talk(agent_of(kit, plane, llm, tools=(kit.PayTool,), system_prompt="You pay."))
    for _ in range(8):
        conversation.send_message("word " * 400)
        conversation.run()
    every_call_carries(kit, llm, 8)
    assert any(isinstance(event, Condensation) for event in conversation.state.events)
    conversation.send_message("word " * 4_000)
    with pytest.raises(ConversationRunError) as caught:
        conversation.run()
    assert isinstance(caught.value.__cause__, ControlOverloadError)
    assert len(llm.requests) == 8


# -- mediation ------------------------------------------------------------------------------------


def test_a_denied_action_does_not_run_and_the_run_goes_on(kit, plane, talk):
    """The model is told why, as the result of its call; what ran is known from the tool itself."""
    llm = kit.recorder(kit.proposes(("d1", "delete_artifact", DELETE)), kit.says("I see"))
    conversation = talk(agent_of(kit, plane, llm))
    conversation.send_message("delete it")
    conversation.run()
    assert kit.EFFECTS == []
    assert [entry.body["verdict"] for entry in decisions(plane)] == ["deny"]
    assert "POLICY_DENIED rule" in kit.text_of(llm.requests[1][-1])
    assert llm.requests[1][-1].tool_call_id == "d1"
    assert conversation.state.execution_status is Status.FINISHED


def test_evidence_lifts_the_rule_once(kit, plane, talk):
    """Verified, deleted, and the second deletion denied: the evidence was for one."""
    llm = kit.recorder(
        kit.proposes(("d1", "delete_artifact", DELETE)),
        kit.proposes(("v1", "verify_release", VERIFY)),
        kit.proposes(("d2", "delete_artifact", DELETE)),
        kit.proposes(("d3", "delete_artifact", DELETE)),
        kit.says("done"),
    )
    conversation = talk(agent_of(kit, plane, llm))
    conversation.send_message("clean up")
    conversation.run()
    assert [tool for tool, _ in kit.EFFECTS] == ["verify_release", "delete_artifact"]
    assert [entry.body["verdict"] for entry in decisions(plane)] == ["deny", "allow", "allow", "deny"]
    assert [entry.body["call_id"] for entry in decisions(plane)] == ["d1", "v1", "d2", "d3"]


@pytest.mark.parametrize(
    ("status", "outcome"), [("failed", "executed"), ("error", "failed"), ("raises", "failed"), ("wrong", "failed")]
)
def test_a_verification_that_did_not_succeed_lifts_nothing(kit, plane, talk, status, outcome):
    """A false status, an error result, an exception and an ill-formed result are no evidence."""
    kit.STATUS["status"] = status
    llm = kit.recorder(
        kit.proposes(("v1", "verify_release", VERIFY)),
        kit.proposes(("d1", "delete_artifact", DELETE)),
        kit.says("done"),
    )
    conversation = talk(agent_of(kit, plane, llm))
    conversation.send_message("clean up")
    conversation.run()
    assert [tool for tool, _ in kit.EFFECTS] == ["verify_release"]
    assert outcomes(plane) == [outcome]


def test_an_interrupted_tool_is_recorded_as_unknown(kit, plane, talk):
    """An interrupt passes through; the decision stays spent and the log says that nobody knows."""
    kit.STATUS["status"] = "interrupted"
    conversation = talk(agent_of(kit, plane, kit.recorder()))
    with pytest.raises(KeyboardInterrupt):
        conversation.execute_tool("verify_release", kit.VerifyReleaseAction(**VERIFY))
    assert outcomes(plane) == ["outcome_unknown"]


@pytest.mark.parametrize("run", ["sync", "async"])
def test_each_effect_of_a_parallel_batch_has_one_decision_before_it(kit, plane, talk, run):
    """Invariant 10, counted from what the tools wrote down."""
    batch = [(f"p{number}", "pay", {"amount": number}) for number in range(10)]
    llm = kit.recorder(kit.proposes(*batch), kit.says("done"))
    conversation = talk(agent_of(kit, plane, llm, tool_concurrency_limit=4))
    conversation.send_message("pay")
    conversation.run() if run == "sync" else asyncio.run(conversation.arun())
    assert sorted(done["amount"] for _, done in kit.EFFECTS) == [0, 1, 2, 3, 4, 5]
    allowed = [entry.body["call_id"] for entry in decisions(plane) if entry.body["verdict"] == "allow"]
    assert sorted(allowed) == [f"p{number}" for number in range(6)]
    assert len(decisions(plane)) == 10
    settled = [entry for entry in plane.sink.entries if entry.kind is EntryKind.OUTCOME]
    at = {entry.body["decision"]: entry.sequence for entry in decisions(plane)}
    assert all(at[entry.body["decision"]] < entry.sequence for entry in settled)
    every_call_carries(kit, llm, 2)


def test_execute_tool_is_guarded(kit, plane, talk):
    """Running a tool by hand takes the same decision; such a call has no id of a model's."""
    conversation = talk(agent_of(kit, plane, kit.recorder()))
    with pytest.raises(PolicyDenied, match="pay-little") as caught:
        conversation.execute_tool("pay", kit.PayAction(amount=50))
    conversation.execute_tool("pay", kit.PayAction(amount=5))
    assert [done["amount"] for _, done in kit.EFFECTS] == [5]
    assert caught.value.decision.verdict.reasons[0].policy_id == "pay-little"
    assert [entry.body["call_id"] for entry in decisions(plane)] == [None, None]


def test_a_rerun_does_not_run_a_call_twice(kit, plane, talk):
    """`rerun_actions` finds the id of each action, and a call id never executes twice."""
    conversation = talk(agent_of(kit, plane, kit.recorder(*chores(kit, 2), kit.says("done"))))
    conversation.send_message("work")
    conversation.run()
    assert len(kit.EFFECTS) == 2
    assert conversation.rerun_actions() is False
    assert len(kit.EFFECTS) == 2
    assert decisions(plane)[-1].body["code"] == "replayed_call"


def test_a_blocked_action_stays_blocked_when_rerun(kit, plane, talk):
    """A rerun judges a denied call anew, and denies it."""
    llm = kit.recorder(kit.proposes(("d1", "delete_artifact", DELETE)), kit.says("I see"))
    conversation = talk(agent_of(kit, plane, llm))
    conversation.send_message("delete it")
    conversation.run()
    assert conversation.rerun_actions() is False
    assert kit.EFFECTS == []


@pytest.mark.parametrize("guarded", [True, False])
def test_an_action_left_pending_is_judged_when_it_is_executed(kit, plane, talk, tmp_path, guarded):
    """After a crash the SDK executes what was pending without asking the model; the guard is asked all the same.

    Its result reaches the model with its call. In a plain agent it is forgotten, for the SDK has lost the call.
    """
    identity = uuid.uuid4()
    place = {"persistence_dir": tmp_path / "saved", "conversation_id": identity, "delete_on_close": False}

    def make(llm):
        agent = agent_of(kit, plane, llm)
        return agent if guarded else Agent(llm=llm, tools=agent.tools, condenser=agent.condenser)

    conversation = talk(make(kit.recorder(kit.says("hello"))), **place)
    conversation.send_message("work")
    conversation.run()
    pending = kit.round_events("crash", "t", ["ok"])[0]
    pending = pending.model_copy(
        update={
            "action": kit.DeleteArtifactAction(**DELETE),
            "tool_name": "delete_artifact",
            "tool_call": pending.tool_call.model_copy(
                update={"name": "delete_artifact", "arguments": json.dumps(DELETE)}
            ),
        }
    )
    conversation._on_event(pending)
    conversation.close()
    llm = kit.recorder(kit.says("done"))
    again = talk(make(llm), **place)
    again.state.execution_status = Status.IDLE
    again.run()
    every_call_carries(kit, llm, 1)
    assert [message.role for message in llm.requests[0]][-2:] == (
        ["assistant", "tool"] if guarded else ["user", "assistant"]
    )
    if guarded:
        assert kit.EFFECTS == []
        assert any("POLICY_DENIED rule" in error for error in errors(again))
        assert decisions(plane)[-1].body["call_id"] == pending.tool_call_id


def test_the_arguments_judged_are_the_validated_ones(kit, plane, talk):
    """Coercion comes first: an amount given as text is judged as the number that would be paid."""
    llm = kit.recorder(
        kit.proposes(("p1", "pay", {"amount": "50"})), kit.proposes(("p2", "pay", {"amount": "4"})), kit.says("ok")
    )
    conversation = talk(agent_of(kit, plane, llm))
    conversation.send_message("pay")
    conversation.run()
    assert [done["amount"] for _, done in kit.EFFECTS] == [4.0]


def test_what_the_sdk_asks_the_model_for_is_no_argument(kit, plane, talk):
    """`security_risk` and `summary` are the SDK's own; a tool's own field of that name is judged and run."""
    listing = {"names": ["a"], "security_risk": "LOW", "summary": "list them"}
    paying = {"amount": 3, "security_risk": "LOW", "summary": "for lunch"}
    llm = kit.recorder(
        kit.proposes(("l1", "list_artifacts", listing)), kit.proposes(("p1", "pay", paying)), kit.says("ok")
    )
    conversation = talk(agent_of(kit, plane, llm))
    conversation.send_message("go")
    conversation.run()
    assert kit.EFFECTS == [("list_artifacts", {"names": ["a"]}), ("pay", {"amount": 3.0, "summary": "for lunch"})]


def test_a_tool_cannot_change_what_was_judged(kit, plane, talk):
    """What runs is a private copy; the action in the log is another object."""
    conversation = talk(agent_of(kit, plane, kit.recorder()))
    action = kit.ListArtifactsAction(names=["a"])
    original = plane.authorize

    def meddling(tool, arguments, **more):
        decision = original(tool, arguments, **more)
        action.names.append("smuggled")
        return decision

    plane.authorize = meddling
    conversation.execute_tool("list_artifacts", action)
    assert kit.EFFECTS == [("list_artifacts", {"names": ["a"]})]
    assert action.names == ["a", "smuggled"]


def test_a_fault_of_the_monitor_denies(kit, plane, talk, monkeypatch):
    """Invariant 11: when judging breaks, the call does not run and the run goes on."""
    monkeypatch.setattr("carriage_core.gate.judge", lambda *a, **k: 1 / 0)
    llm = kit.recorder(*chores(kit, 1), kit.says("done"))
    conversation = talk(agent_of(kit, plane, llm))
    conversation.send_message("go")
    conversation.run()
    assert kit.EFFECTS == []
    assert "internal_fault" in errors(conversation)[0]


def test_a_log_that_cannot_be_written_stops_calls_and_actions(kit, talk):
    """Invariant 11: no manifest, no call; no decision record, no action."""

    class Full:
        full = False

        def write(self, entry):
            if self.full:
                raise OSError("disk full")

    sink = Full()
    plane = ControlPlane.from_file(kit.POLICIES, actor=ACTOR, tenant=TENANT, sink=sink)
    llm = kit.recorder(kit.says("never"))
    conversation = talk(agent_of(kit, plane, llm))
    conversation.send_message("go")
    sink.full = True
    with pytest.raises(ConversationRunError):
        conversation.run()
    with pytest.raises(PolicyDenied, match="sink_fault"):
        conversation.execute_tool("list_artifacts", kit.ListArtifactsAction())
    assert llm.requests == []
    assert kit.EFFECTS == []


class FakeServer:
    """Stands where the SDK's MCP client does: it writes down what the server would get."""

    def __init__(self):
        self.got = []

    def call_async_from_sync(self, call, *, action, timeout):
        self.got.append(dict(action.data))
        return MCPToolObservation.from_text("done", tool_name="pay")

    def sync_close(self):
        pass


@pytest.fixture
def mcp_pay():
    server = FakeServer()
    schema = {
        "type": "object",
        "properties": {"amount": {"type": "number"}, "note": {"type": "string"}},
        "required": ["amount"],
    }
    [tool] = MCPToolDefinition.create(mcp.types.Tool(name="pay", description="Pay.", inputSchema=schema), server)
    return server, tool


def test_mcp_tools_are_judged_by_their_own_arguments(kit, plane, talk, mcp_pay):
    """The SDK wraps them in `data`; rules speak of what is inside."""
    server, tool = mcp_pay
    llm = kit.recorder(
        kit.proposes(("p1", "pay", {"amount": 50})), kit.proposes(("p2", "pay", {"amount": 4})), kit.says("ok")
    )
    conversation = talk(agent_of(kit, plane, llm, tools=(kit.ListArtifactsTool,)))
    conversation.send_message("pay")
    conversation.agent.add_runtime_tools([tool])
    conversation.run()
    assert server.got == [{"amount": 4.0}]
    assert [entry.body["verdict"] for entry in decisions(plane)] == ["deny", "allow"]
    every_call_carries(kit, llm, 3)


def test_a_secret_in_an_mcp_argument_is_judged_as_what_is_sent(kit, talk, tmp_path, mcp_pay):
    """A reference stands for its value when the rule is applied; one without a value is unknown, so the rule binds.

    The refusal does not tell the value.
    """
    path = tmp_path / "policies.yaml"
    rule = "where: {attr: action.amount, gt: 5}"
    text = kit.POLICIES.read_text().replace(rule, "where: {attr: action.note, eq: hunter2}")
    path.write_text(text.replace("amount: {argument: amount, type: number}", "note: {argument: note}"))
    plane = ControlPlane.from_file(path, actor=ACTOR, tenant=TENANT)
    server, tool = mcp_pay
    notes = ["$WORD", "${LOOP}", "$NONE", "$FINE", "harmless"]
    llm = kit.recorder(
        *(kit.proposes((f"p{number}", "pay", {"amount": 1, "note": note})) for number, note in enumerate(notes)),
        kit.says("ok"),
    )
    conversation = talk(
        agent_of(kit, plane, llm, tools=(kit.ListArtifactsTool,)),
        secrets={"WORD": "hunter2", "LOOP": "$WORD", "FINE": "fine"},
    )
    conversation.send_message("pay")
    conversation.agent.add_runtime_tools([tool])
    conversation.run()
    assert [got["note"] for got in server.got] == ["fine", "harmless"]
    assert ["POLICY_DENIED" in error for error in errors(conversation)] == [True] * 3
    assert not any("hunter2" in kit.text_of(message) for messages in llm.requests for message in messages[1:])


# -- construction and tools -----------------------------------------------------------------------


def test_an_agent_without_a_control_condenser_is_refused(kit, plane):
    """Nothing would be carried or guarded, so there is no such agent, however it is made."""
    for condenser in (None, NoOpCondenser()):
        with pytest.raises(ControlError, match="ControlRollingCondenser"):
            GuardedAgent(llm=kit.recorder(), condenser=condenser)
    stripped = agent_of(kit, plane, kit.recorder()).model_copy(update={"condenser": None})
    with pytest.raises(ControlError):
        _ = stripped.tools_map


def test_a_condenser_without_a_plane_is_refused():
    """The message says what to pass."""
    with pytest.raises(Exception, match="pass control="):
        ControlRollingCondenser(max_size=80, keep_first=2)
    with pytest.raises(ValueError, match="keep_first"):
        ControlRollingCondenser(control_reference="sha256:0", max_size=2, keep_first=2)


def test_unbound_tools_are_listed_before_the_first_call(kit, plane, talk):
    """One warning with the line to add; calls of such a tool are denied, finish and think are not."""
    finish = kit.proposes(("f1", "finish", {"message": "bye"}))
    llm = kit.recorder(kit.proposes(("u1", "unlisted", {})), kit.proposes(("t1", "think", {"thought": "hm"})), finish)
    conversation = talk(agent_of(kit, plane, llm, tools=(*kit.TOOLS, kit.UnlistedTool)))
    with pytest.warns(RuntimeWarning, match=r"'unlisted: \{action: none\}'") as caught:
        conversation.send_message("go")
    assert len(caught) == 1
    assert llm.requests == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        conversation.run()
    assert kit.EFFECTS == []
    assert [entry.body["code"] for entry in decisions(plane)] == ["unbound_tool", "allowed", "allowed"]
    assert conversation.state.execution_status is Status.FINISHED


def test_a_binding_that_names_no_argument_of_the_tool_stops_the_start(kit, talk, tmp_path):
    """A rule that could never apply to its tool is found at start-up."""
    path = tmp_path / "policies.yaml"
    path.write_text(kit.POLICIES.read_text().replace("argument: amount", "argument: amont"))
    plane = ControlPlane.from_file(path, actor=ACTOR, tenant=TENANT)
    conversation = talk(agent_of(kit, plane, kit.recorder()))
    with pytest.raises(ToolBindingError, match="amont"):
        conversation.send_message("go")


def test_tools_added_at_run_time_bring_their_rules(kit, plane, talk):
    """A+ is made for the tools the model is offered, not for those the system prompt was stored with."""
    llm = kit.recorder(kit.says("one"), kit.proposes(("p1", "pay", {"amount": 50})), kit.says("two"))
    conversation = talk(agent_of(kit, plane, llm, tools=(kit.ListArtifactsTool,)))
    conversation.send_message("go")
    conversation.run()
    conversation.agent.add_runtime_tools(kit.PayTool.create())
    conversation.send_message("again")
    conversation.run()
    assert ["pay" in offered for offered in llm.offered] == [False, True, True]
    every_call_carries(kit, llm, 3)
    assert "POLICY_DENIED rule" in errors(conversation)[0]


def test_the_native_agent_carries_with_the_condenser_alone(kit, plane, talk):
    """The condenser works in a plain agent too; only mediation needs the guarded one."""
    llm = kit.recorder(*chores(kit, 8), kit.says("done"))
    condenser = ControlRollingCondenser(control=plane, max_size=8, keep_first=2)
    conversation = talk(Agent(llm=llm, tools=kit.tool_specs(), condenser=condenser))
    conversation.send_message("work")
    conversation.run()
    every_call_carries(kit, llm, 9)


def test_closing_and_interrupting_reach_the_tool(kit, plane, talk):
    """The guard passes on what is not a call."""
    conversation = talk(agent_of(kit, plane, kit.recorder()))
    conversation.send_message("go")
    guarded = conversation.agent.tools_map["pay"].executor
    assert conversation.agent.tools_map["pay"] is conversation.agent.tools_map["pay"]
    assert guarded.tool == "pay"
    with pytest.raises(AttributeError):
        _ = guarded._private
    guarded.interrupt()
    conversation.close()
    assert guarded.closed


def test_two_actors_of_one_plane_are_judged_apart(kit, plane, talk):
    """A view for another actor carries and judges that actor's rules."""
    other = plane.as_actor("intern")
    llm = kit.recorder(kit.says("done"))
    conversation = talk(agent_of(kit, other, llm))
    conversation.send_message("go")
    conversation.run()
    every_call_carries(kit, llm, 1, actor="intern")
    assert decisions(plane) == []


def test_the_adapter_is_declared_with_its_classes():
    """The lab and the command reach the adapter by these names."""
    assert ADAPTER.name == "openhands"
    assert ADAPTER.drop_ins["rolling"] is ControlRollingCondenser
    assert ADAPTER.guards == {"agent": GuardedAgent}
    assert issubclass(ControlRollingCondenser, ControlCondenser)
