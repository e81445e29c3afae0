"""What the capsule adds to an assembly: 100 policies, and nothing new since the last call.

The native `BufferedChatCompletionContext` and ours hold the same conversation and are asked in turn, so that both
see the same machine. Printed are the medians and their difference, in microseconds. The bar is 300.
"""

import asyncio
import statistics
import sys
import time
from collections.abc import Callable, Coroutine
from typing import Any

from autogen_core import FunctionCall
from autogen_core.model_context import BufferedChatCompletionContext
from autogen_core.models import (
    AssistantMessage,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    LLMMessage,
    SystemMessage,
    UserMessage,
)

from carriage_autogen import ControlBufferedChatCompletionContext
from carriage_core import (
    AttributeSource,
    Compare,
    ControlPlane,
    Effect,
    Issuer,
    IssuerKind,
    Operator,
    Policy,
    PolicyRegistry,
    ToolBinding,
)

POLICIES = 100
ROUNDS = 200
BUFFER = 50
TIMES = 1_001
BAR = 300.0

OWNER = Issuer(kind=IssuerKind.ORGANIZATION, name="platform-security")


def registry() -> PolicyRegistry:
    """A hundred rules about a hundred repositories."""
    policies = [
        Policy(
            id=f"rule-{index}",
            issuer=OWNER,
            effect=Effect.DENY,
            text=f"Do not delete artifacts of acme/service-{index}.",
            actions=("delete",),
            where=Compare("object.repository", Operator.EQ, f"acme/service-{index}"),
        )
        for index in range(POLICIES)
    ]
    repository = AttributeSource(argument="repository")
    binding = ToolBinding(
        tool="delete_artifact",
        action="delete",
        object_type="artifact",
        object_attributes=(("repository", repository),),
    )
    return PolicyRegistry.of(policies, [binding])


def conversation() -> list[LLMMessage]:
    """Rounds of a question, a call and its result."""
    messages: list[LLMMessage] = []
    for index in range(ROUNDS):
        call = FunctionCall(id=f"c{index}", name="look_up", arguments=f'{{"key": "item {index}"}}')
        result = FunctionExecutionResult(content=f"value {index}", name="look_up", call_id=call.id, is_error=False)
        messages += [
            UserMessage(content=f"What is item {index}? " * 8, source="user"),
            AssistantMessage(content=[call], source="assistant"),
            FunctionExecutionResultMessage(content=[result]),
        ]
    return messages


async def microseconds(assemble: Callable[[], Coroutine[Any, Any, list[LLMMessage]]]) -> float:
    """Time one assembly."""
    start = time.perf_counter_ns()
    await assemble()
    return (time.perf_counter_ns() - start) / 1_000


async def measure() -> tuple[list[float], list[float]]:
    """Assemble natively and with us, in turn, and check that ours carries all rules."""
    plane = ControlPlane(registry(), actor="bench", control_budget=20_000, window=400_000)
    native = BufferedChatCompletionContext(BUFFER)
    ours = ControlBufferedChatCompletionContext(BUFFER, control=plane)
    for message in conversation():
        await native.add_message(message)
        await ours.add_message(message)
    first = await ours.get_messages()
    await native.get_messages()
    assert isinstance(first[0], SystemMessage)
    assert all(policy.text in first[0].content for policy in plane.registry.policies)
    assert plane.last_manifest is not None
    assert plane.last_manifest.complete
    samples: tuple[list[float], list[float]] = ([], [])
    for turn in range(TIMES):
        # Whoever is second finds warmer caches, so they take turns at that too.
        order = (0, 1) if turn % 2 else (1, 0)
        for which in order:
            samples[which].append(await microseconds((native, ours)[which].get_messages))
    return samples


def main() -> int:
    """Print the table; 1 past the bar."""
    native, ours = asyncio.run(measure())
    print(f"assembly, {POLICIES} policies, {ROUNDS * 3} messages, buffer {BUFFER}, median of {TIMES}, in microseconds")
    print(f"{'':10} {'median':>9} {'p95':>9}")
    for name, values in (("native", native), ("ours", ours)):
        print(f"{name:10} {statistics.median(values):9.1f} {statistics.quantiles(values, n=20)[-1]:9.1f}")
    added = statistics.median(ours) - statistics.median(native)
    ratio = statistics.median(ours) / statistics.median(native)
    print(f"{'added':10} {added:9.1f}           bar {BAR:.0f}   ({ratio:.1f} times native)")
    if added > BAR:
        print("over the bar")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
