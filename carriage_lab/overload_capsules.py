# SPDX-License-Identifier: Apache-2.0
"""The capsules of the overload table: the product's own control plane, told the poorest tier it may send."""

from __future__ import annotations

from typing import TYPE_CHECKING

from carriage_core import (
    Assembly,
    ControlOverloadError,
    ControlPlane,
    PolicyRegistry,
    Tier,
    ToolSpec,
    WhitespaceCounter,
    a_plus,
    load_policy_file,
    render,
)
from carriage_lab.overload_baselines import REQUEST
from carriage_lab.overload_cases import policy_file

if TYPE_CHECKING:
    from carriage_lab.overload_baselines import Assemble, Messages
    from carriage_lab.overload_cases import Case, PolicySet

_COUNTER = WhitespaceCounter()


def shipped_registry() -> PolicyRegistry:
    """Load the registry's shipped file."""
    with policy_file() as path:
        return load_policy_file(path)


def capsule(registry: PolicyRegistry, minimum: Tier) -> Assemble:
    """Render for the offered tools, place, seal; no call where the plane refuses.

    Args:
        registry: What is in force.
        minimum: The poorest tier allowed: ``full`` is the verbose capsule, ``exact`` the tiered one.
    """

    def assemble(case: Case) -> Messages | None:
        plane = _plane(registry, minimum, case.budget)
        try:
            made = plane.capsule(case.set.tools)
            data = _COUNTER.count(REQUEST["content"])
            plane.seal(
                Assembly(capsule=made, message=made.text, offset=0, data_tokens=data, candidate_tokens=data),
            )
        except ControlOverloadError:
            return None
        return ({"role": "system", "content": made.text}, REQUEST)

    return assemble


def tier_tokens(registry: PolicyRegistry, policies: PolicySet, tier: Tier) -> int:
    """Size of a set's capsule in one tier."""
    runtime = _plane(registry, tier, budget=1).runtime
    active = a_plus(registry, runtime, [ToolSpec.of(tool) for tool in policies.tools])
    return _COUNTER.count(render(active, registry, tier).text)


def _plane(registry: PolicyRegistry, minimum: Tier, budget: int) -> ControlPlane:
    return ControlPlane(registry, actor="agent", control_budget=budget, minimum_tier=minimum, counter=_COUNTER)
