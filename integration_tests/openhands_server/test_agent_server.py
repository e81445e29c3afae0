"""A conversation made from JSON by the real agent-server is carried to and judged; what is not, is said.

The client's process and the server's share a policy file and nothing else.
"""

import time

from carriage_core import ControlPlane
from carriage_openhands import ControlRollingCondenser, GuardedAgent, inspect_conversation

RULE = "Never delete a release."


def agent_json(server, model, *, checkpoint):
    from openhands.sdk.llm import LLM  # noqa: PLC0415  # seconds to import, and the server is started first
    from openhands.sdk.tool import Tool  # noqa: PLC0415

    plane = ControlPlane.from_file(server.folder / "rules.yaml", actor="release-bot")
    agent = GuardedAgent(
        llm=LLM(model="openai/scripted", base_url=model.url, api_key="none", usage_id="agent"),
        tools=[Tool(name="DeleteArtifactTool")],
        condenser=ControlRollingCondenser(control=plane, max_size=80, keep_first=2),
        checkpoint=checkpoint,
    )
    return agent, agent.model_dump(mode="json", context={"expose_secrets": True})


def begin(server, agent, *, autotitle=False):
    return server.ask(
        "POST",
        "/api/conversations",
        {
            "agent": agent,
            "workspace": {"kind": "LocalWorkspace", "working_dir": str(server.folder)},
            "initial_message": {"role": "user", "content": [{"type": "text", "text": "clean up"}], "run": True},
            "autotitle": autotitle,
        },
    )


def finished(server, conversation):
    for _ in range(120):
        status, known = server.ask("GET", f"/api/conversations/{conversation}")
        assert status == 200, known
        if known["execution_status"] in {"finished", "error", "stuck"}:
            return known["execution_status"]
        time.sleep(0.5)
    raise AssertionError(known)


def text_of(message):
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def carries(request):
    """The sentence once, in the one system message, which stands first."""
    systems = [text_of(message) for message in request["messages"] if message["role"] == "system"]
    return len(systems) == 1 and request["messages"][0]["role"] == "system" and systems[0].count(RULE) == 1


def test_a_conversation_from_json_carries_and_blocks(start, model, scripted):
    """Every request over the wire holds the rule; the release stays, the other artifact goes."""
    server = start()
    answers = model(
        scripted("delete_artifact", "c1", artifact_id="release-1"),
        scripted("delete_artifact", "c2", artifact_id="build-7"),
        {"content": "done"},
    )
    _, agent = agent_json(server, answers, checkpoint=True)
    status, made = begin(server, agent)
    assert status in {200, 201}, made
    assert finished(server, made["id"]) == "finished"
    assert server.effects == ["build-7"]
    assert [carries(request) for request in answers.requests] == [True, True, True]
    refused = [message for message in answers.requests[1]["messages"] if message["role"] == "tool"]
    assert "POLICY_DENIED" in text_of(refused[0])
    status, answer = server.ask("POST", f"/api/conversations/{made['id']}/ask_agent", {"question": "may I?"})
    assert status == 200, answer
    assert carries(answers.requests[-1])


def test_a_title_of_the_server_s_own_is_reported_as_unguarded(start, model, scripted):
    """Without a checkpoint the title call carries no rule; that is what the inspection says of such an agent."""
    server = start()
    answers = model({"content": "done"})
    ours, agent = agent_json(server, answers, checkpoint=False)
    assert "generate_title" in inspect_conversation(ours).unguarded
    status, made = begin(server, agent, autotitle=True)
    assert status in {200, 201}, made
    assert finished(server, made["id"]) == "finished"
    for _ in range(40):
        titles = [request for request in answers.requests if not request.get("tools")]
        if titles:
            break
        time.sleep(0.5)
    assert titles
    assert not any(carries(request) for request in titles)
    assert all(carries(request) for request in answers.requests if request.get("tools"))


def test_a_server_without_the_module_refuses_and_says_what_to_install(start, model):
    """The kind is unknown there; the request comes back with the saved condenser, which names what brings it."""
    server = start(preload=False)
    answers = model({"content": "never"})
    _, agent = agent_json(server, answers, checkpoint=True)
    status, problem = begin(server, agent)
    assert status == 422
    assert "GuardedAgent" in problem
    assert "policy-carriage[openhands]" in problem
    assert answers.requests == []
