# SPDX-License-Identifier: Apache-2.0
"""A recorded run as the texts its model saw, for counting: no framework, no text kept longer than the count.

The shapes of a run are checked by the readers (`carriage_lab.readers_tau`, `carriage_lab.readers_openhands`);
what is added here is what a replay has no use for and a budget audit needs (paper III-B): system text, tool schemas,
recorded condensations, and the prompt tokens that the provider reported.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn

from carriage_lab.readers_openhands import MODEL_KINDS, read_log
from carriage_lab.readers_tau import read_run
from carriage_lab.trace import TraceFormatError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MOST_TOKENS: Final = 10**9
"""A larger reported count is damage, not a prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A text that entered the history.

    Attributes:
        text: The text as counted; a tool call counts as its name and arguments.
        id: Its event id, by which a condensation forgets it; empty where nothing ever does.
        request: Whether it is what the user last asked for (or, for OpenHands, the task).
    """

    text: str
    id: str = ""
    request: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A model call. `prompt_tokens` is what the provider reported for it, if the source kept that."""

    prompt_tokens: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Condensed:
    """The run's own condenser forgot events; its newest summary stands in for all forgotten so far."""

    forgotten: frozenset[str]
    summary: str


type Step = Said | Asked | Condensed
type Level = Literal["set", "domain", "dataset", "all"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """One run, ready to be counted.

    Attributes:
        stack: The framework it belongs to, or `messages`.
        trace: The run's name.
        file: Where it was read from.
        line: The line it starts on.
        sources: What it is counted under, by level.
        fixed: System text and tool schemas; None where the source does not hold them.
        steps: What happened, in order.
        condensed: Whether the run had a condenser, so that its history and what was sent differ.
        uncounted: Parts that are no text (images), which no counter here can count.
    """

    stack: str
    trace: str
    file: Path
    line: int
    sources: Mapping[Level, str]
    fixed: tuple[str, ...] | None
    steps: tuple[Step, ...]
    condensed: bool = False
    uncounted: int = 0


def tau_steps(file: Path, line: int, record: dict[str, Any], fixed: tuple[str, ...] | None) -> Recorded:
    """Turn one tau or tau2 run into steps; the final request is the last user message the agent could see.

    Raises:
        TraceFormatError: The record is no such run.
    """
    trace = read_run(file, line, record)
    dataset = str(record.get("dataset") or "tau")
    steps: list[Step] = []
    for index, message in enumerate(record["messages"]):
        if message["role"] == "assistant" and not message.get("scripted"):
            steps.append(Asked(prompt_tokens=_reported(file, line, f"messages[{index}].usage", message.get("usage"))))
        if message["visible_to_agent"]:
            # read_run has checked the calls of assistant messages; no other visible message has any.
            calls = (message.get("tool_calls") or ()) if message["role"] == "assistant" else ()
            text = (message.get("content") or "") + "".join(map(_call, calls))
            steps.append(Said(text=text, request=message["role"] == "user"))
    return Recorded(
        stack="autogen",
        trace=trace.id,
        file=file,
        line=line,
        sources={
            "set": f"{dataset}/{record.get('set') or file.name.split('.')[0]}",
            "domain": f"{dataset}/{record.get('domain') or 'no domain'}",
            "dataset": dataset,
            "all": "tau",
        },
        fixed=fixed,
        steps=tuple(steps),
    )


def openhands_steps(file: Path, records: list[tuple[int, dict[str, Any]]], usage: Mapping[str, int]) -> Recorded:
    """Turn one OpenHands log into steps; the final request is the first user message, the task.

    Args:
        file: The log.
        records: Its lines.
        usage: Prompt tokens by model response id.

    Raises:
        TraceFormatError: The log is none, or an event holds no text where its kind has one.
    """
    trace = read_log(file, records)
    reader = _Events(file, usage)
    for line, record in records:
        reader.read(line, record)
    return Recorded(
        stack="openhands",
        trace=trace.id,
        file=file,
        line=1,
        sources={"all": "openhands"},
        fixed=reader.fixed,
        steps=tuple(reader.steps),
        condensed=True,
        uncounted=reader.uncounted,
    )


class _Events:
    """Folds checked events into steps."""

    def __init__(self, file: Path, usage: Mapping[str, int]) -> None:
        self.file = file
        self.usage = usage
        self.fixed: tuple[str, ...] = ()
        self.steps: list[Step] = []
        self.uncounted = 0
        self._turn = ""
        self._tasked = False

    def read(self, line: int, event: dict[str, Any]) -> None:
        kind = event["kind"]
        if kind == "Condensation":
            self._condensation(line, event)
        if kind not in MODEL_KINDS:
            return
        if kind == "SystemPromptEvent":
            prompt, tools = event.get("system_prompt"), event.get("tools")
            if not isinstance(tools, list):
                self._fail(line, "SystemPromptEvent.tools is no list")
            schemas = [each.get("mcp_tool", each) if isinstance(each, dict) else each for each in tools]
            parts = [prompt, event.get("dynamic_context")]
            texts = [self._text(line, "system_prompt", [part]) for part in parts if part is not None]
            self.fixed = (*texts, json.dumps(schemas))
            return
        if kind == "ActionEvent" and event["llm_response_id"] != self._turn:
            self._turn = event["llm_response_id"]
            self.steps.append(Asked(prompt_tokens=self.usage.get(self._turn)))
        task = kind == "MessageEvent" and not self._tasked
        self._tasked = self._tasked or task
        self.steps.append(Said(text=self._said(line, event), id=event["id"], request=task))

    def _condensation(self, line: int, event: dict[str, Any]) -> None:
        forgotten, summary = event.get("forgotten_event_ids"), event.get("summary")
        if not isinstance(forgotten, list) or not isinstance(summary, str | None):
            self._fail(line, "Condensation without a list of forgotten_event_ids and a summary")
        self.steps.append(Condensed(forgotten=frozenset(map(str, forgotten)), summary=summary or ""))

    def _said(self, line: int, event: dict[str, Any]) -> str:
        match event["kind"]:
            case "MessageEvent":
                parts = _within(event, "llm_message", "content")
                extra = event.get("extended_content")
                return self._text(line, "llm_message.content", parts) + (
                    self._text(line, "extended_content", extra) if extra else ""
                )
            case "ActionEvent":
                call = event.get("tool_call")
                if not (isinstance(call, dict) and isinstance(call.get("name"), str)):
                    self._fail(line, "ActionEvent.tool_call has no name")
                return self._text(line, "thought", event.get("thought")) + _call(call)
            case "ObservationEvent":
                return self._text(line, "observation.content", _within(event, "observation", "content"))
            case "AgentErrorEvent":
                return self._text(line, "error", event.get("error"))
            case _:
                return self._text(line, "rejection_reason", event.get("rejection_reason"))

    def _text(self, line: int, path: str, parts: object) -> str:
        if isinstance(parts, str):
            return parts
        if not isinstance(parts, list):
            self._fail(line, f"{path} is neither text nor a list of parts")
        texts = []
        for part in parts:
            if isinstance(part, dict) and isinstance(part.get("text"), str):
                texts.append(part["text"])
            elif isinstance(part, dict):
                self.uncounted += 1
            else:
                self._fail(line, f"{path} has a part that is no object")
        return "".join(texts)

    def _fail(self, line: int, problem: str) -> NoReturn:
        raise TraceFormatError(
            self.file, line, problem, mend="give an event log as openhands-sdk 1.58 writes it (set `sdk158`)."
        )


def _within(event: dict[str, Any], *keys: str) -> object:
    value: object = event
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _call(call: dict[str, Any]) -> str:
    arguments = call.get("arguments", "")
    return f"\n{call['name']} {arguments if isinstance(arguments, str) else json.dumps(arguments)}"


def _reported(file: Path, line: int, path: str, usage: object) -> int | None:
    tokens = usage.get("prompt_tokens") if isinstance(usage, dict) else None
    if tokens is None:
        return None
    if type(tokens) is not int or not 0 <= tokens <= MOST_TOKENS:
        raise TraceFormatError(file, line, f"{path}.prompt_tokens is no count", mend="give whole numbers, or no usage.")
    return tokens or None
