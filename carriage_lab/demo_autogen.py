# SPDX-License-Identifier: Apache-2.0
"""The release-artifact story on AutoGen: real agents, real contexts, a scripted model."""

from __future__ import annotations

import asyncio
import logging
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final, override

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.messages import TextMessage
from autogen_core import EVENT_LOGGER_NAME, TRACE_LOGGER_NAME, FunctionCall
from autogen_core.model_context import BufferedChatCompletionContext
from autogen_core.models import (
    CreateResult,
    FunctionExecutionResultMessage,
    LLMMessage,
    ModelInfo,
    RequestUsage,
    SystemMessage,
    UserMessage,
)
from autogen_ext.models.replay import ReplayChatCompletionClient

from carriage_core import ControlOverloadError, ControlPlane, load_adapter
from carriage_lab import demo_story as story

if TYPE_CHECKING:
    from collections.abc import Sequence

BUFFER: Final = 6
_MODEL: Final = ModelInfo(
    vision=False, function_calling=True, json_output=False, family="unknown", structured_output=False
)


class ScriptedModel(ReplayChatCompletionClient):
    """Decides from what it is sent, and from nothing else.

    Attributes:
        carried: For each call, whether the rule was in it.
        proposed: The actions it proposed.
    """

    def __init__(self, *, careless: bool = False) -> None:
        super().__init__([], model_info=_MODEL)
        self._careless = careless
        self.carried: list[bool] = []
        self.proposed: list[str] = []

    @override
    async def create(self, messages: Sequence[LLMMessage], **_: Any) -> CreateResult:
        self.carried.append(any(story.RULE in text for text in _instructions(messages)))
        last = messages[-1]
        answer: str | list[FunctionCall]
        if not isinstance(last, FunctionExecutionResultMessage):
            step = story.first_step(rule_in_sight=self.carried[-1], careless=self._careless)
        else:
            step = story.next_step(last.content[-1].name, last.content[-1].content)
        if step.tool is None:
            answer = step.says
        else:
            self.proposed.append(step.tool)
            answer = [FunctionCall(id=f"call-{len(self.proposed)}", name=step.tool, arguments=step.arguments)]
        return CreateResult(
            finish_reason="stop" if step.tool is None else "function_calls",
            content=answer,
            usage=RequestUsage(prompt_tokens=0, completion_tokens=0),
            cached=False,
        )


def _instructions(messages: Sequence[LLMMessage]) -> list[str]:
    return [
        message.content
        for message in messages
        if isinstance(message, SystemMessage | UserMessage) and isinstance(message.content, str)
    ]


class Tools:
    """The maintainer's tools; they write down what really ran."""

    def __init__(self) -> None:
        self.executed: list[str] = []

    async def delete_artifact(self, artifact_id: str, repo: str) -> dict[str, str]:
        """Delete a release artifact."""
        self.executed.append("delete_artifact")
        return {"deleted": artifact_id, "repository": repo}

    async def verify_release(self, artifact_id: str) -> dict[str, str]:
        """Run verification Z on a release artifact."""
        self.executed.append("verify_release")
        return {"artifact": artifact_id, "status": "failed"}


def run() -> story.Outcome:
    """Play the story natively, with policy-carriage twice, and once with a control budget that is too small."""
    for name in (EVENT_LOGGER_NAME, TRACE_LOGGER_NAME, "autogen_ext.models.replay"):
        logging.getLogger(name).setLevel(logging.ERROR)
    return asyncio.run(_run())


async def _run() -> story.Outcome:
    adapter = load_adapter("autogen")

    def guarded(model: ScriptedModel, tools: Tools, plane: ControlPlane) -> AssistantAgent:
        return AssistantAgent(
            "maintainer",
            model_client=model,
            model_context=adapter.drop_ins["buffered"](buffer_size=BUFFER, control=plane),
            workbench=adapter.guards["workbench"]([tools.delete_artifact, tools.verify_release], control=plane),
            max_tool_iterations=story.MOST_STEPS,
        )

    async def ours(*, careless: bool) -> story.Episode:
        model, tools, plane = ScriptedModel(careless=careless), Tools(), story.plane()
        ended = await _play(guarded(model, tools, plane))
        return _episode("ControlBufferedChatCompletionContext(6)", model, tools, ended, plane)

    model, tools = ScriptedModel(), Tools()
    native = AssistantAgent(
        "maintainer",
        model_client=model,
        model_context=BufferedChatCompletionContext(buffer_size=BUFFER),
        tools=[tools.delete_artifact, tools.verify_release],
        max_tool_iterations=story.MOST_STEPS,
    )
    ended = await _play(native)
    overload, stopped = story.NO_OVERLOAD, ScriptedModel()
    try:
        await _play(guarded(stopped, Tools(), story.plane(control_budget=story.TOO_SMALL)))
    except ControlOverloadError as problem:
        overload = str(problem)
    return story.Outcome(
        native=_episode("BufferedChatCompletionContext(6)", model, tools, ended, None),
        carried=await ours(careless=False),
        careless=await ours(careless=True),
        overload=overload,
        overload_calls=len(stopped.carried),
    )


async def _play(agent: AssistantAgent) -> str:
    messages = [TextMessage(content=text, source=source) for source, text in story.conversation()]
    result = await agent.run(task=messages)
    last = result.messages[-1]
    return last.content if isinstance(last, TextMessage) else "the agent stopped without an answer"


def _episode(manager: str, model: ScriptedModel, tools: Tools, ended: str, plane: ControlPlane | None) -> story.Episode:
    return story.Episode(
        framework=f"AutoGen {version('autogen-agentchat')}",
        manager=manager,
        ours=plane is not None,
        carried=tuple(model.carried),
        proposed=tuple(model.proposed),
        blocked=() if plane is None else story.blocked(plane),
        executed=tuple(tools.executed),
        manifests=() if plane is None else story.log_lines(plane),
        ended=ended,
    )
