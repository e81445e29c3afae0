"""An AutoGen agent that keeps its rule in view, and is stopped where it would break it.

The scripted model tries to delete first. It is denied, verifies as the denial says, and then the deletion runs.
"""

import asyncio
import logging

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.messages import ToolCallExecutionEvent
from autogen_core import FunctionCall
from autogen_core.models import CreateResult, ModelInfo, RequestUsage
from autogen_ext.models.replay import ReplayChatCompletionClient

from carriage_autogen import ControlBufferedChatCompletionContext, GuardedWorkbench
from carriage_core import ControlPlane
from carriage_lab.demo_story import policy_path


def delete_artifact(artifact_id: str, repo: str) -> str:
    """Delete a release artifact."""
    return f"deleted {artifact_id} from {repo}"


def verify_release(artifact_id: str) -> dict[str, str]:
    """Run verification Z on a release artifact."""
    return {"artifact": artifact_id, "status": "succeeded"}


def proposal(call_id: str, tool: str, arguments: str) -> CreateResult:
    """What a model answers when it wants a tool; here it is scripted, so that no network is needed."""
    call = FunctionCall(id=call_id, name=tool, arguments=arguments)
    usage = RequestUsage(prompt_tokens=0, completion_tokens=0)
    return CreateResult(finish_reason="function_calls", content=[call], usage=usage, cached=False)


logging.getLogger("autogen_core.events").setLevel(logging.ERROR)  # the replay client's token counting
DELETION = '{"artifact_id": "build-1204", "repo": "acme/payments"}'
client = ReplayChatCompletionClient(
    [
        proposal("1", "delete_artifact", DELETION),
        proposal("2", "verify_release", '{"artifact_id": "build-1204"}'),
        proposal("3", "delete_artifact", DELETION),
        "The cleanup is finished.",
    ],
    model_info=ModelInfo(
        vision=False, function_calling=True, json_output=False, family="unknown", structured_output=False
    ),
)


async def main() -> None:
    """Run the agent once and print what its tools answered."""
    plane = ControlPlane.from_file(policy_path(), actor="release-bot", tenant="acme", control_budget=800)
    agent = AssistantAgent(
        "maintainer",
        model_client=client,
        max_tool_iterations=4,
        model_context=ControlBufferedChatCompletionContext(buffer_size=6, control=plane),
        workbench=GuardedWorkbench([delete_artifact, verify_release], control=plane),
    )
    result = await agent.run(task="Finish the cleanup: artifact build-1204 in acme/payments.")
    for message in result.messages:
        if isinstance(message, ToolCallExecutionEvent):
            print(f"{message.content[0].name}: {message.content[0].content}")
    print(result.messages[-1].to_text())


asyncio.run(main())
