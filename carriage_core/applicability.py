# SPDX-License-Identifier: Apache-2.0
"""Which policies could govern the next action, and which govern a proposed one (paper II-A; DESIGN 3.6).

`a_plus` is computed before the model speaks, from candidate tools alone; `a_star` after, from the concrete
action. `a_plus` ignores conditions, evidence and time, so it contains `a_star` of every call those tools can
express, unknown values included.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from carriage_core.condition import Truth
from carriage_core.prepared import prepared
from carriage_core.views import views_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from carriage_core.binding import Action, ToolSpec
    from carriage_core.policy import Policy
    from carriage_core.registry import PolicyRegistry
    from carriage_core.runtime import Moment, RuntimeState
    from carriage_core.views import View


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
    index = registry.index
    kinds: set[tuple[str, str | None]] = set()
    for tool in () if candidates is None else candidates:
        bindings = registry.bindings.get(tool.name)
        if bindings is None or any(binding.shell is not None for binding in bindings):
            # Nobody knows what an unbound tool does, nor what a command will be, so nothing can be ruled out.
            candidates = None
            break
        kinds.update((binding.action, binding.object_type) for binding in bindings if binding.action is not None)
    return index.applicable(None if candidates is None else kinds, runtime)


def in_force(policy: Policy, moment: Moment) -> bool:
    """Whether a policy's half-open validity window holds; with an untrusted clock it does (denies persist)."""
    if policy.valid_from is None and policy.valid_until is None:
        return True
    if not moment.trusted:
        return True
    return (policy.valid_from is None or policy.valid_from <= moment.now) and (
        policy.valid_until is None or moment.now < policy.valid_until
    )


def a_star(
    registry: PolicyRegistry,
    runtime: RuntimeState,
    action: Action,
    moment: Moment,
    members: tuple[View, ...],
) -> tuple[Policy, ...]:
    """Return the policies that govern `action`: in scope, in force, and `where` not false in some view."""
    return tuple(
        [
            policy
            for policy in registry.index.matching(action.name, action.object_type, action.attributes)
            if binds_here(policy, runtime, action, moment, members)
        ]
    )


def binds_here(
    policy: Policy, runtime: RuntimeState, action: Action, moment: Moment, members: tuple[View, ...]
) -> bool:
    """Whether a policy for this action and type of object is in scope, in force, and its `where` not surely false."""
    if not in_scope(policy, runtime) or not in_force(policy, moment):
        return False
    where = prepared(policy).where
    if where is None:
        return True
    for view in views_of(policy, action, members):  # noqa: SIM110  # a generator costs more than the condition
        if where(view) is not Truth.FALSE:
            return True
    return False
