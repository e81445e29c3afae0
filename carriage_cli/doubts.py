# SPDX-License-Identifier: Apache-2.0
"""What is sound in a policy file and yet does less than a reader may think (``carriage lint``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from carriage_core import (
    ControlPlane,
    Effect,
    Fault,
    Mode,
    ToolBindingError,
    ToolSpec,
    Utf8UpperBound,
    constants_not_in_text,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from carriage_core import Policy, PolicyRegistry


def doubts(registry: PolicyRegistry) -> Iterator[Fault]:
    """Find rules that enforce less than they say."""
    for policy in registry.policies:
        yield from _of_policy(policy)
    lifted = {policy.issuer.kind.rank for policy in registry.policies if policy.effect is Effect.DEFAULT_DENY}
    for policy in registry.policies:
        if policy.effect is Effect.PERMIT and not any(rank >= policy.issuer.kind.rank for rank in lifted):
            yield Fault(
                path=policy.id,
                line=policy.line,
                message="this permit lifts nothing: no default of its own or a lower rank denies",
                mend="add default: deny, or remove the permit",
            )


def _of_policy(policy: Policy) -> Iterator[Fault]:
    if not policy.mediated:
        yield Fault(
            path=policy.id,
            line=policy.line,
            message="carried, not mediated: the model is shown the text and nothing enforces it",
            mend="name the action it governs, if a tool performs one",
        )
    missing = constants_not_in_text(policy)
    if missing:
        yield Fault(
            path=policy.id,
            line=policy.line,
            message=f"the text does not name {', '.join(map(repr, missing))} of the rule, "
            "so the exact tier carries it unbound",
            mend="name them in the text, or set minimum_tier to compact",
        )
    if policy.mode is Mode.OBSERVE:
        yield Fault(
            path=policy.id,
            line=policy.line,
            message="in observe mode: what it forbids is marked and not blocked",
            mend="remove mode: observe once its reports are read",
        )
    for handle, declaration in policy.evidence:
        if declaration.expires_seconds is None and not declaration.single_use:
            yield Fault(
                path=f"{policy.id}.evidence.{handle}",
                line=policy.line,
                message="one result lifts the rule for as long as the plane lives",
                mend="add expires or single_use: true",
            )


def doubts_about_tools(registry: PolicyRegistry, tools: Iterable[ToolSpec]) -> Iterator[Fault]:
    """Compare a registry with the tools an agent really has: what is unbound, and what nothing performs."""
    specs = tuple(tools)
    offered = {spec.name for spec in specs}
    for spec in specs:
        try:
            unbound = ControlPlane(registry, counter=Utf8UpperBound()).offer([spec])
        except ToolBindingError as problem:
            yield Fault(
                path=f"tools.{spec.name}", line=_line(registry, spec.name), message=problem.args[0], mend=problem.mend
            )
            continue
        for name in unbound:
            yield Fault(
                path="tools",
                message=f"the tool {name!r} is bound to no action, so every call of it is denied",
                mend=f"if it is harmless, add under tools: {name}: {{action: none}}",
            )
    for name in sorted(registry.bindings.keys() - offered):
        yield Fault(
            path=f"tools.{name}",
            line=_line(registry, name),
            message="no tool of this name is offered",
            mend="remove the binding, or check the tool's name",
        )
    actions = {
        binding.action for name in offered for binding in registry.bindings.get(name, ()) if binding.action is not None
    }
    shell = any(binding.shell for name in offered for binding in registry.bindings.get(name, ()))
    for policy in registry.policies:
        if policy.mediated and "*" not in policy.actions and not shell and not actions & set(policy.actions):
            yield Fault(
                path=policy.id,
                line=policy.line,
                message=f"no tool that is offered performs {' or '.join(policy.actions)}, so nothing mediates it",
                mend="bind the tool that performs it",
            )
        for handle, declaration in policy.evidence:
            if declaration.from_tool not in offered:
                yield Fault(
                    path=f"{policy.id}.evidence.{handle}",
                    line=policy.line,
                    message=f"nothing produces it: the tool {declaration.from_tool!r} is not offered",
                    mend="offer the tool, or take the evidence from another",
                )


def _line(registry: PolicyRegistry, tool: str) -> int:
    return next((binding.line for binding in registry.bindings.get(tool, ())), 0)
