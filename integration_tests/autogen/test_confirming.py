"""A person is asked about one call, in AutoGen's ways, and a yes fits that call and no other."""

import asyncio
import dataclasses

import pytest
from autogen_agentchat.agents import AssistantAgent, UserProxyAgent
from autogen_agentchat.messages import UserInputRequestedEvent
from autogen_core import CancellationToken

from carriage_autogen import GuardedWorkbench


def guarded(plane, tools, confirm):
    return GuardedWorkbench(tools, control=plane, confirm=confirm)


async def publish(workbench, page="home", call_id="1", token=None):
    return await workbench.call_tool("publish", {"page": page}, token, call_id)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("typed", "runs"), [("yes", True), (" Approve ", True), ("no", False), ("", False), ("y no", False)]
)
async def test_a_user_proxy_is_shown_the_call_and_decides(plane, tools, effects, within, typed, runs):
    """The prompt names tool, arguments and rule; only a plain yes approves."""
    prompts = []

    def answer(prompt):
        prompts.append(prompt)
        return typed

    result = await within(publish(guarded(plane, tools, UserProxyAgent("dana", input_func=answer))))
    [prompt] = prompts
    assert 'publish with {"page": "home"}' in prompt
    assert "ask-before-publish" in prompt
    assert (not result.is_error) is runs
    assert effects.names == (["publish"] if runs else [])
    approvals = [entry.body["by"] for entry in plane.sink.entries if entry.kind == "approval"]
    assert approvals == (["dana"] if runs else [])
    # Invariant 10: one decision for the call, made before it ran.
    assert len([entry for entry in plane.sink.entries if entry.kind == "decision"]) == 1


@pytest.mark.asyncio
async def test_an_agent_announces_the_question(make, plane, tools, effects, within):
    """The stream holds AutoGen's own event for a request of input, before the tool runs."""

    async def answer(prompt, token):
        return "yes"

    workbench = guarded(plane, tools, UserProxyAgent("dana", input_func=answer))
    client = make.client(make.proposes(("1", "publish", {"page": "home"})))
    agent = AssistantAgent("a", client, workbench=workbench)
    kinds = [type(event) async for event in agent.run_stream(task="go")]
    assert UserInputRequestedEvent in kinds
    assert effects.names == ["publish"]


class Approver:
    """An async callable object, at which AutoGen's own approval fails."""

    def __init__(self, answer="dana"):
        self.answer, self.questions = answer, []

    async def __call__(self, question):
        self.questions.append(question)
        return self.answer


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("answer", "runs"), [("dana", True), (True, True), (False, False), (None, False), ("", False), (1, False)]
)
async def test_any_async_callable_decides(plane, tools, effects, within, answer, runs):
    """It gets the call as a value, and answers with a name."""
    approver = Approver(answer)
    await within(publish(guarded(plane, tools, approver)))
    [question] = approver.questions
    assert (question.actor, question.tool, question.arguments) == ("release-bot", "publish", {"page": "home"})
    assert question.policies == ("ask-before-publish",)
    assert effects.names == (["publish"] if runs else [])


@pytest.mark.asyncio
async def test_a_yes_is_good_once_and_for_this_call(plane, tools, effects, within):
    """The next call, equal or not, is asked about again; the same id never runs twice."""
    approver = Approver()
    workbench = guarded(plane, tools, approver)
    await within(publish(workbench, call_id="1"))
    await within(publish(workbench, call_id="2"))
    await within(publish(workbench, page="other", call_id="3"))
    assert [question.call_id for question in approver.questions] == ["1", "2", "3"]
    assert len({question.digest for question in approver.questions}) == 3
    result = await within(publish(workbench, call_id="1"))
    assert "replayed_call" in result.to_text()
    assert effects.names == ["publish"] * 3


@pytest.mark.asyncio
async def test_nobody_is_asked_about_what_is_allowed_or_denied(plane, tools, effects, within):
    """A rule that denies cannot be approved away."""
    approver = Approver()
    workbench = guarded(plane, tools, approver)
    await within(workbench.call_tool("pay", {"amount": 9}, call_id="1"))
    await within(workbench.call_tool("list_artifacts", {}, call_id="2"))
    assert approver.questions == []
    assert effects.names == ["list_artifacts"]


@pytest.mark.asyncio
async def test_observe_mode_asks_nobody(make_plane, make_tools, make_effects, within):
    """DESIGN 3.13."""
    plane, approver = make_plane(mode="observe"), Approver(None)
    effects = make_effects(plane.sink)
    await within(publish(guarded(plane, make_tools(effects), approver)))
    assert approver.questions == []
    assert effects.names == ["publish"]


@pytest.mark.asyncio
async def test_what_changed_while_the_person_thought_is_not_run(plane, tools, effects, within):
    """A rule that came in between denies; the yes was for the rules that were shown."""

    async def slow(question):
        [policy] = [policy for policy in plane.registry.policies if policy.id == "ask-before-publish"]
        plane.admit(dataclasses.replace(policy, version=2, text="Ask two people."), by=policy.issuer)
        return "dana"

    result = await within(publish(guarded(plane, tools, slow)))
    assert result.is_error
    assert effects.names == []


@pytest.mark.asyncio
async def test_an_approver_that_fails_approves_nothing(plane, tools, effects, within):
    """An exception while asking is a denial that the model can read, never a hang."""

    async def broken(question):
        raise RuntimeError("no one is there")

    result = await within(publish(guarded(plane, tools, broken)))
    assert result.to_text().startswith("POLICY_DENIED internal_fault")
    assert effects.names == []


@pytest.mark.asyncio
async def test_cancelling_withdraws_the_question(plane, tools, effects, within):
    """A cancelled token ends the wait, and the call did not run; a cancelled task goes on being cancelled."""
    asked = asyncio.Event()

    async def never(question):
        asked.set()
        await asyncio.sleep(60)

    token = CancellationToken()
    waiting = asyncio.ensure_future(publish(guarded(plane, tools, never), token=token))
    await within(asked.wait())
    token.cancel()
    result = await within(waiting)
    assert "not executed" in result.to_text()
    asked.clear()
    leaving = asyncio.ensure_future(publish(guarded(plane, tools, never), call_id="2"))
    await within(asked.wait())
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await within(leaving)
    assert effects.names == []


@pytest.mark.asyncio
async def test_parallel_calls_are_asked_one_after_the_other(plane, tools, effects, within):
    """Two questions never stand before a person at once, and each answer is for its own."""
    open_questions, most = 0, 0

    async def one_at_a_time(question):
        nonlocal open_questions, most
        open_questions += 1
        most = max(most, open_questions)
        await asyncio.sleep(0.01)
        open_questions -= 1
        return "dana" if question.arguments["page"] == "b" else None

    workbench = guarded(plane, tools, one_at_a_time)
    results = await within(asyncio.gather(*(publish(workbench, page=page, call_id=page) for page in "abc")))
    assert most == 1
    assert [result.is_error for result in results] == [True, False, True]
    assert [arguments["page"] for _, arguments, _ in effects.done] == ["b"]
