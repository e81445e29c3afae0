# SPDX-License-Identifier: Apache-2.0
"""An OpenHands agent that keeps its policy in front of the model, and may not act against it. Offline.

Two changes to an agent you have: the condenser carries the plane, and the agent is a `GuardedAgent`.
"""

import logging
import os

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # offline: no download of a price list
os.environ.setdefault("OPENHANDS_SUPPRESS_BANNER", "1")

import tempfile
from pathlib import Path

from openhands.sdk import Conversation
from openhands.sdk.llm import Message, MessageToolCall
from openhands.sdk.testing import TestLLM

from carriage_core import ControlPlane
from carriage_openhands import ControlRollingCondenser, GuardedAgent

logging.disable(logging.WARNING)  # the SDK logs every conversation
POLICY = """
carriage: 1
tools:
  think: {action: think, attributes: {words: thought}}
policies:
  - id: no-secrets-in-thoughts
    issuer: {kind: organization, name: security}
    version: 1
    action: think
    where: {attr: action.words, contains: password}
    effect: deny
    text: Never think about the password.
"""


def proposes(number: int, tool: str, arguments: str) -> Message:
    """What a model would answer; this one is scripted."""
    call = MessageToolCall(id=f"call-{number}", name=tool, arguments=arguments, origin="completion")
    return Message(role="assistant", content=[], tool_calls=[call])


with tempfile.TemporaryDirectory() as folder:
    path = Path(folder, "policy.yaml")
    path.write_text(POLICY, encoding="utf-8")
    plane = ControlPlane.from_file(path, actor="helper")
    agent = GuardedAgent(
        llm=TestLLM.from_messages(
            [
                proposes(1, "think", '{"thought": "what was the password"}'),
                proposes(2, "think", '{"thought": "better not"}'),
                proposes(3, "finish", '{"message": "done"}'),
            ]
        ),
        condenser=ControlRollingCondenser(control=plane, max_size=80, keep_first=2),
    )
    conversation = Conversation(agent, workspace=folder, visualizer=None)
    conversation.send_message("Think it over, then finish.")
    conversation.run()
    conversation.close()

for entry in plane.sink.entries:
    print(entry.sequence, entry.kind, entry.body.get("tool", ""), entry.body.get("code", entry.body.get("outcome", "")))
verdicts = [entry.body["verdict"] for entry in plane.sink.entries if entry.kind == "decision"]
assert verdicts == ["deny", "allow", "allow"], verdicts
