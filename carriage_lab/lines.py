# SPDX-License-Identifier: Apache-2.0
"""JSON lines, gzipped or plain, with the line number of every fault; a folder of event files counts as its lines.

Compression is told by the first two bytes, never by the name: a renamed file reads the same.
"""

from __future__ import annotations

import gzip
import json
import zlib
from contextlib import closing
from typing import IO, TYPE_CHECKING, Any, Final, NoReturn, cast

from carriage_lab.trace import TraceFormatError

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

GZIP_MAGIC: Final = b"\x1f\x8b"

MAX_LINE: Final = 64 * 1024 * 1024
"""Longest line, in bytes after decompression; the longest recorded run known here is a hundredth of it."""

_FETCH_AGAIN: Final = "fetch or compress the file again; nothing of it was replayed."


EVENT_FILES: Final = "event-*.json"
"""How OpenHands names the events of a conversation folder: in order, one object a file."""


def read_records(file: Path) -> Generator[tuple[int, dict[str, Any]]]:
    """Yield (line number, object) for every non-empty line of `file`, or (place, object) for every event of a folder.

    Raises:
        TraceFormatError: The file cannot be read, ends inside its gzip stream, is not UTF-8, or holds a line
            that is no JSON object.
    """
    if file.is_dir():
        for place, event in enumerate(sorted(file.glob(EVENT_FILES)), start=1):
            yield place, _parse(event, 1, read_text(event))
        return
    number = 0
    try:
        with closing(_open(file)) as stream:
            while raw := stream.readline(MAX_LINE + 1):
                number += 1
                if len(raw) > MAX_LINE:
                    raise TraceFormatError(
                        file,
                        number,
                        f"the line is longer than {MAX_LINE} bytes",
                        mend="give one run or event a line.",
                    )
                text = _decode(file, number, raw)
                if text.strip():
                    yield number, _parse(file, number, text)
    except EOFError:
        _fail(file, number + 1, "the gzip stream ends early (truncated file)")
    except (gzip.BadGzipFile, zlib.error) as error:
        _fail(file, number + 1, f"the gzip stream is damaged ({error})")
    except OSError as error:
        raise TraceFormatError(
            file,
            number + 1,
            f"the file cannot be read ({error.strerror or error})",
            mend="check the path and its rights.",
        ) from error


def read_text(file: Path, limit: int = MAX_LINE) -> str:
    """Return the whole text of `file`, for documents that are no JSON lines.

    Raises:
        TraceFormatError: It cannot be read, is longer than `limit` bytes, ends inside its gzip stream, or is not UTF-8.
    """
    try:
        with closing(_open(file)) as stream:
            raw = stream.read(limit + 1)
    except EOFError:
        _fail(file, 1, "the gzip stream ends early (truncated file)")
    except (gzip.BadGzipFile, zlib.error) as error:
        _fail(file, 1, f"the gzip stream is damaged ({error})")
    except OSError as error:
        raise TraceFormatError(
            file, 1, f"the file cannot be read ({error.strerror or error})", mend="check the path and its rights."
        ) from error
    if len(raw) > limit:
        raise TraceFormatError(file, 1, f"the file is longer than {limit} bytes", mend="give it in parts.")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise TraceFormatError(file, line, "not UTF-8 text", mend="give it in UTF-8, plain or gzipped.") from error


def _open(file: Path) -> IO[bytes]:
    with file.open("rb") as stream:
        zipped = stream.read(2) == GZIP_MAGIC
    return cast("IO[bytes]", gzip.open(file, "rb")) if zipped else file.open("rb")


def _decode(file: Path, number: int, raw: bytes) -> str:
    try:
        return raw.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise TraceFormatError(
            file,
            number,
            f"not UTF-8 text (byte {error.start} of the line)",
            mend="give JSON lines in UTF-8, plain or gzipped.",
        ) from error


def _parse(file: Path, number: int, text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        why = error.msg if isinstance(error, json.JSONDecodeError) else "too deeply nested or out of range"
        raise TraceFormatError(
            file,
            number,
            f"not JSON ({why})",
            mend="give JSON lines, one run (tau) or one event (OpenHands) a line.",
        ) from error
    if not isinstance(value, dict):
        raise TraceFormatError(
            file,
            number,
            f"a JSON {type(value).__name__} where an object belongs",
            mend="give JSON lines, one run (tau) or one event (OpenHands) a line.",
        )
    return value


def _fail(file: Path, line: int, problem: str) -> NoReturn:
    raise TraceFormatError(file, line, problem, mend=_FETCH_AGAIN)
