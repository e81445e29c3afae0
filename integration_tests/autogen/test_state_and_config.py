"""Saved, dumped, reset and resumed elsewhere: the same decision state, or a refusal that says what to load."""

import json
import os
import subprocess
import sys
import textwrap

import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core import ComponentLoader, ComponentModel
from autogen_core.code_executor import CodeExecutor
from autogen_core.model_context import ChatCompletionContext, UnboundedChatCompletionContext
from autogen_core.models import ChatCompletionClient
from autogen_core.tools import FunctionTool, Workbench
from autogen_ext.code_executors.local import LocalCommandLineCodeExecutor
from autogen_ext.models.openai import OpenAIChatCompletionClient
from autogen_ext.models.replay import ReplayChatCompletionClient

from carriage_autogen import (
    ControlBufferedChatCompletionContext,
    ControlHeadAndTailChatCompletionContext,
    ControlledChatCompletionClient,
    ControlledContext,
    ControlTokenLimitedChatCompletionContext,
    ControlUnboundedChatCompletionContext,
    GuardedCodeExecutor,
    GuardedWorkbench,
    attach,
    inspect_agent,
)
from carriage_core import ControlNotFoundError

pytestmark = pytest.mark.filterwarnings("ignore:Using LocalCommandLineCodeExecutor")


@pytest.fixture
def components(plane):
    """One of each of our components, with the class that AutoGen loads it as."""
    replay = ReplayChatCompletionClient(["ok"])
    return [
        (ChatCompletionContext, ControlBufferedChatCompletionContext(3, control=plane)),
        (ChatCompletionContext, ControlHeadAndTailChatCompletionContext(1, 2, control=plane)),
        (ChatCompletionContext, ControlUnboundedChatCompletionContext(control=plane)),
        (ChatCompletionContext, ControlTokenLimitedChatCompletionContext(replay, token_limit=9, control=plane)),
        (ChatCompletionContext, ControlledContext(UnboundedChatCompletionContext(), control=plane)),
        (ChatCompletionClient, ControlledChatCompletionClient(replay, control=plane)),
        (Workbench, GuardedWorkbench([], control=plane)),
        (CodeExecutor, GuardedCodeExecutor(LocalCommandLineCodeExecutor(work_dir="/tmp"), control=plane)),  # noqa: S108
    ]


def test_every_component_dumps_under_its_own_name_and_loads_as_itself(components):
    """A subclass that inherits AutoGen's provider name reloads as AutoGen's class, and drops policy in silence."""
    for kind, component in components:
        config = component.dump_component()
        assert config.provider == f"carriage_autogen.{type(component).__name__}"
        assert type(kind.load_component(config)) is type(component)


def test_a_reload_without_the_plane_names_the_file(components, policy_file):
    """Fails closed, and says which policy file to load."""
    for kind, component in components:
        config = component.dump_component()
        config.config["control_reference"] = "sha256:" + "0" * 64
        with pytest.raises(ControlNotFoundError, match=rf"load the same policy file \({policy_file}\)"):
            kind.load_component(config)


@pytest.fixture
def allow_list(monkeypatch):
    """AutoGen's unreleased loader (PR 7463): only its own namespaces, and those that the operator allows."""
    original = ComponentLoader.load_component.__func__

    def load(cls, model, expected=None):
        provider = model.provider if isinstance(model, ComponentModel) else model["provider"]
        allowed = ["autogen_core", "autogen_agentchat", "autogen_ext"]
        allowed += os.environ.get("AUTOGEN_ALLOWED_PROVIDER_NAMESPACES", "").split(",")
        if provider.split(".")[0] not in allowed:
            raise ValueError(f"Provider namespace of {provider} is not allowed")
        return original(cls, model, expected)

    monkeypatch.setattr(ComponentLoader, "load_component", classmethod(load))
    return monkeypatch


def test_with_an_allow_list_of_namespaces_ours_must_be_named(components, allow_list):
    """As docs/autogen.md says: set AUTOGEN_ALLOWED_PROVIDER_NAMESPACES=carriage_autogen."""
    for kind, component in components:
        config = component.dump_component()
        with pytest.raises(ValueError, match="not allowed"):
            kind.load_component(config)
        allow_list.setenv("AUTOGEN_ALLOWED_PROVIDER_NAMESPACES", "carriage_autogen")
        assert type(kind.load_component(config)) is type(component)
        allow_list.delenv("AUTOGEN_ALLOWED_PROVIDER_NAMESPACES")


def test_a_key_is_not_in_a_dump(plane):
    """The inner client masks it, and so the dump of the checkpoint does."""
    client = ControlledChatCompletionClient(OpenAIChatCompletionClient(model="gpt-4o", api_key="s3cret"), control=plane)
    assert "s3cret" not in client.dump_component().model_dump_json()


@pytest.mark.asyncio
async def test_a_reloaded_agent_keeps_all_but_its_handoffs(make, plane, within):
    """AutoGen rebuilds handoff tools from their names, so `inspect_agent` finds them unguarded until attached again."""
    agent = AssistantAgent("a", _Functional(["hello"]), handoffs=["clerk"])
    attach(agent, control=plane, strict=True)
    loaded = AssistantAgent.load_component(agent.dump_component())
    assert [path.through for path in inspect_agent(loaded).unguarded] == ["handoff transfer_to_clerk"]
    attach(loaded, control=plane, strict=True)
    await within(loaded.run(task="go"))


class _Functional(ReplayChatCompletionClient):
    component_provider_override = "autogen_ext.models.replay.ReplayChatCompletionClient"

    def __init__(self, answers, model_info=None):
        super().__init__(
            answers,
            model_info=model_info
            or {
                "vision": False,
                "function_calling": True,
                "json_output": False,
                "family": "unknown",
                "structured_output": False,
            },
        )


@pytest.mark.asyncio
async def test_a_team_is_saved_without_a_byte_of_policy_and_resumes(make, make_plane, judge, within):
    """Saved in the middle, loaded into a fresh team: the conversation goes on, and every call carries."""

    def team(control, *answers):
        client = make.client(*answers)
        team_ = RoundRobinGroupChat([AssistantAgent("one", client)], max_turns=1)
        attach(team_, control=control, strict=True)
        return team_, client

    plane = make_plane()
    first, _ = team(plane, "hello")
    await within(first.run(task="remember me"))
    state = json.loads(json.dumps(await first.save_state(), default=str))
    assert "CONTROL CAPSULE" not in json.dumps(state)
    assert "Never promise" not in json.dumps(state)
    second, client = team(plane, "again")
    await within(second.load_state(state))
    await within(second.run(task="and now?"))
    [request] = client.requests
    assert "remember me" in [message.content for message in request]
    assert judge.carried(request) >= {"polite"}
    await within(second.reset())


@pytest.mark.asyncio
async def test_another_process_with_the_file_has_the_same_decision_state(make, plane, policy_file, tmp_path, within):
    """Client, context, workbench and state: in the next process the same prompt, the same verdicts, the same digest."""
    tool = FunctionTool(pay, description="pay")
    context = ControlUnboundedChatCompletionContext(control=plane)
    workbench = GuardedWorkbench([tool], control=plane)
    await context.add_message(make.user("hello"))
    here = {
        "prompt": [message.content for message in await context.get_messages()],
        "refused": (await workbench.call_tool("pay", {"amount": 9}, call_id="1")).to_text(),
        "allowed": (await workbench.call_tool("pay", {"amount": 1}, call_id="2")).to_text(),
        "reference": plane.reference,
    }
    given = tmp_path / "given.json"
    given.write_text(
        json.dumps(
            {
                "policies": str(policy_file),
                "context": context.dump_component().model_dump(),
                "workbench": workbench.dump_component().model_dump(),
                "state": dict(await context.save_state()),
            }
        )
    )
    script = """
    import asyncio, json, sys
    given = json.load(open(sys.argv[1]))
    from autogen_core.model_context import ChatCompletionContext
    from autogen_core.tools import Workbench
    from carriage_core import ControlNotFoundError, ControlPlane, Utf8UpperBound

    async def main():
        try:
            ChatCompletionContext.load_component(given["context"])
        except ControlNotFoundError as refusal:
            assert given["policies"] in str(refusal)
        else:
            raise SystemExit("it loaded without a plane")
        plane = ControlPlane.from_file(
            given["policies"], actor="release-bot", tenant="acme", control_budget=8000, counter=Utf8UpperBound()
        )
        context = ChatCompletionContext.load_component(given["context"])
        workbench = Workbench.load_component(given["workbench"])
        await context.load_state(given["state"])
        print(json.dumps({
            "prompt": [message.content for message in await context.get_messages()],
            "refused": (await workbench.call_tool("pay", {"amount": 9}, call_id="1")).to_text(),
            "allowed": (await workbench.call_tool("pay", {"amount": 1}, call_id="2")).to_text(),
            "reference": plane.reference,
        }))

    asyncio.run(main())
    """
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(  # noqa: ASYNC221  # nothing else runs
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(script), str(given)],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == here


def pay(amount: int) -> str:
    """Pay dollars."""
    return f"paid {amount}"
