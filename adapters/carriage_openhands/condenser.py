# SPDX-License-Identifier: Apache-2.0
"""The rolling drop-in: the first events and the most recent ones, no summary, and the control capsule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self, override

from pydantic import Field, model_validator

from carriage_openhands.compat import (
    LLM,
    Condensation,
    CondensationRequirement,
    NoCondensationAvailableException,
    View,
)
from carriage_openhands.control import ControlCondenser, forget
from carriage_openhands.forgetting import middle

if TYPE_CHECKING:
    from carriage_openhands.control import Measured


class ControlRollingCondenser(ControlCondenser):
    """A rolling window over the history that carries a control plane.

    Past `max_size` events, or when data does not fit the window, the middle is forgotten down to about half, so that
    the prefix stays the same between cuts. Nothing is summarised and no model is called. Use it as
    ``ControlRollingCondenser(control=plane, max_size=80, keep_first=2)``.

    Attributes:
        max_size: Most events of a view before the middle is forgotten.
        keep_first: Events at the head that are never forgotten; the system prompt is not in any case.
    """

    max_size: int = Field(default=80, gt=1)
    keep_first: int = Field(default=2, ge=1)

    @model_validator(mode="after")
    def _leaves_a_tail(self) -> Self:
        if self.keep_first >= self.max_size:
            raise ValueError("keep_first must be less than max_size, to leave room for the newest events")
        return self

    @override
    def condensation_requirement(self, view: View, agent_llm: LLM | None = None) -> CondensationRequirement | None:
        if view.unhandled_condensation_request:
            return CondensationRequirement.HARD
        measured = self.measured(view, agent_llm)
        if measured.data > measured.room and self.least_data(view, measured) <= measured.room:
            return CondensationRequirement.HARD
        return CondensationRequirement.SOFT if len(view) > self.max_size else None

    @override
    def get_condensation(self, view: View, agent_llm: LLM | None = None) -> Condensation:
        """Forget the shortest run in the middle that leaves half of what there may be.

        Raises:
            NoCondensationAvailableException: Between the head and the newest unit there is nothing to forget.
        """
        measured = self.measured(view, agent_llm)
        most_events: list[int] = []
        if len(view) > self.max_size:
            most_events.append(self.max_size // 2)
        if view.unhandled_condensation_request:
            most_events.append(len(view) // 2)
        run = middle(
            view.manipulation_indices,
            measured.sizes,
            keep_first=self.keep_first,
            most_events=min(most_events, default=None),
            most_tokens=measured.room // 2 if measured.data > measured.room else None,
        )
        if run is None:
            raise NoCondensationAvailableException(
                f"all {len(view)} events of the view are head or newest unit; nothing can be forgotten."
            )
        start, end = run
        return forget(event.id for event in view.events[start:end])

    @override
    def hard_context_reset(self, view: View, agent_llm: LLM | None = None) -> Condensation | None:
        """There is none: a reset would forget the head. The request fails loudly instead."""
        return None

    @override
    def least_data(self, view: View, measured: Measured) -> int:
        run = middle(view.manipulation_indices, measured.sizes, keep_first=self.keep_first, most_events=0)
        return measured.data - (0 if run is None else sum(measured.sizes[run[0] : run[1]]))
