# SPDX-License-Identifier: Apache-2.0
"""Calls that wait for a person: what is held, who may let it go, and what happens without a word (DESIGN 3.5).

The SDK executes what is pending as soon as anything runs again: a message that says "do not", a plain `run()`, even
`condense()`. Here a pending call runs only after an approval of this very call; anything else rejects it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from carriage_core import CarriageError, ControlError, Mode, Outcome, Settlement, Verdict
from carriage_openhands.compat import arguments_of, executed_form, masked, pending_actions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from carriage_core import ControlPlane
    from carriage_openhands.compat import ActionEvent, LocalConversation

UNAPPROVED: Final = (
    "POLICY_DENIED not_approved: the call was pending and nobody approved it; it was not executed. "
    "Propose it again if it is still wanted."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldCall:
    """A call that waits for a person.

    Attributes:
        call_id: What to approve it by.
        tool: The tool's name.
        arguments: The arguments as they would be executed. They may hold secrets; show them to the person only.
        reason: Why it waits.
    """

    call_id: str
    tool: str
    arguments: Mapping[str, Any]
    reason: str


class Approvals:
    """Approvals of calls that no policy holds, only the SDK's confirmation mode: call id and argument digest."""

    def __init__(self) -> None:
        """Nothing is approved."""
        self._given: set[tuple[str, str | None]] = set()

    def give(self, call_id: str, verdict: Verdict) -> None:
        """Approve a call with exactly these arguments."""
        self._given.add((call_id, verdict.argument_digest))

    def cover(self, call_id: str, verdict: Verdict) -> bool:
        """Whether this call with these arguments was approved."""
        return (call_id, verdict.argument_digest) in self._given


def verdict_of(plane: ControlPlane, event: ActionEvent, conversation: LocalConversation) -> Verdict:
    """Judge a proposed call as it would be executed, and record nothing.

    Raises:
        ValueError: It has no form that could be executed.
    """
    return plane.check(event.tool_name, _arguments(event, conversation), call_id=event.tool_call_id)


def _arguments(event: ActionEvent, conversation: LocalConversation) -> dict[str, Any]:
    if event.action is None:
        raise ValueError("the call was not valid, so nothing can be executed")
    return arguments_of(executed_form(event.action, conversation))


def refused(plane: ControlPlane, event: ActionEvent, conversation: LocalConversation) -> str | None:
    """Record the denial of a call that will not run, and return what to tell the model; None if it is allowed now."""
    decision = plane.authorize(event.tool_name, _arguments(event, conversation), call_id=event.tool_call_id)
    if not decision.allowed:
        return masked(decision.refusal, conversation)
    plane.settle(decision, Settlement.NOT_STARTED)
    return None


def reject_unapproved(plane: ControlPlane, approvals: Approvals, conversation: LocalConversation) -> None:
    """Have every pending call that nobody approved rejected in this step, before anything runs."""
    if plane.mode is Mode.OBSERVE:
        return
    state = conversation.state
    for event in pending_actions(state):
        if event.id in state.blocked_actions:
            continue
        try:
            verdict = verdict_of(plane, event, conversation)
            if verdict.code == "approved" or (verdict.allowed and approvals.cover(event.tool_call_id, verdict)):
                continue
            reason = refused(plane, event, conversation) or UNAPPROVED
        except ValueError:
            reason = UNAPPROVED
        state.block_action(event.id, reason)


def held_calls(plane: ControlPlane, conversation: LocalConversation) -> tuple[HeldCall, ...]:
    """List the pending calls that an approval could still let run."""
    found: list[HeldCall] = []
    for event in pending_actions(conversation.state):
        if event.action is None or event.id in conversation.state.blocked_actions:
            continue
        verdict = verdict_of(plane, event, conversation)
        if verdict.outcome is Outcome.DENY:
            continue
        why = verdict.explain() if verdict.outcome is Outcome.CONFIRM else "It waits for the SDK's confirmation."
        found.append(
            HeldCall(
                call_id=event.tool_call_id,
                tool=event.tool_name,
                arguments=_arguments(event, conversation),
                reason=why,
            )
        )
    return tuple(found)


def approve_call(
    plane: ControlPlane, approvals: Approvals, conversation: LocalConversation, call_id: str, *, by: str
) -> None:
    """File a person's approval of one held call; it is good for one execution of exactly these arguments.

    Raises:
        ControlError: No such call is held.
        CarriageError: The call is denied; no approval lifts that.
    """
    event = next((one for one in pending_actions(conversation.state) if one.tool_call_id == call_id), None)
    if event is None or event.action is None or event.id in conversation.state.blocked_actions:
        raise ControlError(f"no call {call_id!r} is held.", mend="see held(conversation) for those that are.")
    verdict = verdict_of(plane, event, conversation)
    if verdict.outcome is Outcome.CONFIRM:
        plane.approve(event.tool_name, _arguments(event, conversation), by=by, call_id=call_id)
    elif verdict.allowed:
        approvals.give(call_id, verdict)
    else:
        raise CarriageError(f"the call {call_id!r} is denied: {verdict.message}", mend="no approval lifts a denial.")
