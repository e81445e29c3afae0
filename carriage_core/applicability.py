# SPDX-License-Identifier: Apache-2.0
"""Which policies could govern the next action, and which govern a proposed one (paper II-A; DESIGN 3.6).

`a_plus` is computed before the model speaks, from candidate tools alone; `a_star` after, from the concrete
action. `a_plus` ignores conditions, evidence and time, so it contains `a_star` of every call those tools can
express, unknown values included.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from carriage_core.condition import Truth, evaluate
from carriage_core.schema import Absent

if TYPE_CHECKING:
    from collections.abc import Iterable

    from carriage_core.binding import Action, ToolSpec
    from carriage_core.condition import Lookup
    from carriage_core.policy import Policy
    from carriage_core.registry import PolicyRegistry
    from carriage_core.runtime import Moment, RuntimeState
    from carriage_core.schema import Value


def in_scope(policy: Policy, runtime: RuntimeState) -> bool:
    """Whether a policy's scope covers the runtime; an unresolved field counts as covered."""
    return policy.scope.covers(tenant=runtime.tenant, task=runtime.task, agents=runtime.chain)


def a_plus(
    registry: PolicyRegistry, runtime: RuntimeState, candidates: Iterable[ToolSpec] | None
) -> tuple[Policy, ...]:
    """Return A+ in capsule order.

    Args:
        registry: The snapshot in force.
        runtime: Who will act.
        candidates: Tools the model may call, or None where they are not known: then everything in scope.
    """
    scoped = tuple(policy for policy in registry.policies if in_scope(policy, runtime))
    if candidates is None:
        return scoped
    wanted: set[str] = set()
    for tool in candidates:
        bindings = registry.bindings.get(tool.name)
        if bindings is None:
            return scoped  # nobody knows what an unbound tool does, so nothing can be ruled out
        for binding in bindings:
            if binding.action is not None:
                wanted.update(policy.digest for policy in registry.index.governing(binding.action, binding.object_type))
    return tuple(policy for policy in scoped if not policy.mediated or policy.digest in wanted)


def in_force(policy: Policy, moment: Moment) -> bool:
    """Whether a policy's half-open validity window holds; with an untrusted clock it does (denies persist)."""
    if not moment.trusted:
        return True
    return (policy.valid_from is None or policy.valid_from <= moment.now) and (
        policy.valid_until is None or moment.now < policy.valid_until
    )


def lookups(action: Action, runtime: RuntimeState, moment: Moment) -> tuple[Lookup, ...]:
    """Build one attribute lookup for each member of the delegation chain."""

    def bind(actor: str | None) -> Lookup:
        values: dict[str, Value | Absent] = {
            **action.attributes,
            "actor.id": Absent.UNKNOWN if actor is None else actor,
            "tenant": Absent.UNKNOWN if runtime.tenant is None else runtime.tenant,
            "task": Absent.UNKNOWN if runtime.task is None else runtime.task,
            "time": moment.now if moment.trusted else Absent.UNKNOWN,
        }
        return lambda name: values.get(name, Absent.MISSING)

    return tuple(bind(actor) for actor in runtime.chain or (None,))


def a_star(
    registry: PolicyRegistry,
    runtime: RuntimeState,
    action: Action,
    moment: Moment,
    members: tuple[Lookup, ...],
) -> tuple[Policy, ...]:
    """Return the policies that govern `action`: in scope, in force, and `where` not false for some chain member."""
    return tuple(
        policy
        for policy in registry.index.matching(action.name, action.object_type, action.attributes)
        if in_scope(policy, runtime)
        and in_force(policy, moment)
        and (policy.where is None or any(evaluate(policy.where, lookup) is not Truth.FALSE for lookup in members))
    )
