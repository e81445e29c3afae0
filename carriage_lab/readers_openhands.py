# SPDX-License-Identifier: Apache-2.0
"""OpenHands event logs (``sdk158``), one event a line, to OpenHands histories.

What the history is: every event that reaches a model, in order, *raw*. Recorded `Condensation` and
`CondensationRequest` events are left out: they are what the run's own condenser did, and the replay asks what
another condenser makes of the same history. Neither they nor bookkeeping events count as events. What a model
call is: one per model response that acts, that is, one before the first `ActionEvent` of each
``llm_response_id`` (paper III-B: the state immediately before an action); a closing text reply without an
action is history, not a decision.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NoReturn

from carriage_lab.trace import HistoryItem, Role, Trace, TraceFormatError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

MODEL_KINDS: Final = frozenset(
    {
        "ActionEvent",
        "AgentErrorEvent",
        "MessageEvent",
        "ObservationEvent",
        "SystemPromptEvent",
        "UserRejectObservation",
    }
)
"""Event kinds a log stores that become messages to the model."""

OTHER_KINDS: Final = frozenset(
    {
        "ACPToolCallEvent",
        "Condensation",
        "CondensationRequest",
        "ConversationErrorEvent",
        "ConversationStateUpdateEvent",
        "HookExecutionEvent",
        "InterruptEvent",
        "LLMCompletionLogEvent",
        "PauseEvent",
        "SecurityAnalysisEvent",
        "StreamingDeltaEvent",
        "TokenEvent",
    }
)
"""Event kinds of the same SDK that no model sees."""


def is_openhands(record: dict[str, Any]) -> bool:
    """Tell an event by its content: a kind, an id and a source."""
    return all(isinstance(record.get(key), str) for key in ("kind", "id", "source"))


def read_log(file: Path, records: Iterable[tuple[int, dict[str, Any]]]) -> Trace:
    """Turn the lines of one log into a trace.

    Raises:
        TraceFormatError: A line is no event, of an unknown kind, or repeats an id; or the log does not open
            with the system prompt.
    """
    items: list[HistoryItem] = []
    calls: list[int] = []
    seen: dict[str, int] = {}
    turn = ""
    for line, record in records:
        if not is_openhands(record):
            _fail(file, line, "no OpenHands event (no kind, id and source)")
        first = seen.setdefault(record["id"], line)
        if first != line:
            _fail(file, line, f"event id {record['id']!r} is already on line {first}")
        kind = record["kind"]
        if kind in OTHER_KINDS:
            continue
        if kind not in MODEL_KINDS:
            _fail(file, line, f"unknown event kind {kind!r}")
        item = _item(file, line, record)
        if not items and item.role != "system":
            _fail(file, line, f"the log opens with {kind}, not with SystemPromptEvent")
        if kind == "ActionEvent" and item.turn != turn:
            turn = item.turn
            calls.append(len(items))
        items.append(item)
    return Trace(
        stack="openhands",
        # A conversation folder is named after the conversation and keeps its events in `events`.
        id=(file.resolve().parent if file.name == "events" else file).name.split(".")[0],
        file=file,
        line=1,
        items=tuple(items),
        calls=tuple(calls),
    )


def _item(file: Path, line: int, record: dict[str, Any]) -> HistoryItem:
    role: Role
    turn = ""
    call_ids: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
    match record["kind"]:
        case "SystemPromptEvent":
            role = "system"
        case "ActionEvent":
            role = "agent"
            turn = _text(file, line, record, "llm_response_id")
            call_ids = (_text(file, line, record, "tool_call_id"),)
        case "MessageEvent":
            role = "agent" if record["source"] == "agent" else "user"
            turn = record["id"] if role == "agent" else ""
        case _:
            role = "tool"
            answers = (_text(file, line, record, "tool_call_id"),)
    return HistoryItem(role=role, line=line, record=record, turn=turn, calls=call_ids, answers=answers)


def _text(file: Path, line: int, record: dict[str, Any], key: str) -> str:
    value = record.get(key)
    if not isinstance(value, str):
        _fail(file, line, f"{record['kind']}.{key} is missing")
    return value


def _fail(file: Path, line: int, problem: str) -> NoReturn:
    raise TraceFormatError(
        file,
        line,
        problem,
        mend="give an event log as openhands-sdk 1.58 writes it (set `sdk158`), one event a line.",
    )
