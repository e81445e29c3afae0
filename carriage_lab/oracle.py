# SPDX-License-Identifier: Apache-2.0
"""An independent reader: is the policy there, where it counts, in what goes to the provider?

It imports nothing of this distribution and knows neither capsule nor drop-in; it looks at the assembled
provider messages and the policy's text (DESIGN 3.11, 4.1). Texts are equal after Unicode NFC, line-end and
trailing-space normalisation, and after nothing else: substrings, quotes inside prose and texts of the wrong
role never count.
"""

from __future__ import annotations

import json
import re
import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_SYSTEM_ROLES: Final = ("system", "developer")
_JSON_STRING: Final = re.compile(r'(?<![^\s:,\[{(])"(?:[^"\\\x00-\x1f]|\\.)*"(?![^\s,\]})])')
"""A JSON string literal that stands alone: between blanks, line ends or JSON punctuation."""


def visible_protected(messages: Sequence[Mapping[str, Any]], policy: str) -> bool:
    """Whether the leading run of system messages carries `policy`, as whole lines or as one JSON string."""
    for message in messages:
        if message.get("role") not in _SYSTEM_ROLES:
            return False
        if any(_carries(block, policy) for block in _blocks(message)):
            return True
    return False


def visible_placed(messages: Sequence[Mapping[str, Any]], policy: str) -> bool:
    """Whether a user message, or one whole content block of one, is `policy` and nothing else.

    Frameworks join neighbouring user messages into one message of several blocks; a block is then what was a
    message.
    """
    wanted = _normal(policy)
    return bool(wanted) and any(
        _normal(block) == wanted for message in messages if message.get("role") == "user" for block in _blocks(message)
    )


def _blocks(message: Mapping[str, Any]) -> Iterator[str]:
    content = message.get("content")
    if isinstance(content, str):
        yield content
    elif content is not None:
        yield from (block["text"] for block in content if isinstance(block.get("text"), str))


@lru_cache(maxsize=256)
def _carries(block: str, policy: str) -> bool:
    wanted = _normal(policy)
    if not wanted:
        return False
    lines = _normal(block).split("\n")
    size = wanted.count("\n") + 1
    if any("\n".join(lines[start : start + size]) == wanted for start in range(len(lines) - size + 1)):
        return True
    return any(_normal(text) == wanted for text in _quoted(block))


def _quoted(block: str) -> Iterator[str]:
    for match in _JSON_STRING.finditer(block):
        try:
            text = json.loads(match.group())
        except ValueError:
            continue
        yield text


@lru_cache(maxsize=4096)
def _normal(text: str) -> str:
    lines = unicodedata.normalize("NFC", text).replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return "\n".join(line.rstrip() for line in lines).rstrip()
