# SPDX-License-Identifier: Apache-2.0
"""tau and tau2 runs, one a line, to AutoGen histories.

What the history is (paper III-B, III-F): the messages the agent's model could see, without the system prompt;
in telecom the simulated user works its own phone, and those calls and results (``visible_to_agent: false``)
never reach the agent. What a model call is: one per assistant message that a model made; the fixed greeting
(``scripted``) is not one. Tool results between two model calls become one message, as AutoGen itself stores
one round of calls: a `FunctionExecutionResultMessage` holding all of them.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NoReturn

from carriage_lab.trace import HistoryItem, Trace, TraceFormatError

if TYPE_CHECKING:
    from pathlib import Path

ROLES: Final = frozenset({"assistant", "user", "tool"})


def is_tau(record: dict[str, Any]) -> bool:
    """Tell a tau run by its content: a list of messages under the name of a run."""
    return isinstance(record.get("messages"), list) and "trace_id" in record


def read_run(file: Path, line: int, record: dict[str, Any]) -> Trace:
    """Turn one line into a trace.

    Raises:
        TraceFormatError: A field is missing or of another type than the format says.
    """
    if not is_tau(record):
        raise TraceFormatError(
            file,
            line,
            "no tau run (no trace_id and list of messages)",
            mend="keep to one kind of trace in a file.",
        )
    reader = _Reader(file, line)
    for index, message in enumerate(record["messages"]):
        reader.read(f"messages[{index}]", message)
    return Trace(
        stack="autogen",
        id=str(record["trace_id"]),
        file=file,
        line=line,
        items=tuple(reader.items),
        calls=tuple(reader.calls),
    )


class _Reader:
    """Folds messages into items; ``items`` only ever grows, so a length names a snapshot."""

    def __init__(self, file: Path, line: int) -> None:
        self.file = file
        self.line = line
        self.items: list[HistoryItem] = []
        self.calls: list[int] = []
        self._round: list[dict[str, Any]] = []

    def read(self, path: str, message: object) -> None:
        if not isinstance(message, dict):
            self._fail(path, "is no object")
        role = message.get("role")
        if not isinstance(role, str) or role not in ROLES:
            self._fail(f"{path}.role", f"is {role!r}, not one of {', '.join(sorted(ROLES))}")
        content = message.get("content")
        if content is not None and not isinstance(content, str):
            self._fail(f"{path}.content", "is neither text nor null")
        visible = message.get("visible_to_agent")
        if not isinstance(visible, bool):
            self._fail(f"{path}.visible_to_agent", "is missing or no boolean")
        if role == "assistant" and not message.get("scripted"):
            self._round = []
            self.calls.append(len(self.items))
        if visible:
            self._add(path, role, content or "", message)

    def _add(self, path: str, role: str, content: str, message: dict[str, Any]) -> None:
        if role == "tool":
            self._add_result(path, content, message)
            return
        self._round = []
        if role == "user":
            self._append(HistoryItem(role="user", line=self.line, record={"type": "user", "content": content}))
            return
        calls = self._calls_of(f"{path}.tool_calls", message.get("tool_calls"))
        self._append(
            HistoryItem(
                role="agent",
                line=self.line,
                record={"type": "agent", "content": content, "calls": calls},
                turn=path,
                calls=tuple(call["id"] for call in calls),
            )
        )

    def _add_result(self, path: str, content: str, message: dict[str, Any]) -> None:
        call_id = message.get("tool_call_id")
        if not isinstance(call_id, str):
            self._fail(f"{path}.tool_call_id", "is missing")
        result = {
            "call_id": call_id,
            "name": str(message.get("name") or ""),
            "content": content,
            "is_error": bool(message.get("error")),
        }
        if self._round:
            self.items.pop()
        self._round = [*self._round, result]
        self._append(
            HistoryItem(
                role="tool",
                line=self.line,
                record={"type": "tool", "results": self._round},
                answers=tuple(entry["call_id"] for entry in self._round),
            )
        )

    def _calls_of(self, path: str, calls: object) -> list[dict[str, str]]:
        if calls is None:
            return []
        if not isinstance(calls, list):
            self._fail(path, "is no list")
        read = []
        for index, call in enumerate(calls):
            if not (isinstance(call, dict) and isinstance(call.get("id"), str) and isinstance(call.get("name"), str)):
                self._fail(f"{path}[{index}]", "has no id and name")
            arguments = call.get("arguments", "")
            text = arguments if isinstance(arguments, str) else json.dumps(arguments)
            read.append({"id": call["id"], "name": call["name"], "arguments": text})
        return read

    def _append(self, item: HistoryItem) -> None:
        self.items.append(item)

    def _fail(self, path: str, problem: str) -> NoReturn:
        raise TraceFormatError(
            self.file,
            self.line,
            f"{path} {problem}",
            mend="give messages with role, content, visible_to_agent, tool_calls and tool_call_id.",
        )
