"""The AutoGen adapter against the native classes, in one run: ratios, and what is added to each call.

Long histories of messages of about 80 tokens at a token limit of 25 %; the native class is quadratic, so it runs at
200 and 1,000 messages, and at 4,000 only with --full (five minutes and more). Then what the other drop-ins, a guarded
tool call and a team on one plane add. The bars are those of the design; a figure over its bar ends the run with 1.
"""

import asyncio
import gc
import json
import random
import statistics
import sys
import time
import tracemalloc
from pathlib import Path
from tempfile import TemporaryDirectory

from autogen_core.model_context import (
    BufferedChatCompletionContext,
    HeadAndTailChatCompletionContext,
    TokenLimitedChatCompletionContext,
    UnboundedChatCompletionContext,
)
from autogen_core.models import AssistantMessage, UserMessage
from autogen_core.tools import FunctionTool, StaticStreamWorkbench
from autogen_ext.models.openai import OpenAIChatCompletionClient

from carriage_autogen import (
    ControlBufferedChatCompletionContext,
    ControlHeadAndTailChatCompletionContext,
    ControlTokenLimitedChatCompletionContext,
    ControlUnboundedChatCompletionContext,
    GuardedWorkbench,
)
from carriage_core import ControlPlane, Entry, parse_policy_text

POLICIES = """
carriage: 1
tools:
  look_up: {action: read, object: {type: record, id: key}, external: false}
policies:
  - id: no-payroll
    issuer: {kind: organization, name: platform-security}
    action: read
    object: {type: record, id: payroll}
    effect: deny
    text: Never read the payroll record.
  - id: polite
    issuer: {kind: organization, name: platform-security}
    effect: deny
    text: Never promise a refund.
"""
WORDS = ["alpha", "release", "deploy", "artifact", "build", "verify", "customer", "orange", "seven", "quickly"]
CLIENT = OpenAIChatCompletionClient(model="gpt-4o", api_key="none")
AGENTS, TURNS = 64, 20

over: list[str] = []


def bar(name: str, value: float, most: float, unit: str) -> None:
    """Print a figure beside its bar."""
    verdict = "" if value <= most else "  OVER"
    if verdict:
        over.append(name)
    print(f"  {name:<58}{value:>10.3g} {unit:<8}(bar {most:g}){verdict}")


def message(number: int, chooser: random.Random) -> UserMessage | AssistantMessage:
    """A message of about 80 tokens."""
    text = " ".join(chooser.choice(WORDS) for _ in range(76))
    return UserMessage(content=text, source="user") if number % 2 == 0 else AssistantMessage(content=text, source="a")


def history(count: int):
    chooser = random.Random(count)
    return [message(number, chooser) for number in range(count)]


def fill(context, messages) -> None:
    """Put messages into a context."""

    async def put():
        for each in messages:
            await context.add_message(each)

    asyncio.run(put())


class BufferedSink:
    """Writes the log to a file through the operating system's buffer, and keeps nothing."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8", buffering=1 << 20)

    def write(self, entry: Entry) -> None:
        self._file.write(json.dumps(entry.as_json()) + "\n")


def plane(folder: Path, actor: str | None = "agent") -> ControlPlane:
    """A plane with a large window and a buffered log."""
    registry = parse_policy_text(POLICIES)
    sink = BufferedSink(folder / "log.jsonl")
    return ControlPlane(registry, actor=actor, control_budget=2_000, window=1_000_000, sink=sink)


def timed(coroutine) -> tuple[float, object]:
    async def run():
        start = time.perf_counter()
        value = await coroutine
        return time.perf_counter() - start, value

    return asyncio.run(run())


def medians(make_calls, times: int = 201) -> list[float]:
    """Median microseconds of several things that take turns, so that all see the same machine."""

    async def run():
        taken = [[] for _ in make_calls]
        for _ in range(times):
            for place, call in enumerate(make_calls):
                start = time.perf_counter()
                await call()
                taken[place].append(time.perf_counter() - start)
        return [statistics.median(each) * 1e6 for each in taken]

    return asyncio.run(run())


def token_limited(folder: Path, sizes: list[int], native_sizes: list[int]) -> None:
    print("TokenLimited, limit 25 %")
    for size in sizes:
        messages = history(size)
        limit = CLIENT.count_tokens(messages) // 4
        ours = ControlTokenLimitedChatCompletionContext(CLIENT, token_limit=limit, control=plane(folder))
        fill(ours, messages)
        first, shown = timed(ours.get_messages())
        nexts = []
        chooser = random.Random(1)
        for number in range(21):
            asyncio.run(ours.add_message(message(number, chooser)))
            nexts.append(timed(ours.get_messages())[0])
        later = statistics.median(nexts)
        print(f"  {size} messages: first call {first:.3f} s ({len(shown)} shown), next call {later * 1e3:.2f} ms")
        if size == sizes[-1]:
            bar(f"first call at {size} messages", first, 1.0, "s")
        bar(f"next call at {size} messages", later * 1e3, 2.0, "ms")
        if size in native_sizes:
            native = TokenLimitedChatCompletionContext(CLIENT, token_limit=limit)
            fill(native, messages)
            took, kept = timed(native.get_messages())
            print(f"  {size} messages: native {took:.1f} s ({len(kept)} shown), {took / first:.0f} x ours")
            if size >= 4_000:
                bar("ours as a share of native, 1 / 300", first / took * 300, 1.0, "")


def windows(folder: Path) -> None:
    print("What a drop-in adds to an assembly of 400 messages, native beside it")
    messages = history(400)
    pairs = {
        "buffered 50": (
            BufferedChatCompletionContext(50),
            ControlBufferedChatCompletionContext(50, control=plane(folder)),
        ),
        "head and tail 10 + 40": (
            HeadAndTailChatCompletionContext(10, 40),
            ControlHeadAndTailChatCompletionContext(10, 40, control=plane(folder)),
        ),
        "unbounded": (
            UnboundedChatCompletionContext(),
            ControlUnboundedChatCompletionContext(control=plane(folder)),
        ),
    }
    for name, (native, ours) in pairs.items():
        for context in (native, ours):
            fill(context, messages)
            asyncio.run(context.get_messages())
        theirs, mine = medians([native.get_messages, ours.get_messages])
        bar(f"{name}: {mine:.0f} with, {theirs:.0f} without", mine - theirs, 300.0, "us")


def guarded_call(folder: Path) -> None:
    print("What the guard adds to a tool call")

    def look_up(key: str) -> str:
        """Look a record up."""
        return key

    tool = FunctionTool(look_up, description="look up")
    native, ours = StaticStreamWorkbench([tool]), GuardedWorkbench([tool], control=plane(folder))
    numbers = iter(range(10_000_000))

    async def call(workbench):
        await workbench.call_tool("look_up", {"key": "a"}, None, f"call-{next(numbers)}")

    theirs, mine = medians([lambda: call(native), lambda: call(ours)], 1_001)
    bar(f"guarded call: {mine:.0f} with, {theirs:.0f} without", mine - theirs, 200.0, "us")


def many_agents(folder: Path) -> None:
    print(f"{AGENTS} agents in one event loop, {TURNS} assemblies and calls each")

    def look_up(key: str) -> str:
        """Look a record up."""
        return key

    async def agent(control, name):
        context = ControlBufferedChatCompletionContext(20, control=control)
        workbench = GuardedWorkbench([look_up], control=control)
        for turn in range(TURNS):
            await context.add_message(UserMessage(content=f"{name} turn {turn}", source="user"))
            prompt = await context.get_messages()
            assert all(name in each.content for each in prompt[1:]), "cross-talk"
            assert control.last_manifest.actor == name
            await workbench.call_tool("look_up", {"key": name}, None, f"{name}-{turn}")
            await asyncio.sleep(0)

    async def together(controls):
        start = time.perf_counter()
        await asyncio.gather(*(agent(control, control.runtime.actor) for control in controls))
        return time.perf_counter() - start

    names = [f"agent{number}" for number in range(AGENTS)]
    one, many = [], []
    for _ in range(5):
        shared = plane(folder, actor=None)
        one.append(asyncio.run(together([shared.as_actor(name) for name in names])))
        many.append(asyncio.run(together([plane(folder, actor=name) for name in names])))
    each = AGENTS * TURNS
    print(f"  one plane {each / min(one):.0f} a second, {AGENTS} planes {each / min(many):.0f} a second")
    bar("time on one plane over time on 64", min(one) / min(many), 1.1, "")


def memory(folder: Path) -> None:
    print("Memory of a 4,000-message history, native as 1")

    def size(make) -> int:
        gc.collect()
        tracemalloc.start()
        context = make()
        fill(context, history(4_000))
        asyncio.run(context.get_messages())
        gc.collect()
        taken = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        return taken if context is not None else 0

    asyncio.run(ControlUnboundedChatCompletionContext(control=plane(folder)).get_messages())
    control = plane(folder)
    control.capsule()
    native = size(UnboundedChatCompletionContext)
    ours = size(lambda: ControlUnboundedChatCompletionContext(control=control))
    print(f"  native {native / 1e6:.2f} MB, ours {ours / 1e6:.2f} MB")
    bar("memory over native", (ours - native) / native * 100, 10.0, "%")


def main() -> int:
    full = "--full" in sys.argv
    with TemporaryDirectory() as name:
        folder = Path(name)
        token_limited(folder, [200, 1_000, 4_000], [200, 1_000, *([4_000] if full else [])])
        windows(folder)
        guarded_call(folder)
        many_agents(folder)
        memory(folder)
    print("all within their bars" if not over else f"over: {', '.join(over)}")
    return 1 if over else 0


if __name__ == "__main__":
    raise SystemExit(main())
