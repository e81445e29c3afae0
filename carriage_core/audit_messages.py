# SPDX-License-Identifier: Apache-2.0
"""What an audit reads: role and content messages of any framework, as segments (DESIGN 3.1, 3.11, 3.14)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from carriage_core.errors import CarriageError
from carriage_core.provenance import Provenance

MAX_MESSAGES: Final = 100_000
"""Most messages of one transcript."""

MAX_CHARACTERS: Final = 20_000_000
"""Longest transcript, in characters of content."""

_TOOL_ROLES: Final = frozenset({"tool", "function"})
_TRAILING: Final = re.compile(r"[ \t]+(?=\n|\Z)")


class AuditError(CarriageError):
    """A transcript that cannot be audited. Nothing is said about part of one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """One message.

    Attributes:
        index: Its place in the transcript, from 0.
        role: As the transcript has it; it never gives authority.
        provenance: Where it came from, or None where nobody recorded it.
        text: Its text, normalised.
        whole: Whether that text is one piece and all there is to the message.
    """

    index: int
    role: str
    provenance: Provenance | None
    text: str
    whole: bool

    @property
    def trusted(self) -> bool:
        """Whether it is known to speak policy."""
        return self.provenance is not None and self.provenance.speaks_policy

    @property
    def counts(self) -> bool:
        """Whether it speaks policy or, for all anybody recorded, may do so."""
        return self.provenance is None or self.provenance.speaks_policy


def normalise(text: str) -> str:
    """Bring a text to NFC with plain line ends and without trailing blanks, and change nothing else (DESIGN 3.11)."""
    text = unicodedata.normalize("NFC", text.replace("\r\n", "\n").replace("\r", "\n"))
    return _TRAILING.sub("", text).rstrip("\n")


def read_messages(messages: Sequence[Mapping[str, object]]) -> tuple[Segment, ...]:
    """Read messages with ``role``, ``content`` and perhaps ``provenance``.

    Args:
        messages: ``content`` is text, null, or a list of parts of which those with a text are read.

    Raises:
        AuditError: A message is not of that shape, or the transcript is over a limit.
    """
    if len(messages) > MAX_MESSAGES:
        raise AuditError(f"the transcript has more than {MAX_MESSAGES} messages.", mend="audit it in parts.")
    segments: list[Segment] = []
    size = 0
    for index, message in enumerate(messages):
        segment = _segment(index, message)
        size += len(segment.text)
        if size > MAX_CHARACTERS:
            raise AuditError(f"the transcript has more than {MAX_CHARACTERS} characters.", mend="audit it in parts.")
        segments.append(segment)
    return tuple(segments)


def _segment(index: int, message: object) -> Segment:
    place = f"messages[{index}]"
    if not isinstance(message, Mapping):
        raise AuditError(f"{place} is not an object.", mend="give objects with role and content.")
    role = message.get("role")
    if not isinstance(role, str):
        raise AuditError(f"{place}.role is missing or not text.", mend="give every message a role.")
    if "content" not in message:
        raise AuditError(f"{place}.content is missing.", mend="give every message a content, null if it has none.")
    pieces, whole = _pieces(place, message["content"])
    return Segment(
        index=index,
        role=role,
        provenance=_provenance(place, role, message.get("provenance")),
        text=normalise("\n".join(pieces)),
        whole=whole and len(pieces) == 1,
    )


def _provenance(place: str, role: str, raw: object) -> Provenance | None:
    if raw is None:
        # A role gives no authority, but a tool's output never has any.
        return Provenance.UNTRUSTED_TOOL_CONTENT if role in _TOOL_ROLES else None
    if isinstance(raw, str):
        try:
            return Provenance(raw.replace("_", " ").replace("-", " "))
        except ValueError:
            pass
    raise AuditError(
        f"{place}.provenance is not one of the known kinds.",
        mend=f"use one of {', '.join(Provenance)}, or leave it out.",
    )


def _pieces(place: str, content: object) -> tuple[list[str], bool]:
    if content is None:
        return [], False
    if isinstance(content, str):
        return [content], True
    if not isinstance(content, Sequence):
        raise AuditError(f"{place}.content is neither text, parts nor null.", mend="give text or a list of parts.")
    pieces: list[str] = []
    whole = True
    for number, part in enumerate(content):
        text = _part(part)
        if text is None and not isinstance(part, Mapping):
            raise AuditError(f"{place}.content[{number}] is no part.", mend="give text or an object.")
        if text is None:  # an image, a sound, a call: nothing to read, and the text is not all there is
            whole = False
        else:
            pieces.append(text)
    return pieces, whole


def _part(part: object) -> str | None:
    if isinstance(part, str):
        return part
    if isinstance(part, Mapping):
        for key in ("text", "content"):
            text = part.get(key)
            if isinstance(text, str):
                return text
    return None
