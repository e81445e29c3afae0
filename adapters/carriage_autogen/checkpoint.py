# SPDX-License-Identifier: Apache-2.0
"""The last gate before the model: every call carries the capsule exactly once, first, in one system block.

The block is a single system message. Of the shapes that AutoGen's clients accept it is the only one that all of them
do: the OpenAI client merges several at the head or refuses one that stands apart, the Anthropic client refuses that
too, Semantic Kernel's Google connectors refuse a second one, and Ollama, Azure AI Inference and llama.cpp leave it
to the server's template.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from autogen_core.models import LLMMessage, SystemMessage, UserMessage
from autogen_core.tools import Tool, ToolSchema

from carriage_autogen.history import History
from carriage_autogen.placement import copy_last_answer, head_message, without_capsule
from carriage_autogen.sizes import MESSAGE_OVERHEAD, size_of
from carriage_core import Assembly, CarriageIntegrityError, Mode

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from carriage_autogen.overload import Terms
    from carriage_core import ControlPlane

type AnyTool = Tool | ToolSchema

_REPLACING: Final = frozenset({"messages", "system", "instructions", "input", "prompt", "tools", "functions"})
"""Arguments of providers that put something else in place of the assembled messages or the offered tools."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is handed to the client.

    Attributes:
        messages: The messages, capsule first.
        tools: The candidate tools.
    """

    messages: list[LLMMessage]
    tools: list[AnyTool]


def name_of(tool: AnyTool) -> str:
    """The name a model calls the tool by."""
    return tool.schema["name"] if isinstance(tool, Tool) else tool["name"]


def check_arguments(extra: Mapping[str, Any]) -> None:
    """Refuse extra arguments that would replace what was assembled after it was checked.

    Raises:
        CarriageIntegrityError: One would.
    """
    body = extra.get("extra_body")
    names = {*extra, *(body if isinstance(body, dict) else ())}
    replacing = sorted(names & _REPLACING)
    if replacing:
        raise CarriageIntegrityError(
            f"extra_create_args holds {replacing[0]!r}, which would replace what was assembled; the call was not made.",
            mend="pass messages and tools as arguments of the call.",
        )


class Checkpoint:
    """Makes each request of one actor carry its capsule."""

    def __init__(
        self,
        control: ControlPlane,
        *,
        system_texts: Collection[str] | None = None,
        tools: Callable[[], Sequence[str] | None] | None = None,
    ) -> None:
        """Make a checkpoint.

        Args:
            control: The control plane, as the actor whose calls these are.
            system_texts: System texts that are the operator's; what else stands in the system role is data. None
                trusts the system messages at the head of a call, as agents built by hand put them there.
            tools: Asks for the names of the actor's tools, for calls that offer none, such as a reflection.
        """
        self._control = control
        self._system_texts = None if system_texts is None else frozenset(system_texts)
        self._tools = tools
        self._history = History(control)
        self._sizes: dict[int, tuple[AnyTool, int]] = {}

    def candidates(self, tools: Sequence[AnyTool]) -> tuple[str, ...] | None:
        """Names of the tools an answer may call; None where they are not known, and everything in scope applies."""
        if tools:
            return tuple(name_of(tool) for tool in tools)
        known = None if self._tools is None else self._tools()
        return None if known is None else tuple(known)

    def request(self, messages: Sequence[LLMMessage], tools: Sequence[AnyTool], terms: Terms) -> Request:
        """Assemble, check and record one call.

        Raises:
            ControlOverloadError: The complete set or the whole assembly does not fit. Make no call.
            ControlError: Something else kept the assembly from being checked or recorded. The same.
        """
        control = terms.control
        offered = [tool for tool in tools if terms.tools is None or name_of(tool) in terms.tools]
        texts, data = self._parted(messages)
        capsule = control.capsule(terms.tools)
        history = self._history
        history.sync(data)
        sent, tokens = list(history.messages), history.tokens()
        ending = history.unanswered()
        if ending is not None:
            sent.append(ending)
            tokens += history.size(ending).tokens
        head = head_message(capsule, texts)
        fixed = sum(self._size(tool) for tool in offered)
        if head is not None:
            fixed += MESSAGE_OVERHEAD + (control.count("".join(f"\n\n{text}" for text in texts)) if texts else 0)
        control.seal(
            Assembly(
                capsule=capsule,
                message="" if head is None else head.content,
                offset=0,
                data_tokens=tokens,
                candidate_tokens=history.tokens(),
                fixed_tokens=fixed,
                imitations=history.imitations(),
            )
        )
        copy_last_answer(sent)
        return Request(messages=sent if head is None else [head, *sent], tools=offered)

    def observed(self, messages: Sequence[LLMMessage], tools: Sequence[AnyTool], terms: Terms) -> Request:
        """Put the whole capsule before the native messages, changing nothing of them (DESIGN 3.13).

        Raises:
            ControlError: That cannot be sent; the caller sends the native messages alone.
        """
        control = terms.control
        capsule = control.capsule(terms.tools)
        native: list[LLMMessage] = []
        for message in messages:
            rest = without_capsule(message) if isinstance(message, SystemMessage) else None
            if rest is None:
                native.append(message)
            elif rest:
                native.append(SystemMessage(content=rest))
        sizes = [size_of(message, control) for message in native]
        tokens = sum(size.tokens for size in sizes)
        head = head_message(capsule, ())
        control.seal(
            Assembly(
                capsule=capsule,
                message="" if head is None else head.content,
                offset=0,
                data_tokens=tokens,
                candidate_tokens=tokens,
                fixed_tokens=MESSAGE_OVERHEAD + sum(self._size(tool) for tool in tools),
                imitations=sum(size.imitations for size in sizes),
            )
        )
        return Request(messages=native if head is None else [head, *native], tools=list(tools))

    def prepared(self, messages: Sequence[LLMMessage], tools: Sequence[AnyTool], terms: Terms) -> Request:
        """Assemble as the actor's mode says."""
        if terms.control.mode is Mode.OBSERVE:
            return self.observed(messages, tools, terms)
        return self.request(messages, tools, terms)

    def _parted(self, messages: Sequence[LLMMessage]) -> tuple[list[str], list[LLMMessage]]:
        """Part the texts that belong behind the capsule from what is data."""
        texts: list[str] = []
        prompts: list[LLMMessage] = []
        start = 0
        while start < len(messages) and isinstance(message := messages[start], SystemMessage):
            start += 1
            rest = without_capsule(message)
            text = message.content if rest is None else rest
            if not text:
                continue
            if rest is not None or self._system_texts is None or text in self._system_texts:
                texts.append(text)
            else:
                # AutoGen itself asks models that need a user message in this way.
                prompts.append(UserMessage(content=text, source="user"))
        data = [*prompts, *messages[start:]]
        if not data and texts and self._system_texts is None:
            # A prompt of nothing but system text asks something: the question is not a rule.
            data.append(UserMessage(content=texts.pop(), source="user"))
        return texts, data

    def _size(self, tool: AnyTool) -> int:
        known = self._sizes.get(id(tool))
        if known is not None and known[0] is tool:
            return known[1]
        schema = tool.schema if isinstance(tool, Tool) else tool
        tokens = self._control.count(json.dumps(schema, default=str)) + MESSAGE_OVERHEAD
        if len(self._sizes) >= _KEPT_SIZES:
            self._sizes.clear()
        self._sizes[id(tool)] = (tool, tokens)
        return tokens


_KEPT_SIZES: Final = 512
