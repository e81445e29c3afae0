"""A worker process: an agent of the core that holds a guarded AssistantAgent, on AutoGen's distributed runtime.

Usage: python grpc_worker.py HOST_ADDRESS NAME POLICY_FILE
"""

import asyncio
import json
import sys
from dataclasses import dataclass

from autogen_agentchat.agents import AssistantAgent
from autogen_core import FunctionCall, RoutedAgent, message_handler, try_get_known_serializers_for_type
from autogen_core.models import CreateResult, RequestUsage
from autogen_ext.models.replay import ReplayChatCompletionClient
from autogen_ext.runtimes.grpc import GrpcWorkerAgentRuntime

from carriage_autogen import attach
from carriage_core import ControlPlane, load_policy_file


@dataclass
class Ask:
    """Run a task in which the model pays `amount`."""

    amount: int


@dataclass
class Refresh:
    """Read the policy file again."""

    path: str


@dataclass
class Answer:
    """What happened, as JSON."""

    content: str


class Recording(ReplayChatCompletionClient):
    """Proposes one payment per call, and keeps what it was sent."""

    def __init__(self):
        super().__init__(
            ["-"],
            model_info={
                "vision": False,
                "function_calling": True,
                "json_output": False,
                "family": "unknown",
                "structured_output": False,
            },
        )
        self.heads = []
        self.amount = 0

    async def create(self, messages, **_):
        self.heads.append(messages[0].content)
        call = FunctionCall(id=f"call-{len(self.heads)}", name="pay", arguments=json.dumps({"amount": self.amount}))
        usage = RequestUsage(prompt_tokens=1, completion_tokens=1)
        return CreateResult(finish_reason="function_calls", content=[call], usage=usage, cached=False)


class Worker(RoutedAgent):
    """Runs its AssistantAgent for whoever asks."""

    def __init__(self, name, path):
        super().__init__("a guarded worker")
        self.paid = []

        def pay(amount: int) -> str:
            """Pay dollars."""
            self.paid.append(amount)
            return f"paid {amount}"

        self.client = Recording()
        self.plane = ControlPlane.from_file(path)
        self.agent = AssistantAgent(name, self.client, tools=[pay])
        attach(self.agent, control=self.plane, strict=True)

    @message_handler
    async def ask(self, message: Ask, ctx) -> Answer:
        self.client.amount = message.amount
        result = await self.agent.run(task="pay")
        said = {"head": self.client.heads[-1], "paid": self.paid, "last": result.messages[-1].content}
        return Answer(content=json.dumps(said))

    @message_handler
    async def refresh(self, message: Refresh, ctx) -> Answer:
        """Admit what rose in version; a file with a fault raises, and the rules in force stay."""
        known = {policy.identity: policy.version for policy in self.plane.registry.policies}
        for policy in load_policy_file(message.path).policies:
            if policy.version > known.get(policy.identity, 0):
                self.plane.admit(policy, by=policy.issuer)
        return Answer(content=self.plane.registry.digest)


def serializers():
    return [each for kind in (Ask, Refresh, Answer) for each in try_get_known_serializers_for_type(kind)]


async def main(address, name, path):
    runtime = GrpcWorkerAgentRuntime(address)
    runtime.add_message_serializer(serializers())
    await runtime.start()
    await Worker.register(runtime, name, lambda: Worker(name, path))
    print("ready", flush=True)  # noqa: T201  # the test waits for it
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await runtime.stop()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
