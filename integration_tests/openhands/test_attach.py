"""Putting a plane on what is there already, and being told what stays unguarded."""

import asyncio
import warnings

import pytest
from openhands.sdk import Agent, AgentContext
from openhands.sdk.agent.acp_agent import ACPAgent
from openhands.sdk.agent.base import AgentBase
from openhands.sdk.context.condenser import LLMSummarizingCondenser, NoOpCondenser, PipelineCondenser
from openhands.sdk.critic.impl.pass_critic import PassCritic
from openhands.sdk.llm import Message
from openhands.sdk.settings import OpenHandsAgentSettings
from openhands.sdk.subagent import get_agent_factory, register_agent
from openhands.sdk.subagent.registry import _reset_registry_for_tests
from openhands.sdk.tool import Tool, register_tool
from openhands.sdk.tool.registry import resolve_tool

from carriage_core import ControlError, ControlOverloadError, ControlPlane, EntryKind
from carriage_openhands import (
    ControlNoOpCondenser,
    ControlRollingCondenser,
    ControlSummarizingCondenser,
    GuardedAgent,
    PolicyDenied,
    apply_to_settings,
    attach,
    guard_subagents,
    guard_tools,
    guarded_factory,
    inspect_conversation,
    with_suffix,
)

ACTOR, TENANT = "release-bot", "acme"
DELETE = {"artifact_id": "build-1", "repo": "acme/payments"}


@pytest.fixture
def plane(kit):
    return ControlPlane.from_file(kit.POLICIES, actor=ACTOR, tenant=TENANT)


@pytest.fixture
def registries(kit):
    """Leave the SDK's registries as they were."""
    yield
    _reset_registry_for_tests()
    for each in (*kit.TOOLS, kit.UnlistedTool):
        register_tool(each.__name__, each)


def carried(kit, messages, tools):
    return kit.carried(messages) == dict.fromkeys(kit.applicable(ACTOR, TENANT, tools), 1)


# -- attach ---------------------------------------------------------------------------------------


def test_a_native_agent_becomes_a_guarded_one_with_all_its_fields(kit, plane):
    """Three lines are enough; what the agent was told stays, and its condenser stays of its kind."""
    llm = kit.recorder()
    condenser = LLMSummarizingCondenser(llm=llm, max_size=33, keep_first=3, max_tokens=90_000)
    native = Agent(llm=llm, tools=kit.tool_specs(), condenser=condenser, system_prompt="You look after releases.")
    ours = attach(native, control=plane, checkpoint=False)
    assert type(ours) is GuardedAgent
    changed = {"kind", "condenser", "checkpoint"}
    before, after = native.model_dump(exclude=changed), ours.model_dump(exclude=changed)
    assert before == {name: after[name] for name in before}
    assert type(ours.condenser) is ControlSummarizingCondenser
    known = ours.condenser.model_dump(exclude={"kind"})
    assert {name: known[name] for name in condenser.model_dump(exclude={"kind"})} == condenser.model_dump(
        exclude={"kind"}
    )
    assert attach(ours, control=plane) is ours


@pytest.mark.parametrize("condenser", [None, NoOpCondenser()])
def test_an_agent_without_a_condenser_gets_one_that_forgets_nothing(kit, plane, condenser):
    """Nothing that was sent before is left out now."""
    ours = attach(Agent(llm=kit.recorder(), condenser=condenser), control=plane)
    assert type(ours.condenser) is ControlNoOpCondenser


def test_a_conversation_is_attached_to_before_it_begins(kit, talk, plane):
    """Its calls then carry and its actions are judged; once begun, the SDK could not resume it."""
    llm = kit.recorder(kit.proposes(("d1", "delete_artifact", DELETE)), kit.says("done"))
    conversation = talk(Agent(llm=llm, tools=kit.tool_specs()))
    attach(conversation, control=plane)
    conversation.send_message("go")
    conversation.run()
    assert [carried(kit, *pair) for pair in zip(llm.requests, llm.offered, strict=True)] == [True, True]
    assert kit.EFFECTS == []
    with pytest.raises(ControlError, match="has begun"):
        attach(conversation, control=plane)


def test_an_acp_agent_is_refused(plane):
    """It runs in another program and approves its own calls."""
    agent = ACPAgent(acp_command=["echo"])
    with pytest.raises(ControlError, match="ACP"):
        attach(agent, control=plane)
    assert inspect_conversation(agent).unguarded == ("everything",)


def test_what_cannot_be_replaced_is_refused(kit, plane):
    """A pipeline keeps its old model after a change; a subclass's overrides would be lost; a plane is not swapped."""
    pipeline = PipelineCondenser(condensers=[NoOpCondenser()])
    with pytest.raises(ControlError, match="PipelineCondenser"):
        attach(Agent(llm=kit.recorder(), condenser=pipeline), control=plane)
    ours = attach(Agent(llm=kit.recorder()), control=plane)
    with pytest.raises(ControlError, match="another plane"):
        attach(ours, control=plane.as_actor("intern"))
    with pytest.raises(ControlError, match="elsewhere"):
        attach(object(), control=plane)


def test_settings_give_a_guarded_agent(kit, talk, plane):
    """The SDK's settings know two kinds of condenser, so the agent is built first and then guarded."""
    llm = kit.recorder(kit.says("done"))
    settings = OpenHandsAgentSettings(llm=llm, tools=kit.tool_specs())
    agent = apply_to_settings(settings, control=plane).model_copy(update={"llm": llm})
    assert type(agent.condenser) is ControlSummarizingCondenser
    conversation = talk(agent)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # some SDKs add tools of their own, which are bound to nothing
        conversation.send_message("go")
    conversation.run()
    assert carried(kit, llm.requests[0], llm.offered[0])


# -- paths that skip the condenser ----------------------------------------------------------------


def test_with_a_checkpoint_questions_and_titles_carry_the_rules(kit, talk, plane):
    """The SDK asks the model past the condenser there; the checkpoint places and seals the capsule itself."""
    llm = kit.recorder(kit.says("done"), kit.says("no"), kit.says("A title"))
    conversation = talk(attach(Agent(llm=llm, tools=kit.tool_specs()), control=plane))
    conversation.send_message("go")
    conversation.run()
    assert conversation.ask_agent("may I delete it?") == "no"
    assert conversation.generate_title() == "A title"
    assert [carried(kit, *pair) for pair in zip(llm.requests[:2], llm.offered, strict=False)] == [True, True]
    assert carried(kit, llm.requests[2], kit.NAMES)
    assert sum(entry.kind is EntryKind.ASSEMBLY for entry in plane.sink.entries) == 3


def test_a_checkpoint_fails_closed(kit, talk):
    """What does not fit is not sent on these paths either."""
    plane = ControlPlane.from_file(kit.POLICIES, actor=ACTOR, tenant=TENANT, control_budget=5)
    llm = kit.recorder(kit.says("never"))
    conversation = talk(attach(Agent(llm=llm, tools=kit.tool_specs()), control=plane))
    conversation.send_message("go")
    with pytest.raises(ControlOverloadError):
        conversation.ask_agent("well?")
    assert llm.requests == []


def test_asynchronous_calls_pass_the_checkpoint_once(kit, talk, plane):
    """The condenser's capsule is recognised by its place: it is in each call once."""
    llm = kit.recorder(kit.proposes(("l1", "list_artifacts", {"names": ["a"]})), kit.says("done"))
    conversation = talk(attach(Agent(llm=llm, tools=kit.tool_specs()), control=plane))
    conversation.send_message("go")
    asyncio.run(conversation.arun())
    assert [carried(kit, *pair) for pair in zip(llm.requests, llm.offered, strict=True)] == [True, True]
    assert len(kit.EFFECTS) == 1


def test_a_checkpoint_comes_back_after_a_fork_a_reload_and_a_change_of_model(kit, talk, plane):
    """It is not saved; the agent puts it around its model again."""
    llm = kit.recorder(kit.says("done"))
    agent = attach(Agent(llm=llm, tools=kit.tool_specs()), control=plane)
    conversation = talk(agent)
    conversation.send_message("go")
    conversation.run()
    assert "generate_title" not in inspect_conversation(conversation).unguarded
    fork = conversation.fork()
    assert "generate_title" not in inspect_conversation(fork).unguarded
    fork.close()
    assert (
        "generate_title" not in inspect_conversation(AgentBase.model_validate_json(agent.model_dump_json())).unguarded
    )
    other = kit.recorder(kit.says("yes"), usage_id="other")
    conversation.switch_llm(other)
    assert "generate_title" in inspect_conversation(conversation).unguarded, "until the next step"
    conversation.send_message("again")
    conversation.run()
    assert "generate_title" not in inspect_conversation(conversation).unguarded
    assert carried(kit, other.requests[0], other.offered[0])


def test_a_lying_history_does_not_stand_for_the_capsule(kit, plane):
    """The capsule's own bytes in a user's message are data; the checkpoint still places it."""
    from carriage_openhands.checkpoint import carrying  # noqa: PLC0415  # the function behind the checkpoint

    text = plane.capsule().text
    sent = carrying(plane, [Message(role="user", content=kit.says(f"\n\n{text}\n\n").content)], ())
    assert [message.role for message in sent] == ["system", "user"]
    assert carried(kit, sent, kit.NAMES)


def test_a_suffix_shows_the_rules_to_questions_of_a_plain_agent(kit, talk, plane):
    """The fallback: written once at the start, after what the agent's context said already."""
    llm = kit.recorder(kit.says("done"), kit.says("no"))
    context = with_suffix(AgentContext(system_message_suffix="Be brief."), control=plane)
    conversation = talk(Agent(llm=llm, tools=kit.tool_specs(), agent_context=context))
    conversation.send_message("go")
    conversation.run()
    assert conversation.ask_agent("may I?") == "no"
    assert all(carried(kit, messages, kit.NAMES) for messages in llm.requests)
    assert all("Be brief." in kit.text_of(messages[0]) for messages in llm.requests)
    assert "ask_agent" in inspect_conversation(conversation).unguarded


# -- inspection -----------------------------------------------------------------------------------


def test_a_native_agent_is_reported_unguarded_on_every_path(kit, talk):
    """What an engineer reads before anything is attached."""
    conversation = talk(Agent(llm=kit.recorder(), critic=PassCritic()))
    report = inspect_conversation(conversation)
    assert {"model calls of the loop", "ask_agent", "generate_title", "critic"} <= set(report.unguarded)
    assert all(path.why.endswith(".") for path in report.paths)
    assert str(report).count("unguarded") == len(report.unguarded)


def test_an_attached_agent_is_reported_with_what_is_left(kit, talk, plane):
    """The summarizer and a critic stay outside, by name; unbound tools are listed."""
    agent = Agent(
        llm=kit.recorder(),
        tools=kit.tool_specs(*kit.TOOLS, kit.UnlistedTool),
        condenser=LLMSummarizingCondenser(llm=kit.recorder()),
        critic=PassCritic(),
    )
    conversation = talk(attach(agent, control=plane))
    with pytest.warns(RuntimeWarning, match="unlisted"):
        conversation.send_message("go")
    report = inspect_conversation(conversation)
    assert set(report.unguarded) - {f"sub-agent {name}" for name in ()} == {"summarizer", "critic"}
    assert report.unbound_tools == ("unlisted",)
    assert "unbound    unlisted" in str(report)


def test_a_plane_that_is_not_loaded_is_reported_as_refusing(kit, plane):
    """Such an agent makes no call; the report says what to load."""
    condenser = ControlRollingCondenser(control_reference="sha256:gone", max_size=20)
    report = inspect_conversation(GuardedAgent(llm=kit.recorder(), condenser=condenser))
    states = {path.name: path.state for path in report.paths}
    assert states["model calls of the loop"] == "refused"


# -- sub-agents and the registry ------------------------------------------------------------------


def test_a_sub_agent_of_a_guarded_factory_is_judged_as_itself_under_its_caller(kit, talk, plane, registries):
    """It carries the rules for both, and every decision names the chain."""
    llm = kit.recorder(kit.proposes(("d1", "delete_artifact", DELETE)), kit.says("done"))
    make = guarded_factory(lambda model: Agent(llm=model, tools=kit.tool_specs()), control=plane, actor="helper")
    register_agent("helper", make, "Helps.")
    child = talk(get_agent_factory("helper").factory_func(llm))
    child.send_message("go")
    child.run()
    assert [carried(kit, *pair) for pair in zip(llm.requests, llm.offered, strict=True)] == [True, True]
    assert kit.EFFECTS == []
    [decision] = [entry.body for entry in plane.sink.entries if entry.kind is EntryKind.DECISION]
    assert decision["chain"] == [ACTOR, "helper"]


def test_registered_sub_agents_are_guarded_in_one_call_and_only_once(kit, talk, plane, registries):
    """Report 8: delegation must not escape the limits of whoever delegates."""
    register_agent("plain", lambda model: Agent(llm=model, tools=kit.tool_specs()), "Plain.")
    assert "sub-agent plain" in inspect_conversation(Agent(llm=kit.recorder())).unguarded
    assert "plain" in guard_subagents(plane)
    guard_subagents(plane)
    assert "sub-agent plain" not in inspect_conversation(Agent(llm=kit.recorder())).unguarded
    child = get_agent_factory("plain").factory_func(kit.recorder())
    assert isinstance(child, GuardedAgent)
    assert child.control_condenser.control.runtime.chain == (ACTOR, "plain")


def test_registered_tools_are_guarded_for_agents_of_any_class(kit, talk, plane, registries):
    """A plain agent, made by code nobody knows of, runs no denied call either; a guarded one is judged once."""
    assert "DeleteArtifactTool" in guard_tools(plane)
    llm = kit.recorder(kit.proposes(("d1", "delete_artifact", DELETE)), kit.says("done"))
    plain = talk(Agent(llm=llm, tools=kit.tool_specs()))
    plain.send_message("go")
    plain.run()
    with pytest.raises(PolicyDenied):
        plain.execute_tool("delete_artifact", kit.DeleteArtifactAction(**DELETE))
    assert kit.EFFECTS == []
    before = sum(entry.kind is EntryKind.DECISION for entry in plane.sink.entries)
    llm = kit.recorder(kit.proposes(("l1", "list_artifacts", {"names": ["a"]})), kit.says("done"))
    ours = talk(attach(Agent(llm=llm, tools=kit.tool_specs()), control=plane))
    ours.send_message("go")
    ours.run()
    assert len(kit.EFFECTS) == 1
    assert sum(entry.kind is EntryKind.DECISION for entry in plane.sink.entries) == before + 1


def test_a_tool_keeps_its_own_class_when_the_registry_guards_it(kit, talk, plane, registries):
    """Its kind is what saved conversations name."""
    guard_tools(plane)
    conversation = talk(Agent(llm=kit.recorder()))
    [tool] = resolve_tool(Tool(name="PayTool"), conversation.state)
    assert type(tool) is kit.PayTool
