# SPDX-License-Identifier: Apache-2.0
"""From the paths a user names to traces: files are recognised by content, each by itself."""

from __future__ import annotations

from contextlib import closing
from itertools import chain
from typing import TYPE_CHECKING, Final

from carriage_lab.lines import EVENT_FILES, read_records
from carriage_lab.readers_openhands import is_openhands, read_log
from carriage_lab.readers_tau import is_tau, read_run
from carriage_lab.trace import LabError, Trace, TraceFormatError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

SUFFIXES: Final = (".jsonl", ".jsonl.gz")
"""What is looked at inside a named directory; a file named itself may be called anything."""


def find_files(paths: Iterable[Path]) -> tuple[Path, ...]:
    """List the traces of `paths`, each once, directories walked and sorted: files, and folders of OpenHands events.

    Raises:
        LabError: A path does not exist, or a directory holds neither JSON lines nor event files.
    """
    found: dict[Path, Path] = {}
    for path in paths:
        if not path.exists():
            raise LabError(f"{path} does not exist.", mend="name a trace file or a directory of trace files.")
        inside = sorted(each for each in path.rglob("*") if each.is_file() and each.name.endswith(SUFFIXES))
        inside += sorted({each.parent for each in path.rglob(EVENT_FILES) if each.is_file()})
        if path.is_dir() and not inside:
            raise LabError(
                f"{path} holds no *.jsonl, *.jsonl.gz or {EVENT_FILES} file.", mend="name a directory of trace files."
            )
        for file in inside if path.is_dir() else [path]:
            found.setdefault(file.resolve(), file)
    return tuple(found.values())


def read_file(file: Path) -> tuple[Trace, ...]:
    """Read every trace of `file`, or none of them.

    Raises:
        TraceFormatError: The file is not what it claims to be.
    """
    with closing(read_records(file)) as records:
        first = next(records, None)
        if first is None:
            raise TraceFormatError(file, 1, "the file is empty", mend="give a file with at least one run or event.")
        lines = chain([first], records)
        if is_tau(first[1]):
            return tuple(read_run(file, line, record) for line, record in lines)
        if is_openhands(first[1]):
            return (read_log(file, lines),)
    raise TraceFormatError(
        file,
        first[0],
        "neither a tau run (trace_id, messages) nor an OpenHands event (kind, id, source)",
        mend="give tau JSON lines or an OpenHands `sdk158` event log.",
    )
