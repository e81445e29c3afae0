# SPDX-License-Identifier: Apache-2.0
"""The summarizing drop-in: the SDK's own kind of condenser, with rules that no summary can touch.

It is a subclass of `LLMSummarizingCondenser`, so changing the model and making sub-agents treat it as one. What is
summarised is data before and after; the capsule does not depend on it. Where there is no summary, it forgets as the
rolling condenser does, and says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, override

from pydantic import Field, PrivateAttr

from carriage_core import ControlPlane  # noqa: TC001  # pydantic reads the annotation
from carriage_openhands.compat import (
    LLM,
    Condensation,
    CondensationRequirement,
    LLMSummarizingCondenser,
    TextContent,
    View,
)
from carriage_openhands.condensation_check import check_condensation
from carriage_openhands.control import NO_RESPONSE, ControlCondenser, Cut, least_around
from carriage_openhands.forgetting import middle
from carriage_openhands.measuring import FRAME
from carriage_openhands.summary_audit import Finding, audit_summary, struck
from carriage_openhands.summary_prompt import summary_messages
from carriage_openhands.summary_text import NoSummaryError, checked, no_notes, quoted

if TYPE_CHECKING:
    from openhands.sdk.llm import LLMResponse

    from carriage_core import Policy
    from carriage_openhands.compat import Message
    from carriage_openhands.control import Measured


@dataclass(frozen=True, slots=True, kw_only=True)
class _Notes:
    """What came of asking the summarizer: the summary, or why there is none."""

    summary: str | None
    response_id: str = NO_RESPONSE
    problem: str | None = None
    findings: tuple[Finding, ...] = ()


class ControlSummarizingCondenser(ControlCondenser, LLMSummarizingCondenser):  # type: ignore[misc]  # decorators hide types
    """A summarizing condenser that carries a control plane.

    Use it as ``ControlSummarizingCondenser(control=plane, llm=llm, max_size=80, keep_first=4)``. All fields of the
    native condenser are there; the two for hard resets have no effect, for there are none. `max_tokens` is a limit:
    what cannot be brought under it fails closed, before the summarizer is asked.

    Attributes:
        strike_rules: Whether lines of a summary that speak of rules are struck; they are reported in any case.
    """

    strike_rules: bool = Field(default=False)
    _control: ControlPlane | None = PrivateAttr(default=None)

    def __init__(self, *, control: ControlPlane | None = None, **data: Any) -> None:  # noqa: ANN401  # fields, as pydantic takes them
        """Carry `control`, as every condenser of this package; type checkers look for it here."""
        super().__init__(control=control, **data)

    @override
    def requirement(self, view: View, measured: Measured) -> CondensationRequirement | None:
        if view.unhandled_condensation_request:
            return CondensationRequirement.HARD
        over = measured.data > measured.room or len(view) > self.max_size
        return CondensationRequirement.SOFT if over else None

    @override
    def cut(self, view: View, measured: Measured) -> tuple[int, int] | None:
        over = measured.data > measured.room
        most_events: list[int] = []
        if len(view) > self.max_size:
            most_events.append(self.max_size // 2 - 1)
        if view.unhandled_condensation_request:
            most_events.append(len(view) // 2 - 1)
        run = middle(
            view.manipulation_indices,
            measured.sizes,
            keep_first=self.keep_first,
            most_events=min(most_events, default=None),
            most_tokens=measured.room // 2 if over else None,
        )
        if run is None or over or view.unhandled_condensation_request:
            return run
        # A summary in the place of so little would be asked for again at the next step.
        least = max(2, self.minimum_progress * len(view))
        return run if run[1] - run[0] >= least else None

    @override
    def least_data(self, view: View, measured: Measured) -> int:
        return least_around(view, measured, self.keep_first)

    @override
    def window(self, agent_llm: LLM | None) -> int | None:
        known = super().window(agent_llm)
        if self.max_tokens is None:
            return known
        budget = self.control.budget
        limit = self.max_tokens + budget.reserved_output + budget.fixed
        return limit if known is None else min(known, limit)

    @override
    def condensed(self, cut: Cut) -> Condensation:
        """Ask the summarizer, once; whatever it does, the run is forgotten."""
        try:
            response = self.llm.generate(messages=self._messages(cut), store=False)
        except Exception as fault:  # noqa: BLE001  # a summarizer that is down must not stop the agent
            notes = _Notes(summary=None, problem=type(fault).__name__)
        else:
            notes = self._read(response, cut)
        return self._condensation(cut, notes)

    @override
    async def acondensed(self, cut: Cut) -> Condensation:
        """Do as `condensed` does, asynchronously."""
        try:
            response = await self.llm.agenerate(messages=self._messages(cut), store=False)
        except Exception as fault:  # noqa: BLE001  # the same
            notes = _Notes(summary=None, problem=type(fault).__name__)
        else:
            notes = self._read(response, cut)
        return self._condensation(cut, notes)

    def _messages(self, cut: Cut) -> list[Message]:
        return summary_messages(cut.view.events[cut.start : cut.end], self._policies)

    @property
    def _policies(self) -> tuple[Policy, ...]:
        return self.control.registry.policies

    def _read(self, response: LLMResponse, cut: Cut) -> _Notes:
        """Take a summary for data: check it, find what it says of rules, and strike that where it is asked for."""
        texts = [part.text for part in response.message.content if isinstance(part, TextContent)]
        try:
            summary = checked("\n".join(texts))
        except NoSummaryError as refused:
            return _Notes(summary=None, problem=str(refused))
        findings = audit_summary(summary, self._policies)
        if self.strike_rules:
            kept = struck(summary, findings)
            if len({finding.line for finding in findings}) == len(
                [line for line in summary.split("\n") if line.strip()]
            ):
                return _Notes(summary=None, problem="nothing_left", findings=findings)
            summary = kept
        text = quoted(summary, cut.end - cut.start)
        if self._size(text) > self._most(cut):
            return _Notes(summary=None, problem="too_large", findings=findings)
        return _Notes(summary=text, response_id=response.id, findings=findings)

    def _size(self, text: str) -> int:
        return FRAME + self.control.count(text)

    def _most(self, cut: Cut) -> int:
        """Most tokens of a summary: less than it stands for, and a quarter of what there is room for."""
        forgotten = sum(cut.measured.sizes[cut.start : cut.end])
        return forgotten - 1 if cut.measured.capsule is None else min(forgotten - 1, cut.measured.room // 4)

    def _condensation(self, cut: Cut, notes: _Notes) -> Condensation:
        """Build, check and record the event.

        Raises:
            BadCondensationError: It would damage the view.
            SinkError: It could not be recorded.
        """
        count = cut.end - cut.start
        text = notes.summary
        if text is None and self._size(no_notes(count)) <= self._most(cut):
            text = no_notes(count)
        condensation = Condensation(
            forgotten_event_ids={event.id for event in cut.view.events[cut.start : cut.end]},
            summary=text,
            summary_offset=None if text is None else cut.start,
            llm_response_id=notes.response_id,
        )
        check_condensation(cut.view, condensation)
        self.control.log_summary(
            {
                "findings": [[finding.about.value, finding.policy, finding.line] for finding in notes.findings],
                "forgotten": count,
                "outcome": "summarised" if notes.summary is not None else "fell_back_to_rolling",
                "problem": notes.problem,
                "struck": self.strike_rules and bool(notes.findings),
            }
        )
        return condensation
