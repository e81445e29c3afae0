# SPDX-License-Identifier: Apache-2.0
"""Where manifests and decision records go. A sink that cannot write raises, and what it describes is not done."""

from __future__ import annotations

import json
import os
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from carriage_core.errors import SinkError

if TYPE_CHECKING:
    from carriage_core.manifest import Entry

KEPT: Final = 10_000
"""Entries a `MemorySink` keeps."""


@runtime_checkable
class Sink(Protocol):
    """Takes entries in chain order; called under the plane's lock."""

    def write(self, entry: Entry) -> None:
        """Store `entry`, or raise any exception."""
        ...


class MemorySink:
    """Keeps the latest entries in memory; the default, for looking at in a session."""

    def __init__(self, kept: int = KEPT) -> None:
        """Keep at most `kept` entries; older ones are forgotten."""
        self.entries: deque[Entry] = deque(maxlen=kept)

    def write(self, entry: Entry) -> None:
        """Append."""
        self.entries.append(entry)


class JsonlSink:
    """Appends one JSON object a line to a file of its own.

    Args:
        path: The file; it must not hold the chain of another plane, so it is created, never continued.
        sync: Whether each entry is forced to disk before the action it describes may run.

    Raises:
        SinkError: The file exists already, or cannot be made.
    """

    def __init__(self, path: str | os.PathLike[str], *, sync: bool = False) -> None:
        """Create the file."""
        self.path = Path(path)
        self._sync = sync
        try:
            self._file = self.path.open("x", encoding="utf-8")
        except OSError as problem:
            raise SinkError(
                f"cannot create the log {self.path} ({problem.strerror}).",
                mend="give a path that does not exist yet in a folder that can be written.",
            ) from problem

    def write(self, entry: Entry) -> None:
        """Append and flush."""
        self._file.write(json.dumps(entry.as_json(), ensure_ascii=False, sort_keys=True) + "\n")
        self._file.flush()
        if self._sync:
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file; later writes raise, which denies."""
        self._file.close()
