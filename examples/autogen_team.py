# SPDX-License-Identifier: Apache-2.0
"""Put control into an AutoGen team that knows nothing of it, and see which paths were open before.

Offline: a replay client answers in place of a model.
"""

import asyncio
import warnings

from autogen_agentchat.agents import AssistantAgent, CodeExecutorAgent
from autogen_agentchat.teams import SelectorGroupChat
from autogen_ext.code_executors.local import LocalCommandLineCodeExecutor
from autogen_ext.models.replay import ReplayChatCompletionClient

from carriage_autogen import attach, inspect_agent
from carriage_core import ControlPlane, parse_policy_text

POLICIES = """
carriage: 1
tools:
  publish:
    action: publish
    object: {type: page, id: page}
  execute_shell: {shell: code}
policies:
  - id: ask-before-publish
    issuer: {kind: developer, name: docs-team}
    action: publish
    effect: confirm
    text: Ask a person before publishing a page.
  - id: keep-files
    issuer: {kind: organization, name: platform-security}
    action: delete
    effect: deny
    text: Do not delete files.
"""

MODEL = {
    "vision": False,
    "function_calling": True,
    "json_output": False,
    "family": "unknown",
    "structured_output": False,
}


def client(*answers: str) -> ReplayChatCompletionClient:
    """A model that says these things."""
    return ReplayChatCompletionClient(list(answers), model_info=MODEL)


def publish(page: str) -> str:
    """Publish a page."""
    return f"published {page}"


async def dana(question) -> str | None:  # noqa: ANN001  # carriage_autogen.Question
    """A person who approves the home page and nothing else."""
    return "dana" if question.arguments == {"page": "home"} else None


async def main() -> None:
    """Inspect, attach, inspect, run."""
    warnings.simplefilter("ignore")  # AutoGen's own, about running code on this machine
    writer = AssistantAgent("writer", client("I would publish."), tools=[publish], handoffs=["cleaner"])
    coder = client("```sh\nrm -rf build\n```", "I may not delete.")
    cleaner = CodeExecutorAgent(
        "cleaner", LocalCommandLineCodeExecutor(), model_client=coder, supported_languages=["sh"]
    )
    team = SelectorGroupChat([writer, cleaner], client("cleaner"), max_turns=1)

    print("Before:")
    print(inspect_agent(team))
    plane = ControlPlane(parse_policy_text(POLICIES))
    print("\nAfter:")
    print(attach(team, control=plane, confirm=dana, strict=True))

    result = await team.run(task="Clean up.")
    print("\nThe cleaner was told:")
    print(next(message.result.output for message in result.messages if hasattr(message, "result")))
    assert [entry.body["verdict"] for entry in plane.sink.entries if entry.kind == "decision"] == ["deny"]


asyncio.run(main())
