# SPDX-License-Identifier: Apache-2.0
"""A model that carries the capsule in every call, for the paths that skip the condenser.

The SDK asks the agent's model directly for `ask_agent` and for titles. A checkpoint is a copy of that model whose calls
all hold the capsule in the system message: the one the condenser has placed, or else one placed here. It shares the
metrics of the original. It is not saved: a fork or a reload has the plain model again, until it is put around it anew.
"""

# the methods pass on whatever the SDK's take

# ruff: noqa: ANN401  # the methods pass on whatever the SDK's take

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from pydantic import PrivateAttr

from carriage_core import Assembly, ControlError, ControlPlane
from carriage_openhands.bindings import bound
from carriage_openhands.compat import LLM, Message, TextContent
from carriage_openhands.measuring import FRAME, meter_for, words_of
from carriage_openhands.placement import BLANK

if TYPE_CHECKING:
    from collections.abc import Sequence

    from carriage_openhands.compat import ToolDefinition


def checked(llm: LLM, *, control: ControlPlane) -> LLM:
    """Return a copy of `llm` none of whose calls leaves without the capsule of `control`."""
    copy = llm.model_copy()
    if not is_checked(llm):
        copy.__class__ = _checked_class(type(llm))
    copy._control = bound(control)  # type: ignore[attr-defined]  # noqa: SLF001  # of the class made below
    return copy


def is_checked(llm: LLM) -> bool:
    """Whether a model is a checkpoint."""
    return hasattr(type(llm), "carriage_checkpoint")


@cache
def _checked_class(kind: type[LLM]) -> type[LLM]:
    """Make the class of checkpoints over one class of models; one for each, since pydantic keeps them all."""

    class CheckedLLM(kind):  # type: ignore[misc, valid-type]
        """A model whose every call carries the capsule."""

        _control: ControlPlane | None = PrivateAttr(default=None)

        def carriage_checkpoint(self, messages: list[Message], tools: Sequence[Any] | None) -> list[Message]:
            if self._control is None:
                raise ControlError("a checkpoint has lost its plane; nothing was sent.", mend="make it anew.")
            return carrying(self._control, messages, tools or ())

        def completion(self, messages: list[Message], tools: Any = None, *given: Any, **more: Any) -> Any:
            return super().completion(self.carriage_checkpoint(messages, tools), tools, *given, **more)

        async def acompletion(self, messages: list[Message], tools: Any = None, *given: Any, **more: Any) -> Any:
            return await super().acompletion(self.carriage_checkpoint(messages, tools), tools, *given, **more)

        def responses(self, messages: list[Message], tools: Any = None, *given: Any, **more: Any) -> Any:
            return super().responses(self.carriage_checkpoint(messages, tools), tools, *given, **more)

        async def aresponses(self, messages: list[Message], tools: Any = None, *given: Any, **more: Any) -> Any:
            return await super().aresponses(self.carriage_checkpoint(messages, tools), tools, *given, **more)

    CheckedLLM.__name__ = CheckedLLM.__qualname__ = f"Checked{kind.__name__}"
    return CheckedLLM


def carrying(plane: ControlPlane, messages: list[Message], tools: Sequence[ToolDefinition[Any, Any]]) -> list[Message]:
    """Return messages that hold the capsule at the end of the system message, sealed if it was not there yet.

    Raises:
        ControlError: The complete set cannot be sent, and so nothing is; not in observe mode.
    """
    try:
        return _carried(plane, messages, tools)
    except ControlError as problem:
        if not plane.would_fail(problem):
            raise
        return messages


def _carried(plane: ControlPlane, messages: list[Message], tools: Sequence[ToolDefinition[Any, Any]]) -> list[Message]:
    measured = [meter_for(plane).tool(tool) for tool in tools]
    # Without tools, as for a title, the next actions are not known: everything in scope is carried.
    capsule = plane.capsule(tools=[tool.spec for tool in measured] or None)
    if not capsule.text:
        return messages
    system = next((message for message in messages if message.role == "system"), None)
    block = f"{BLANK}{capsule.text}{BLANK}"
    if system is not None and system.content:
        last = system.content[-1]
        if isinstance(last, TextContent) and last.text.endswith(block):
            return messages  # the condenser has placed and sealed it
    before = Message(role="system", content=[]) if system is None else system
    carrier = before.model_copy(update={"content": [*before.content, TextContent(text=block)]})
    rest = [message for message in messages if message is not system]
    sizes = [FRAME + plane.count("\n".join(words)) for message in rest if (words := words_of(message))]
    own = plane.count("\n".join(words_of(before))) if before.content else 0
    plane.seal(
        Assembly(
            capsule=capsule,
            message=block,
            offset=len(BLANK),
            data_tokens=sum(sizes),
            candidate_tokens=sum(sizes),
            fixed_tokens=own + FRAME + sum(tool.tokens for tool in measured),
        )
    )
    return [carrier, *rest]
