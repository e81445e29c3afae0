# SPDX-License-Identifier: Apache-2.0
"""The drop-ins that call no model: a rolling window over the history, and the whole history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, override

from pydantic import Field, PrivateAttr, model_validator

from carriage_core import ControlPlane  # noqa: TC001  # pydantic reads the annotation
from carriage_openhands.compat import CondensationRequirement, RollingCondenser, View
from carriage_openhands.control import ControlCondenser, least_around
from carriage_openhands.forgetting import middle

if TYPE_CHECKING:
    from carriage_openhands.control import Measured


class ControlRollingCondenser(ControlCondenser, RollingCondenser):
    """A rolling window over the history that carries a control plane.

    Past `max_size` events, or when data does not fit the window, the middle is forgotten down to about half, so that
    the prefix stays the same between cuts. Nothing is summarised and no model is called. Use it as
    ``ControlRollingCondenser(control=plane, max_size=80, keep_first=2)``.

    With `strict`, every call gets a fresh head and tail of at most `max_size` events and the history keeps all of
    them: the window of the paper's measurements. It changes the prefix at every step, so provider caches do not hold.

    Attributes:
        max_size: Most events of a view before the middle is forgotten; with `strict`, most events of a call.
        keep_first: Events at the head that are never forgotten; the system prompt is not in any case.
        strict: Whether each call gets a window of its own.
    """

    max_size: int = Field(default=80, gt=1)
    keep_first: int = Field(default=2, ge=1)
    strict: bool = False
    _control: ControlPlane | None = PrivateAttr(default=None)

    def __init__(self, *, control: ControlPlane | None = None, **data: Any) -> None:  # noqa: ANN401  # fields, as pydantic takes them
        """Carry `control`, as every condenser of this package; type checkers look for it here."""
        super().__init__(control=control, **data)

    @model_validator(mode="after")
    def _leaves_a_tail(self) -> Self:
        if self.keep_first >= self.max_size:
            raise ValueError("keep_first must be less than max_size, to leave room for the newest events")
        return self

    @override
    def requirement(self, view: View, measured: Measured) -> CondensationRequirement | None:
        if view.unhandled_condensation_request:
            return CondensationRequirement.HARD
        if self.strict:
            return None
        over = measured.data > measured.room or len(view) > self.max_size
        return CondensationRequirement.SOFT if over else None

    @override
    def cut(self, view: View, measured: Measured) -> tuple[int, int] | None:
        """Return the shortest run in the middle that leaves half of what there may be."""
        most_events: list[int] = []
        if len(view) > self.max_size:
            most_events.append(self.max_size // 2)
        if view.unhandled_condensation_request:
            most_events.append(len(view) // 2)
        return middle(
            view.manipulation_indices,
            measured.sizes,
            keep_first=self.keep_first,
            most_events=min(most_events, default=None),
            most_tokens=measured.room // 2 if measured.data > measured.room else None,
        )

    @override
    def hidden(self, view: View, measured: Measured) -> tuple[int, int] | None:
        if not self.strict or (len(view) <= self.max_size and measured.data <= measured.room):
            return None
        return middle(
            view.manipulation_indices,
            measured.sizes,
            keep_first=self.keep_first,
            most_events=self.max_size,
            most_tokens=measured.room if measured.data > measured.room else None,
        )

    @override
    def least_data(self, view: View, measured: Measured) -> int:
        return least_around(view, measured, self.keep_first)


class ControlNoOpCondenser(ControlCondenser, RollingCondenser):
    """The whole history, with a control plane: it forgets nothing, enforces the window, and fails closed past it.

    Use it as ``ControlNoOpCondenser(control=plane)``.
    """

    _control: ControlPlane | None = PrivateAttr(default=None)

    def __init__(self, *, control: ControlPlane | None = None, **data: Any) -> None:  # noqa: ANN401  # fields, as pydantic takes them
        """Carry `control`, as every condenser of this package; type checkers look for it here."""
        super().__init__(control=control, **data)

    @override
    def handles_condensation_requests(self) -> bool:
        """It does not, as the native one; a model that says its context is too long ends the run with that error."""
        return False

    @override
    def requirement(self, view: View, measured: Measured) -> CondensationRequirement | None:
        return None

    @override
    def cut(self, view: View, measured: Measured) -> tuple[int, int] | None:
        return None
