"""What the capsule costs: one assembly with 100 policies and nothing new, against AutoGen's own buffered context.

Both classes are measured in one run, turn by turn. Exits with 1 past `BAR` microseconds over the native class.
"""

from __future__ import annotations

import asyncio
import statistics
import time

from autogen_core.model_context import BufferedChatCompletionContext, ChatCompletionContext
from autogen_core.models import UserMessage

from carriage_core import ControlPlane, Effect, Issuer, IssuerKind, Policy, PolicyRegistry, WhitespaceCounter, load_adapter

POLICIES = 100
HISTORIES = (100, 1_000, 4_000)
BUFFER = 20
BATCH = 200
ROUNDS = 15
BAR = 300.0


def plane() -> ControlPlane:
    issuer = Issuer(kind=IssuerKind.ORGANIZATION, name="bench")
    policies = [
        Policy(id=f"rule-{number}", issuer=issuer, effect=Effect.DENY, text=f"Never touch system number {number}.")
        for number in range(POLICIES)
    ]
    return ControlPlane(PolicyRegistry.of(policies), control_budget=20_000, counter=WhitespaceCounter())


async def filled(context: ChatCompletionContext, length: int) -> ChatCompletionContext:
    for number in range(length):
        await context.add_message(UserMessage(content=f"message {number} " + "word " * 60, source="user"))
    await context.get_messages()
    return context


async def microseconds(context: ChatCompletionContext) -> float:
    start = time.thread_time_ns()
    for _ in range(BATCH):
        await context.get_messages()
    return (time.thread_time_ns() - start) / BATCH / 1_000


async def measured(length: int) -> tuple[float, float]:
    drop_in = load_adapter("autogen").drop_ins["buffered"]
    native = await filled(BufferedChatCompletionContext(BUFFER), length)
    ours = await filled(drop_in(BUFFER, control=plane()), length)
    times = [(await microseconds(native), await microseconds(ours)) for _ in range(ROUNDS)]
    return statistics.median(one for one, _ in times), statistics.median(other for _, other in times)


def main() -> int:
    print(f"assembly, {POLICIES} policies, buffer {BUFFER}, nothing new; microseconds of thread CPU, median of {ROUNDS}")
    print(f"{'history':>8} {'native':>8} {'ours':>8} {'added':>8}")
    worst = 0.0
    for length in HISTORIES:
        native, ours = asyncio.run(measured(length))
        worst = max(worst, ours - native)
        print(f"{length:>8} {native:>8.1f} {ours:>8.1f} {ours - native:>8.1f}")
    print(f"bar: at most {BAR:.0f} added; {'held' if worst <= BAR else 'MISSED'}")
    return 0 if worst <= BAR else 1


if __name__ == "__main__":
    raise SystemExit(main())
