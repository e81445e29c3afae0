"""Sections 5 to 7 of the research on the action side: what the SDK lets through, and what does not get through here.

Each test is named after its symptom; where the native class shows it offline, it is shown first.
"""

import asyncio
import json
import sys
import uuid

import pytest
from openhands.sdk import Agent
from openhands.sdk.conversation.state import ConversationExecutionStatus as Status
from openhands.sdk.event import AgentErrorEvent, ObservationEvent, UserRejectObservation
from openhands.sdk.hooks import HookConfig
from openhands.sdk.hooks.config import HookDefinition, HookMatcher
from openhands.sdk.security.analyzer import SecurityAnalyzerBase
from openhands.sdk.security.confirmation_policy import AlwaysConfirm
from openhands.sdk.security.risk import SecurityRisk
from openhands.sdk.tool import Action, Tool, register_tool
from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from carriage_core import CarriageError, ControlError, ControlPlane, EntryKind
from carriage_openhands import ControlRollingCondenser, GuardedAgent, approve, held

ACTOR, TENANT = "release-bot", "acme"
DELETE = {"artifact_id": "build-1", "repo": "acme/payments"}
PAGE = {"page": "index"}


@pytest.fixture
def plane(kit):
    return ControlPlane.from_file(kit.POLICIES, actor=ACTOR, tenant=TENANT)


def guarded(kit, plane, *answers, **more):
    llm = kit.recorder(*answers)
    condenser = ControlRollingCondenser(control=plane, max_size=80, keep_first=2)
    return GuardedAgent(llm=llm, tools=kit.tool_specs(), condenser=condenser, **more), llm


def native(kit, *answers, **more):
    llm = kit.recorder(*answers)
    return Agent(llm=llm, tools=kit.tool_specs(), **more), llm


def told(conversation):
    return [
        event.error if isinstance(event, AgentErrorEvent) else event.rejection_reason
        for event in conversation.state.events
        if isinstance(event, AgentErrorEvent | UserRejectObservation)
    ]


def decided(plane):
    return [entry.body for entry in plane.sink.entries if entry.kind is EntryKind.DECISION]


def ran(kit):
    return [tool for tool, _ in kit.EFFECTS]


def publish_then_done(kit):
    return kit.proposes(("w1", "publish", PAGE)), kit.says("I see"), kit.says("done"), kit.says("done")


# -- calls that need a person ---------------------------------------------------------------------


def test_a_call_that_needs_a_person_is_held_and_runs_once_when_approved(kit, talk, plane):
    """Whatever the SDK's confirmation policy is; the approval is of this call with these arguments."""
    agent, llm = guarded(kit, plane, *publish_then_done(kit))
    conversation = talk(agent)
    conversation.send_message("publish")
    conversation.run()
    assert conversation.state.execution_status is Status.WAITING_FOR_CONFIRMATION
    assert kit.EFFECTS == []
    [call] = held(conversation)
    assert (call.call_id, call.tool, call.arguments) == ("w1", "publish", PAGE)
    assert "Ask a person" in call.reason or "ask-before-publish" in call.reason
    approve(conversation, "w1", by="alice")
    conversation.run()
    assert [("publish", PAGE)] == kit.EFFECTS
    assert held(conversation) == ()
    assert [entry.body["by"] for entry in plane.sink.entries if entry.kind is EntryKind.APPROVAL] == ["alice"]
    assert len(llm.requests) == 2


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("what", ["run", "message", "condense"])
@pytest.mark.parametrize("held_by", ["rule", "sdk"])
def test_a_held_call_does_not_run_on_anything_but_an_approval(kit, talk, plane, what, later, held_by):
    """Report 4: natively a plain run, a message that says "do not", and `condense()` all execute what is held."""
    calls = {"rule": ("w1", "publish", PAGE), "sdk": ("l1", "list_artifacts", {"names": ["a"]})}

    def play(agent):
        conversation = talk(agent)
        if held_by == "sdk" or not isinstance(agent, GuardedAgent):
            conversation.set_confirmation_policy(AlwaysConfirm())
        conversation.send_message("go")
        asyncio.run(conversation.arun()) if later else conversation.run()
        assert conversation.state.execution_status is Status.WAITING_FOR_CONFIRMATION
        assert kit.EFFECTS == []
        if what == "message":
            conversation.send_message("do not do it")
        if what == "condense":
            conversation.condense()
        else:
            asyncio.run(conversation.arun()) if later else conversation.run()
        return conversation

    condenser = ControlRollingCondenser(control=plane, max_size=80, keep_first=2)
    answers = (kit.proposes(calls[held_by]), kit.says("I see"), kit.says("I see"))
    play(native(kit, *answers, condenser=condenser)[0])
    assert ran(kit) == [calls[held_by][1]], "natively it ran"
    kit.EFFECTS.clear()
    agent, llm = guarded(kit, plane, *answers)
    conversation = play(agent)
    assert kit.EFFECTS == []
    assert any("POLICY_DENIED" in text for text in told(conversation))
    for messages in llm.requests:
        assert kit.unpaired(messages) == ([], [], [])


def test_the_sdk_s_own_confirmation_is_given_by_approving_too(kit, talk, plane):
    """With confirmation mode on, the whole batch waits; the approved call runs, the other is rejected."""
    batch = kit.proposes(("l1", "list_artifacts", {"names": ["a"]}), ("l2", "list_artifacts", {"names": ["b"]}))
    agent, _ = guarded(kit, plane, batch, kit.says("done"))
    conversation = talk(agent)
    conversation.set_confirmation_policy(AlwaysConfirm())
    conversation.send_message("go")
    conversation.run()
    assert [call.call_id for call in held(conversation)] == ["l1", "l2"]
    approve(conversation, "l2", by="alice")
    conversation.run()
    assert [done["names"] for _, done in kit.EFFECTS] == [["b"]]
    assert "not_approved" in told(conversation)[0]


def test_an_approval_fits_no_other_call_and_lifts_no_denial(kit, talk, plane):
    """It is bound to the call's id and arguments; a denied call is not held at all."""
    agent, _ = guarded(kit, plane, *publish_then_done(kit))
    conversation = talk(agent)
    conversation.send_message("publish")
    conversation.run()
    with pytest.raises(ControlError, match="no call 'w2'"):
        approve(conversation, "w2", by="alice")
    conversation.switch_llm(
        kit.recorder(
            kit.says("I see"),
            kit.proposes(("w3", "publish", PAGE), ("d1", "delete_artifact", DELETE)),
            kit.says("done"),
            usage_id="next",
        )
    )
    approve(conversation, "w1", by="alice")
    conversation.reject_pending_actions("changed my mind")
    conversation.send_message("go on")
    conversation.run()
    conversation.send_message("and now?")
    conversation.run()
    assert [call.call_id for call in held(conversation)] == ["w3"]
    with pytest.raises(CarriageError, match="no call 'd1'"):
        approve(conversation, "d1", by="alice")
    assert kit.EFFECTS == []


def test_an_approval_outlives_neither_the_process_nor_its_call(kit, talk, plane, tmp_path):
    """Approved and then reloaded: the SDK's own confirmation has to be given again."""
    place = {"persistence_dir": tmp_path / "saved", "conversation_id": uuid.uuid4(), "delete_on_close": False}
    agent, _ = guarded(kit, plane, kit.proposes(("l1", "list_artifacts", {"names": ["a"]})))
    conversation = talk(agent, **place)
    conversation.set_confirmation_policy(AlwaysConfirm())
    conversation.send_message("go")
    conversation.run()
    approve(conversation, "l1", by="alice")
    conversation.close()
    again = talk(guarded(kit, plane, kit.says("done"))[0], **place)
    again.run()
    assert kit.EFFECTS == []
    assert "not_approved" in told(again)[0]


def test_a_call_approved_before_it_is_proposed_is_not_held(kit, talk, plane):
    """An operator may approve ahead, by id and arguments."""
    plane_first, llm = guarded(kit, plane, kit.proposes(("l0", "list_artifacts", {})), *publish_then_done(kit))
    conversation = talk(plane_first)
    conversation.send_message("go")
    plane.offer([{"name": "publish"}])
    plane.approve("publish", PAGE, by="alice", call_id="w1")
    conversation.run()
    assert ran(kit) == ["list_artifacts", "publish"]
    assert len(llm.requests) == 3


# -- hook rows ------------------------------------------------------------------------------------


HOOKS = {
    "exit 1": f"{sys.executable} -c 'import sys; sys.exit(1)'",
    "missing binary": "/nowhere/policy-hook",
    "bad json": "echo 'not json {'",
}


@pytest.mark.parametrize("hook", HOOKS)
def test_a_failing_hook_lets_the_action_through_and_the_guard_does_not(kit, talk, plane, hook):
    """Command hooks fail open on anything but exit code 2; the guard beside them still denies."""
    command = HookDefinition(command=HOOKS[hook], timeout=10)
    config = HookConfig(pre_tool_use=[HookMatcher(matcher="*", hooks=[command])])
    answers = (kit.proposes(("d1", "delete_artifact", DELETE)), kit.says("done"))
    for agent, expected in ((native(kit, *answers)[0], ["delete_artifact"]), (guarded(kit, plane, *answers)[0], [])):
        kit.EFFECTS.clear()
        conversation = talk(agent, hook_config=config)
        conversation.send_message("go")
        conversation.run()
        assert ran(kit) == expected


def test_execute_tool_skips_hooks_and_not_the_guard(kit, talk, plane):
    """A hook that always blocks is not asked there."""
    command = HookDefinition(command=f"{sys.executable} -c 'import sys; sys.exit(2)'", timeout=10)
    config = HookConfig(pre_tool_use=[HookMatcher(matcher="*", hooks=[command])])
    plain = talk(native(kit)[0], hook_config=config)
    plain.execute_tool("delete_artifact", kit.DeleteArtifactAction(**DELETE))
    assert ran(kit) == ["delete_artifact"]
    kit.EFFECTS.clear()
    ours = talk(guarded(kit, plane)[0], hook_config=config)
    with pytest.raises(ValueError, match="verify-before-delete"):
        ours.execute_tool("delete_artifact", kit.DeleteArtifactAction(**DELETE))
    assert kit.EFFECTS == []


class BrokenAnalyzerForTests(SecurityAnalyzerBase):
    """Fails, as a remote analyzer may."""

    def security_risk(self, action):
        raise RuntimeError("down")


def test_an_analyzer_that_fails_is_ignored_by_default_and_the_guard_is_not(kit, talk, plane):
    """The error becomes HIGH, and the default confirmation policy asks nobody."""
    answers = (kit.proposes(("d1", "delete_artifact", DELETE)), kit.says("done"))
    for agent, expected in ((native(kit, *answers)[0], ["delete_artifact"]), (guarded(kit, plane, *answers)[0], [])):
        kit.EFFECTS.clear()
        conversation = talk(agent)
        conversation.set_security_analyzer(BrokenAnalyzerForTests())
        conversation.send_message("go")
        conversation.run()
        assert ran(kit) == expected
    assert SecurityRisk.HIGH  # what the native policy was told


def test_a_blocked_action_runs_natively_when_rerun_and_not_here(kit, talk, plane):
    """`block_action` is forgotten once it was used; `rerun_actions` executes everything in the log."""
    command = HookDefinition(command=f"{sys.executable} -c 'import sys; sys.exit(2)'", timeout=10)
    config = HookConfig(pre_tool_use=[HookMatcher(matcher="*", hooks=[command])])
    answers = (kit.proposes(("d1", "delete_artifact", DELETE)), kit.says("done"))
    for agent, expected in ((native(kit, *answers)[0], ["delete_artifact"]), (guarded(kit, plane, *answers)[0], [])):
        kit.EFFECTS.clear()
        conversation = talk(agent, hook_config=config)
        conversation.send_message("go")
        conversation.run()
        assert kit.EFFECTS == []
        conversation.rerun_actions()
        assert ran(kit) == expected


def test_calls_after_finish_are_not_executed_by_the_next_run(kit, talk, plane):
    """They are "discarded" and left open; natively the next run executes them, confirmation mode or not."""
    batch = kit.proposes(("f1", "finish", {"message": "bye"}), ("l1", "list_artifacts", {"names": ["late"]}))
    for agent, expected in (
        (native(kit, batch, kit.says("x"))[0], ["list_artifacts"]),
        (guarded(kit, plane, batch, kit.says("x"))[0], []),
    ):
        kit.EFFECTS.clear()
        conversation = talk(agent)
        conversation.send_message("go")
        conversation.run()
        assert kit.EFFECTS == []
        conversation.set_confirmation_policy(AlwaysConfirm())
        conversation.send_message("thanks")
        conversation.run()
        assert ran(kit) == expected


def test_a_callback_of_the_user_that_raises_does_not_open_a_way(kit, talk, plane):
    """The event is stored before callbacks run; natively the next run executes it."""

    def raising(event):
        if event.kind == "ActionEvent":
            raise RuntimeError("a broken subscriber")

    answers = (kit.proposes(("l1", "list_artifacts", {"names": ["a"]})), kit.says("done"), kit.says("done"))
    for agent, expected in (
        (native(kit, *answers)[0], ["list_artifacts"]),
        (guarded(kit, plane, *answers)[0], []),
    ):
        kit.EFFECTS.clear()
        conversation = talk(agent, callbacks=[raising])
        conversation.send_message("go")
        with pytest.raises(Exception, match="subscriber"):
            conversation.run()
        assert kit.EFFECTS == []
        conversation.send_message("again")
        conversation.run()
        assert ran(kit) == expected


# -- what the model is told -----------------------------------------------------------------------


def test_a_denial_is_a_rejection_the_model_can_read(kit, talk, plane):
    """One result for the call, in the SDK's own form, with what would lift it; one record, nothing executed."""
    agent, llm = guarded(kit, plane, kit.proposes(("d1", "delete_artifact", DELETE)), kit.says("done"))
    conversation = talk(agent)
    conversation.send_message("go")
    conversation.run()
    [rejection] = [event for event in conversation.state.events if isinstance(event, UserRejectObservation)]
    assert rejection.rejection_source == "hook"
    assert "verify-before-delete" in rejection.rejection_reason
    assert "POLICY_DENIED" in kit.text_of(llm.requests[1][-1])
    assert [one["verdict"] for one in decided(plane)] == ["deny"]


def test_a_batch_whose_first_call_gives_the_evidence_is_not_refused_ahead(kit, talk, plane):
    """What runs first may lift the rule for what runs after it; the executor's guard decides then."""
    batch = kit.proposes(("v1", "verify_release", {"artifact_id": "build-1"}), ("d1", "delete_artifact", DELETE))
    agent, _ = guarded(kit, plane, batch, kit.says("done"))
    conversation = talk(agent)
    conversation.send_message("go")
    conversation.run()
    assert ran(kit) == ["verify_release", "delete_artifact"]
    kit.EFFECTS.clear()
    kit.STATUS["status"] = "failed"
    again, _ = guarded(kit, ControlPlane.from_file(kit.POLICIES, actor=ACTOR, tenant=TENANT), batch, kit.says("done"))
    conversation = talk(again)
    conversation.send_message("go")
    conversation.run()
    assert ran(kit) == ["verify_release"]
    assert "POLICY_DENIED" in told(conversation)[0]


def test_parallel_calls_are_each_decided_once(kit, talk, plane):
    """Invariant 10, counted by the tools: one record made before each execution, none for more."""
    batch = kit.proposes(
        *((f"l{n}", "list_artifacts", {"names": [f"n{n}"]}) for n in range(8)), ("p1", "pay", {"amount": 50})
    )
    agent, llm = guarded(kit, plane, batch, kit.says("done"), tool_concurrency_limit=4)
    conversation = talk(agent)
    conversation.send_message("go")
    conversation.run()
    assert sorted(done["names"][0] for _, done in kit.EFFECTS) == [f"n{n}" for n in range(8)]
    assert sorted(one["call_id"] for one in decided(plane) if one["verdict"] == "allow") == [f"l{n}" for n in range(8)]
    assert len([event for event in conversation.state.events if isinstance(event, ObservationEvent)]) == 8
    assert kit.unpaired(llm.requests[1]) == ([], [], [])


# -- the terminal and the editor ------------------------------------------------------------------

RULES = """
carriage: 1
tools:
  terminal: {shell: {argument: command, stdin: is_input}}
policies:
  - id: no-push
    issuer: {kind: organization, name: security}
    action: push
    effect: deny
    text: Never push.
  - id: keep-etc
    issuer: {kind: organization, name: security}
    action: write
    object: {type: file}
    where: {attr: object.path, prefix: /etc}
    effect: deny
    text: Never write below /etc.
  - id: keep-etc-files
    issuer: {kind: organization, name: security}
    action: delete
    object: {type: file}
    where: {attr: object.path, prefix: /etc}
    effect: deny
    text: Never delete below /etc.
  - id: private
    issuer: {kind: organization, name: security}
    action: read
    object: {type: file}
    where: {attr: object.path, prefix: /root/.ssh}
    effect: deny
    text: Never read ssh keys.
"""


class TerminalAction(Action):
    command: str
    is_input: bool = False
    timeout: float | None = None
    reset: bool = False


class FileEditorAction(Action):
    command: str
    path: str
    file_text: str | None = None


@pytest.fixture
def coding(kit, talk, tmp_path):
    """A guarded agent with tools of the names and arguments that openhands-tools has; only the executors are ours."""

    class TerminalTool(kit.MadeTool):
        name = "terminal"
        action = TerminalAction

    class FileEditorTool(kit.MadeTool):
        name = "file_editor"
        action = FileEditorAction

    for each in (TerminalTool, FileEditorTool):
        register_tool(each.__name__, each)
    (tmp_path / "rules.yaml").write_text(RULES)
    plane = ControlPlane.from_file(tmp_path / "rules.yaml", actor="coder")

    def judge(tool, arguments):
        llm = kit.recorder(kit.proposes(("c1", tool, arguments)), kit.says("done"))
        condenser = ControlRollingCondenser(control=plane, max_size=80, keep_first=2)
        tools = [Tool(name="TerminalTool"), Tool(name="FileEditorTool")]
        conversation = talk(GuardedAgent(llm=llm, tools=tools, condenser=condenser))
        plane._state.executed.clear()  # each run is a new conversation with the same call id
        conversation.send_message("go")
        kit.EFFECTS.clear()
        conversation.run()
        return bool(kit.EFFECTS)

    return judge


@pytest.mark.parametrize(
    ("command", "runs"),
    [
        ("git status", True),
        ("ls -la /srv && cat /srv/app/main.py", True),
        ("", True),
        ("cd /srv/app && git push origin main", False),
        ("if true; then git push; fi", False),
        ("g=push; git $g", False),
        ("sh -c 'git push'", False),
        ("echo Z2l0IHB1c2g= | base64 -d | sh", False),
        ("python -c 'import os; os.system(\"git push\")'", False),
        ("alias p='git push'; p", False),
        ("echo x > /etc/passwd", False),
        ("rm -rf /etc", False),
        ("cat /root/.ssh/id_rsa", False),
        ("echo x > /srv/app/notes", True),
        ("rm notes", False),
    ],
)
def test_a_shell_command_is_judged_by_what_it_would_do(coding, command, runs):
    """Compound, hidden and decoded commands included: what cannot be read may do anything, so rules bind."""
    assert coding("terminal", {"command": command}) is runs


def test_text_for_a_running_program_is_unknown(coding):
    """It may be a shell that waits for a line."""
    assert coding("terminal", {"command": "yes", "is_input": True}) is False
    assert coding("terminal", {"command": "git status", "is_input": False}) is True


@pytest.mark.parametrize(
    ("command", "path", "runs"),
    [
        ("view", "/etc/passwd", True),
        ("create", "/etc/passwd", False),
        ("str_replace", "/etc/passwd", False),
        ("undo_edit", "/etc/passwd", False),
        ("create", "/srv/app/x.py", True),
        ("create", "/srv/../etc/passwd", False),
        ("create", "etc/passwd", False),
        ("view", "/root/.ssh/id_rsa", False),
        ("create", "/root/.ssh/config", True),
        ("chmod", "/etc/passwd", False),
    ],
)
def test_the_editor_reads_or_writes_by_its_command(coding, command, path, runs):
    """Report 12 and 16: file writes are judged as the shell's are; a command nobody knows is both."""
    assert coding("file_editor", {"command": command, "path": path}) is runs


class HidingAction(Action):
    names: list[str] = Field(default_factory=list)
    turns: SkipJsonSchema[int | None] = None


def test_a_field_the_model_is_not_shown_is_an_argument_too(kit, talk, plane):
    """The SDK's task tool has one; without it every delegation would be refused as a call nobody can judge."""

    class ListArtifactsHidingTool(kit.MadeTool):
        name = "list_artifacts"
        action = HidingAction

    register_tool("ListArtifactsHidingTool", ListArtifactsHidingTool)
    llm = kit.recorder(kit.proposes(("l1", "list_artifacts", {"names": ["a"]})), kit.says("done"))
    condenser = ControlRollingCondenser(control=plane, max_size=80, keep_first=2)
    conversation = talk(GuardedAgent(llm=llm, tools=[Tool(name="ListArtifactsHidingTool")], condenser=condenser))
    conversation.send_message("go")
    conversation.run()
    assert ran(kit) == ["list_artifacts"]


def test_the_log_holds_no_arguments(kit, talk, plane):
    """Digests only: a log that quotes arguments leaks what they hold."""
    agent, _ = guarded(kit, plane, kit.proposes(("p1", "pay", {"amount": 3, "summary": "hunter2"})), kit.says("done"))
    conversation = talk(agent)
    conversation.send_message("go")
    conversation.run()
    assert ran(kit) == ["pay"]
    assert "hunter2" not in json.dumps([entry.as_json() for entry in plane.sink.entries])
