# SPDX-License-Identifier: Apache-2.0
"""What every control-carrying condenser does, whatever it forgets (paper V-B; DESIGN 3.7 to 3.9).

It finds its plane again after a fork, a change of model or a reload, or fails closed; it measures every assembly,
places the capsule and has the plane seal it; and it never answers a pending condensation request with a view.
"""

from __future__ import annotations

from abc import ABC
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, override

from pydantic import Field, PrivateAttr

from carriage_core import (
    Assembly,
    CarriageError,
    ControlCapsule,
    ControlError,
    ControlPlane,
    StaleCapsuleError,
    find_plane,
)
from carriage_openhands.bindings import bound
from carriage_openhands.compat import LLM, Condensation, RollingCondenser, ToolDefinition, View, input_window
from carriage_openhands.measuring import MeasuredTool, Meter, meter_for
from carriage_openhands.pairing import orphans
from carriage_openhands.placement import place, system_prompt

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

_ATTEMPTS: Final = 3
"""How often an assembly is made anew because a policy changed meanwhile, before the step fails."""


NO_RESPONSE: Final = "policy-carriage"
"""Stands where the SDK records which model response wrote a summary; none did."""


def forget(event_ids: Iterable[str]) -> Condensation:
    """Build the event that takes these events out of the view, with nothing in their place."""
    return Condensation(forgotten_event_ids=set(event_ids), summary=None, llm_response_id=NO_RESPONSE)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Offer:
    """The tools of the step that is being taken, and the condenser they are for."""

    condenser: ControlCondenser
    tools: Mapping[str, ToolDefinition[Any, Any]]


_offer: ContextVar[_Offer | None] = ContextVar("carriage_openhands_offer", default=None)


@contextmanager
def offering(condenser: ControlCondenser, tools: Mapping[str, ToolDefinition[Any, Any]]) -> Iterator[None]:
    """Hold the tools of one step, by name: A+ is made for exactly those the model is offered."""
    token = _offer.set(_Offer(condenser=condenser, tools=tools))
    try:
        yield
    finally:
        _offer.reset(token)


def offered(condenser: ControlCondenser) -> Mapping[str, ToolDefinition[Any, Any]] | None:
    """Return the tools held for the step that is being taken, None outside one."""
    offer = _offer.get()
    return offer.tools if offer is not None and offer.condenser is condenser else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One view, measured against the budget.

    Attributes:
        capsule: What is to be carried.
        fixed: Tokens of the system prompt and the tool schemas.
        sizes: Tokens of each event, the first one counted as fixed and 0 here.
        imitations: Marker look-alikes in the whole view.
        window: The model's own window, None where it is not known.
        room: Most tokens of data that fit beside control and fixed.
    """

    capsule: ControlCapsule
    fixed: int
    sizes: tuple[int, ...]
    imitations: int
    window: int | None
    room: int

    @property
    def data(self) -> int:
        """Tokens of everything after the system prompt."""
        return sum(self.sizes)


class ControlCondenser(RollingCondenser, ABC):
    """A condenser that carries a control plane. Subclasses say what is forgotten, and when.

    Attributes:
        control_reference: Digest under which the plane is found again. All that is saved of it.
    """

    control_reference: str = Field(min_length=1)
    _control: ControlPlane | None = PrivateAttr(default=None)

    def __init__(self, *, control: ControlPlane | None = None, **data: Any) -> None:  # noqa: ANN401  # fields, as pydantic takes them
        """Carry `control`; without one, as after a reload, the reference in `data` must name it.

        Raises:
            CarriageError: Neither was given.
        """
        if control is not None:
            data["control_reference"] = bound(control).reference
        elif "control_reference" not in data:
            raise CarriageError(
                f"a {type(self).__name__} needs a control plane.", mend="pass control=ControlPlane.from_file(...)."
            )
        super().__init__(**data)
        self._control = control

    @property
    def control(self) -> ControlPlane:
        """The plane this condenser carries.

        Raises:
            ControlNotFoundError: It was reloaded in a process that does not hold the plane. Nothing is sent.
        """
        if self._control is None:
            self._control = bound(find_plane(self.control_reference))
        return self._control

    @override
    def handles_condensation_requests(self) -> bool:
        return True

    @override
    def condense(self, view: View, agent_llm: LLM | None = None) -> View | Condensation:
        """Forget what must be forgotten; otherwise return a view that carries the capsule, sealed.

        Raises:
            ControlError: The complete control set cannot be sent, and so nothing is (invariant 1).
        """
        lost = orphans(view.events)
        return forget(lost) if lost else self._sealed(super().condense(view, agent_llm=agent_llm), agent_llm)

    @override
    async def acondense(self, view: View, agent_llm: LLM | None = None) -> View | Condensation:
        """Do as `condense` does, awaiting a subclass's own asynchronous work."""
        lost = orphans(view.events)
        return forget(lost) if lost else self._sealed(await super().acondense(view, agent_llm=agent_llm), agent_llm)

    def measured(self, view: View, agent_llm: LLM | None) -> Measured:
        """Render A+ for the tools on offer and measure a view against the budget.

        Raises:
            ControlOverloadError: A+ does not fit the control budget.
            CarriageIntegrityError: The view does not open with the system prompt.
        """
        plane = self.control
        meter = meter_for(plane)
        prompt = system_prompt(view.events)
        tools = self._candidates(meter, prompt.tools)
        own = meter.event(prompt)
        events = [meter.event(event) for event in view.events[1:]]
        window = input_window(agent_llm)
        capsule = plane.capsule(tools=[tool.spec for tool in tools])
        fixed = own.tokens + sum(tool.tokens for tool in tools)
        return Measured(
            capsule=capsule,
            fixed=fixed,
            sizes=(0, *(event.tokens for event in events)),
            imitations=own.imitations + sum(event.imitations for event in events),
            window=window,
            room=plane.budget.effective(window) - capsule.tokens - fixed,
        )

    def least_data(self, view: View, measured: Measured) -> int:  # noqa: ARG002  # subclasses look at the view
        """Return the fewest tokens of data this condenser could leave of a view; it fails closed with this figure."""
        return measured.data

    def _candidates(self, meter: Meter, stored: Sequence[ToolDefinition[Any, Any]]) -> list[MeasuredTool]:
        """Measure the tools of this step: those the agent offers now, else those the system prompt was stored with."""
        tools = offered(self)
        return [meter.tool(tool) for tool in (stored if tools is None else tools.values())]

    def _sealed(self, answer: View | Condensation, agent_llm: LLM | None) -> View | Condensation:
        if isinstance(answer, Condensation):
            return answer
        if answer.unhandled_condensation_request:
            # The agent would take the view, fail as before and ask again, without end.
            raise ControlError(
                "a condensation was asked for and none was made; nothing was sent.",
                mend="raise the model's window, or lower keep_first.",
            )
        for attempt in range(1, _ATTEMPTS + 1):
            measured = self.measured(answer, agent_llm)
            placed = place(answer, measured.capsule.text)
            assembly = Assembly(
                capsule=measured.capsule,
                message=placed.message,
                offset=placed.offset,
                data_tokens=self._data(answer, measured),
                candidate_tokens=measured.data,
                fixed_tokens=measured.fixed,
                imitations=measured.imitations,
                window=measured.window,
            )
            try:
                self.control.seal(assembly)
            except StaleCapsuleError:
                if attempt == _ATTEMPTS:
                    raise
            else:
                return placed.view
        raise StaleCapsuleError

    def _data(self, view: View, measured: Measured) -> int:
        """Return the data of an assembly; of one that does not fit, the least that would still have to be sent."""
        if measured.data <= measured.room:
            return measured.data
        least = self.least_data(view, measured)
        return least if least > measured.room else measured.data
