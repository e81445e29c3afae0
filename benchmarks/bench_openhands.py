"""What the OpenHands drop-ins cost beside the native condenser, in one run on one machine.

At 200, 1,000 and 4,000 events with `max_tokens` set: a step that adds two events and needs no condensation, and a cut.
Native and ours see the same events; the summarizer is scripted and costs nothing. Then what the guard adds to a tool
call, and what importing the adapter adds to importing the SDK. Bars, at 4,000 events: 5 ms for a step, 0.5 s for a cut;
300 microseconds for a call; 0.25 s for the import.
"""

import json
import logging
import os
import re
import statistics
import subprocess
import sys
import time
import warnings
from tempfile import TemporaryDirectory

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
os.environ.setdefault("OPENHANDS_SUPPRESS_BANNER", "1")

from openhands.sdk import Conversation
from openhands.sdk.context.condenser import LLMSummarizingCondenser
from openhands.sdk.context.view import View
from openhands.sdk.event import ActionEvent, MessageEvent, ObservationEvent, SystemPromptEvent
from openhands.sdk.llm import Message, MessageToolCall, TextContent
from openhands.sdk.testing import TestLLM
from openhands.sdk.tool import Action, Observation, Tool, ToolDefinition, ToolExecutor, register_tool

from carriage_core import AttributeSource, ControlPlane, Effect, Issuer, IssuerKind, Policy, PolicyRegistry, ToolBinding
from carriage_openhands import (
    ControlNoOpCondenser,
    ControlRollingCondenser,
    ControlSummarizingCondenser,
    GuardedAgent,
)

logging.disable(logging.CRITICAL)
warnings.simplefilter("ignore")

EVENTS = (200, 1_000, 4_000)
STEPS = 4
CALLS = 200
STEP_BAR, CUT_BAR, GUARD_BAR, IMPORT_BAR = 5.0, 500.0, 300.0, 0.25
OWNER = Issuer(kind=IssuerKind.ORGANIZATION, name="bench")


class BenchAction(Action):
    """What the tool of this benchmark takes."""

    path: str


class BenchObservation(Observation):
    """What it returns."""


class DoesNothing(ToolExecutor):
    """Returns at once."""

    def __call__(self, action, conversation=None):  # noqa: ARG002  # as the SDK calls it
        """Do nothing."""
        return BenchObservation.from_text("done")


class BenchTool(ToolDefinition):
    """A tool that does nothing."""

    @classmethod
    def create(cls, conv_state=None, **params):  # noqa: ARG003  # the same
        """Make it."""
        return [
            cls(
                description="Does nothing.",
                action_type=BenchAction,
                observation_type=BenchObservation,
                executor=DoesNothing(),
            )
        ]


register_tool("BenchTool", BenchTool)


def plane():
    """A hundred rules over one tool."""
    policies = [
        Policy(
            id=f"rule-{number}",
            issuer=OWNER,
            effect=Effect.DENY,
            actions=("write",),
            text=f"Never write secret {number}.",
        )
        for number in range(1)
    ] + [
        Policy(
            id=f"other-{number}", issuer=OWNER, effect=Effect.DENY, actions=("remove",), text=f"Keep object {number}."
        )
        for number in range(99)
    ]
    path = (("path", AttributeSource(argument="path")),)
    bindings = [
        ToolBinding(tool="bench", action="read", object_attributes=path),
        ToolBinding(tool="other", action="write"),
        ToolBinding(tool="third", action="remove"),
    ]
    registry = PolicyRegistry.of(policies, bindings)
    return ControlPlane(registry, actor="bench", window=4_000_000, control_budget=20_000)


def says(text):
    """A model's answer."""
    return Message(role="assistant", content=[TextContent(text=text)])


def turn(number):
    """A call and its result, of about 200 tokens."""
    call_id, text = f"c{number}", f"line {number} of the file and some more words " * 10
    arguments = json.dumps({"path": f"/srv/{number}"})
    action = ActionEvent(
        thought=[TextContent(text="I look.")],
        action=BenchAction(path=f"/srv/{number}"),
        tool_name="bench",
        tool_call_id=call_id,
        tool_call=MessageToolCall(id=call_id, name="bench", arguments=arguments, origin="completion"),
        llm_response_id=f"r{number}",
    )
    seen = BenchObservation.from_text(text)
    return [action, ObservationEvent(observation=seen, action_id=action.id, tool_name="bench", tool_call_id=call_id)]


def history(events):
    """A system prompt, a task, and turns."""
    [tool] = BenchTool.create()
    prompt = TextContent(text="You are a coding agent. " * 100)
    head = [
        SystemPromptEvent(source="agent", system_prompt=prompt, tools=[tool]),
        MessageEvent(source="user", llm_message=Message(role="user", content=[TextContent(text="Fix the bug.")])),
    ]
    return head + [event for number in range(events // 2 - 1) for event in turn(number)]


def milliseconds(do):
    """Time one call."""
    start = time.perf_counter()
    do()
    return (time.perf_counter() - start) * 1_000


def step(make, events, agent_llm):
    """The least of steps that each add a turn; the first, which sees everything anew, is left out."""
    condenser, view = make(events + 2 * STEPS + 2), View(events=history(events))
    condenser.condense(view, agent_llm=agent_llm)
    times = []
    for number in range(STEPS):
        view.events += turn(f"{events}-{number}")
        times.append(milliseconds(lambda: condenser.condense(view, agent_llm=agent_llm)))
    return min(times)


def cut(make, events, agent_llm):
    """One condensation, of a view that was seen before it grew too long."""
    condenser, view = make(events), View(events=history(events))
    condenser.condense(view, agent_llm=agent_llm)
    view.events += turn("last")
    return milliseconds(lambda: condenser.condense(view, agent_llm=agent_llm))


def guarded_call():
    """Microseconds that the guard adds to a call: the executor with it, less the executor without."""
    control = plane()
    agent = GuardedAgent(
        llm=TestLLM.from_messages([]), tools=[Tool(name="BenchTool")], condenser=ControlNoOpCondenser(control=control)
    )
    with TemporaryDirectory() as folder:
        conversation = Conversation(agent, workspace=folder, visualizer=None)
        conversation.send_message("go")
        action = BenchAction(path="/srv/1")
        guarded = conversation.agent.tools_map["bench"]
        plain = guarded.executor.guarded_tool
        times = {True: [], False: []}
        for number in range(CALLS):
            for which, tool in ((True, guarded), (False, plain)) if number % 2 else ((False, plain), (True, guarded)):
                times[which].append(milliseconds(lambda tool=tool: tool.executor(action, conversation)) * 1_000)
        conversation.close()
    return statistics.median(times[False]), statistics.median(times[True])


def import_seconds():
    """Cumulative seconds of importing the adapter after the SDK, by ``-X importtime``, and of the core in it."""
    code = "import openhands.sdk.conversation, openhands.sdk.testing, openhands.sdk.settings; import carriage_openhands"
    found = []
    for _ in range(5):
        done = subprocess.run(
            [sys.executable, "-X", "importtime", "-c", code], capture_output=True, text=True, check=True
        )
        seconds = {
            name.strip(): int(cumulative) / 1_000_000
            for _, cumulative, name in re.findall(r"import time: *(\d+) \| *(\d+) \| (.*)", done.stderr)
        }
        found.append((seconds["carriage_openhands"], seconds["carriage_core"]))
    return min(found)


def main():
    """Print the tables; 1 past a bar."""
    control = plane()
    agent_llm = TestLLM.from_messages([], model="gpt-4o", max_input_tokens=4_000_000)
    limit = 3_000_000

    def native(most):
        llm = TestLLM.from_messages([says("DONE: all of it")] * 99)
        return LLMSummarizingCondenser(llm=llm, max_size=most, max_tokens=limit, keep_first=2)

    def rolling(most):
        return ControlRollingCondenser(control=control, max_size=most, keep_first=2)

    def strict(most):
        return ControlRollingCondenser(control=control, max_size=min(most, 100), keep_first=2, strict=True)

    def summarizing(most):
        llm = TestLLM.from_messages([says("DONE: all of it")] * 99)
        return ControlSummarizingCondenser(control=control, llm=llm, max_size=most, max_tokens=limit, keep_first=2)

    late = False
    print(f"{'events':>7} {'':12} {'step ms':>9} {'ratio':>7} {'cut ms':>9} {'ratio':>7}")
    for events in EVENTS:
        base = (step(native, events, agent_llm), cut(native, events, agent_llm))
        print(f"{events:7} {'native':12} {base[0]:9.2f} {'':7} {base[1]:9.1f}")
        for make in (rolling, strict, summarizing):
            taken = step(make, events, agent_llm)
            made = None if make is strict else cut(make, events, agent_llm)
            shown = "" if made is None else f"{made:9.1f} {made / base[1]:7.3f}"
            print(f"{events:7} {make.__name__:12} {taken:9.2f} {taken / base[0]:7.3f} {shown}")
            # The strict window makes a window of its own at each step, so the bar of a cut is its bar.
            late |= events == EVENTS[-1] and (
                taken > (CUT_BAR if make is strict else STEP_BAR) or (made or 0) > CUT_BAR
            )
    without, within = guarded_call()
    print(
        f"\nguard: {without:.0f} us without, {within:.0f} us with, {within - without:.0f} added (bar {GUARD_BAR:.0f})"
    )
    seconds, core = import_seconds()
    print(f"import carriage_openhands, the SDK excluded: {seconds:.3f} s, {core:.3f} of it the core (bar {IMPORT_BAR})")
    late |= within - without > GUARD_BAR or seconds > IMPORT_BAR
    print("over a bar" if late else "within every bar")
    return int(late)


if __name__ == "__main__":
    sys.exit(main())
