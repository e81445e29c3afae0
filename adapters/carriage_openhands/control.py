# SPDX-License-Identifier: Apache-2.0
"""What every control-carrying condenser does, whatever it forgets (paper V-B; DESIGN 3.7 to 3.9).

It finds its plane again after a fork, a change of model or a reload, or fails closed. It measures every view once,
checks that what must be sent can be sent before anything is forgotten or any summarizer is asked, places the capsule
and has the plane seal the assembly. It never answers a pending condensation request with a view.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, override

from pydantic import Field

from carriage_core import (
    Assembly,
    CarriageError,
    ControlCapsule,
    ControlError,
    ControlPlane,
    Mode,
    StaleCapsuleError,
    find_plane,
)
from carriage_openhands.bindings import bound
from carriage_openhands.compat import (
    LLM,
    Condensation,
    CondensationRequirement,
    NoCondensationAvailableException,
    RollingCondenser,
    ToolDefinition,
    View,
    input_window,
)
from carriage_openhands.forgetting import middle
from carriage_openhands.measuring import MeasuredTool, Meter, meter_for
from carriage_openhands.pairing import in_order, orphans
from carriage_openhands.placement import place, system_prompt

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

_ATTEMPTS: Final = 3
"""How often an assembly is made anew because a policy changed meanwhile, before the step fails."""


NEEDS: Final = "pip install 'policy-carriage[openhands]', then import carriage_openhands before loading"
"""Saved with every condenser, so that whoever meets an unknown kind finds what brings it."""

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
        capsule: What is to be carried; None only in observe mode, where it cannot be.
        fixed: Tokens of the system prompt and the tool schemas.
        sizes: Tokens of each event, the first one counted as fixed and 0 here.
        data: Their sum: tokens of everything after the system prompt.
        imitations: Marker look-alikes in the whole view.
        lost: Ids of results without their call.
        late: Whether something stands between a call and its result.
        window: The model's own window, None where it is not known.
        room: Most tokens of data that fit beside control and fixed.
    """

    capsule: ControlCapsule | None
    fixed: int
    sizes: tuple[int, ...]
    data: int
    imitations: int
    lost: frozenset[str]
    late: bool
    window: int | None
    room: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A run of events that is to be forgotten, [start, end), and the view it lies in."""

    view: View
    measured: Measured
    start: int
    end: int


if TYPE_CHECKING:
    _Base = RollingCondenser
else:
    # No condenser itself: the SDK finds kinds by walking subclasses, and finding one on two ways breaks all loading.
    _Base = ABC


class ControlCondenser(_Base):
    """What makes a condenser carry a control plane. Subclasses say what is forgotten, and what stands in its place.

    Attributes:
        control_reference: Digest under which the plane is found again. All that is saved of it.
        needs: What to install where a saved conversation is loaded. Written for people who find an unknown kind.
    """

    control_reference: str = Field(min_length=1)
    needs: str = Field(default=NEEDS)
    _control: ControlPlane | None

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

    # -- what subclasses say ---------------------------------------------------------------------

    @abstractmethod
    def requirement(self, view: View, measured: Measured) -> CondensationRequirement | None:
        """Say whether something is to be forgotten before the next call; hard means that it must."""

    @abstractmethod
    def cut(self, view: View, measured: Measured) -> tuple[int, int] | None:
        """Return the run of events to forget, [start, end), or None where nothing can go."""

    def condensed(self, cut: Cut) -> Condensation:
        """Build the event that makes the cut; here with nothing in its place."""
        return forget(event.id for event in cut.view.events[cut.start : cut.end])

    async def acondensed(self, cut: Cut) -> Condensation:
        """Do as `condensed` does, asynchronously."""
        return self.condensed(cut)

    def hidden(self, view: View, measured: Measured) -> tuple[int, int] | None:  # noqa: ARG002  # subclasses look at them
        """Return the run that is left out of this call only, and stays in the history; None for nothing."""
        return None

    def least_data(self, view: View, measured: Measured) -> int:  # noqa: ARG002  # subclasses look at the view
        """Return the fewest tokens of data this condenser could leave of a view; it fails closed with this figure."""
        return measured.data

    def window(self, agent_llm: LLM | None) -> int | None:
        """Return the window of the model, None where it is not known."""
        return input_window(agent_llm)

    # -- what the SDK asks -----------------------------------------------------------------------

    @override
    def handles_condensation_requests(self) -> bool:
        return True

    @override
    def condense(self, view: View, agent_llm: LLM | None = None) -> View | Condensation:
        """Forget what must be forgotten; otherwise return a view that carries the capsule, sealed.

        In observe mode, where that cannot be done, the native view goes out and the log says ``would_fail_closed``.

        Raises:
            ControlError: The complete control set cannot be sent, and so nothing is (invariant 1).
            NoCondensationAvailableException: A condensation was asked for, and nothing can be forgotten.
        """
        planned = self._planned(view, agent_llm)
        return self.condensed(planned) if isinstance(planned, Cut) else planned

    @override
    async def acondense(self, view: View, agent_llm: LLM | None = None) -> View | Condensation:
        """Do as `condense` does, awaiting a subclass's own asynchronous work."""
        planned = self._planned(view, agent_llm)
        return await self.acondensed(planned) if isinstance(planned, Cut) else planned

    @override
    def condensation_requirement(self, view: View, agent_llm: LLM | None = None) -> CondensationRequirement | None:
        """Say what `requirement` says of a view that nobody has measured yet."""
        return self.requirement(view, self.measured(view, agent_llm))

    @override
    def get_condensation(self, view: View, agent_llm: LLM | None = None) -> Condensation:
        """Forget now.

        Raises:
            NoCondensationAvailableException: Between the head and the newest unit there is nothing to forget.
        """
        return self.condensed(self._cut(view, self.measured(view, agent_llm)))

    @override
    async def aget_condensation(self, view: View, agent_llm: LLM | None = None) -> Condensation:
        """Do as `get_condensation` does, asynchronously."""
        return await self.acondensed(self._cut(view, self.measured(view, agent_llm)))

    @override
    def hard_context_reset(self, view: View, agent_llm: LLM | None = None) -> Condensation | None:
        """There is none: a reset would forget the head. The request fails loudly instead."""
        return None

    @override
    async def ahard_context_reset(self, view: View, agent_llm: LLM | None = None) -> Condensation | None:
        """There is none, as in `hard_context_reset`."""
        return None

    # -- one step --------------------------------------------------------------------------------

    def _planned(self, view: View, agent_llm: LLM | None) -> View | Condensation | Cut:
        try:
            measured = self.measured(view, agent_llm)
        except ControlError as problem:
            measured = self._observed(view, problem)
        if measured.lost:
            return forget(measured.lost)
        self._preflight(view, measured, agent_llm)
        wanted = self.requirement(view, measured)
        if wanted is not None:
            run = self.cut(view, measured)
            if run is not None:
                return Cut(view=view, measured=measured, start=run[0], end=run[1])
            if wanted is CondensationRequirement.HARD:
                raise _nothing_to_forget(view)
        return self._sealed(view, measured, agent_llm)

    def _cut(self, view: View, measured: Measured) -> Cut:
        run = self.cut(view, measured)
        if run is None:
            raise _nothing_to_forget(view)
        return Cut(view=view, measured=measured, start=run[0], end=run[1])

    def _preflight(self, view: View, measured: Measured, agent_llm: LLM | None) -> None:
        """Refuse at once what no forgetting could make fit: system, tools, capsule, kept head and newest unit.

        The SDK's own condenser asks its summarizer again and again here, up to the iteration limit.

        Raises:
            ControlOverloadError: It does not fit; the log says so. Not in observe mode.
        """
        if measured.data > measured.room and self._enforces and self.least_data(view, measured) > measured.room:
            self._sealed(view, measured, agent_llm)

    @property
    def _enforces(self) -> bool:
        return self.control.mode is Mode.ENFORCE

    def _observed(self, view: View, problem: ControlError) -> Measured:
        """Go on without a capsule where the plane only observes (DESIGN 3.13); otherwise the error stands."""
        if not self.control.would_fail(problem):
            raise problem
        return Measured(
            capsule=None,
            fixed=0,
            sizes=(0,) * len(view),
            data=0,
            imitations=0,
            lost=frozenset(orphans(view.events)),
            late=False,
            window=None,
            room=0,
        )

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
        known = meter.view(view.events)
        window = self.window(agent_llm)
        capsule = plane.capsule(tools=[tool.spec for tool in tools])
        fixed = meter.event(prompt).tokens + sum(tool.tokens for tool in tools)
        return Measured(
            capsule=capsule,
            fixed=fixed,
            sizes=known.sizes,
            data=known.data,
            imitations=known.imitations,
            lost=known.lost,
            late=known.late,
            window=window,
            room=plane.budget.effective(window) - capsule.tokens - fixed,
        )

    def _candidates(self, meter: Meter, stored: Sequence[ToolDefinition[Any, Any]]) -> list[MeasuredTool]:
        """Measure the tools of this step: those the agent offers now, else those the system prompt was stored with."""
        tools = offered(self)
        return [meter.tool(tool) for tool in (stored if tools is None else tools.values())]

    def _sealed(self, view: View, measured: Measured, agent_llm: LLM | None) -> View:
        """Place the capsule and have the plane check and record the assembly, or fail; observed, go without."""
        run = self.hidden(view, measured)
        native = view if run is None else without(view, *run)
        if measured.capsule is None:
            return native
        try:
            for _ in range(_ATTEMPTS):
                capsule = measured.capsule
                placed = place(ordered(native) if measured.late else native, capsule.text)
                assembly = Assembly(
                    capsule=capsule,
                    message=placed.message,
                    offset=placed.offset,
                    data_tokens=self._data(view, measured, run),
                    candidate_tokens=measured.data,
                    fixed_tokens=measured.fixed,
                    imitations=measured.imitations,
                    window=measured.window,
                )
                try:
                    self.control.seal(assembly)
                except StaleCapsuleError:
                    measured = self.measured(view, agent_llm)
                else:
                    return placed.view
            raise StaleCapsuleError
        except ControlError as problem:
            if not self.control.would_fail(problem):
                raise
            return native

    def _data(self, view: View, measured: Measured, run: tuple[int, int] | None) -> int:
        """Return the data of an assembly; of one that does not fit, the least that would still have to be sent."""
        sent = measured.data - (0 if run is None else sum(measured.sizes[run[0] : run[1]]))
        if sent <= measured.room:
            return sent
        least = self.least_data(view, measured)
        return least if least > measured.room else sent


def without(view: View, start: int, end: int) -> View:
    """Return a new view without a run of events."""
    return View.model_construct(
        events=[*view.events[:start], *view.events[end:]],
        unhandled_condensation_request=view.unhandled_condensation_request,
    )


def ordered(view: View) -> View:
    """Return a new view in which every result stands right behind its calls."""
    return View.model_construct(
        events=in_order(view.events), unhandled_condensation_request=view.unhandled_condensation_request
    )


def least_around(view: View, measured: Measured, keep_first: int) -> int:
    """Return the data of a view whose middle is gone: the kept head and the newest unit."""
    run = middle(view.manipulation_indices, measured.sizes, keep_first=keep_first, most_events=0)
    return measured.data - (0 if run is None else sum(measured.sizes[run[0] : run[1]]))


def _nothing_to_forget(view: View) -> NoCondensationAvailableException:
    return NoCondensationAvailableException(
        f"all {len(view)} events of the view are head or newest unit; nothing can be forgotten."
    )
