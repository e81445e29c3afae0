# SPDX-License-Identifier: Apache-2.0
"""Where the capsule lies: last in the dynamic context of the system message (DESIGN 3.7; research: openhands, 2).

A new view is built for every call. The stored event, the SDK's cached view and every event after the first stay
the objects they were (invariant 7), so the capsule is never persisted, summarised or restored stale.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from carriage_core import CarriageIntegrityError
from carriage_openhands.compat import SystemPromptEvent, TextContent, View

if TYPE_CHECKING:
    from collections.abc import Sequence

    from carriage_openhands.compat import LLMConvertibleEvent

BLANK: Final = "\n\n"
"""Stands before and after the capsule: some providers join content blocks without any separator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A view with the capsule in it, and where to read it back.

    Attributes:
        view: What the agent turns into messages.
        message: Content of the block that holds the capsule.
        offset: Where the capsule starts in it, in characters.
    """

    view: View
    message: str
    offset: int


def system_prompt(events: Sequence[LLMConvertibleEvent]) -> SystemPromptEvent:
    """Return the system prompt at the head of a view.

    Raises:
        CarriageIntegrityError: Something else stands there, so there is no protected position.
    """
    head = events[0] if events else None
    if not isinstance(head, SystemPromptEvent):
        raise CarriageIntegrityError(
            f"the view opens with {type(head).__name__}, not with the system prompt; the call was not made.",
            mend="find the condensation that forgot the system prompt, or start a new conversation.",
        )
    return head


def place(view: View, capsule: str) -> Placed:
    """Build the view that carries `capsule`; an empty capsule changes nothing.

    Raises:
        CarriageIntegrityError: The view does not open with a system prompt.
    """
    prompt = system_prompt(view.events)
    known = "" if prompt.dynamic_context is None else prompt.dynamic_context.text
    if not capsule:
        return Placed(view=view, message=known, offset=len(known))
    message = f"{known}{BLANK}{capsule}{BLANK}"
    carrying = prompt.model_copy(update={"dynamic_context": TextContent(text=message)})
    # Not validated anew: that would cost the whole history at every step.
    placed = View.model_construct(events=[carrying, *view.events[1:]], unhandled_condensation_request=False)
    return Placed(view=placed, message=message, offset=len(known) + len(BLANK))
