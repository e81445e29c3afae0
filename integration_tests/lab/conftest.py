"""Small runs of our own, written the way the data sets write theirs."""

import gzip
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from carriage_lab.counters import counter_named
from carriage_lab.policy import control_for

type Record = dict[str, Any]


def tau_message(role: str, content: str | None = None, **more: Any) -> Record:
    return {"role": role, "content": content, "visible_to_agent": True, **more}


def tau_call(*ids: str) -> Record:
    calls = [{"id": each, "name": "look_up", "arguments": {"key": each}} for each in ids]
    return tau_message("assistant", tool_calls=calls)


def tau_result(call_id: str) -> Record:
    return tau_message("tool", f"value of {call_id}", tool_call_id=call_id, name="look_up")


def tau_run(rounds: int = 4) -> Record:
    """A greeting, a question, so many rounds of two parallel calls, an answer: `rounds` + 1 model calls."""
    messages = [
        tau_message("assistant", "Hi! How can I help you today?", scripted=True),
        tau_message("user", "Where is my parcel?"),
    ]
    for number in range(rounds):
        ids = f"call_{number}a", f"call_{number}b"
        messages += [tau_call(*ids), *map(tau_result, ids)]
    messages.append(tau_message("assistant", "It arrives on Monday."))
    return {"trace_id": "shop_1", "domain": "retail", "messages": messages}


def event(kind: str, number: int, source: str, **more: Any) -> Record:
    stamp = f"2025-09-25T11:{number // 60:02}:{number % 60:02}"
    return {"kind": kind, "id": f"event-{number}", "timestamp": stamp, "source": source, **more}


def text(words: str) -> Record:
    return {"type": "text", "text": words}


def action(number: int, call: str, response: str, thought: str = "") -> Record:
    return event(
        "ActionEvent",
        number,
        "agent",
        thought=[text(thought)] if thought else [],
        action={"kind": "ThinkAction", "thought": "hm"},
        tool_name="think",
        tool_call_id=call,
        tool_call={"id": call, "name": "think", "arguments": '{"thought": "hm"}', "origin": "completion"},
        llm_response_id=response,
    )


def observation(number: int, call: str, action_number: int) -> Record:
    return event(
        "ObservationEvent",
        number,
        "environment",
        tool_name="think",
        tool_call_id=call,
        action_id=f"event-{action_number}",
        observation={"kind": "ThinkObservation", "content": [text("Your thought has been logged.")]},
    )


def openhands_log(steps: int = 8) -> list[Record]:
    """System prompt, task, then so many actions, each with its observation: `steps` model calls."""
    events = [
        event("SystemPromptEvent", 0, "agent", system_prompt=text("You fix bugs."), tools=[]),
        event("MessageEvent", 1, "user", llm_message={"role": "user", "content": [text("Fix the parser.")]}),
    ]
    for step in range(steps):
        number = len(events)
        events.append(action(number, f"call-{step}", f"response-{step}", f"step {step} of the work"))
        events.append(observation(number + 1, f"call-{step}", number))
    return events


@pytest.fixture
def lines(tmp_path: Path) -> Callable[..., Path]:
    """Write records as JSON lines; gzipped where the name says so."""

    def write(name: str, records: Iterable[Record]) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        data = "".join(json.dumps(record) + "\n" for record in records).encode()
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return path

    return write


@pytest.fixture
def control() -> Callable[[int], object]:
    """A control plane with the replay policy, for a model window."""
    return control_for(counter_named("whitespace"), 800)
