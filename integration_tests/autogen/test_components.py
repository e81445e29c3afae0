"""Dump, load and resume: a reloaded agent keeps its policy or does not run (invariant 9)."""

import json
import os
import subprocess
import sys
import textwrap

import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_core import Component, ComponentLoader
from autogen_core.model_context import BufferedChatCompletionContext, ChatCompletionContext
from autogen_core.tools import StaticWorkbench, Workbench
from autogen_ext.models.replay import ReplayChatCompletionClient

from carriage_autogen import ControlBufferedChatCompletionContext, GuardedWorkbench
from carriage_core import ControlNotFoundError, find_plane

# AutoGen warns whenever it loads a function tool, because loading runs its code.
loads_functions = pytest.mark.filterwarnings("ignore:(?s).*Loading a FunctionTool from config")


def delete_artifact(artifact_id: str, repo: str) -> dict:
    """Delete a release artifact."""
    return {"deleted": artifact_id}


def verify_release(artifact_id: str) -> dict:
    """Run verification Z."""
    return {"status": "succeeded"}


@pytest.fixture
def context(plane, make):
    return make.fill(
        ControlBufferedChatCompletionContext(4, [make.system("Be brief.")], control=plane),
        [make.user("a"), make.calls("1"), make.results("1"), make.says("b")],
    )


@pytest.fixture
def run_python(tmp_path, policy_file):
    """Run a script in a new process; it gets `data` as JSON and prints JSON."""

    def run(script, data):
        given = tmp_path / "given.json"
        given.write_text(json.dumps({"policies": str(policy_file), **data}))
        source = "import json, sys\ngiven = json.load(open(sys.argv[1]))\n" + textwrap.dedent(script)
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", source, str(given)],
            capture_output=True,
            text=True,
            timeout=120,
            env=environment,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


PLANE = """
from carriage_core import ControlPlane, Utf8UpperBound
def load(**more):
    settings = {"actor": "release-bot", "tenant": "acme", "control_budget": 8_000, "counter": Utf8UpperBound()}
    return ControlPlane.from_file(given["policies"], **(settings | more))
"""


def decision_state(plane):
    """What decides: the rules, who acts, the budget, the capsule, and a verdict."""
    verdict = plane.check("delete_artifact", {"artifact_id": "a", "repo": "acme/x"})
    return [
        plane.reference,
        plane.registry.digest,
        plane.capsule().text,
        plane.capsule().tier.value,
        [verdict.outcome.value, verdict.code, list(verdict.policies), verdict.argument_digest],
    ]


STATE = """
def decision_state(plane):
    verdict = plane.check("delete_artifact", {"artifact_id": "a", "repo": "acme/x"})
    return [
        plane.reference,
        plane.registry.digest,
        plane.capsule().text,
        plane.capsule().tier.value,
        [verdict.outcome.value, verdict.code, list(verdict.policies), verdict.argument_digest],
    ]
"""


# -- in one process -------------------------------------------------------------------------------


def test_a_loaded_context_is_ours(context, plane):
    """A subclass that inherits the native provider would come back as the native class, without policy."""
    dumped = json.loads(context.dump_component().model_dump_json())
    assert dumped["provider"] == "carriage_autogen.ControlBufferedChatCompletionContext"
    loaded = ChatCompletionContext.load_component(dumped)
    assert type(loaded) is ControlBufferedChatCompletionContext
    assert loaded.control is plane
    assert loaded.dump_component() == context.dump_component()


def test_the_config_holds_no_policy_text(context, judge):
    """Policy lives in the operator's file; a config that is passed around must not bring its own."""
    dumped = context.dump_component().model_dump_json()
    assert not any(fact[2] in dumped for fact in judge.facts.values())


def test_another_plane_is_not_taken_for_it(context, make_plane):
    """Same file, another actor or budget: not the plane the agent was saved with."""
    dumped = json.loads(context.dump_component().model_dump_json())
    others = [make_plane(actor="clerk"), make_plane(control_budget=7_999), make_plane(tenant=None)]
    assert dumped["config"]["control_reference"] not in {other.reference for other in others}


def test_a_plane_that_is_gone_is_not_found(context, make_plane):
    """A reference that nobody holds is an error with a mend, not a context without rules."""
    dumped = json.loads(context.dump_component().model_dump_json())
    dumped["config"]["control_reference"] = "sha256:" + "0" * 64
    with pytest.raises(ControlNotFoundError, match="no control plane with digest"):
        ChatCompletionContext.load_component(dumped)


def test_a_passing_view_does_not_hide_the_plane(plane):
    """A view for the same actor that comes and goes leaves the plane, which is still held, to be found."""
    reference = plane.reference
    assert plane.as_actor("release-bot").check("list_artifacts", {}).allowed
    assert find_plane(reference).registry is plane.registry


def test_a_config_without_a_reference_is_refused(context):
    """Taking the reference out of a config does not make a context without policy."""
    dumped = json.loads(context.dump_component().model_dump_json())
    del dumped["config"]["control_reference"]
    with pytest.raises(ValueError, match="control_reference"):
        ChatCompletionContext.load_component(dumped)


@loads_functions
@pytest.mark.asyncio
async def test_a_loaded_workbench_is_guarded(plane):
    """Tools that are dumped and loaded are still behind the monitor, and evidence still works."""
    workbench = GuardedWorkbench([delete_artifact, verify_release], control=plane)
    dumped = json.loads(workbench.dump_component().model_dump_json())
    assert dumped["provider"] == "carriage_autogen.GuardedWorkbench"
    loaded = Workbench.load_component(dumped)
    assert type(loaded) is GuardedWorkbench
    assert loaded.control is plane
    call = {"artifact_id": "build-1", "repo": "acme/x"}
    assert (await loaded.call_tool("delete_artifact", call, call_id="1")).is_error
    assert not (await loaded.call_tool("verify_release", {"artifact_id": "build-1"}, call_id="2")).is_error
    assert not (await loaded.call_tool("delete_artifact", call, call_id="3")).is_error


@loads_functions
@pytest.mark.asyncio
async def test_a_loaded_workbench_guards_its_inner_one(plane):
    """The same with a workbench inside."""
    from autogen_core.tools import FunctionTool  # noqa: PLC0415  # AutoGen's own form of the two functions

    inner = StaticWorkbench(
        [FunctionTool(delete_artifact, description="d"), FunctionTool(verify_release, description="d")]
    )
    dumped = json.loads(GuardedWorkbench(inner, control=plane).dump_component().model_dump_json())
    loaded = Workbench.load_component(dumped)
    await loaded.list_tools()
    assert (await loaded.call_tool("delete_artifact", {"artifact_id": "a", "repo": "acme/x"}, call_id="1")).is_error


@loads_functions
@pytest.mark.asyncio
async def test_a_whole_agent_keeps_both(plane, within):
    """AssistantAgent dumped and loaded: our context, our workbench, the same plane, and saved state that resumes."""
    agent = AssistantAgent(
        "maintainer",
        model_client=ReplayChatCompletionClient(["one", "two"]),
        model_context=ControlBufferedChatCompletionContext(4, control=plane),
        workbench=GuardedWorkbench([verify_release], control=plane),
    )
    agent._model_client.model_info["function_calling"] = True
    await within(agent.run(task="hello"))
    state = json.loads(json.dumps(await agent.save_state()))
    loaded = AssistantAgent.load_component(json.loads(agent.dump_component().model_dump_json()))
    assert type(loaded.model_context) is ControlBufferedChatCompletionContext
    assert [type(each) for each in loaded._workbench] == [GuardedWorkbench]
    assert loaded.model_context.control is plane
    await loaded.load_state(state)
    assert [message.content for message in (await loaded.model_context.get_messages())[1:]] == ["hello", "one"]


@pytest.mark.asyncio
async def test_workbench_state_round_trips(plane):
    """Saved tool state comes back."""
    workbench = GuardedWorkbench([verify_release], control=plane)
    await workbench.load_state(json.loads(json.dumps(await workbench.save_state())))
    assert [schema["name"] for schema in await workbench.list_tools()] == ["verify_release"]


def test_both_are_components():
    """What AutoGen asks of a component."""
    for kind in (ControlBufferedChatCompletionContext, GuardedWorkbench):
        assert issubclass(kind, Component | ComponentLoader)
        assert kind.component_provider_override == f"carriage_autogen.{kind.__name__}"
    # Code that asks for the native class accepts ours.
    assert issubclass(ControlBufferedChatCompletionContext, BufferedChatCompletionContext)


# -- in the next process --------------------------------------------------------------------------


def test_a_process_without_the_plane_fails_closed(context, plane, run_python):
    """A saved context or workbench loaded where nobody loaded the policy file raises; it never runs bare."""
    told = run_python(
        """
        from autogen_core.model_context import ChatCompletionContext
        from autogen_core.tools import Workbench
        from carriage_core import ControlNotFoundError
        told = []
        for base, dumped in ((ChatCompletionContext, given["context"]), (Workbench, given["workbench"])):
            try:
                base.load_component(dumped)
            except ControlNotFoundError as problem:
                told.append(problem.mend)
        print(json.dumps(told))
        """,
        {
            "context": json.loads(context.dump_component().model_dump_json()),
            "workbench": json.loads(
                GuardedWorkbench([verify_release], control=plane).dump_component().model_dump_json()
            ),
        },
    )
    assert len(told) == 2
    assert all("ControlPlane.from_file" in mend for mend in told)


@pytest.mark.asyncio
async def test_a_process_with_the_file_has_the_same_decision_state(context, plane, make, run_python):
    """Config and state in a new process that loaded the file: the same reference, rules, capsule, verdict, prompt."""
    prompt = await context.get_messages()
    answer = run_python(
        PLANE
        + STATE
        + textwrap.dedent("""
        import asyncio
        from autogen_core.model_context import ChatCompletionContext
        plane = load()
        context = ChatCompletionContext.load_component(given["context"])
        async def main():
            await context.load_state(given["state"])
            prompt = [message.model_dump(mode="json") for message in await context.get_messages()]
            print(json.dumps([type(context).__name__, decision_state(context.control), prompt]))
        asyncio.run(main())
        """),
        {
            "context": json.loads(context.dump_component().model_dump_json()),
            "state": json.loads(json.dumps(await context.save_state())),
        },
    )
    # JSON has no tuples.
    expected = json.loads(json.dumps([decision_state(plane), [message.model_dump(mode="json") for message in prompt]]))
    assert answer == ["ControlBufferedChatCompletionContext", *expected]


def test_a_process_with_another_file_does_not_pass_for_it(context, run_python):
    """A rule changed in the file since the agent was saved: the saved agent does not start on the other set unasked."""
    answer = run_python(
        PLANE
        + textwrap.dedent("""
        import pathlib, tempfile
        from autogen_core.model_context import ChatCompletionContext
        from carriage_core import ControlNotFoundError
        text = pathlib.Path(given["policies"]).read_text().replace("gt: 5", "gt: 500")
        with tempfile.TemporaryDirectory() as folder:
            given["policies"] = pathlib.Path(folder) / "changed.yaml"
            given["policies"].write_text(text)
            plane = load()
        try:
            ChatCompletionContext.load_component(given["context"])
            print(json.dumps("loaded"))
        except ControlNotFoundError:
            print(json.dumps("refused"))
        """),
        {"context": json.loads(context.dump_component().model_dump_json())},
    )
    assert answer == "refused"


def test_a_guarded_tool_in_the_next_process_is_guarded(plane, run_python):
    """Loaded in a new process with the file: denied unverified, allowed once verified."""
    workbench = GuardedWorkbench([delete_artifact, verify_release], control=plane)
    answer = run_python(
        PLANE
        + textwrap.dedent("""
        import asyncio
        from autogen_core.tools import Workbench
        plane = load()
        workbench = Workbench.load_component(given["workbench"])
        async def main():
            call = {"artifact_id": "build-1", "repo": "acme/x"}
            told = []
            for number, (tool, arguments) in enumerate(
                [("delete_artifact", call), ("verify_release", {"artifact_id": "build-1"}), ("delete_artifact", call)]
            ):
                told.append((await workbench.call_tool(tool, arguments, call_id=str(number))).is_error)
            print(json.dumps(told))
        asyncio.run(main())
        """),
        {"workbench": json.loads(workbench.dump_component().model_dump_json())},
    )
    assert answer == [True, False, False]
