"""What the OpenHands tests share: a model that records what it is sent, judges of that, tools, and events.

The recorder and the judges import nothing of ours. They know the rules from `FACTS`, written by hand.
"""

import copy
import json
import logging
import os
import sys
import threading
import warnings
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import ClassVar, Self

# The SDK asks for a price list over the network and prints a banner while it is imported.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
os.environ.setdefault("OPENHANDS_SUPPRESS_BANNER", "1")
os.environ["ALLOW_SHORT_CONTEXT_WINDOWS"] = "true"  # small windows are what these tests are about

import pytest
from openhands.sdk import Conversation
from openhands.sdk.event import (
    ActionEvent,
    AgentErrorEvent,
    MessageEvent,
    ObservationEvent,
    SystemPromptEvent,
    UserRejectObservation,
)
from openhands.sdk.llm import Message, MessageToolCall, TextContent, ThinkingBlock
from openhands.sdk.testing import TestLLM
from openhands.sdk.tool import Action, Observation, Tool, ToolDefinition, ToolExecutor, register_tool
from pydantic import Field, PrivateAttr

logging.getLogger("openhands").setLevel(logging.CRITICAL)
with warnings.catch_warnings():
    # litellm's models are built by their first use, and pydantic warns of what it finds in them.
    warnings.simplefilter("ignore")
    TestLLM.from_messages([Message(role="assistant", content=[])]).completion([])

POLICIES = Path(__file__).with_name("policies.yaml")

# For each rule: which actor and tenant it is for (None: all), which tool brings it in (None: always), its sentence,
# and what its clause must name.
DELETE = "Do not delete release artifacts unless verification Z succeeds."
FACTS = {
    "verify-before-delete": (None, "acme", "delete_artifact", DELETE, ["acme/*", "succeeded"]),
    "ask-before-publish": (None, None, "publish", "Ask a person before publishing a page.", ["publish"]),
    "pay-little": (None, None, "pay", "Never pay more than 5 dollars.", ["pay", "5"]),
    "polite": (None, None, None, "Never promise a refund.", None),
    "bot-only": ("release-bot", None, None, "Sign every answer as release-bot.", None),
    "other-tenant": (None, "globex", None, "Globex answers are written in French.", None),
}

# -- the model ------------------------------------------------------------------------------------


class Recorder(TestLLM):
    """Keeps a deep copy of the messages, and the names of the tools, of each call before anything answers."""

    _requests: list = PrivateAttr(default_factory=list)
    _offered: list = PrivateAttr(default_factory=list)

    @property
    def requests(self):
        return self._requests

    @property
    def offered(self):
        return self._offered

    def completion(self, messages, tools=None, **more):
        self._requests.append(copy.deepcopy(list(messages)))
        self._offered.append({tool.name for tool in tools or ()})
        return super().completion(messages, tools, **more)


def says(text):
    return Message(role="assistant", content=[TextContent(text=text)])


def proposes(*calls, thought=""):
    """A model answer that makes calls, each given as (id, tool, arguments)."""
    made = [
        MessageToolCall(id=call_id, name=tool, arguments=json.dumps(arguments), origin="completion")
        for call_id, tool, arguments in calls
    ]
    content = [TextContent(text=thought)] if thought else []
    return Message(role="assistant", content=content, tool_calls=made)


def recorder(*answers, **fields):
    return Recorder.from_messages(list(answers), **fields)


# -- judges ---------------------------------------------------------------------------------------


def text_of(message):
    return "".join(part.text for part in message.content if isinstance(part, TextContent))


def applicable(actor, tenant, tools):
    return {
        name
        for name, (agent, owner, tool, _, _) in FACTS.items()
        if (agent is None or actor is None or agent == actor)
        and (owner is None or tenant is None or owner == tenant)
        and (tool is None or tool in tools)
    }


def carried(messages):
    """How often each rule stands in the one system message: as its sentence, or as id and clause."""
    assert [message.role for message in messages].count("system") == 1
    assert messages[0].role == "system"
    lines = text_of(messages[0]).splitlines()
    found = Counter()
    for name, (_, _, _, sentence, constants) in FACTS.items():
        said = sum(line in {sentence, json.dumps(sentence), f"User rule: {sentence}"} for line in lines)
        written = sum(
            line.startswith(f"[{name}] ") and constants is not None and all(word in line for word in constants)
            for line in lines
        )
        compact_prose = sum(line.startswith(f"[{name}] ") and json.dumps(sentence) in line for line in lines)
        if said or written or compact_prose:
            found[name] = max(said, written, compact_prose)
    return found


def unpaired(messages):
    """What providers refuse: (calls without result, calls open at the end, results without call)."""
    open_calls, orphans = [], []
    waiting = Counter()
    for message in messages:
        if message.role == "tool":
            if waiting[message.tool_call_id] > 0:
                waiting[message.tool_call_id] -= 1
            else:
                orphans.append(message.tool_call_id)
        else:
            open_calls += list(waiting.elements())
            waiting = Counter(call.id for call in message.tool_calls or ())
    return open_calls, list(waiting.elements()), orphans


def on_the_wire(messages):
    """OpenAI-style dicts, for a judge that is not ours."""
    wire = []
    for message in messages:
        entry = {"role": message.role, "content": text_of(message)}
        if message.tool_calls:
            entry["content"] = entry["content"] or None
            entry["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for call in message.tool_calls
            ]
        if message.role == "tool":
            entry["tool_call_id"] = message.tool_call_id
        wire.append(entry)
    return wire


def recount(counter, messages, tools):
    """Tokens of an assembly: every text the model sees, and every tool's schema."""
    total = sum(counter.count(json.dumps(tool.to_openai_tool(add_security_risk_prediction=True))) for tool in tools)
    for message in messages:
        words = [text_of(message), message.tool_call_id, message.name]
        for call in message.tool_calls or ():
            words += [call.id, call.name, call.arguments]
        total += sum(counter.count(word) for word in words if word)
    return total


# -- tools that write down themselves what they did ------------------------------------------------

EFFECTS: list[tuple[str, dict]] = []
STATUS = {"status": "succeeded"}
_lock = threading.Lock()


def happened(tool, action):
    with _lock:
        EFFECTS.append((tool, {name: getattr(action, name) for name in type(action).model_fields}))


class DeleteArtifactAction(Action):
    artifact_id: str
    repo: str


class VerifyReleaseAction(Action):
    artifact_id: str


class PublishAction(Action):
    page: str


class PayAction(Action):
    amount: float
    summary: str = ""


class ListArtifactsAction(Action):
    names: list[str] = Field(default_factory=list)


class UnlistedAction(Action):
    pass


class DoneObservation(Observation):
    pass


class VerifiedObservation(Observation):
    artifact: str
    status: str


class Runs(ToolExecutor):
    """Writes down what it does, then does as told: answers, fails, raises or is interrupted."""

    def __init__(self, tool):
        self.tool = tool
        self.closed = False

    def __call__(self, action, conversation=None):
        happened(self.tool, action)
        if self.tool == "verify_release":
            match STATUS["status"]:
                case "raises":
                    raise RuntimeError("the verifier broke")
                case "interrupted":
                    raise KeyboardInterrupt
                case "wrong":
                    return {"artifact": action.artifact_id}
                case status:
                    return VerifiedObservation.from_text(
                        f"verification: {status}",
                        artifact=action.artifact_id,
                        status=status,
                        is_error=status == "error",
                    )
        return DoneObservation.from_text("done")

    def close(self):
        self.closed = True


class MadeTool(ToolDefinition):
    """A tool of these tests; subclasses give the name and the action."""

    action: ClassVar[type[Action]]

    @classmethod
    def create(cls, conv_state=None, **params) -> Sequence[Self]:
        seen = VerifiedObservation if cls.name == "verify_release" else DoneObservation
        made = cls(
            description=f"{cls.name} for the tests",
            action_type=cls.action,
            observation_type=seen,
            executor=Runs(cls.name),
        )
        return [made]


class DeleteArtifactTool(MadeTool):
    action = DeleteArtifactAction


class VerifyReleaseTool(MadeTool):
    action = VerifyReleaseAction


class PublishTool(MadeTool):
    action = PublishAction


class PayTool(MadeTool):
    action = PayAction


class ListArtifactsTool(MadeTool):
    action = ListArtifactsAction


class UnlistedTool(MadeTool):
    action = UnlistedAction


TOOLS = (DeleteArtifactTool, VerifyReleaseTool, PublishTool, PayTool, ListArtifactsTool)
NAMES = tuple(tool.name for tool in TOOLS)
for each in (*TOOLS, UnlistedTool):
    register_tool(each.__name__, each)


def tool_specs(*tools):
    return [Tool(name=tool.__name__) for tool in tools or TOOLS]


# -- events ---------------------------------------------------------------------------------------


@cache
def made(tool):
    """One object for each tool, as an agent has it: schemas are measured once."""
    return tool.create()[0]


def system_event(dynamic=None, tools=TOOLS):
    return SystemPromptEvent(
        source="agent",
        system_prompt=TextContent(text="You look after releases."),
        tools=[made(tool) for tool in tools],
        dynamic_context=None if dynamic is None else TextContent(text=dynamic),
    )


def message_event(text, source="user"):
    role = "assistant" if source == "agent" else "user"
    return MessageEvent(source=source, llm_message=Message(role=role, content=[TextContent(text=text)]))


def round_events(name, text, results, *, thinking=False, open_end=False):
    """One model response that makes a call for each of `results`, and what came back."""
    actions, answers = [], []
    for number, result in enumerate(results):
        call_id = f"call-{name}-{number}"
        action = ActionEvent(
            thought=[TextContent(text=text)] if number == 0 else [],
            thinking_blocks=[ThinkingBlock(thinking=text, signature="s")] if thinking and number == 0 else [],
            action=ListArtifactsAction(names=[text]),
            tool_name="list_artifacts",
            tool_call_id=call_id,
            tool_call=MessageToolCall(
                id=call_id, name="list_artifacts", arguments=json.dumps({"names": [text]}), origin="completion"
            ),
            llm_response_id=f"response-{name}",
        )
        actions.append(action)
        common = {"tool_name": "list_artifacts", "tool_call_id": call_id}
        match result:
            case "error":
                answers.append(AgentErrorEvent(error=text, **common))
            case "reject":
                answers.append(UserRejectObservation(action_id=action.id, rejection_reason=text, **common))
            case _:
                seen = DoneObservation.from_text(text)
                answers.append(ObservationEvent(observation=seen, action_id=action.id, **common))
    return actions + (answers[:-1] if open_end else answers)


# -- fixtures -------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def kit():
    """Everything above, by name."""
    return sys.modules[__name__]


@pytest.fixture(autouse=True)
def fresh_effects():
    EFFECTS.clear()
    STATUS["status"] = "succeeded"


@pytest.fixture
def talk(tmp_path):
    """Start a conversation; closed at the end."""
    made = []

    def start(agent, **more):
        conversation = Conversation(agent, workspace=tmp_path / "work", visualizer=None, **more)
        made.append(conversation)
        return conversation

    (tmp_path / "work").mkdir()
    yield start
    for conversation in made:
        conversation.close()
