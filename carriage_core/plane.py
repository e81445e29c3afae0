# SPDX-License-Identifier: Apache-2.0
"""The control plane: the one object a user holds (paper V-B, Figure 5).

It joins the registry, the runtime state, the evidence, the capsule, the preflight, the monitor and the log.
Adapters call `capsule` and `seal` before every model call, `authorize` before and `settle` after every action.
"""

from __future__ import annotations

import copy
import dataclasses
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Self

from carriage_core.applicability import a_plus
from carriage_core.binding import ToolBinding, ToolSpec, argument_digest
from carriage_core.budget import DEFAULT_CONTROL_BUDGET, DEFAULT_RESERVED_OUTPUT, DEFAULT_WINDOW, Budget
from carriage_core.capsule import ControlCapsule, Rendering, Tier
from carriage_core.decision import Decision, Settlement
from carriage_core.errors import (
    CarriageError,
    ControlNotFoundError,
    ControlOverloadError,
    EvidenceError,
    SinkError,
    StaleCapsuleError,
    ToolBindingError,
)
from carriage_core.manifest import GENESIS, Entry, EntryKind, Manifest, link
from carriage_core.monitor import Outcome, ToolCall, Verdict, denied, judge
from carriage_core.policy import EvidenceDeclaration, Policy, digest_of
from carriage_core.policy_file import load_policy_file
from carriage_core.preflight import Assembly, check_window, fit_capsule
from carriage_core.registry import PolicyRegistry, near
from carriage_core.runtime import Clock, EvidenceLedger, EvidenceRecord, Moment, RuntimeState
from carriage_core.sinks import MemorySink, Sink
from carriage_core.tokens import TokenCounter, counted, default_counter

if TYPE_CHECKING:
    import os

    from carriage_core.policy import Issuer
    from carriage_core.registry import Identity
    from carriage_core.runtime import Approval

type Tool = ToolSpec | str | Mapping[str, object]

_CACHED_CAPSULES: Final = 128
_MAX_EXECUTED: Final = 1_000_000
DEFAULT_APPROVAL_LIFE: Final = timedelta(minutes=10)

_planes: weakref.WeakValueDictionary[str, ControlPlane] = weakref.WeakValueDictionary()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Placed:
    """The latest assembly of one runtime: what its model has been shown."""

    manifest: Manifest
    capsule: ControlCapsule
    registry: PolicyRegistry


class _Shared:
    """What all views of one plane have in common; every change happens under `lock`."""

    def __init__(self, registry: PolicyRegistry, budget: Budget, counter: TokenCounter, sink: Sink, clock: Clock, minimum: Tier) -> None:
        self.lock = threading.RLock()
        self.registry = registry
        self.budget = budget
        self.counter = counter
        self.sink = sink
        self.clock = clock
        self.minimum = minimum
        self.ledger = EvidenceLedger()
        self.capsules: OrderedDict[tuple[object, ...], ControlCapsule] = OrderedDict()
        self.logged_capsules: dict[tuple[str, Tier], int] = {}
        self.tools: dict[str, ToolSpec] = {}
        self.changed_tools: set[str] = set()
        self.placed: dict[RuntimeState, _Placed] = {}
        self.executed: set[tuple[RuntimeState, str]] = set()
        self.open: dict[str, Decision] = {}
        self.sequence = 0
        self.head = GENESIS

    def append(self, kind: EntryKind, body: Mapping[str, object]) -> Entry:
        """Write the next entry; a sink that cannot write stops what the entry describes."""
        entry = link(self.sequence, kind, body, self.head)
        try:
            self.sink.write(entry)
        except Exception as fault:
            raise SinkError(
                f"the log could not be written ({type(fault).__name__}); nothing was done.", mend="mend the sink and try again."
            ) from fault
        self.sequence += 1
        self.head = entry.hash
        return entry


class ControlPlane:
    """Carries trusted policy to every model call, and judges every action.

    A plane is a view of shared control state for one runtime (actor, tenant, task); `as_actor` gives further
    views. All methods are safe to call from several threads and event loops.
    """

    def __init__(
        self,
        registry: PolicyRegistry,
        *,
        actor: str | None = None,
        tenant: str | None = None,
        task: str | None = None,
        control_budget: int = DEFAULT_CONTROL_BUDGET,
        window: int = DEFAULT_WINDOW,
        reserved_output: int = DEFAULT_RESERVED_OUTPUT,
        fixed_overhead: int = 0,
        minimum_tier: Tier | str = Tier.EXACT,
        counter: TokenCounter | None = None,
        sink: Sink | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Make a plane.

        Args:
            registry: The first snapshot.
            actor: The agent that acts; None matches every rule for an agent.
            tenant: The tenant it acts for; None matches every tenant's rules.
            task: The task it works on; None matches every task's rules.
            control_budget: Most tokens the capsule may take.
            window: The model's context window, in tokens.
            reserved_output: Tokens kept for the answer.
            fixed_overhead: Tokens of system text, tool schemas and request that the adapter does not see.
            minimum_tier: The poorest tier allowed; below it the call fails closed.
            counter: Counts tokens; `default_counter` if none is given.
            sink: Takes the log; a `MemorySink` if none is given.
            clock: Source of time.

        Raises:
            PolicyError: A size is not one a call could be made with.
        """
        budget = Budget(control=control_budget, window=window, reserved_output=reserved_output, fixed=fixed_overhead)
        self._runtime = RuntimeState(tenant=tenant, task=task, chain=() if actor is None else (actor,))
        self._shared = _Shared(
            registry, budget, counter or default_counter(), sink or MemorySink(), clock or Clock(), Tier(minimum_tier)
        )
        self._register()

    @classmethod
    def from_file(
        cls,
        path: str | os.PathLike[str],
        *,
        actor: str | None = None,
        tenant: str | None = None,
        task: str | None = None,
        control_budget: int = DEFAULT_CONTROL_BUDGET,
        window: int = DEFAULT_WINDOW,
        reserved_output: int = DEFAULT_RESERVED_OUTPUT,
        fixed_overhead: int = 0,
        minimum_tier: Tier | str = Tier.EXACT,
        counter: TokenCounter | None = None,
        sink: Sink | None = None,
        clock: Clock | None = None,
    ) -> Self:
        """Make a plane from a policy file; arguments as for the constructor.

        Raises:
            PolicyFileError: The file is missing or anything in it is wrong. No part of it is used.
        """
        return cls(
            load_policy_file(path),
            actor=actor,
            tenant=tenant,
            task=task,
            control_budget=control_budget,
            window=window,
            reserved_output=reserved_output,
            fixed_overhead=fixed_overhead,
            minimum_tier=minimum_tier,
            counter=counter,
            sink=sink,
            clock=clock,
        )

    @classmethod
    def unsafe_empty(cls, bindings: Iterable[ToolBinding] = (), *, counter: TokenCounter | None = None) -> Self:
        """Make a plane that carries and enforces nothing, asked for by name; for tests and comparisons."""
        return cls(PolicyRegistry.unsafe_empty(bindings), counter=counter)

    def as_actor(self, actor: str) -> Self:
        """Return a view of the same control state for another agent: own scope, own evidence, own approvals."""
        view = self.__class__.__new__(self.__class__)
        view._shared = self._shared
        view._runtime = dataclasses.replace(self._runtime, chain=(actor,))
        view._register()
        return view

    # -- what is in force ------------------------------------------------------------------------

    @property
    def runtime(self) -> RuntimeState:
        """Who this view acts for."""
        return self._runtime

    @property
    def registry(self) -> PolicyRegistry:
        """The newest snapshot."""
        return self._shared.registry

    @property
    def budget(self) -> Budget:
        """Window, reserve, overhead and control budget, in tokens of `counter`."""
        return self._shared.budget

    @property
    def counter(self) -> TokenCounter:
        """The token counter of every size in this plane."""
        return self._shared.counter

    @property
    def sink(self) -> Sink:
        """Where the log goes."""
        return self._shared.sink

    @property
    def head(self) -> str:
        """Hash of the newest log entry: a checkpoint to keep in a second place."""
        return self._shared.head

    @property
    def reference(self) -> str:
        """Digest under which a saved agent finds this plane again, in this process or the next."""
        return self._register()

    @property
    def last_manifest(self) -> Manifest | None:
        """The manifest of this runtime's latest assembly, None before the first."""
        with self._shared.lock:
            placed = self._shared.placed.get(self._runtime)
        return None if placed is None else placed.manifest

    def _register(self) -> str:
        budget = self._shared.budget
        reference = "sha256:" + digest_of(
            {
                "budget": [budget.control, budget.window, budget.reserved_output, budget.fixed, self._shared.minimum.value],
                "counter": self._shared.counter.name,
                "registry": self._shared.registry.digest,
                "runtime": [self._runtime.tenant, self._runtime.task, list(self._runtime.chain)],
            }
        )
        _planes[reference] = self
        return reference

    def admit(self, policy: Policy, *, by: Issuer) -> None:
        """Admit a policy, or the next version of one; in force from the next assembly and decision on.

        Raises:
            ProvenanceError: `by` is not its issuer.
            PolicyError: It does not supersede what is there.
        """
        self._change(lambda registry: registry.admit(policy, by=by), "admit", policy.id, policy.version)

    def withdraw(self, identity: Identity, *, by: Issuer) -> None:
        """Withdraw a policy; only its issuer may, and no older version revives.

        Raises:
            ProvenanceError: `by` did not issue it.
            EmptyRegistryError: It is the last one.
        """
        self._change(lambda registry: registry.withdraw(identity, by=by), "withdraw", identity[3], None)

    def _change(self, change: Callable[[PolicyRegistry], PolicyRegistry], what: str, identifier: str, version: int | None) -> None:
        shared = self._shared
        with shared.lock:
            registry = change(shared.registry)
            shared.append(
                EntryKind.REGISTRY, {"change": what, "policy": identifier, "version": version, "registry": registry.digest}
            )
            shared.registry = registry
            shared.capsules.clear()
        self._register()

    # -- tools -----------------------------------------------------------------------------------

    def offer(self, tools: Iterable[Tool]) -> tuple[str, ...]:
        """Learn the tools an agent has, and pin their schemas.

        Args:
            tools: Names, schemas, or specs; all tools of one agent at once.

        Returns:
            Names of tools that are bound to no action, which the monitor will deny; empty where no rule has one.

        Raises:
            ToolBindingError: Two tools share a name, or a binding names an argument that the schema lacks.
        """
        specs = [ToolSpec.of(tool) for tool in tools]
        names = [spec.name for spec in specs]
        doubled = sorted({name for name in names if names.count(name) > 1})
        if doubled:
            raise ToolBindingError(f"two tools are named {doubled[0]!r}.", mend="rename one; a rule could bind the wrong one.")
        shared = self._shared
        with shared.lock:
            for spec in specs:
                self._check_binding(spec)
            for spec in specs:
                known = shared.tools.get(spec.name)
                if known is not None and known.digest is not None and spec.digest not in {None, known.digest}:
                    shared.changed_tools.add(spec.name)  # 3.4: changed in schema, or two tools of one name: denied
                elif known is None or known.digest is None:
                    shared.tools[spec.name] = spec
            if not shared.registry.mediates:
                return ()
            return tuple(name for name in names if name not in shared.registry.bindings)

    def _check_binding(self, spec: ToolSpec) -> None:
        if spec.arguments is None:
            return
        for binding in self._shared.registry.bindings.get(spec.name, ()):
            missing = sorted(binding.known_arguments - spec.arguments)
            if missing:
                place = f" (policy file line {binding.line})" if binding.line else ""
                raise ToolBindingError(
                    f"tools.{spec.name}{place} names the argument {missing[0]!r}, which the tool does not have.",
                    mend=near(missing[0], spec.arguments),
                )

    def bind(self, bindings: Iterable[ToolBinding]) -> None:
        """Add the bindings of a framework's own tools; a tool that is bound already keeps its own."""
        shared = self._shared
        with shared.lock:
            registry = shared.registry.with_bindings(bindings)
            if registry is not shared.registry:
                shared.append(EntryKind.REGISTRY, {"change": "bind", "registry": registry.digest})
                shared.registry = registry
                shared.capsules.clear()
        self._register()

    # -- before the model call -------------------------------------------------------------------

    def capsule(self, tools: Iterable[Tool] | None = None) -> ControlCapsule:
        """Render the complete applicable set in the richest tier that fits the control budget.

        Args:
            tools: The candidate tools; None where they are not known, and then everything in scope applies.

        Raises:
            ControlOverloadError: No allowed tier fits; make no model call. The log records it.
        """
        shared = self._shared
        specs = None if tools is None else [ToolSpec.of(tool) for tool in tools]
        candidates = None if specs is None else frozenset(spec.name for spec in specs)
        with shared.lock:
            key = (self._runtime, candidates)
            found = shared.capsules.get(key)
            if found is not None:
                shared.capsules.move_to_end(key)
                return found
            policies = a_plus(shared.registry, self._runtime, specs)
            try:
                capsule = fit_capsule(
                    policies,
                    shared.registry,
                    budget=shared.budget,
                    counter=shared.counter,
                    minimum=shared.minimum,
                    candidates=candidates,
                )
            except ControlOverloadError as overload:
                self._log_overload(policies, overload)
                raise
            shared.capsules[key] = capsule
            if len(shared.capsules) > _CACHED_CAPSULES:
                shared.capsules.popitem(last=False)
            return capsule

    def seal(self, assembly: Assembly) -> Manifest:
        """Check an assembly as it will be sent, and record it. Call it last, before any byte leaves.

        Raises:
            ControlOverloadError: It does not fit the window.
            CarriageIntegrityError: The capsule does not stand at its protected position.
            StaleCapsuleError: Policies changed since the capsule was rendered.
            SinkError: It could not be recorded.
        """
        shared = self._shared
        capsule = assembly.capsule
        with shared.lock:
            if capsule.registry_digest != shared.registry.digest:
                raise StaleCapsuleError
            read_back = capsule.read_back(assembly.message, assembly.offset)
            try:
                check_window(assembly, shared.budget)
            except ControlOverloadError as overload:
                self._log_overload(capsule.policies, overload)
                raise
            manifest = self._manifest(assembly, capsule, read_back)
            shared.placed[self._runtime] = _Placed(manifest=manifest, capsule=capsule, registry=shared.registry)
            return manifest

    def _manifest(self, assembly: Assembly, capsule: ControlCapsule, read_back: tuple[str, ...]) -> Manifest:
        shared = self._shared
        rendering = capsule.rendering
        logged = shared.logged_capsules.get((rendering.digest, rendering.tier))
        if logged is None:
            logged = shared.append(EntryKind.CAPSULE, _capsule_body(rendering)).sequence
            shared.logged_capsules[rendering.digest, rendering.tier] = logged
        rho = round(shared.budget.pressure(assembly.candidate_tokens, capsule.tokens), 6)
        body: dict[str, object] = {
            "actor": self._runtime.actor,
            "candidates": None if capsule.candidates is None else sorted(capsule.candidates),
            "capsule": logged,
            "candidate_tokens": assembly.candidate_tokens,
            "control_tokens": capsule.tokens,
            "counter": capsule.counter,
            "data_tokens": assembly.data_tokens,
            "fixed_tokens": shared.budget.fixed + assembly.fixed_tokens,
            "imitations": assembly.imitations,
            "outcome": "assembled",
            "read_back": len(read_back),
            "registry": shared.registry.digest,
            "rho": rho,
        }
        entry = shared.append(EntryKind.ASSEMBLY, body)
        return Manifest(
            sequence=entry.sequence,
            registry_digest=shared.registry.digest,
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
            fixed_tokens=shared.budget.fixed + assembly.fixed_tokens,
            rho=rho,
            imitations=assembly.imitations,
            counter=capsule.counter,
            outcome="assembled",
            hash=entry.hash,
        )

    def _log_overload(self, policies: tuple[Policy, ...], overload: ControlOverloadError) -> None:
        numbers = dataclasses.asdict(overload.numbers)
        numbers["tier_tokens"] = dict(overload.numbers.tier_tokens)
        self._shared.append(
            EntryKind.ASSEMBLY,
            {
                "actor": self._runtime.actor,
                "a_plus": [[policy.id, policy.digest] for policy in policies],
                "numbers": numbers,
                "outcome": "failed_closed",
                "registry": self._shared.registry.digest,
            },
        )

    # -- before and after the action -------------------------------------------------------------

    def check(self, tool: str, arguments: object, *, call_id: str | None = None, server: str | None = None) -> Verdict:
        """Judge a call without taking or recording anything.

        Args:
            tool: The tool's name.
            arguments: The arguments as they would be executed, a JSON object.
            call_id: The framework's id of the call, if it has one.
            server: The server the tool comes from, if it has one.
        """
        call = ToolCall(tool=tool, arguments=arguments, call_id=call_id or None, server=server)
        with self._shared.lock:
            return self._verdict(call)

    def _verdict(self, call: ToolCall) -> Verdict:
        try:
            return self._stricter(call, self._shared.clock.sample())
        except Exception as fault:  # noqa: BLE001  # invariant 11: a fault denies
            return denied(call.tool, "internal_fault", f"The monitor failed ({type(fault).__name__}); nothing was executed.")

    def _stricter(self, call: ToolCall, moment: Moment) -> Verdict:
        """Judge against the newest registry and against what the model was shown; the stricter counts (3.9)."""
        shared = self._shared
        if call.tool in shared.changed_tools and shared.registry.mediates:
            return denied(call.tool, "changed_schema", f"The schema of {call.tool!r} is not the one first offered under that name.")
        if call.call_id is not None and (self._runtime, call.call_id) in shared.executed:
            return denied(call.tool, "replayed_call", "A call with this id was already authorised; a call runs once.")
        spec = shared.tools.get(call.tool)
        newest = self._judge(call, shared.registry, moment, spec)
        placed = shared.placed.get(self._runtime)
        if placed is None or not newest.allowed:
            return newest
        shown = {policy.digest for policy in placed.capsule.policies}
        offered = placed.capsule.candidates
        # 3.9: what binds now and was not shown, or a tool that was not offered: reassemble first.
        if not newest.governing <= shown or (offered is not None and call.tool not in offered):
            message = "The policies or tools in force changed since the model was last called; ask it again."
            return dataclasses.replace(newest, outcome=Outcome.DENY, code="control_changed", message=message)
        if placed.registry is shared.registry:
            return newest
        shown_verdict = self._judge(call, placed.registry, moment, spec)
        return max(newest, shown_verdict, key=lambda verdict: verdict.outcome.strictness)

    def _judge(self, call: ToolCall, registry: PolicyRegistry, moment: Moment, spec: ToolSpec | None) -> Verdict:
        return judge(call, registry=registry, runtime=self._runtime, ledger=self._shared.ledger, moment=moment, spec=spec)

    def authorize(self, tool: str, arguments: object, *, call_id: str | None = None, server: str | None = None) -> Decision:
        """Decide a call, reserve the evidence it needs, and record the decision before anything runs.

        Run the tool only if the decision is `allowed`, with exactly `decision.arguments`, and report back with
        `settle`. Never raises for anything a call, a policy or the log can do: a fault is a denial.
        """
        shared = self._shared
        with shared.lock:
            # A private copy: what is judged is what runs, whatever the caller does to its own object meanwhile.
            try:
                call = ToolCall(tool=tool, arguments=copy.deepcopy(arguments), call_id=call_id or None, server=server)
            except Exception:  # noqa: BLE001  # whatever cannot be copied is not JSON and is denied as such
                call = ToolCall(tool=tool, arguments=None if arguments is None else object(), call_id=call_id or None, server=server)
            name = f"decision-{shared.sequence}"
            verdict = self._verdict(call)
            if verdict.allowed and not shared.ledger.reserve(verdict.one_use, name):
                message = "The evidence for this call is already in use by another."
                verdict = dataclasses.replace(verdict, outcome=Outcome.DENY, code="evidence_taken", message=message)
            placed = shared.placed.get(self._runtime)
            decision = Decision(
                id=name,
                verdict=verdict,
                call=call,
                arguments=call.arguments if isinstance(call.arguments, Mapping) else {},
                runtime=self._runtime,
                assembly=None if placed is None else placed.manifest.sequence,
            )
            try:
                shared.append(EntryKind.DECISION, _decision_body(decision))
            except Exception as fault:  # noqa: BLE001  # invariant 11: what cannot be recorded is not done
                shared.ledger.release(name)
                lost = denied(tool, "sink_fault", f"The decision could not be recorded ({type(fault).__name__}); nothing was executed.")
                return dataclasses.replace(decision, verdict=lost)
            if verdict.allowed:
                shared.open[name] = decision
                if call.call_id is not None:
                    if len(shared.executed) >= _MAX_EXECUTED:
                        shared.executed.pop()
                    shared.executed.add((self._runtime, call.call_id))
            return decision

    def settle(self, decision: Decision, settlement: Settlement, result: object = None) -> tuple[EvidenceRecord, ...]:
        """Record what became of an authorised action, and file the evidence it gives.

        Args:
            decision: From `authorize`; each is settled once.
            settlement: How it ended.
            result: The tool's structured result, before it becomes text; read only for `Settlement.EXECUTED`.

        Returns:
            The evidence records that were filed.

        Raises:
            CarriageError: The decision was not allowed, or is settled already.
            SinkError: The outcome could not be recorded.
        """
        shared = self._shared
        with shared.lock:
            if shared.open.pop(decision.id, None) is None:
                raise CarriageError(f"{decision.id} is not open.", mend="settle each allowed decision once.")
            if settlement is Settlement.NOT_STARTED:
                shared.ledger.release(decision.id)
                shared.executed.discard((decision.runtime, decision.call.call_id or ""))
            records, refused = self._file_evidence(decision, settlement, result)
            shared.append(
                EntryKind.OUTCOME,
                {
                    "decision": decision.id,
                    "evidence": [record.id for record in records],
                    "evidence_refused": refused,
                    "outcome": settlement.value,
                },
            )
            return records

    def _file_evidence(
        self, decision: Decision, settlement: Settlement, result: object
    ) -> tuple[tuple[EvidenceRecord, ...], list[str]]:
        shared = self._shared
        bindings = shared.registry.bindings.get(decision.call.tool, ())
        if settlement is Settlement.NOT_STARTED or not any(binding.trusted_evidence for binding in bindings):
            return (), []
        records: list[EvidenceRecord] = []
        refused: list[str] = []
        for declaration in _declarations(shared.registry, decision.call.tool):
            if settlement is not Settlement.EXECUTED:
                shared.ledger.forget(declaration, arguments=decision.arguments, runtime=decision.runtime)
                continue
            try:
                records.append(
                    shared.ledger.record(
                        declaration,
                        arguments=decision.arguments,
                        result=structured(result),
                        runtime=decision.runtime,
                        moment=shared.clock.sample(),
                        call_id=decision.call.call_id,
                        argument_digest=argument_digest(decision.arguments),
                    )
                )
            except EvidenceError as problem:
                refused.append(str(problem))
        return tuple(records), refused

    def approve(
        self,
        tool: str,
        arguments: object,
        *,
        by: str,
        call_id: str | None = None,
        server: str | None = None,
        life: timedelta = DEFAULT_APPROVAL_LIFE,
    ) -> Approval:
        """File a person's approval of exactly this call; it is good for one execution.

        Args:
            tool: The tool's name.
            arguments: The arguments the person was shown, as they would be executed.
            by: Who approved, as an authenticated name.
            call_id: The call's id; an approval for one id does not fit another.
            server: The server the tool comes from.
            life: How long the approval is good for.

        Raises:
            CarriageError: The call is not one that waits for an approval; a denied call cannot be approved.
        """
        call = ToolCall(tool=tool, arguments=arguments, call_id=call_id or None, server=server)
        shared = self._shared
        with shared.lock:
            verdict = self._verdict(call)
            if verdict.outcome is not Outcome.CONFIRM or verdict.call_digest is None:
                raise CarriageError(
                    f"this call of {tool!r} does not wait for an approval ({verdict.code}).", mend="approve a call judged 'confirm'."
                )
            shared.append(EntryKind.APPROVAL, {"by": by, "call": verdict.call_digest, "policies": list(verdict.policies)})
            return shared.ledger.approve(verdict.call_digest, by=by, moment=shared.clock.sample(), life=life)

    # -- measuring -------------------------------------------------------------------------------

    def count(self, text: str) -> int:
        """Count tokens in the plane's counter.

        Raises:
            ControlError: The counter failed or answered what cannot be true.
        """
        return counted(self._shared.counter, text)


def _capsule_body(rendering: Rendering) -> dict[str, object]:
    """What the log says once of a capsule; assemblies refer to it by sequence."""
    return {
        "a_plus": [list(pair) for pair in rendering.a_plus],
        "digest": rendering.digest,
        "tier": rendering.tier.value,
        "unbound": list(rendering.unbound),
        "unmediated": list(rendering.unmediated),
    }


def _decision_body(decision: Decision) -> dict[str, object]:
    verdict = decision.verdict
    return {
        "arguments": verdict.argument_digest,
        "assembly": decision.assembly,
        "call_id": decision.call.call_id,
        "chain": list(decision.runtime.chain),
        "code": verdict.code,
        "decision": decision.id,
        "evidence": list(verdict.evidence),
        "policies": list(verdict.policies),
        "registry": verdict.registry_digest,
        "tool": decision.call.tool,
        "verdict": verdict.outcome.value,
    }


def _declarations(registry: PolicyRegistry, tool: str) -> tuple[EvidenceDeclaration, ...]:
    found = {
        declaration.digest: declaration
        for policy in registry.policies
        for _, declaration in policy.evidence
        if declaration.from_tool == tool
    }
    return tuple(found.values())


def structured(result: object) -> object:
    """Turn a pydantic model or dataclass instance into a mapping; leave everything else as it is."""
    dump = getattr(result, "model_dump", None)
    if callable(dump) and not isinstance(result, type):
        with suppress(TypeError):
            return dump(mode="python")
    if dataclasses.is_dataclass(result) and not isinstance(result, type):
        return dataclasses.asdict(result)
    return result


def find_plane(reference: str) -> ControlPlane:
    """Find the plane a saved agent names.

    Raises:
        ControlNotFoundError: This process holds no plane with that reference; make no call without it.
    """
    plane = _planes.get(reference)
    if plane is None:
        raise ControlNotFoundError(reference)
    return plane
