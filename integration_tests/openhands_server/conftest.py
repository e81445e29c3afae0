"""The real agent-server on loopback, and a model on loopback that answers as it is told.

The judges read what the model was sent over HTTP and what the tool wrote down, and import nothing of ours.
"""

import http.client
import json
import os
import socket
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

POLICIES = """
carriage: 1
tools:
  delete_artifact:
    action: delete
    object: {type: release_artifact, id: artifact_id}
policies:
  - id: keep-releases
    issuer: {kind: organization, name: platform-security}
    action: delete
    object: {type: release_artifact}
    where: {attr: object.id, prefix: "release-"}
    effect: deny
    text: Never delete a release.
"""

# What an operator gives the server with --import-modules: the rules, and here the tool.
MODULE = """
import os
from openhands.sdk.tool import Action, Observation, ToolDefinition, ToolExecutor, register_tool
import carriage_openhands
from carriage_core import ControlPlane

PLANE = ControlPlane.from_file(os.environ["RULES_FILE"], actor="release-bot")

class DeleteArtifactAction(Action):
    artifact_id: str

class DeletedObservation(Observation):
    pass

class Deletes(ToolExecutor):
    def __call__(self, action, conversation=None):
        with open(os.environ["EFFECTS_FILE"], "a") as log:
            log.write(action.artifact_id + "\\n")
        return DeletedObservation.from_text("deleted")

class DeleteArtifactTool(ToolDefinition):
    @classmethod
    def create(cls, conv_state=None, **params):
        return [cls(description="Delete an artifact.", action_type=DeleteArtifactAction,
                    observation_type=DeletedObservation, executor=Deletes())]

register_tool("DeleteArtifactTool", DeleteArtifactTool)
"""


class Model(ThreadingHTTPServer):
    """An OpenAI-compatible endpoint: it writes down every request and answers from a list."""

    def __init__(self, answers):
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers = list(answers)
        self.requests = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/v1"


class Handler(BaseHTTPRequestHandler):
    """One request."""

    def log_message(self, *given):
        pass

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append(body)
        scripted = bool(body.get("tools"))
        message = self.server.answers.pop(0) if scripted and self.server.answers else {"content": "A title"}
        reply = {
            "id": f"r{len(self.server.requests)}",
            "object": "chat.completion",
            "created": 0,
            "model": "scripted",
            "choices": [
                {
                    "index": 0,
                    "finish_reason": "tool_calls" if message.get("tool_calls") else "stop",
                    "message": {"role": "assistant", "content": None, **message},
                }
            ],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }
        data = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def calls(name, call_id, **arguments):
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"tool_calls": [{"id": call_id, "type": "function", "function": function}]}


class Server:
    """The agent-server's REST interface."""

    def __init__(self, port, folder):
        self.port, self.folder = port, folder

    def ask(self, method, path, body=None):
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            sent = None if body is None else json.dumps(body)
            link.request(method, path, body=sent, headers={"Content-Type": "application/json"})
            reply = link.getresponse()
            text = reply.read().decode()
        finally:
            link.close()
        return reply.status, json.loads(text) if reply.status < 400 and text else text

    @property
    def effects(self):
        log = self.folder / "effects.txt"
        return log.read_text().split() if log.exists() else []


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def model():
    """Make a scripted model; closed at the end."""
    made = []

    def make(*answers):
        made.append(Model(answers))
        return made[-1]

    yield make
    for each in made:
        each.shutdown()
        each.server_close()


@pytest.fixture
def start(tmp_path):
    """Start the agent-server, with the operator's module or without."""
    running = []

    def begin(*, preload=True):
        (tmp_path / "modules").mkdir(exist_ok=True)
        (tmp_path / "modules" / "operator_rules.py").write_text(MODULE)
        (tmp_path / "rules.yaml").write_text(POLICIES)
        port = free_port()
        command = [sys.executable, "-m", "openhands.agent_server", "--host", "127.0.0.1", "--port", str(port)]
        if preload:
            folder = str(tmp_path / "modules")
            command += ["--extra-python-path", folder, "--import-modules", "operator_rules"]
        environment = {
            **os.environ,
            "RULES_FILE": str(tmp_path / "rules.yaml"),
            "EFFECTS_FILE": str(tmp_path / "effects.txt"),
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "OH_CONVERSATIONS_PATH": str(tmp_path / "conversations"),
            "OH_ENABLE_VSCODE": "false",
            "OH_ENABLE_VNC": "false",
            "OH_PRELOAD_TOOLS": "false",
            "HOME": str(tmp_path),
        }
        log = (tmp_path / "server.log").open("w")
        process = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=log, stderr=subprocess.STDOUT)
        running.append((process, log))
        server = Server(port, tmp_path)
        for _ in range(240):
            if process.poll() is not None:
                raise AssertionError(Path(log.name).read_text()[-3_000:])
            try:
                if server.ask("GET", "/alive")[0] == 200:
                    return server
            except OSError:
                pass
            time.sleep(0.5)
        raise AssertionError(Path(log.name).read_text()[-3_000:])

    yield begin
    for process, log in running:
        process.terminate()
        process.wait(30)
        log.close()


@pytest.fixture
def scripted():
    """The answer that makes one call."""
    return calls
