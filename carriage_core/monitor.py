# SPDX-License-Identifier: Apache-2.0
"""The reference monitor: judges a structured call against the policies themselves (paper V-B; DESIGN 3.10).

`judge` is pure and total: it reads snapshots, takes nothing and changes nothing, and a fault inside is a deny.
It never looks at what the model says, only at the call that would be executed.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from carriage_core.applicability import a_star, lookups
from carriage_core.arguments import BadArgumentsError, argument_digest, checked_arguments
from carriage_core.binding import Action, ToolBinding, ToolSpec, confusable
from carriage_core.clause import clause_of, render_clause, render_literal
from carriage_core.condition import All, Condition, Truth, attributes, evaluate
from carriage_core.policy import Effect, Policy, digest_of
from carriage_core.schema import Absent, Value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from carriage_core.condition import Lookup
    from carriage_core.registry import PolicyRegistry
    from carriage_core.runtime import EvidenceLedger, EvidenceRecord, Moment, RuntimeState

MAX_ASSIGNMENTS: Final = 4_096
"""Most combinations of evidence records tried for one rule; past it the rule stands."""


class Outcome(StrEnum):
    """What may happen to a call."""

    ALLOW = "allow"
    CONFIRM = "confirm"
    DENY = "deny"


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
        values: The attributes the rule read, as text, sorted.
        lift: What would lift it, in one sentence.
    """

    policy_id: str
    effect: str
    clause: str
    values: tuple[tuple[str, str], ...]
    lift: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the monitor says about one call.

    Attributes:
        outcome: Allow, confirm or deny.
        code: A stable word: ``allowed``, ``approved``, ``rule``, ``needs_approval``, ``unbound_tool``,
            ``changed_schema``, ``bad_arguments``, ``control_changed``, ``replayed_call``, ``evidence_taken``,
            ``sink_fault`` or ``internal_fault``.
        tool: The tool's name.
        message: One or two sentences; names no values of secret origin.
        reasons: The binding policies, strictest first.
        policies: Id of every policy of A*, bound or lifted.
        governing: Their digests.
        evidence: Ids of the records and approvals that lifted rules.
        one_use: Those among them that executing the call would spend.
        argument_digest: SHA-256 of the arguments, None where they could not be read.
        call_digest: What an approval of this very call is bound to; None where none is asked for.
        registry_digest: The snapshot judged against.
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
    argument_digest: str | None = None
    call_digest: str | None = None
    registry_digest: str = ""

    @property
    def allowed(self) -> bool:
        """Whether the call may run now."""
        return self.outcome is Outcome.ALLOW

    def explain(self) -> str:
        """Say which rule, which values, and what would lift it."""
        if not self.reasons:
            return self.message
        reason = self.reasons[0]
        values = ", ".join(f"{name} = {value}" for name, value in reason.values)
        more = f" ({len(self.reasons) - 1} more)" if len(self.reasons) > 1 else ""
        return f"{self.message}{more} Seen: {values or 'nothing'}. {reason.lift}"


def judge(
    call: ToolCall,
    *,
    registry: PolicyRegistry,
    runtime: RuntimeState,
    ledger: EvidenceLedger,
    moment: Moment,
    spec: ToolSpec | None = None,
) -> Verdict:
    """Judge a call. Total: whatever goes wrong inside is a deny; interrupts pass through.

    Args:
        call: The call as it would be executed.
        registry: The snapshot to judge against.
        runtime: Who acts.
        ledger: Read for live evidence and approvals; nothing is taken.
        moment: The decision's one sample of the clock.
        spec: The tool as the framework offers it now, if known.
    """
    try:
        return replace(_judge(call, registry, runtime, ledger, moment, spec), registry_digest=registry.digest)
    except Exception as fault:  # noqa: BLE001  # invariant 11: a fault denies; it never lets a call through
        return denied(
            call.tool, "internal_fault", f"The monitor failed ({type(fault).__name__}); nothing was executed."
        )


def denied(tool: str, code: str, message: str) -> Verdict:
    """Build a denial that no policy's clause explains."""
    return Verdict(outcome=Outcome.DENY, code=code, tool=tool, message=message)


def _judge(
    call: ToolCall,
    registry: PolicyRegistry,
    runtime: RuntimeState,
    ledger: EvidenceLedger,
    moment: Moment,
    spec: ToolSpec | None,
) -> Verdict:
    try:
        arguments = checked_arguments(call.arguments, None if spec is None else spec.arguments)
    except BadArgumentsError as bad:
        return denied(call.tool, "bad_arguments", f"The call cannot be judged: {bad}.")
    digest = argument_digest(arguments)
    if not registry.mediates:
        return Verdict(
            outcome=Outcome.ALLOW,
            code="allowed",
            tool=call.tool,
            message="No policy governs actions; the set is carried, not mediated.",
            argument_digest=digest,
        )
    bindings = registry.bindings.get(call.tool, ())
    problem = _binding_problem(call, bindings, registry, spec)
    if problem is not None:
        return replace(problem, argument_digest=digest)
    try:
        actions = [action for binding in bindings for action in binding.actions(arguments)]
    except BadArgumentsError as too_many:
        return replace(
            denied(call.tool, "bad_arguments", f"The call cannot be judged: {too_many}."),
            argument_digest=digest,
        )
    return _judge_actions(call, actions, registry, runtime, ledger, moment, digest)


def _binding_problem(
    call: ToolCall, bindings: tuple[ToolBinding, ...], registry: PolicyRegistry, spec: ToolSpec | None
) -> Verdict | None:
    if not bindings:
        twins = [name for name in registry.bindings if confusable(name) == confusable(call.tool)]
        looks = f" It can be confused with the bound tool {twins[0]!r}." if twins else ""
        # 3.4: deny, with the line to add.
        return denied(
            call.tool,
            "unbound_tool",
            f"The tool {call.tool[:64]!r} is not bound to an action.{looks} If it is harmless, its owner adds "
            f"under tools: '{call.tool[:64]}: {{action: none}}'.",
        )
    for binding in bindings:
        if binding.server is not None and binding.server != call.server:
            return denied(
                call.tool,
                "changed_schema",
                f"The tool {call.tool!r} does not come from the server it is bound to.",
            )
        if binding.schema_digest is not None and (
            spec is None or spec.digest != binding.schema_digest.removeprefix("sha256:")
        ):
            return denied(
                call.tool,
                "changed_schema",
                f"The tool {call.tool!r} does not have the schema it is bound to.",
            )
    return None


def _judge_actions(
    call: ToolCall,
    actions: list[Action],
    registry: PolicyRegistry,
    runtime: RuntimeState,
    ledger: EvidenceLedger,
    moment: Moment,
    digest: str,
) -> Verdict:
    governing: dict[str, Policy] = {}
    reasons: dict[str, Reason] = {}
    used: dict[str, bool] = {}
    for action in actions:
        members = lookups(action, runtime, moment)
        for policy in a_star(registry, runtime, action, moment, members):
            governing[policy.digest] = policy
            records = _lifting(policy, members, runtime, ledger, moment)
            if records is None:
                reasons.setdefault(policy.digest, _reason(policy, members[-1]))
            else:
                used |= {record.id: record.single_use for record in records}
    ordered = tuple(sorted(reasons.values(), key=lambda reason: (reason.effect != Effect.DENY, reason.policy_id)))
    outcome = Outcome.ALLOW
    if ordered:
        outcome = Outcome.DENY if ordered[0].effect == Effect.DENY else Outcome.CONFIRM
    verdict = Verdict(
        outcome=outcome,
        code="allowed",
        tool=call.tool,
        message=f"No rule binds this call of {call.tool}.",
        reasons=ordered,
        policies=tuple(policy.id for policy in governing.values()),
        governing=frozenset(governing),
        evidence=tuple(used),
        one_use=tuple(record for record, once in used.items() if once),
        argument_digest=digest,
    )
    if outcome is Outcome.DENY:
        return replace(verdict, code="rule", message=f"Denied by policy {ordered[0].policy_id}: {ordered[0].clause}.")
    if outcome is Outcome.ALLOW:
        return verdict
    verdict = replace(verdict, call_digest=_call_digest(call, runtime, digest, governing))
    approval = ledger.approval(verdict.call_digest or "", moment=moment)
    if approval is None:
        message = f"Policy {ordered[0].policy_id} needs an approval of this very call."
        return replace(verdict, code="needs_approval", message=message)
    return replace(
        verdict,
        outcome=Outcome.ALLOW,
        code="approved",
        message=f"Approved by {approval.by}.",
        evidence=(*verdict.evidence, approval.id),
        one_use=(*verdict.one_use, approval.id),
    )


def _call_digest(call: ToolCall, runtime: RuntimeState, digest: str, governing: Mapping[str, Policy]) -> str:
    """Everything an approval is bound to (DESIGN 3.5); any change of it refuses the approval."""
    return digest_of(
        {
            "arguments": digest,
            "call_id": call.call_id,
            "chain": list(runtime.chain),
            "policies": sorted(governing),
            "task": runtime.task,
            "tenant": runtime.tenant,
            "tool": [call.server, call.tool],
        }
    )


def _lifting(
    policy: Policy, members: tuple[Lookup, ...], runtime: RuntimeState, ledger: EvidenceLedger, moment: Moment
) -> tuple[EvidenceRecord, ...] | None:
    """Find records under which `unless` is true for every chain member; None where the rule stands."""
    if policy.unless is None:
        return None
    parts = policy.unless.parts if isinstance(policy.unless, All) else (policy.unless,)
    choices: dict[str, list[EvidenceRecord]] = {}
    for handle, declaration in policy.evidence:
        # A part of an `all` that reads one handle must itself be true: it sieves the records one by one.
        own = [part for part in parts if _handles(part) == {handle}]
        choices[handle] = [
            record
            for record in ledger.live(declaration, runtime=runtime, moment=moment)
            if all(_true(part, members, {handle: record}) for part in own)
        ]
    for assignment in itertools.islice(_assignments(choices), MAX_ASSIGNMENTS):
        if _true(policy.unless, members, assignment):
            return tuple(assignment.values())
    return None


def _assignments(choices: Mapping[str, list[EvidenceRecord]]) -> Iterator[dict[str, EvidenceRecord]]:
    """Yield every choice of one record or none for each handle, fewest records first, so that none is spent idly."""
    for size in range(len(choices) + 1):
        for handles in itertools.combinations(choices, size):
            for records in itertools.product(*(choices[handle] for handle in handles)):
                yield dict(zip(handles, records, strict=True))


def _handles(condition: Condition) -> set[str]:
    return {name.split(".")[1] for name in attributes(condition) if name.startswith("evidence.")}


def _true(condition: Condition, members: tuple[Lookup, ...], records: Mapping[str, EvidenceRecord]) -> bool:
    return all(evaluate(condition, _with_evidence(lookup, records)) is Truth.TRUE for lookup in members)


def _with_evidence(lookup: Lookup, records: Mapping[str, EvidenceRecord]) -> Lookup:
    def read(name: str) -> Value | Absent:
        if not name.startswith("evidence."):
            return lookup(name)
        _, handle, field = name.split(".")
        record = records.get(handle)
        return Absent.UNKNOWN if record is None else record.fields.get(field, Absent.UNKNOWN)

    return read


def _reason(policy: Policy, lookup: Lookup) -> Reason:
    clause = clause_of(policy)
    read = sorted(
        name for name in attributes(policy.where) | attributes(policy.unless) if not name.startswith("evidence.")
    )
    lift = "Nothing lifts it."
    if policy.unless is not None:
        sources = sorted({declaration.from_tool for _, declaration in policy.evidence})
        lift = "It is lifted once its 'unless' holds"
        lift += f"; {' and '.join(sources)} provides the evidence." if sources else "."
    return Reason(
        policy_id=policy.id,
        effect=policy.effect.value,
        clause="" if clause is None else render_clause(clause),
        values=tuple((name, _shown(lookup(name))) for name in read),
        lift=lift,
    )


def _shown(value: Value | Absent) -> str:
    return value.value if isinstance(value, Absent) else render_literal(value)[:120]
