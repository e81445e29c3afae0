# SPDX-License-Identifier: Apache-2.0
"""Put rules on an OpenHands agent you have; see what is guarded, and a call that waits for a person. Offline.

`attach` takes the agent as it is; nothing else in the program changes.
"""

import logging
import os

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # offline: no download of a price list
os.environ.setdefault("OPENHANDS_SUPPRESS_BANNER", "1")

import tempfile
from pathlib import Path

from openhands.sdk import Agent, Conversation
from openhands.sdk.context.condenser import LLMSummarizingCondenser
from openhands.sdk.llm import Message, MessageToolCall, TextContent
from openhands.sdk.testing import TestLLM

from carriage_core import ControlPlane
from carriage_openhands import approve, attach, held, inspect_conversation

logging.disable(logging.WARNING)  # the SDK logs every conversation
POLICY = """
carriage: 1
tools:
  think: {action: think, attributes: {words: thought}}
policies:
  - id: ask-before-thinking-aloud
    issuer: {kind: organization, name: security}
    action: think
    where: {attr: action.words, contains: customer}
    effect: confirm
    text: Ask a person before thinking aloud about a customer.
"""


def proposes(number: int, tool: str, arguments: str) -> Message:
    """What a model would answer; this one is scripted."""
    call = MessageToolCall(id=f"call-{number}", name=tool, arguments=arguments, origin="completion")
    return Message(role="assistant", content=[], tool_calls=[call])


llm = TestLLM.from_messages(
    [
        proposes(1, "think", '{"thought": "the customer is right"}'),
        proposes(2, "think", '{"thought": "the customer is wrong"}'),
        Message(role="assistant", content=[TextContent(text="I leave it at that.")]),
    ]
)
agent = Agent(llm=llm, condenser=LLMSummarizingCondenser(llm=llm, max_size=80, keep_first=4))
print("before:")
print(inspect_conversation(agent))

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder, "policy.yaml")
    path.write_text(POLICY, encoding="utf-8")
    plane = ControlPlane.from_file(path, actor="helper")
    conversation = Conversation(attach(agent, control=plane), workspace=folder, visualizer=None)
    conversation.send_message("Think it over.")
    print("\nafter:")
    print(inspect_conversation(conversation))

    conversation.run()
    [call] = held(conversation)
    print(f"\nheld: {call.tool} {dict(call.arguments)}")
    approve(conversation, call.call_id, by="alice")
    conversation.run()  # the approved call runs; the next one is held
    conversation.send_message("No, do not.")
    conversation.run()  # and is rejected, since nobody approved it
    conversation.close()

outcomes = [entry.body["outcome"] for entry in plane.sink.entries if entry.kind == "outcome"]
verdicts = [(entry.body["call_id"], entry.body["code"]) for entry in plane.sink.entries if entry.kind == "decision"]
print("decided:", verdicts)
assert verdicts == [("call-1", "approved"), ("call-2", "needs_approval")], verdicts
assert outcomes == ["executed"], outcomes
