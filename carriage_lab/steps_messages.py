# SPDX-License-Identifier: Apache-2.0
"""Conversations as OpenAI-style messages, one a line, to steps for counting.

A model call is each assistant message, and one more where the conversation ends with another role: that request is
about to be sent. Leading system messages and `tools` are fixed overhead; a system message in the middle is history.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NoReturn

from carriage_lab.steps import Asked, Recorded, Said, Step
from carriage_lab.trace import TraceFormatError

if TYPE_CHECKING:
    from pathlib import Path

_SYSTEM: Final = ("system", "developer")
_ROLES: Final = (*_SYSTEM, "user", "assistant", "tool", "function")


def is_messages(record: dict[str, Any]) -> bool:
    """Tell a conversation by its content: messages that all have a role, under nothing that names another format."""
    messages = record.get("messages")
    named = {"trace_id", "suite_name", "simulations"} & record.keys()
    return isinstance(messages, list) and not named and all(isinstance(m, dict) and "role" in m for m in messages)


def messages_steps(file: Path, line: int, record: dict[str, Any]) -> Recorded:
    """Turn one conversation into steps; the final request is the last user message.

    Raises:
        TraceFormatError: The record is no such conversation.
    """
    if not is_messages(record) or not record["messages"]:
        _fail(file, line, "no conversation (no messages with roles)")
    reader = _Messages(file, line)
    for index, message in enumerate(record["messages"]):
        reader.read(f"messages[{index}]", message)
    if record["messages"][-1]["role"] != "assistant":
        reader.steps.append(Asked(prompt_tokens=None))
    tools = record.get("tools")
    if not isinstance(tools, list | None):
        _fail(file, line, "tools is no list")
    name = file.name.split(".")[0]
    known = tools is not None or not reader.uses_tools
    return Recorded(
        stack="messages",
        trace=str(record.get("id") or f"{name}:{line}"),
        file=file,
        line=line,
        sources={"set": f"messages/{name}", "all": "messages"},
        fixed=(*reader.fixed, *([json.dumps(tools)] if tools else [])) if known else None,
        steps=tuple(reader.steps),
        uncounted=reader.uncounted,
    )


class _Messages:
    """Folds messages into steps."""

    def __init__(self, file: Path, line: int) -> None:
        self.file = file
        self.line = line
        self.fixed: list[str] = []
        self.steps: list[Step] = []
        self.uncounted = 0
        self.uses_tools = False

    def read(self, path: str, message: dict[str, Any]) -> None:
        role = message["role"]
        if not isinstance(role, str) or role not in _ROLES:
            _fail(self.file, self.line, f"{path}.role is not one of {', '.join(_ROLES)}")
        text = self._text(f"{path}.content", message.get("content"))
        if role in _SYSTEM and not self.steps:
            self.fixed.append(text)
            return
        if role == "assistant":
            self.steps.append(Asked(prompt_tokens=None))
            text += self._calls(f"{path}.tool_calls", message.get("tool_calls"))
        self.uses_tools = self.uses_tools or role in {"tool", "function"}
        self.steps.append(Said(text=text, request=role == "user"))

    def _text(self, path: str, content: object) -> str:
        if content is None or isinstance(content, str):
            return content or ""
        if not isinstance(content, list):
            _fail(self.file, self.line, f"{path} is neither text, nor parts, nor null")
        texts = []
        for part in content:
            text = (part.get("text") or part.get("refusal")) if isinstance(part, dict) else part
            if isinstance(text, str):
                texts.append(text)
            elif isinstance(part, dict):
                self.uncounted += 1
            else:
                _fail(self.file, self.line, f"{path} has a part that is no object")
        return "".join(texts)

    def _calls(self, path: str, calls: object) -> str:
        if calls is None:
            return ""
        if not isinstance(calls, list):
            _fail(self.file, self.line, f"{path} is no list")
        text = ""
        for index, call in enumerate(calls):
            function = call.get("function") if isinstance(call, dict) else None
            if not (isinstance(function, dict) and isinstance(function.get("name"), str)):
                _fail(self.file, self.line, f"{path}[{index}] has no function.name")
            arguments = function.get("arguments", "")
            text += f"\n{function['name']} {arguments if isinstance(arguments, str) else json.dumps(arguments)}"
            self.uses_tools = True
        return text


def _fail(file: Path, line: int, problem: str) -> NoReturn:
    raise TraceFormatError(
        file, line, problem, mend="give one conversation a line: an object with messages, and tools where it has any."
    )
