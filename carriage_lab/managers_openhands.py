# SPDX-License-Identifier: Apache-2.0
"""OpenHands: OH-N, OH-R and the rolling drop-in, over real event and view objects.

Events are built once per trace by the SDK's own `Event.model_validate`. For every call the history is a
`View` of the raw events so far; what a condenser returns is turned into messages by the SDK's own
`events_to_messages`. A drop-in that answers with a `Condensation` is treated as the agent loop treats it: the
condensation is applied and the condenser is asked again.
"""

from __future__ import annotations

import os
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

# The SDK asks litellm for its price list over the network while it is imported, and prints a banner; a
# measurement does neither. Both must be set before the first import of `openhands`.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
os.environ.setdefault("OPENHANDS_SUPPRESS_BANNER", "1")

from openhands.sdk.context.condenser import CondenserBase, NoOpCondenser
from openhands.sdk.context.view import View
from openhands.sdk.event import (
    ActionEvent,
    Event,
    LLMConvertibleEvent,
    MessageEvent,
    SystemPromptEvent,
)
from openhands.sdk.event.llm_convertible.observation import ObservationBaseEvent
from openhands.sdk.llm import Message, TextContent
from pydantic import ValidationError

from carriage_core import ControlOverloadError
from carriage_core.adapter import load_adapter
from carriage_lab import rolling
from carriage_lab.placement import Placement, position
from carriage_lab.stack import WINDOWS, Bench, Case, FailedClosedError, Stack
from carriage_lab.trace import LabError, TraceFormatError
from carriage_lab.wire import ProviderMessage, counted

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from carriage_lab.trace import HistoryItem, Trace

KEEP_FIRST: Final = 2
"""Events the rolling windows always keep: the system prompt and the one behind it."""

type Events = Sequence[LLMConvertibleEvent]


class CondenserManager:
    """Drives a real condenser; if it depends on rho it is built anew for every call, with its window."""

    def __init__(self, name: str, make: Callable[[int], CondenserBase], *, ours: bool, by_rho: bool) -> None:
        """Drive condensers that `make` builds for a window of so many events."""
        self.name = name
        self.ours = ours
        self.by_rho = by_rho
        self._make = make

    def assemble(self, case: Case[LLMConvertibleEvent], rho: float) -> Events:
        """Condense until a view comes back.

        Raises:
            FailedClosedError: The condenser raised `ControlOverloadError`.
        """
        condenser = self._make(rolling.max_size(len(case.history), rho, KEEP_FIRST))
        events = list(case.history)
        try:
            for _ in range(len(events) + 1):
                answer = condenser.condense(View(events=events))
                if isinstance(answer, View):
                    return answer.events
                events = answer.apply(events)
        except ControlOverloadError as error:
            raise FailedClosedError from error
        raise LabError(f"{self.name} condensed without end.", mend="report this with the trace.")


class RollingManager:
    """OH-R: `carriage_lab.rolling` over the SDK's view."""

    name: Final = "OH-R"
    ours: Final = False
    by_rho: Final = True

    def __init__(self) -> None:
        """Start without a history; indices are asked of the SDK once per case, not once per rho."""
        self._last: tuple[Case[LLMConvertibleEvent], frozenset[int]] | None = None

    def assemble(self, case: Case[LLMConvertibleEvent], rho: float) -> Events:
        """Keep the head and the most recent events."""
        if self._last is None or self._last[0] is not case:
            view = View(events=list(case.history))
            self._last = (case, frozenset(view.manipulation_indices))
        size = rolling.max_size(len(case.history), rho, KEEP_FIRST)
        head, tail = rolling.window(len(case.history), self._last[1], keep_first=KEEP_FIRST, size=size)
        return [*case.history[:head], *case.history[tail:]]


class OpenHandsSession:
    """One log as SDK events."""

    def __init__(self, trace: Trace, bench: Bench, drop_in: Callable[..., Any]) -> None:
        """Build every event of `trace` once.

        Raises:
            TraceFormatError: The SDK does not accept an event.
        """
        self._trace = trace
        self._bench = bench
        self._events = tuple(build_event(trace, item) for item in trace.items)
        self._protected = _protect(trace, self._events[0], bench.policy)
        message = Message(role="user", content=[TextContent(text=bench.policy)])
        self._placed = MessageEvent(source="user", llm_message=message)
        self._sent: dict[tuple[int, ...], tuple[Events, tuple[ProviderMessage, ...]]] = {}
        plane = bench.control(WINDOWS["openhands"])
        self.managers = (
            CondenserManager("OH-N", lambda _: NoOpCondenser(), ours=False, by_rho=False),
            RollingManager(),
            CondenserManager(
                "ours",
                lambda size: drop_in(control=plane, max_size=size, keep_first=KEEP_FIRST),
                ours=True,
                by_rho=True,
            ),
        )

    def case(self, placement: Placement, length: int, *, ours: bool) -> Case[LLMConvertibleEvent]:
        """Place the policy; natively protected means the system prompt's dynamic context."""
        history = self._events[:length]
        at = position(placement, self._trace, length)
        if at is None:
            return Case(fixed=(), history=history if ours else (self._protected, *history[1:]))
        return Case(fixed=(), history=(*history[:at], self._placed, *history[at:]))

    def provider(self, messages: Events) -> tuple[ProviderMessage, ...]:
        """Convert with the SDK, a group of neighbours at a time.

        `events_to_messages` joins only neighbouring actions and neighbouring plain user messages; groups of
        those, converted apart and remembered, give what the whole list gives.
        """
        return tuple(sent for _, group in groupby(messages, key=_joinable) for sent in self._convert(tuple(group)))

    def _convert(self, group: tuple[LLMConvertibleEvent, ...]) -> tuple[ProviderMessage, ...]:
        key = tuple(map(id, group))
        known = self._sent.get(key)
        if known is None:
            converted = tuple(
                counted(
                    message.to_chat_dict(
                        cache_enabled=False,
                        vision_enabled=False,
                        function_calling_enabled=True,
                        force_string_serializer=False,
                        send_reasoning_content=False,
                    ),
                    self._bench.count,
                )
                for message in LLMConvertibleEvent.events_to_messages(list(group))
            )
            known = self._sent[key] = (group, converted)  # the group is kept so that its ids stay taken
        return known[1]


class OpenHandsStack:
    """The OpenHands half of the replay."""

    managers: Final = (("OH-N", False), ("OH-R", False), ("ours", True))

    def __init__(self, bench: Bench) -> None:
        """Share `bench` and the drop-in among all sessions."""
        self._bench = bench
        self._drop_in = load_adapter("openhands").drop_ins["rolling"]

    def open(self, trace: Trace) -> OpenHandsSession:
        """Build the events of `trace`.

        Raises:
            TraceFormatError: The SDK does not accept an event.
        """
        return OpenHandsSession(trace, self._bench, self._drop_in)


def open_stack(bench: Bench) -> Stack[LLMConvertibleEvent]:
    """Answer `carriage_lab.stack.open_stack`."""
    return OpenHandsStack(bench)


def build_event(trace: Trace, item: HistoryItem) -> LLMConvertibleEvent:
    """Build one event with the SDK.

    Raises:
        TraceFormatError: The SDK refuses it, or no model sees it.
    """
    try:
        event = Event.model_validate(item.record)
    except (ValidationError, ValueError) as error:
        fault = error.errors()[0] if isinstance(error, ValidationError) else None
        where = ".".join(map(str, fault["loc"])) if fault else str(item.record.get("kind"))
        raise TraceFormatError(
            trace.file,
            item.line,
            f"openhands-sdk refuses the event at {where or item.record.get('kind')}",
            mend="give an event log as openhands-sdk 1.58 writes it (set `sdk158`).",
        ) from error
    if not isinstance(event, LLMConvertibleEvent):
        raise TraceFormatError(
            trace.file,
            item.line,
            f"{type(event).__name__} is not seen by a model in the installed openhands-sdk",
            mend="install openhands-sdk 1.58, with which the logs were written.",
        )
    return event


def _protect(trace: Trace, event: LLMConvertibleEvent, policy: str) -> SystemPromptEvent:
    if not isinstance(event, SystemPromptEvent):
        raise TraceFormatError(trace.file, trace.line, "no system prompt", mend="give a whole event log.")
    known = event.dynamic_context.text + "\n\n" if event.dynamic_context else ""
    return event.model_copy(update={"dynamic_context": TextContent(text=known + policy)})


def _joinable(event: LLMConvertibleEvent) -> Hashable:
    if isinstance(event, ActionEvent):
        return "action"
    if isinstance(event, (ObservationBaseEvent, SystemPromptEvent)):
        return id(event)
    return "message"
