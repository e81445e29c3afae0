"""What the AutoGen tests share: a client that records what it is sent, readers that judge it, and small tools.

The recorder and the judges import nothing of ours. They know the rules from `FACTS`, written by hand.
"""

import asyncio
import copy
import json
import logging
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
from autogen_core import FunctionCall
from autogen_core.models import (
    AssistantMessage,
    CreateResult,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    RequestUsage,
    SystemMessage,
    UserMessage,
)
from autogen_ext.models.replay import ReplayChatCompletionClient

POLICIES = Path(__file__).with_name("policies.yaml")

# For each rule: which actor and tenant it is for (None: all), its sentence, and what its clause must name.
FACTS = {
    "verify-before-delete": (
        None,
        "acme",
        "Do not delete release artifacts unless verification Z succeeds.",
        ["acme/*", "succeeded"],
    ),
    "ask-before-publish": (None, None, "Ask a person before publishing a page.", ["publish"]),
    "pay-little": (None, None, "Never pay more than 5 dollars.", ["pay", "5"]),
    "polite": (None, None, "Never promise a refund.", None),
    "bot-only": ("release-bot", None, "Sign every answer as release-bot.", None),
    "other-tenant": (None, "globex", "Globex answers are written in French.", None),
}

logging.getLogger("autogen_core.events").setLevel(logging.ERROR)  # the replay client warns at every call

MODEL_INFO = {
    "vision": False,
    "function_calling": True,
    "json_output": False,
    "family": "unknown",
    "structured_output": False,
}


class Recorder(ReplayChatCompletionClient):
    """Keeps a deep copy of the messages of each call as they arrive, before anything answers."""

    def __init__(self, *answers):
        super().__init__(list(answers), model_info=MODEL_INFO)
        self.requests = []

    async def create(self, messages, **more):
        self.requests.append(copy.deepcopy(list(messages)))
        return await super().create(messages, **more)

    async def create_stream(self, messages, **more):
        self.requests.append(copy.deepcopy(list(messages)))
        async for chunk in super().create_stream(messages, **more):
            yield chunk


def proposes(*calls, thought=None):
    """A model answer that makes calls, each given as (id, tool, arguments)."""
    made = [
        FunctionCall(
            id=call_id, name=tool, arguments=arguments if isinstance(arguments, str) else json.dumps(arguments)
        )
        for call_id, tool, arguments in calls
    ]
    return CreateResult(
        finish_reason="function_calls",
        content=made,
        usage=RequestUsage(prompt_tokens=1, completion_tokens=1),
        cached=False,
        thought=thought,
    )


# -- judges ---------------------------------------------------------------------------------------


def system_block(messages):
    """The system messages at the head, joined: the only place where control is recognised."""
    head = []
    for message in messages:
        if not isinstance(message, SystemMessage):
            break
        head.append(message.content)
    return "\n\n".join(head)


def applicable(actor, tenant, rules=FACTS):
    return {
        name
        for name, (agent, owner, _, _) in rules.items()
        if (agent is None or actor is None or agent == actor) and (owner is None or tenant is None or owner == tenant)
    }


def carried(messages, rules=FACTS):
    """The rules whose whole sentence, or whose line of id and clause, stands in the system block."""
    lines = system_block(messages).split("\n")
    found = set()
    for name, (_, _, sentence, constants) in rules.items():
        said = sentence in lines or json.dumps(sentence) in lines
        needed = [sentence] if constants is None else constants
        written = any(line.startswith(f"[{name}] ") and all(word in line for word in needed) for line in lines)
        if said or written:
            found.add(name)
    return found


def calls_in(message):
    if isinstance(message, AssistantMessage) and not isinstance(message.content, str):
        return message.content
    return []


def results_in(messages):
    """(call id, content) of every result."""
    return [
        (result.call_id, result.content)
        for message in messages
        if isinstance(message, FunctionExecutionResultMessage)
        for result in message.content
    ]


def ends_in_round(messages):
    """Whether the last message that is no result makes calls which the results after it do not all answer."""
    answered = Counter()
    for message in reversed(messages):
        if isinstance(message, FunctionExecutionResultMessage):
            answered += Counter(result.call_id for result in message.content)
        else:
            return bool(Counter(call.id for call in calls_in(message)) - answered)
    return False


def unpaired(messages):
    """What providers refuse: (calls without result, results without call), by adjacency and as multisets of ids.

    Calls of a round the messages end in are reported like all others.
    """
    open_calls, orphans = [], []
    waiting = Counter()
    for message in messages:
        if isinstance(message, FunctionExecutionResultMessage):
            for result in message.content:
                if waiting[result.call_id] > 0:
                    waiting[result.call_id] -= 1
                else:
                    orphans.append(result.call_id)
        else:
            open_calls += list(waiting.elements())
            waiting = Counter(call.id for call in calls_in(message))
    return open_calls, list(waiting.elements()), orphans


def on_the_wire(messages):
    """OpenAI-style dicts, for a judge that is not ours."""
    wire = []
    for message in messages:
        match message:
            case SystemMessage():
                wire.append({"role": "system", "content": message.content})
            case UserMessage():
                wire.append({"role": "user", "content": message.content})
            case AssistantMessage(content=str()):
                wire.append({"role": "assistant", "content": message.content})
            case AssistantMessage():
                calls = [
                    {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                    for call in message.content
                ]
                wire.append({"role": "assistant", "content": None, "tool_calls": calls})
            case FunctionExecutionResultMessage():
                wire += [
                    {"role": "tool", "tool_call_id": result.call_id, "content": result.content}
                    for result in message.content
                ]
    return wire


def recount(counter, messages):
    """Tokens of an assembly: every text the model sees, and 4 for each message."""
    total = 0
    for message in messages:
        total += 4
        if isinstance(message, AssistantMessage):
            total += counter.count(message.thought) if message.thought else 0
            if isinstance(message.content, str):
                total += counter.count(message.content)
            else:
                total += sum(counter.count(call.name) + counter.count(call.arguments) for call in message.content)
        elif isinstance(message, FunctionExecutionResultMessage):
            total += sum(counter.count(result.name) + counter.count(result.content) for result in message.content)
        else:
            total += counter.count(message.content)
    return total


# -- builders -------------------------------------------------------------------------------------


def user(text, source="user"):
    return UserMessage(content=text, source=source)


def says(text, thought=None):
    return AssistantMessage(content=text, source="agent", thought=thought)


def calls(*ids, tool="look_up", arguments="{}"):
    return AssistantMessage(
        content=[FunctionCall(id=each, name=tool, arguments=arguments) for each in ids], source="agent"
    )


def results(*ids, text=None, tool="look_up"):
    return FunctionExecutionResultMessage(
        content=[
            FunctionExecutionResult(content=text or f"value of {each}", name=tool, call_id=each, is_error=False)
            for each in ids
        ]
    )


def system(text):
    return SystemMessage(content=text)


def fill(context, messages):
    """Put messages into a context; none of its methods waits for anything."""
    for message in messages:
        finish(context.add_message(message))
    return context


def finish(coroutine):
    """Run a coroutine that never waits, without an event loop."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    coroutine.close()
    raise AssertionError("it waited for something")


@pytest.fixture(scope="session")
def make():
    """Builders of messages and answers."""
    return SimpleNamespace(
        user=user,
        says=says,
        calls=calls,
        results=results,
        system=system,
        fill=fill,
        finish=finish,
        proposes=proposes,
        client=Recorder,
    )


@pytest.fixture(scope="session")
def judge():
    """Readers that import nothing of ours."""
    return SimpleNamespace(
        facts=FACTS,
        applicable=applicable,
        carried=carried,
        system_block=system_block,
        calls_in=calls_in,
        results_in=results_in,
        ends_in_round=ends_in_round,
        unpaired=unpaired,
        on_the_wire=on_the_wire,
        recount=recount,
    )


@pytest.fixture(scope="session")
def policy_file():
    return POLICIES


@pytest.fixture
def make_plane():
    """Make planes over the tests' rules."""
    from carriage_core import ControlPlane, Utf8UpperBound  # noqa: PLC0415  # the recorder must not need it

    def make_(path=POLICIES, **more):
        given = {"actor": "release-bot", "tenant": "acme", "control_budget": 8_000, "counter": Utf8UpperBound()}
        return ControlPlane.from_file(path, **(given | more))

    return make_


@pytest.fixture
def plane(make_plane):
    return make_plane()


class Effects:
    """What tools did, written down by the tools: (tool, arguments, how many log entries there were by then)."""

    def __init__(self, log):
        self._log = log
        self.done = []

    def note(self, tool, **arguments):
        entries = list(self._log.entries) if self._log is not None else []
        self.done.append((tool, arguments, entries))

    @property
    def names(self):
        return [tool for tool, _, _ in self.done]


@pytest.fixture
def effects(plane):
    return Effects(plane.sink)


@pytest.fixture
def make_tools():
    """Make the five tools; each writes down that it ran."""

    def make_(effects, status="succeeded"):
        def delete_artifact(artifact_id: str, repo: str) -> dict:
            """Delete a release artifact."""
            effects.note("delete_artifact", artifact_id=artifact_id, repo=repo)
            return {"deleted": artifact_id}

        def verify_release(artifact_id: str) -> dict:
            """Run verification Z."""
            effects.note("verify_release", artifact_id=artifact_id)
            return {"status": status}

        def publish(page: str) -> str:
            """Publish a page."""
            effects.note("publish", page=page)
            return f"published {page}"

        def pay(amount: int) -> str:
            """Pay dollars."""
            effects.note("pay", amount=amount)
            return f"paid {amount}"

        def list_artifacts() -> str:
            """List artifacts."""
            effects.note("list_artifacts")
            return "build-1"

        return [delete_artifact, verify_release, publish, pay, list_artifacts]

    return make_


@pytest.fixture
def tools(make_tools, effects):
    return make_tools(effects)


@pytest.fixture(scope="session")
def make_effects():
    return Effects


@pytest.fixture
def within():
    """Await something that must not hang."""

    async def within_(awaitable, seconds=10):
        return await asyncio.wait_for(awaitable, seconds)

    return within_
