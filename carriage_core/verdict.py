# SPDX-License-Identifier: Apache-2.0
"""What the monitor is asked and what it answers (DESIGN 3.9, 3.10)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from carriage_core.counters import Charge


class Outcome(StrEnum):
    """What may happen to a call."""

    ALLOW = "allow"
    CONFIRM = "confirm"
    DENY = "deny"

    @property
    def strictness(self) -> int:
        """0 for allow, 2 for deny."""
        return ("allow", "confirm", "deny").index(self.value)


def stricter(one: Outcome, other: Outcome) -> Outcome:
    """The one of two that lets less happen."""
    if one is Outcome.DENY or other is Outcome.DENY:
        return Outcome.DENY
    return Outcome.CONFIRM if one is Outcome.CONFIRM or other is Outcome.CONFIRM else Outcome.ALLOW


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A call as it would be executed: after validation and coercion by the framework."""

    tool: str
    arguments: object
    call_id: str | None = None
    server: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why a policy binds a call.

    Attributes:
        policy_id: The policy.
        effect: Its effect.
        clause: Its rule as one line.
        values: The attributes the rule read, as text, sorted; secret ones are masked at construction.
        lift: What would lift it, in one sentence.
        observed: Whether the policy is in observe mode, so that it only marks.
    """

    policy_id: str
    effect: str
    clause: str
    values: tuple[tuple[str, str], ...]
    lift: str
    observed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the monitor says about one call.

    Attributes:
        outcome: Allow, confirm or deny.
        code: A stable word: ``allowed``, ``approved``, ``observed``, ``rule``, ``unknown_action``, ``needs_approval``,
            ``unbound_tool``, ``changed_schema``, ``bad_arguments``, ``control_changed``, ``replayed_call``,
            ``evidence_taken``, ``counter_full``, ``sink_fault`` or ``internal_fault``.
        tool: The tool's name.
        message: One or two sentences; names no values of secret origin.
        reasons: The binding policies, strictest first.
        policies: Id of every policy of A*, bound or lifted.
        governing: Their digests.
        evidence: Ids of the records and approvals that lifted rules.
        one_use: Those among them that executing the call would spend.
        charges: What executing the call would add to counters.
        argument_digest: SHA-256 of the arguments, None where they could not be read.
        call_digest: What an approval of this very call is bound to; None where none is asked for.
        registry_digest: The snapshot judged against.
        would: What would have happened had nothing been in observe mode, where that is something else (DESIGN 3.13).
        would_code: The code of that, so that what was only marked can be counted by its cause.
    """

    outcome: Outcome
    code: str
    tool: str
    message: str
    reasons: tuple[Reason, ...] = ()
    policies: tuple[str, ...] = ()
    governing: frozenset[str] = frozenset()
    evidence: tuple[str, ...] = ()
    one_use: tuple[str, ...] = ()
    charges: tuple[Charge, ...] = ()
    argument_digest: str | None = None
    call_digest: str | None = None
    registry_digest: str = ""
    would: Outcome | None = None
    would_code: str | None = None

    @property
    def allowed(self) -> bool:
        """Whether the call may run now."""
        return self.outcome is Outcome.ALLOW

    @property
    def observed(self) -> bool:
        """Whether observe mode changed the outcome."""
        return self.would is not None

    def explain(self) -> str:
        """Say which rule, which values, and what would lift it."""
        if not self.reasons or self.code == "unknown_action":
            return self.message
        reason = self.reasons[0]
        values = ", ".join(f"{name} = {value}" for name, value in reason.values)
        more = f" ({len(self.reasons) - 1} more)" if len(self.reasons) > 1 else ""
        return f"{self.message}{more} Seen: {values or 'nothing'}. {reason.lift}"


def denied(tool: str, code: str, message: str, *, digest: str | None = None, registry: str = "") -> Verdict:
    """Build a denial that no policy's clause explains."""
    return Verdict(
        outcome=Outcome.DENY, code=code, tool=tool, message=message, argument_digest=digest, registry_digest=registry
    )
