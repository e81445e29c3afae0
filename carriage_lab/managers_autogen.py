# SPDX-License-Identifier: Apache-2.0
"""AutoGen: AG-U, AG-B and the drop-in for AG-B, driven through the framework's own interface.

A context lives as long as the trace: each call adds what is new and asks for the messages, as an agent does.
Only where a placement moved nothing may be added; if the history is no continuation of what the context holds
(the placed message of ``later`` before the first exchange is over), a new context is filled. Both native
classes and the drop-in are count-based: none of their settings depends on rho.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, assert_never

from autogen_core import FunctionCall
from autogen_core.model_context import (
    BufferedChatCompletionContext,
    ChatCompletionContext,
    UnboundedChatCompletionContext,
)
from autogen_core.models import (
    AssistantMessage,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    LLMMessage,
    SystemMessage,
    UserMessage,
)

from carriage_core import ControlOverloadError
from carriage_core.adapter import load_adapter
from carriage_lab.placement import Placement, position
from carriage_lab.stack import WINDOWS, Bench, Case, FailedClosedError, Stack
from carriage_lab.wire import ProviderMessage, RawMessage, counted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from carriage_lab.trace import HistoryItem, Trace

BUFFER: Final = 6
"""Messages the buffered contexts keep: the buffer of the paper's AG-B."""

AGENT: Final = "assistant"
USER: Final = "user"


class ContextManager:
    """Drives one `ChatCompletionContext` through a growing history."""

    by_rho: Final = False

    def __init__(self, name: str, make: Callable[[], ChatCompletionContext], *, ours: bool) -> None:
        """Drive contexts that `make` builds."""
        self.name = name
        self.ours = ours
        self._make = make
        self._context: ChatCompletionContext | None = None
        self._fed: tuple[LLMMessage, ...] = ()

    def assemble(self, case: Case[LLMMessage], rho: float) -> Sequence[LLMMessage]:  # noqa: ARG002
        """Feed what is new, ask for the messages, put the agent's own system message before them.

        Raises:
            FailedClosedError: The context raised `ControlOverloadError`.
        """
        try:
            return [*case.fixed, *asyncio.run(self._messages(case.history))]
        except ControlOverloadError as error:
            raise FailedClosedError from error

    async def _messages(self, history: tuple[LLMMessage, ...]) -> Sequence[LLMMessage]:
        known = len(self._fed)
        if self._context is None or not _continues(history, self._fed):
            self._context, known = self._make(), 0
        self._fed = history
        for message in history[known:]:
            await self._context.add_message(message)
        return await self._context.get_messages()


class AutoGenSession:
    """One trace as AutoGen messages."""

    def __init__(self, trace: Trace, bench: Bench, drop_in: Callable[..., Any]) -> None:
        """Build every message of `trace` once."""
        self._trace = trace
        self._bench = bench
        self._messages = tuple(build_message(item) for item in trace.items)
        self._system = SystemMessage(content=bench.policy)
        self._placed = UserMessage(content=bench.policy, source=USER)
        self._sent: dict[int, tuple[LLMMessage, tuple[ProviderMessage, ...]]] = {}
        plane = bench.control(WINDOWS["autogen"])
        self.managers = (
            ContextManager("AG-U", UnboundedChatCompletionContext, ours=False),
            ContextManager("AG-B", lambda: BufferedChatCompletionContext(BUFFER), ours=False),
            ContextManager("ours", lambda: drop_in(BUFFER, control=plane), ours=True),
        )

    def case(self, placement: Placement, length: int, *, ours: bool) -> Case[LLMMessage]:
        """Place the policy; natively protected means the agent's system message."""
        history = self._messages[:length]
        at = position(placement, self._trace, length)
        if at is None:
            return Case(fixed=() if ours else (self._system,), history=history)
        return Case(fixed=(), history=(*history[:at], self._placed, *history[at:]))

    def provider(self, messages: Sequence[LLMMessage]) -> tuple[ProviderMessage, ...]:
        """Convert each message by itself; AutoGen joins none of them on this path."""
        return tuple(sent for message in messages for sent in self._convert(message))

    def _convert(self, message: LLMMessage) -> tuple[ProviderMessage, ...]:
        known = self._sent.get(id(message))
        if known is None or known[0] is not message:
            converted = tuple(counted(raw, self._bench.count) for raw in to_provider(message))
            known = self._sent[id(message)] = (message, converted)
        return known[1]


class AutoGenStack:
    """The AutoGen half of the replay."""

    managers: Final = (("AG-U", False), ("AG-B", False), ("ours", True))

    def __init__(self, bench: Bench) -> None:
        """Share `bench` and the drop-in among all sessions."""
        self._bench = bench
        self._drop_in = load_adapter("autogen").drop_ins["buffered"]

    def open(self, trace: Trace) -> AutoGenSession:
        """Build the messages of `trace`."""
        return AutoGenSession(trace, self._bench, self._drop_in)


def open_stack(bench: Bench) -> Stack[LLMMessage]:
    """Answer `carriage_lab.stack.open_stack`."""
    return AutoGenStack(bench)


def build_message(item: HistoryItem) -> LLMMessage:
    """Turn a neutral item into the message AutoGen would have stored."""
    record: Mapping[str, Any] = item.record
    match item.role:
        case "user":
            return UserMessage(content=record["content"], source=USER)
        case "agent" if record["calls"]:
            calls = [FunctionCall(**call) for call in record["calls"]]
            return AssistantMessage(content=calls, thought=record["content"] or None, source=AGENT)
        case "agent":
            return AssistantMessage(content=record["content"], source=AGENT)
        case "tool":
            return FunctionExecutionResultMessage(
                content=[FunctionExecutionResult(**result) for result in record["results"]]
            )
        case "system":
            return SystemMessage(content=record["content"])
        case _ as unreachable:
            assert_never(unreachable)


def to_provider(message: LLMMessage) -> list[RawMessage]:
    """Say `message` as AutoGen's OpenAI client does, without the speakers' names."""
    match message:
        case SystemMessage():
            return [{"role": "system", "content": message.content}]
        case UserMessage():
            text = message.content if isinstance(message.content, str) else "\n".join(map(str, message.content))
            return [{"role": "user", "content": text}]
        case AssistantMessage(content=str() as text):
            return [{"role": "assistant", "content": text}]
        case AssistantMessage(content=list() as calls):
            return [
                {
                    "role": "assistant",
                    "content": message.thought,
                    "tool_calls": [
                        {
                            "id": call.id,
                            "type": "function",
                            "function": {"name": call.name, "arguments": call.arguments},
                        }
                        for call in calls
                    ],
                }
            ]
        case FunctionExecutionResultMessage():
            return [
                {"role": "tool", "tool_call_id": result.call_id, "content": result.content}
                for result in message.content
            ]
        case _:
            raise TypeError(type(message).__name__)


def _continues(history: tuple[LLMMessage, ...], fed: tuple[LLMMessage, ...]) -> bool:
    return len(history) >= len(fed) and all(new is old for new, old in zip(history, fed, strict=False))
