# SPDX-License-Identifier: Apache-2.0
"""Transcripts to audit, each told by its content: what the model would be sent next, as far as the file says.

- OpenAI-style messages: a JSON list, an object with ``messages``, or JSON lines of messages or of such objects;
- AutoGen saved states: every ``llm_context`` of an agent's or a team's state is one transcript;
- OpenHands event logs: the view after every condensation, from JSON lines or from a folder of event files.

A message says where it came from only where the file has a ``provenance``; a tool's output is untrusted by its role.
"""

from __future__ import annotations

import gzip
import json
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NoReturn

from carriage_core.audit_messages import AuditError, read_messages
from carriage_lab.lines import GZIP_MAGIC
from carriage_lab.readers_openhands import MODEL_KINDS, OTHER_KINDS, is_openhands
from carriage_lab.trace import TraceFormatError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

MAX_BYTES: Final = 64 * 1024 * 1024
"""Largest transcript, in bytes after decompression (DESIGN 3.14)."""

MAX_DEPTH: Final = 32
"""Deepest nesting in which a saved state is searched for contexts."""

_AUTOGEN_ROLES: Final = {
    "SystemMessage": "system",
    "UserMessage": "user",
    "AssistantMessage": "assistant",
    "FunctionExecutionResultMessage": "tool",
}
_SHAPES: Final = (
    "give role and content messages (JSON or JSON lines), a saved AutoGen state, or an OpenHands event log."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """Messages as one model call would have them.

    Attributes:
        name: Where in the file they stand; empty for the whole file.
        messages: Objects with role, content and perhaps provenance.
    """

    name: str
    messages: tuple[dict[str, Any], ...]


def read_transcripts(path: Path) -> tuple[Transcript, ...]:
    """Read every transcript of a file, or of a folder of OpenHands event files.

    Raises:
        TraceFormatError: It is too large, cannot be read, or anything in it is none of the known shapes.
    """
    if path.is_dir():
        files = sorted(path.glob("event-*.json"))
        if not files:
            _fail(path, 1, "the folder holds no event-*.json file")
        return (_events(path, [(1, _document(file, _text(file))) for file in files]),)
    text = _text(path)
    if not text.strip():
        _fail(path, 1, "the file is empty")
    try:
        document = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return _of_lines(path, text)
    return _of_document(path, document)


def _text(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            zipped = stream.read(2) == GZIP_MAGIC
        with gzip.open(file, "rb") if zipped else file.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except (EOFError, gzip.BadGzipFile, zlib.error):
        _fail(file, 1, "the gzip stream is damaged")
    except OSError as problem:
        _fail(file, 1, f"the file cannot be read ({problem.strerror or problem})")
    if len(raw) > MAX_BYTES:
        raise TraceFormatError(
            file, 1, f"the transcript is larger than {MAX_BYTES} bytes", mend="audit it in parts, or keep its tail."
        )
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        _fail(file, raw.count(b"\n", 0, problem.start) + 1, "not UTF-8 text")


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _document(file: Path, text: str, line: int = 1) -> Any:  # noqa: ANN401  # JSON
    try:
        return json.loads(text, parse_constant=_no_constant)
    except json.JSONDecodeError as problem:
        _fail(file, line + problem.lineno - 1, f"not JSON ({problem.msg})")
    except (ValueError, RecursionError):
        _fail(file, line, "not JSON (too deeply nested or out of range)")


def _of_document(path: Path, document: object) -> tuple[Transcript, ...]:
    if isinstance(document, list):
        if document and all(isinstance(each, dict) and is_openhands(each) for each in document):
            return (_events(path, [(1, each) for each in document]),)
        return (_messages(path, 1, "", document),)
    if not isinstance(document, dict):
        _fail(path, 1, f"a JSON {type(document).__name__} where messages belong")
    if is_openhands(document) or "role" in document:
        return _of_records(path, [(1, document)])
    if isinstance(document.get("messages"), list) and "llm_context" not in document:
        return (_messages(path, 1, "", document["messages"]),)
    contexts = tuple(_contexts(path, document, "", 0))
    if not contexts:
        _fail(path, 1, "no messages and no llm_context")
    return contexts


def _of_lines(path: Path, text: str) -> tuple[Transcript, ...]:
    lines = ((number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip())
    records = [(number, _document(path, line, number)) for number, line in lines]
    for number, record in records:
        if not isinstance(record, dict):
            _fail(path, number, f"a JSON {type(record).__name__} where an object belongs")
    return _of_records(path, records)


def _of_records(path: Path, records: Sequence[tuple[int, dict[str, Any]]]) -> tuple[Transcript, ...]:
    first = records[0][1]
    if is_openhands(first):
        return (_events(path, records),)
    if "role" in first:
        return (Transcript(name="", messages=tuple(_message(path, number, record) for number, record in records)),)
    found: list[Transcript] = []
    for number, record in records:
        if not isinstance(record.get("messages"), list):
            _fail(path, number, "no role, no messages and no event")
        found.append(_messages(path, number, str(record.get("trace_id") or f"line {number}"), record["messages"]))
    return tuple(found)


def _messages(path: Path, line: int, name: str, messages: Sequence[object]) -> Transcript:
    return Transcript(
        name=name,
        # A recording may hold messages that never reached this model (tau's simulated phone).
        messages=tuple(
            message
            for each in messages
            if (message := _message(path, line, each)).get("visible_to_agent", True) is not False
        ),
    )


def _message(path: Path, line: int, message: object) -> dict[str, Any]:
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        _fail(path, line, "a message without a role")
    return _checked(path, line, {"content": None, **message})


# -- AutoGen ---------------------------------------------------------------------------------------


def _contexts(path: Path, state: object, name: str, depth: int) -> Iterator[Transcript]:
    """Find every saved model context of a state, wherever agents nest teams."""
    if depth > MAX_DEPTH:
        _fail(path, 1, f"the state nests deeper than {MAX_DEPTH}")
    items = state.items() if isinstance(state, dict) else enumerate(state) if isinstance(state, list) else ()
    for key, value in items:
        inner = f"{name}.{key}" if name else str(key)
        if key == "llm_context" and isinstance(value, dict) and isinstance(value.get("messages"), list):
            messages = tuple(_autogen(path, inner, each) for each in value["messages"])
            yield Transcript(name=inner, messages=messages)
        else:
            yield from _contexts(path, value, inner, depth + 1)


def _autogen(path: Path, name: str, message: object) -> dict[str, Any]:
    kind = message.get("type") if isinstance(message, dict) else None
    if not isinstance(message, dict) or kind not in _AUTOGEN_ROLES:
        _fail(path, 1, f"{name} holds a message of unknown type {kind!r}")
    content = message.get("content")
    if kind == "FunctionExecutionResultMessage" and isinstance(content, list):
        content = [{"type": "text", "text": str(each.get("content", ""))} for each in content if isinstance(each, dict)]
    found = {"role": _AUTOGEN_ROLES[kind], "content": content}
    if "provenance" in message:
        found["provenance"] = message["provenance"]
    return _checked(path, 1, found)


# -- OpenHands -------------------------------------------------------------------------------------


def _events(path: Path, records: Sequence[tuple[int, object]]) -> Transcript:
    """Replay a log: each condensation forgets events and puts its summary in their place."""
    view: list[tuple[str, dict[str, Any]]] = []
    for line, record in records:
        if not isinstance(record, dict) or not is_openhands(record):
            _fail(path, line, "no OpenHands event (no kind, id and source)")
        if record["kind"] == "Condensation":
            view = _condensed(path, line, record, view)
        elif record["kind"] in MODEL_KINDS:
            view.append((record["id"], _event(path, line, record)))
        elif record["kind"] not in OTHER_KINDS:
            _fail(path, line, f"unknown event kind {record['kind']!r}")
    return Transcript(name="", messages=tuple(message for _, message in view))


def _condensed(
    path: Path, line: int, record: dict[str, Any], view: list[tuple[str, dict[str, Any]]]
) -> list[tuple[str, dict[str, Any]]]:
    forgotten = record.get("forgotten_event_ids")
    if not isinstance(forgotten, list):
        _fail(path, line, "a Condensation without forgotten_event_ids")
    gone = frozenset(each for each in forgotten if isinstance(each, str))
    kept = [pair for pair in view if pair[0] not in gone]
    summary, offset = record.get("summary"), record.get("summary_offset")
    if isinstance(summary, str) and isinstance(offset, int):
        kept.insert(offset, (f"{record['id']}-summary", {"role": "user", "content": summary}))
    return kept


def _event(path: Path, line: int, record: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any]
    match record["kind"]:
        case "SystemPromptEvent":
            parts = [record.get("system_prompt"), record.get("dynamic_context")]
            found = {"role": "system", "content": [part for part in parts if part is not None]}
        case "MessageEvent":
            message = record.get("llm_message")
            if not isinstance(message, dict) or not isinstance(message.get("role"), str):
                _fail(path, line, "a MessageEvent without llm_message.role")
            extra = record.get("extended_content")
            content = message.get("content")
            parts = [content] if isinstance(content, str) else list(content or ())
            found = {"role": message["role"], "content": [*parts, *(extra if isinstance(extra, list) else ())]}
        case "ActionEvent":
            found = {"role": "assistant", "content": record.get("thought")}
        case "ObservationEvent":
            observation = record.get("observation")
            found = {"role": "tool", "content": observation.get("content") if isinstance(observation, dict) else None}
        case "AgentErrorEvent":
            found = {"role": "tool", "content": record.get("error")}
        case _:
            found = {"role": "tool", "content": record.get("rejection_reason")}
    if "provenance" in record:
        found["provenance"] = record["provenance"]
    return _checked(path, line, found)


def _checked(path: Path, line: int, message: dict[str, Any]) -> dict[str, Any]:
    """Refuse here, where the line is known, what an audit would refuse later."""
    if message.get("provenance") is not None or not isinstance(message["content"], str | None):
        try:
            read_messages([message])
        except AuditError as error:
            problem = str(error).partition(". Mend:")[0].replace("messages[0]", "the message")
            raise TraceFormatError(path, line, problem, mend=error.mend) from error
    return message


def _fail(file: Path, line: int, problem: str) -> NoReturn:
    raise TraceFormatError(file, line, problem, mend=_SHAPES)
