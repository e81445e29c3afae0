# SPDX-License-Identifier: Apache-2.0
"""Messages as they go to the provider, in chat-completions form, with their cost counted once.

Both stacks end in this form; the oracle, the validity judge and the token counts read nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

type RawMessage = dict[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class ProviderMessage:
    """One message, worked out once. Compared by identity: the same object is the same message sent again.

    Attributes:
        raw: As the provider receives it.
        plain: The same with its text blocks joined to one string, for readers that know no blocks.
        tokens: What it costs.
    """

    raw: RawMessage
    plain: RawMessage
    tokens: int

    @property
    def is_system(self) -> bool:
        """Whether the provider treats it as the operator's word."""
        return self.raw.get("role") in {"system", "developer"}


def counted(raw: RawMessage, count: Callable[[str], int]) -> ProviderMessage:
    """Work out a message. Counted is everything the model reads: text, call names and arguments."""
    plain = raw if isinstance(raw.get("content"), str | None) else {**raw, "content": "\n".join(blocks_of(raw))}
    return ProviderMessage(raw, plain, count(text_of(raw)))


def blocks_of(raw: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the text blocks of a message's content; a plain string is one block."""
    content = raw.get("content")
    if content is None:
        return ()
    if isinstance(content, str):
        return (content,)
    return tuple(block["text"] for block in content if isinstance(block.get("text"), str))


def text_of(raw: Mapping[str, Any]) -> str:
    """Return all a model reads in one message, as counted text (paper III-F)."""
    parts = list(blocks_of(raw))
    for call in raw.get("tool_calls") or ():
        function = call["function"]
        parts.append(f"{function['name']} {function['arguments']}")
    return "\n".join(parts)


def head_length(messages: Sequence[ProviderMessage]) -> int:
    """Count the leading system messages: control and fixed text. What follows is data."""
    return next((index for index, message in enumerate(messages) if not message.is_system), len(messages))


def tokens(messages: Iterable[ProviderMessage]) -> int:
    """Sum the tokens of `messages`."""
    return sum(message.tokens for message in messages)
