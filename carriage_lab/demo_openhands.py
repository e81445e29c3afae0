# SPDX-License-Identifier: Apache-2.0
"""The release-artifact story on OpenHands: real conversations, real condensers, a scripted model.

Natively, OpenHands summarises what it forgets. The scripted summariser writes what such summaries hold, progress
and what is left to do; the rule is not in it. The rule comes after the first exchange, where no condenser keeps it.
"""

from __future__ import annotations

import logging
import os
import tempfile
import warnings
from contextlib import contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, override

# The SDK asks for a price list over the network and prints a banner while it is imported.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
os.environ.setdefault("OPENHANDS_SUPPRESS_BANNER", "1")

from openhands.sdk import Agent, Conversation
from openhands.sdk.context.condenser import LLMSummarizingCondenser
from openhands.sdk.conversation.exceptions import ConversationRunError
from openhands.sdk.llm import LLMResponse, Message, MessageToolCall, TextContent
from openhands.sdk.testing import TestLLM
from openhands.sdk.tool import Action, Observation, Tool, ToolDefinition, ToolExecutor, register_tool
from pydantic import PrivateAttr

from carriage_core import ControlOverloadError, ControlPlane, load_adapter
from carriage_lab import demo_story as story

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MOST_EVENTS: Final = 10
GREETING: Final = "You look after the releases of acme/payments. Say when you are ready."
SUMMARY: Final = (
    "USER_CONTEXT: maintainer of acme/payments, watching CI.\n"
    "COMPLETED: CI logs 01 to 11 read; all jobs finished, caches warm, uploads done.\n"
    "PENDING: CI log 12, then whatever cleanup is asked for."
)


class ScriptedModel(TestLLM):
    """Decides from what it is sent, and from nothing else."""

    _careless: bool = PrivateAttr(default=False)
    _carried: list[bool] = PrivateAttr(default_factory=list)
    _proposed: list[str] = PrivateAttr(default_factory=list)
    _calls: int = PrivateAttr(default=0)

    @classmethod
    def make(cls, *, careless: bool = False) -> Self:
        """Make a model; a careless one deletes whatever it is shown."""
        model = cls(model="scripted", usage_id="scripted")
        model._careless = careless
        return model

    @property
    def carried(self) -> tuple[bool, ...]:
        """For each call from the request on, whether the rule was in it."""
        return tuple(self._carried)

    @property
    def proposed(self) -> tuple[str, ...]:
        """The actions it proposed."""
        return tuple(self._proposed)

    @property
    def calls(self) -> int:
        """All calls made of it."""
        return self._calls

    @override
    def completion(self, messages: list[Message], *args: Any, **more: Any) -> LLMResponse:
        self._calls += 1
        self._scripted_responses.append(self._answer(messages))
        return super().completion(messages, *args, **more)

    def _answer(self, messages: Sequence[Message]) -> Message:
        last = messages[-1]
        if last.role == "user" and story.REQUEST not in _text(last):
            return Message(role="assistant", content=[TextContent(text="Ready.")])
        in_sight = any(story.RULE in _text(message) for message in messages if message.role in {"system", "user"})
        self._carried.append(in_sight)
        if last.role == "tool":
            step = story.next_step(last.name or "", _text(last))
        else:
            step = story.first_step(rule_in_sight=in_sight, careless=self._careless)
        if step.tool is None:
            return Message(role="assistant", content=[TextContent(text=step.says)])
        self._proposed.append(step.tool)
        call = MessageToolCall(id=f"call-{self._calls}", name=step.tool, arguments=step.arguments, origin="completion")
        return Message(role="assistant", content=[], tool_calls=[call])


def _text(message: Message) -> str:
    return "\n".join(part.text for part in message.content if isinstance(part, TextContent))


_executed: list[str] = []
"""What really ran in the run that is being played; the tools themselves write it down."""


class DemoDeleteAction(Action):
    """Arguments of `delete_artifact`."""

    artifact_id: str
    repo: str


class DemoVerifyAction(Action):
    """Arguments of `verify_release`."""

    artifact_id: str


class DemoDeleteObservation(Observation):
    """What was deleted."""

    deleted: str


class DemoVerifyObservation(Observation):
    """How verification Z ended."""

    artifact: str
    status: str


class _Delete(ToolExecutor[DemoDeleteAction, DemoDeleteObservation]):
    @override
    def __call__(self, action: DemoDeleteAction, conversation: object = None) -> DemoDeleteObservation:
        _executed.append(DemoDeleteTool.name)
        return DemoDeleteObservation.from_text(f"{action.artifact_id} is deleted.", deleted=action.artifact_id)


class _Verify(ToolExecutor[DemoVerifyAction, DemoVerifyObservation]):
    @override
    def __call__(self, action: DemoVerifyAction, conversation: object = None) -> DemoVerifyObservation:
        _executed.append(DemoVerifyTool.name)
        text = f"verification Z of {action.artifact_id}: failed"
        return DemoVerifyObservation.from_text(text, artifact=action.artifact_id, status="failed")


class DemoDeleteTool(ToolDefinition[DemoDeleteAction, DemoDeleteObservation]):
    """Deletes a release artifact, as far as the story goes."""

    name: ClassVar[str] = "delete_artifact"

    @classmethod
    @override
    def create(cls, *args: object, **params: object) -> Sequence[Self]:
        return [
            cls(
                description="Delete a release artifact.",
                action_type=DemoDeleteAction,
                observation_type=DemoDeleteObservation,
                executor=_Delete(),
            )
        ]


class DemoVerifyTool(ToolDefinition[DemoVerifyAction, DemoVerifyObservation]):
    """Runs verification Z, which fails."""

    name: ClassVar[str] = "verify_release"

    @classmethod
    @override
    def create(cls, *args: object, **params: object) -> Sequence[Self]:
        return [
            cls(
                description="Run verification Z on a release artifact.",
                action_type=DemoVerifyAction,
                observation_type=DemoVerifyObservation,
                executor=_Verify(),
            )
        ]


_TOOLS: Final = (DemoDeleteTool, DemoVerifyTool)


def run() -> story.Outcome:
    """Play the story natively, with policy-carriage twice, and once with a control budget that is too small."""
    for tool in _TOOLS:
        register_tool(tool.__name__, tool)
    with _quiet():
        overload, stopped = story.NO_OVERLOAD, ScriptedModel.make()
        try:
            _play(_guarded(stopped, story.plane(control_budget=story.TOO_SMALL)))
        except ConversationRunError as problem:
            if not isinstance(problem.__cause__, ControlOverloadError):
                raise
            overload = str(problem.__cause__)
        return story.Outcome(
            native=_native(),
            carried=_ours(careless=False),
            careless=_ours(careless=True),
            overload=overload,
            overload_calls=stopped.calls,
        )


def _specs() -> list[Tool]:
    return [Tool(name=tool.__name__) for tool in _TOOLS]


def _guarded(model: ScriptedModel, plane: ControlPlane) -> Agent:
    adapter = load_adapter("openhands")
    condenser = adapter.drop_ins["rolling"](control=plane, max_size=MOST_EVENTS, keep_first=2)
    agent = adapter.guards["agent"](llm=model, tools=_specs(), condenser=condenser)
    if not isinstance(agent, Agent):
        raise TypeError(f"the guarded agent is a {type(agent).__name__}")
    return agent


def _native() -> story.Episode:
    model = ScriptedModel.make()
    summary = Message(role="assistant", content=[TextContent(text=SUMMARY)])
    summariser = TestLLM.from_messages([summary], usage_id="summariser")
    condenser = LLMSummarizingCondenser(llm=summariser, max_size=MOST_EVENTS, keep_first=2)
    ended = _play(Agent(llm=model, tools=_specs(), condenser=condenser))
    return _episode(f"LLMSummarizingCondenser({MOST_EVENTS})", model, ended, None)


def _ours(*, careless: bool) -> story.Episode:
    model, plane = ScriptedModel.make(careless=careless), story.plane()
    ended = _play(_guarded(model, plane))
    return _episode(f"ControlRollingCondenser({MOST_EVENTS})", model, ended, plane)


def _play(agent: Agent) -> str:
    """Greet, tell the story, ask; return the last words."""
    _executed.clear()
    with tempfile.TemporaryDirectory() as folder:
        # The SDK's tracing decorator hides the types of these methods.
        talk: Any = Conversation(agent, workspace=folder, visualizer=None)
        talk.send_message(GREETING)
        talk.run()
        for _, text in story.conversation():
            talk.send_message(text)
        talk.run()
        words = [_text(event.to_llm_message()) for event in talk.state.view.events]
        talk.close()
    return words[-1]


def _episode(manager: str, model: ScriptedModel, ended: str, plane: ControlPlane | None) -> story.Episode:
    return story.Episode(
        framework=f"OpenHands SDK {version('openhands-sdk')}",
        manager=manager,
        ours=plane is not None,
        carried=model.carried,
        proposed=model.proposed,
        blocked=() if plane is None else story.blocked(plane),
        executed=tuple(_executed),
        manifests=() if plane is None else story.log_lines(plane),
        ended=ended,
    )


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the SDK's log, which tells of every conversation and of the refusals the story is about."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
