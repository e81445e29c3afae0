# SPDX-License-Identifier: Apache-2.0
"""The reference monitor: judges a structured call against the policies themselves (paper V-B; DESIGN 3.10).

`judge` is pure and total: it reads snapshots, takes nothing and changes nothing, and a fault inside is a deny.
It never looks at what the model says, only at the call that would be executed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from carriage_core.applicability import a_star
from carriage_core.arguments import BadArgumentsError, PlainArguments
from carriage_core.binding import confusable
from carriage_core.canonical import digest_of
from carriage_core.policy import Effect
from carriage_core.ruling import reason_of, rule_on, standing
from carriage_core.verdict import Outcome, ToolCall, Verdict, denied, stricter
from carriage_core.views import views

if TYPE_CHECKING:
    from collections.abc import Iterable

    from carriage_core.binding import Action, ToolBinding, ToolSpec
    from carriage_core.counters import Charge
    from carriage_core.registry import PolicyRegistry
    from carriage_core.ruling import Circumstances, Ruling
    from carriage_core.verdict import Reason

_ORDER: Final = {
    effect.value: place
    for place, effect in enumerate((Effect.DENY, Effect.DEFAULT_DENY, Effect.CONFIRM, Effect.PERMIT))
}
_CODES: Final = {Outcome.ALLOW: "allowed", Outcome.DENY: "rule", Outcome.CONFIRM: "needs_approval"}


def judge(
    call: ToolCall,
    *,
    registry: PolicyRegistry,
    circumstances: Circumstances,
    spec: ToolSpec | None = None,
    arguments: PlainArguments | None = None,
) -> Verdict:
    """Judge a call. Total: whatever goes wrong inside is a deny; interrupts pass through.

    Args:
        call: The call as it would be executed.
        registry: The snapshot to judge against.
        circumstances: Who acts, when, and the evidence there is.
        spec: The tool as the framework offers it now, if known.
        arguments: The call's arguments, where somebody has read them already.
    """
    try:
        return _judge(call, registry, circumstances, spec, arguments)
    except Exception as fault:  # noqa: BLE001  # invariant 11: a fault denies; it never lets a call through
        message = f"The monitor failed ({type(fault).__name__}); nothing was executed."
        return denied(call.tool, "internal_fault", message)


def _judge(
    call: ToolCall,
    registry: PolicyRegistry,
    held: Circumstances,
    spec: ToolSpec | None,
    arguments: PlainArguments | None,
) -> Verdict:
    digest: str | None = None
    try:
        plain = PlainArguments.of(call.arguments) if arguments is None else arguments
        digest = plain.digest
        plain.require(None if spec is None else spec.arguments)
        if not registry.mediates:
            return Verdict(
                outcome=Outcome.ALLOW,
                code="allowed",
                tool=call.tool,
                message="No policy governs actions; the set is carried, not mediated.",
                argument_digest=digest,
                registry_digest=registry.digest,
            )
        bindings = registry.bindings.get(call.tool, ())
        problem = _binding_problem(call, bindings, registry, spec)
        if problem is not None:
            return replace(problem, argument_digest=digest, registry_digest=registry.digest)
        actions = [action for binding in bindings for action in binding.actions(plain.values)]
    except BadArgumentsError as bad:
        message = f"The call cannot be judged: {bad}."
        return denied(call.tool, "bad_arguments", message, digest=digest, registry=registry.digest)
    return _judge_actions(call, actions, registry, held, digest)


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
    call: ToolCall, actions: list[Action], registry: PolicyRegistry, held: Circumstances, digest: str
) -> Verdict:
    rulings: list[Ruling] = []
    binding: dict[str, Reason] = {}
    marked: dict[str, Reason] = {}
    outcome = would = Outcome.ALLOW
    charges: list[Charge] = []
    understood = False
    for action in actions:
        members = views(action, held.runtime, held.moment)
        governing = a_star(registry, held.runtime, action, held.moment, members)
        ruled = [rule_on(policy, action, members, held, charges) for policy in governing]
        rulings += ruled
        charges += [charge for ruling in ruled for charge in ruling.charges]
        in_force = [ruling for ruling in ruled if not ruling.observed]
        bound = standing(in_force)
        _collect(binding, bound, action)
        # 3.13: what would happen were nothing only observed.
        every = bound if len(in_force) == len(ruled) else standing(ruled)
        if every is not bound:
            _collect(marked, every, action)
        reached = outcome_of([ruling.policy.effect for ruling in bound])
        outcome = stricter(outcome, reached)
        understood = understood or (action.name is not None and reached is Outcome.DENY)
        would = stricter(would, reached if every is bound else outcome_of([ruling.policy.effect for ruling in every]))
    reasons = [*binding.values(), *[reason for reason in marked.values() if reason.observed]]
    if len(reasons) > 1:
        reasons.sort(key=lambda reason: (reason.observed, _ORDER[reason.effect], reason.policy_id))
    verdict = _verdict(call, outcome, tuple(reasons), rulings, tuple(charges), registry, digest)
    if outcome is Outcome.CONFIRM:
        verdict = _approved(verdict, call, held)
    if outcome is Outcome.DENY and not understood:
        verdict = _not_understood(verdict, actions)
    if would is not outcome:
        code = "observed" if verdict.code == "allowed" else verdict.code
        verdict = replace(verdict, would=would, would_code=_CODES[would], code=code)
    return verdict


def _not_understood(verdict: Verdict, actions: list[Action]) -> Verdict:
    """Say why nobody can tell what the call does: the rules that then govern it would mislead as its reason."""
    why = next(action.why for action in actions if action.name is None)
    first, *others = verdict.reasons
    more = f" and {len(others)} more" if others else ""
    message = (
        f"Nobody can say what this call of {verdict.tool} does{f' ({why})' if why else ''}, so policy "
        f"{first.policy_id}{more} could govern it. Use what is known, or let the tool's owner say under "
        "words what the command does."
    )
    return replace(verdict, code="unknown_action", message=message)


def _collect(reasons: dict[str, Reason], bound: Iterable[Ruling], action: Action) -> None:
    for ruling in bound:
        if ruling.policy.digest not in reasons:
            reasons[ruling.policy.digest] = reason_of(ruling, action.secret)


def outcome_of(effects: Iterable[Effect]) -> Outcome:
    """What the effects of the rules that bind come to: deny and deny-by-default prevail over confirm (DESIGN 3.2)."""
    found = Outcome.ALLOW
    for effect in effects:
        if effect is not Effect.CONFIRM:
            return Outcome.DENY
        found = Outcome.CONFIRM
    return found


def _verdict(
    call: ToolCall,
    outcome: Outcome,
    reasons: tuple[Reason, ...],
    rulings: list[Ruling],
    charges: tuple[Charge, ...],
    registry: PolicyRegistry,
    digest: str,
) -> Verdict:
    used: dict[str, bool] = {}
    for ruling in rulings:
        for record in ruling.records:
            # 3.13: what is only observed spends nothing.
            used[record.id] = used.get(record.id, False) or (record.single_use and not ruling.observed)
    if outcome is Outcome.DENY:
        message = f"Denied by policy {reasons[0].policy_id}: {reasons[0].clause}."
    elif outcome is Outcome.CONFIRM:
        message = f"Policy {reasons[0].policy_id} needs an approval of this very call."
    else:
        message = f"No rule binds this call of {call.tool}."
    return Verdict(
        outcome=outcome,
        code=_CODES[outcome],
        tool=call.tool,
        message=message,
        reasons=reasons,
        policies=tuple(dict.fromkeys([ruling.policy.id for ruling in rulings])),
        governing=frozenset([ruling.policy.digest for ruling in rulings]),
        evidence=tuple(used),
        one_use=tuple([record for record, once in used.items() if once]),
        charges=charges,
        argument_digest=digest,
        registry_digest=registry.digest,
    )


def _approved(verdict: Verdict, call: ToolCall, held: Circumstances) -> Verdict:
    """Look for an approval of this very call; the verdict becomes an allowance only with one."""
    runtime = held.runtime
    # 3.5: everything an approval is bound to; any change of it refuses the approval.
    digest = digest_of(
        {
            "arguments": verdict.argument_digest,
            "call_id": call.call_id,
            "chain": list(runtime.chain),
            "policies": sorted(verdict.governing),
            "task": runtime.task,
            "tenant": runtime.tenant,
            "tool": [call.server, call.tool],
        }
    )
    verdict = replace(verdict, call_digest=digest)
    approval = held.ledger.approval(digest, moment=held.moment)
    if approval is None:
        return verdict
    return replace(
        verdict,
        outcome=Outcome.ALLOW,
        code="approved",
        message=f"Approved by {approval.by}.",
        evidence=(*verdict.evidence, approval.id),
        one_use=(*verdict.one_use, approval.id),
    )
