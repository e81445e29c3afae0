# SPDX-License-Identifier: Apache-2.0
"""Files that lie beside traces and are none: system prompts, tool schemas, reported usage, model windows."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from carriage_lab.lines import read_records
from carriage_lab.steps import MOST_TOKENS
from carriage_lab.trace import TraceFormatError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
"""An id from a record becomes a file name, so it must not be able to leave the folder."""

_LISTS: Final = ("token_usage.jsonl", "token_usage.jsonl.gz", "index.jsonl", "index.jsonl.gz")


def is_companion(record: dict[str, Any]) -> bool:
    """Tell, by content, a line of a usage list or of an index from a trace."""
    return "conversation" in record and ("prompt_tokens" in record or "max_input_tokens" in record)


def fixed_texts(file: Path, record: dict[str, Any]) -> tuple[str, ...] | None:
    """Return system prompt and tool schemas of a tau run, named by its ids beside `file`; None if they are not there.

    Raises:
        TraceFormatError: A named file is there and cannot be used.
    """
    prompt = _beside(file, "system_prompts", record.get("system_prompt_id"), ".txt")
    tools = _beside(file, "tools", record.get("tools_id"), ".json")
    if prompt is None or tools is None:
        return None
    try:
        return prompt.read_text(encoding="utf-8"), json.dumps(json.loads(tools.read_text(encoding="utf-8")))
    except (OSError, ValueError, RecursionError) as error:
        raise TraceFormatError(
            tools if isinstance(error, json.JSONDecodeError) else prompt,
            1,
            f"the fixed overhead of {file.name} cannot be read ({type(error).__name__})",
            mend="restore system_prompts/ and tools/ beside the traces.",
        ) from error


def _beside(file: Path, folder: str, name: object, suffix: str) -> Path | None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        return None
    found = file.parent / folder / f"{name}{suffix}"
    return found if found.is_file() else None


class OpenHandsLists:
    """What ``token_usage.jsonl`` and ``index.jsonl``, in a log's folder or the one above, say about the logs.

    Attributes:
        usage: Reported prompt tokens, by model response id.
        windows: The model's input window, by conversation.
        used: The files they come from.
    """

    def __init__(self, failed: Callable[[TraceFormatError], None]) -> None:
        """Start empty; a list that is damaged is handed to `failed`, and nothing of it is used."""
        self.usage: dict[str, int] = {}
        self.windows: dict[str, int] = {}
        self.used: list[Path] = []
        self._seen: set[Path] = set()
        self._failed = failed

    def look_beside(self, log: Path) -> None:
        """Read the lists for `log`, each once."""
        folder = log.resolve().parent
        for place in (folder, folder.parent):
            for name in _LISTS:
                file = place / name
                if file in self._seen or not file.is_file():
                    continue
                self._seen.add(file)
                try:
                    self._read(file)
                except TraceFormatError as error:
                    self._failed(error)

    def _read(self, file: Path) -> None:
        usage: dict[str, int] = {}
        windows: dict[str, int] = {}
        for line, record in read_records(file):
            if not is_companion(record):
                if line == 1:
                    return  # another file of that name
                raise TraceFormatError(
                    file, line, "no usage or index record", mend="keep to one kind of list in a file."
                )
            if "max_input_tokens" in record:
                windows[str(record["conversation"])] = _count(file, line, record, "max_input_tokens")
            elif record.get("service", "default") == "default":
                # The condenser's own calls are billed under another service; they are no decision of the agent.
                usage[str(record.get("response_id"))] = _count(file, line, record, "prompt_tokens")
        self.usage |= usage
        self.windows |= windows
        self.used.append(file)


def _count(file: Path, line: int, record: dict[str, Any], key: str) -> int:
    value = record[key]
    if type(value) is not int or not 0 < value <= MOST_TOKENS:
        raise TraceFormatError(file, line, f"{key} is no positive count", mend="give whole numbers.")
    return value
