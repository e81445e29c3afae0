"""The tools of openhands-tools itself: the shipped bindings fit their schemas, and what they do is judged."""

import warnings

import pytest
from openhands.sdk import Agent, Conversation
from openhands.sdk.llm import Message, MessageToolCall, TextContent
from openhands.sdk.subagent import register_agent
from openhands.sdk.subagent.registry import _reset_registry_for_tests
from openhands.sdk.testing import TestLLM
from openhands.sdk.tool import Tool
from openhands.tools.file_editor import FileEditorTool
from openhands.tools.task import TaskToolSet
from openhands.tools.terminal import TerminalTool

from carriage_core import ControlPlane, EntryKind
from carriage_openhands import attach, guard_subagents, inspect_conversation

with warnings.catch_warnings():
    # litellm's models are built by their first use, and pydantic warns of what it finds in them.
    warnings.simplefilter("ignore")
    TestLLM.from_messages([Message(role="assistant", content=[])]).completion([])

RULES = """
carriage: 1
tools:
  terminal: {{shell: {{argument: command, stdin: is_input, cwd: {folder}}}}}
  task: {{action: none}}
policies:
  - id: keep-notes
    issuer: {{kind: organization, name: security}}
    action: [write, delete]
    object: {{type: file}}
    where: {{attr: object.path, prefix: {folder}/notes}}
    effect: deny
    text: Never change the notes.
"""


def proposes(call_id, tool, arguments):
    call = MessageToolCall(id=call_id, name=tool, arguments=arguments, origin="completion")
    return Message(role="assistant", content=[], tool_calls=[call])


def says(text):
    return Message(role="assistant", content=[TextContent(text=text)])


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("keep me")
    (tmp_path / "rules.yaml").write_text(RULES.format(folder=tmp_path))
    return tmp_path


def play(folder, plane, llm, tools):
    conversation = Conversation(attach(Agent(llm=llm, tools=tools), control=plane), workspace=folder, visualizer=None)
    try:
        conversation.send_message("go")
        report = inspect_conversation(conversation)
        conversation.run()
    finally:
        conversation.close()
    return report


def codes(plane):
    return [
        (entry.body["call_id"], entry.body["verdict"])
        for entry in plane.sink.entries
        if entry.kind is EntryKind.DECISION
    ]


def test_the_real_terminal_and_editor_are_bound_and_judged(folder):
    """Their schemas fit the bindings; the notes stay whichever tool is used, and other files are written."""
    plane = ControlPlane.from_file(folder / "rules.yaml", actor="coder")
    llm = TestLLM.from_messages(
        [
            proposes("c1", "terminal", '{"command": "rm notes/a.txt"}'),
            proposes("c2", "terminal", '{"command": "echo hello > other.txt"}'),
            proposes("c3", "file_editor", f'{{"command": "create", "path": "{folder}/notes/b.txt", "file_text": "x"}}'),
            proposes("c4", "file_editor", f'{{"command": "create", "path": "{folder}/more.txt", "file_text": "x"}}'),
            proposes("c5", "file_editor", f'{{"command": "view", "path": "{folder}/notes/a.txt"}}'),
            says("done"),
        ]
    )
    report = play(folder, plane, llm, [Tool(name=TerminalTool.name), Tool(name=FileEditorTool.name)])
    assert report.unbound_tools == ()
    assert codes(plane) == [("c1", "deny"), ("c2", "allow"), ("c3", "deny"), ("c4", "allow"), ("c5", "allow")]
    assert [path.name for path in (folder / "notes").iterdir()] == ["a.txt"]
    assert (folder / "other.txt").read_text() == "hello\n"
    assert (folder / "more.txt").exists()


def test_a_task_given_to_a_sub_agent_is_under_the_rules_of_who_gave_it(folder):
    """The SDK's own delegation: the child carries the capsule, is judged, and its decision names the chain."""
    plane = ControlPlane.from_file(folder / "rules.yaml", actor="coder")
    child = TestLLM.from_messages([proposes("k1", "terminal", '{"command": "rm notes/a.txt"}'), says("it is kept")])
    _reset_registry_for_tests()
    register_agent("cleaner", lambda llm: Agent(llm=child, tools=[Tool(name=TerminalTool.name)]), "Cleans up.")
    guard_subagents(plane)
    task = '{"description": "clean", "prompt": "remove the notes", "subagent_type": "cleaner"}'
    llm = TestLLM.from_messages([proposes("t1", "task", task), says("done")])
    play(folder, plane, llm, [Tool(name=TaskToolSet.name)])
    assert (folder / "notes" / "a.txt").exists()
    chains = {entry.body["call_id"]: entry.body["chain"] for entry in plane.sink.entries if entry.kind == "decision"}
    assert chains["k1"] == ["coder", "cleaner"]
    assert ("t1", "allow") in codes(plane)
    assert ("k1", "deny") in codes(plane)
