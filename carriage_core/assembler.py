# SPDX-License-Identifier: Apache-2.0
"""Before a model call: render what applies, check that it fits and stands where it was put, record it (DESIGN 3.8)."""

from __future__ import annotations

import dataclasses
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from carriage_core.applicability import a_plus
from carriage_core.binding import ToolSpec
from carriage_core.errors import (
    CarriageIntegrityError,
    ControlError,
    ControlOverloadError,
    SinkError,
    StaleCapsuleError,
)
from carriage_core.manifest import EntryKind, Manifest
from carriage_core.policy import Mode
from carriage_core.preflight import Assembly, check_window, fit_capsule
from carriage_core.state import ControlState, Placed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from carriage_core.budget import Budget
    from carriage_core.capsule import ControlCapsule, Rendering
    from carriage_core.policy import Policy
    from carriage_core.runtime import RuntimeState

_CACHED_CAPSULES: Final = 128

type Tool = ToolSpec | str | Mapping[str, object]


class Assembler:
    """Makes and seals the assemblies of one runtime."""

    def __init__(self, state: ControlState, runtime: RuntimeState, mode: Mode, budget: Budget | None = None) -> None:
        """Assemble for `runtime` from `state`; `mode` is only recorded: what does not fit raises in both.

        A `budget` of its own takes the place of the state's.
        """
        self._state = state
        self._runtime = runtime
        self._mode = mode
        self.budget = state.budget if budget is None else budget

    def capsule(self, tools: Iterable[Tool] | None = None) -> ControlCapsule:
        """Do as `ControlPlane.capsule` says."""
        state = self._state
        specs = None if tools is None else [ToolSpec.of(tool) for tool in tools]
        candidates = None if specs is None else frozenset(spec.name for spec in specs)
        with state.lock:
            key = (self._runtime, candidates, self.budget.control)
            found = state.capsules.get(key)
            if found is not None:
                state.capsules.move_to_end(key)
                return found
            policies = a_plus(state.registry, self._runtime, specs)
            try:
                capsule = fit_capsule(
                    policies,
                    state.registry,
                    budget=self.budget,
                    counter=state.counter,
                    minimum=state.minimum,
                    candidates=candidates,
                )
            except ControlOverloadError as overload:
                self._log_overload(policies, overload)
                raise
            state.capsules[key] = capsule
            if len(state.capsules) > _CACHED_CAPSULES:
                state.capsules.popitem(last=False)
            return capsule

    def seal(self, assembly: Assembly) -> Manifest:
        """Do as `ControlPlane.seal` says."""
        state = self._state
        capsule = assembly.capsule
        with state.lock:
            if capsule.registry_digest != state.registry.digest:
                raise StaleCapsuleError
            capsule = self._own(capsule)
            read_back = capsule.read_back(assembly.message, assembly.offset)
            try:
                check_window(assembly, capsule, self.budget)
            except ControlOverloadError as overload:
                self._log_overload(capsule.policies, overload)
                raise
            manifest = self._manifest(assembly, capsule, read_back)
            state.placed[self._runtime] = Placed(manifest=manifest, capsule=capsule, registry=state.registry)
            return manifest

    def would_fail(self, problem: ControlError) -> bool:
        """Do as `ControlPlane.would_fail` says."""
        if self._mode is Mode.ENFORCE:
            return False
        if not isinstance(problem, ControlOverloadError):
            state = self._state
            with state.lock, suppress(SinkError):  # observe mode blocks nothing, and a full log cannot say so
                state.append(
                    EntryKind.ASSEMBLY,
                    {
                        "actor": self._runtime.actor,
                        "mode": self._mode.value,
                        "outcome": "would_fail_closed",
                        "problem": type(problem).__name__,
                        "registry": state.registry.digest,
                    },
                )
        return True

    def _own(self, capsule: ControlCapsule) -> ControlCapsule:
        """Return this runtime's capsule for the same candidates, which the given one must equal (invariant 1)."""
        expected = self.capsule(None if capsule.candidates is None else sorted(capsule.candidates))
        if expected is not capsule and (
            expected.rendering.a_plus != capsule.rendering.a_plus or expected.text != capsule.text
        ):
            raise CarriageIntegrityError(
                "the capsule is not the complete set of this actor; the call was not made.",
                mend="render it from the plane of the agent that will act, and place it as it is.",
            )
        return expected

    def _manifest(self, assembly: Assembly, capsule: ControlCapsule, read_back: tuple[str, ...]) -> Manifest:
        state = self._state
        rendering = capsule.rendering
        logged = state.logged_capsules.get((rendering.digest, rendering.tier))
        if logged is None:
            logged = state.append(EntryKind.CAPSULE, _capsule_body(rendering)).sequence
            state.logged_capsules[rendering.digest, rendering.tier] = logged
        fixed = self.budget.fixed + assembly.fixed_tokens
        rho = round(self.budget.pressure(assembly.candidate_tokens, capsule.tokens, assembly.window), 6)
        body: dict[str, object] = {
            "actor": self._runtime.actor,
            "candidates": None if capsule.candidates is None else sorted(capsule.candidates),
            "capsule": logged,
            "candidate_tokens": assembly.candidate_tokens,
            "control_tokens": capsule.tokens,
            "counter": capsule.counter,
            "data_tokens": assembly.data_tokens,
            "fixed_tokens": fixed,
            "imitations": assembly.imitations,
            "mode": self._mode.value,
            "outcome": "assembled",
            "read_back": len(read_back),
            "registry": state.registry.digest,
            "rho": rho,
        }
        entry = state.append(EntryKind.ASSEMBLY, body)
        return Manifest(
            sequence=entry.sequence,
            registry_digest=state.registry.digest,
            actor=self._runtime.actor,
            a_plus=rendering.a_plus,
            read_back=read_back,
            unbound=rendering.unbound,
            unmediated=rendering.unmediated,
            tier=capsule.tier.value,
            capsule_digest=rendering.digest,
            candidates=capsule.candidates,
            control_tokens=capsule.tokens,
            data_tokens=assembly.data_tokens,
            candidate_tokens=assembly.candidate_tokens,
            fixed_tokens=fixed,
            rho=rho,
            imitations=assembly.imitations,
            counter=capsule.counter,
            outcome="assembled",
            hash=entry.hash,
        )

    def _log_overload(self, policies: tuple[Policy, ...], overload: ControlOverloadError) -> None:
        numbers = dataclasses.asdict(overload.numbers)
        numbers["tier_tokens"] = dict(overload.numbers.tier_tokens)
        self._state.append(
            EntryKind.ASSEMBLY,
            {
                "actor": self._runtime.actor,
                "a_plus": [[policy.id, policy.digest] for policy in policies],
                "mode": self._mode.value,
                "numbers": numbers,
                "outcome": "failed_closed" if self._mode is Mode.ENFORCE else "would_fail_closed",
                "registry": self._state.registry.digest,
            },
        )


def _capsule_body(rendering: Rendering) -> dict[str, object]:
    """What the log says once of a capsule; assemblies refer to it by sequence."""
    return {
        "a_plus": [list(pair) for pair in rendering.a_plus],
        "digest": rendering.digest,
        "tier": rendering.tier.value,
        "unbound": list(rendering.unbound),
        "unmediated": list(rendering.unmediated),
    }
