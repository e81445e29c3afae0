# SPDX-License-Identifier: Apache-2.0
"""How large an assembly is, counted once for each object (DESIGN 3.8, invariant 12).

Events and tools are immutable, so each is counted once, in the plane's counter, and remembered by identity: an
event id may repeat in another conversation with other words. A step then costs what is new, and one sum.
"""

from __future__ import annotations

import json
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from carriage_core import ControlPlane, ToolSpec, count_imitations
from carriage_openhands.compat import (
    ImageContent,
    LLMConvertibleEvent,
    Message,
    TextContent,
    ToolDefinition,
    argument_schema,
    offered_schema,
)
from carriage_openhands.running import Known, Running, Size

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

FRAME: Final = 8
"""Tokens added for each message and tool: role, separators and wrapping, more than any known chat template adds."""

IMAGE: Final = 5_000
"""Tokens counted for each image: more than the providers' published most for one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredTool:
    """A tool as policies see it, and what its schema costs in every call."""

    spec: ToolSpec
    tokens: int


class _ByIdentity[K, V]:
    """Remembers a value for each living object."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[K], V]] = {}

    def get(self, item: K, make: Callable[[K], V]) -> V:
        key = id(item)
        known = self._known.get(key)
        if known is not None and known[0]() is item:
            return known[1]
        value = make(item)
        self._known[key] = (weakref.ref(item, lambda gone: self._forget(key, gone)), value)
        return value

    def _forget(self, key: int, gone: weakref.ref[K]) -> None:
        known = self._known.get(key)
        if known is not None and known[0] is gone:  # the number may belong to another object by now
            del self._known[key]


class Meter:
    """Measures what one plane's agents send."""

    def __init__(self, count: Callable[[str], int]) -> None:
        """Count with `count`, which refuses an answer that cannot be true."""
        self._count = count
        self._events: _ByIdentity[LLMConvertibleEvent, Size] = _ByIdentity()
        self._tools: _ByIdentity[ToolDefinition[Any, Any], MeasuredTool] = _ByIdentity()
        self._running = Running(self.event)

    def view(self, events: Sequence[LLMConvertibleEvent]) -> Known:
        """Measure a view; its first event is the system prompt."""
        return self._running.follow(events)

    def event(self, event: LLMConvertibleEvent) -> Size:
        """Measure an event as the message it becomes."""
        return self._events.get(event, self._measure_event)

    def tool(self, tool: ToolDefinition[Any, Any]) -> MeasuredTool:
        """Measure a tool's schema as the model is shown it."""
        return self._tools.get(tool, self._measure_tool)

    def _measure_event(self, event: LLMConvertibleEvent) -> Size:
        message = event.to_llm_message()
        text = "\n".join(words_of(message))
        images = sum(len(part.image_urls) for part in message.content if isinstance(part, ImageContent))
        tokens = FRAME + images * IMAGE + (self._count(text) if text else 0)
        return Size(tokens=tokens, imitations=count_imitations(text))

    def _measure_tool(self, tool: ToolDefinition[Any, Any]) -> MeasuredTool:
        shown = json.dumps(offered_schema(tool), ensure_ascii=False)
        spec = ToolSpec.of({"name": tool.name, "parameters": argument_schema(tool)})
        return MeasuredTool(spec=spec, tokens=FRAME + self._count(shown))


def words_of(message: Message) -> list[str]:
    """Everything of a message that a model may be sent as text."""
    words = [part.text for part in message.content if isinstance(part, TextContent)]
    for call in message.tool_calls or ():
        words += [call.id, call.name, call.arguments]
    words += [word for word in (message.tool_call_id, message.name, message.reasoning_content) if word]
    words += [block.model_dump_json(exclude_none=True) for block in message.thinking_blocks]
    if message.responses_reasoning_item is not None:
        words.append(message.responses_reasoning_item.model_dump_json(exclude_none=True))
    return words


_meters: weakref.WeakKeyDictionary[ControlPlane, Meter] = weakref.WeakKeyDictionary()


def meter_for(plane: ControlPlane) -> Meter:
    """Return the meter of a plane, shared by all condensers that carry it."""
    meter = _meters.get(plane)
    if meter is None:
        # The plane is held weakly: a meter that held it would keep it alive for ever.
        held = weakref.ref(plane)

        def count(text: str) -> int:
            plane = held()
            if plane is None:
                raise ReferenceError("the plane of this meter is gone")
            return plane.count(text)

        meter = _meters[plane] = Meter(count)
    return meter
