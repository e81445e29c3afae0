# SPDX-License-Identifier: Apache-2.0
"""The control plane: the one object a user holds (paper V-B, Figure 5).

It joins the registry, the runtime state, the evidence, the capsule, the preflight, the monitor and the log.
Adapters call `capsule` and `seal` before every model call, `authorize` before and `settle` after every action.
"""

from __future__ import annotations

import dataclasses
import weakref
from typing import TYPE_CHECKING, Final, Self, TypedDict, Unpack

from carriage_core.admission import read_message
from carriage_core.assembler import Assembler
from carriage_core.binding import ToolBinding, ToolSpec
from carriage_core.budget import DEFAULT_CONTROL_BUDGET, DEFAULT_RESERVED_OUTPUT, DEFAULT_WINDOW, Budget
from carriage_core.canonical import digest_of
from carriage_core.capsule import Tier
from carriage_core.errors import AdmissionError, ControlNotFoundError, ToolBindingError
from carriage_core.gate import DEFAULT_APPROVAL_LIFE, ActionGate
from carriage_core.manifest import EntryKind
from carriage_core.pieces import giving_way
from carriage_core.policy import Mode
from carriage_core.policy_file import load_policy_file
from carriage_core.registry import PolicyRegistry
from carriage_core.runtime import Clock, RuntimeState
from carriage_core.sinks import MemorySink
from carriage_core.state import ControlState
from carriage_core.tokens import counted, default_counter
from carriage_core.vocabulary import near

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping
    from datetime import timedelta

    from carriage_core.admission import Admission, HumanChannel, Message
    from carriage_core.assembler import Tool
    from carriage_core.capsule import ControlCapsule
    from carriage_core.decision import Decision, Settlement
    from carriage_core.errors import ControlError
    from carriage_core.manifest import Manifest
    from carriage_core.policy import Issuer, Policy
    from carriage_core.preflight import Assembly
    from carriage_core.registry import Identity
    from carriage_core.runtime import Approval, EvidenceRecord
    from carriage_core.sinks import Sink
    from carriage_core.tokens import TokenCounter
    from carriage_core.verdict import Verdict

ADMISSION_TRIES: Final = 8
"""How often a message is read anew because the registry changed meanwhile."""

_planes: dict[str, list[weakref.ref[ControlPlane]]] = {}
"""Every live plane by each reference it has had, newest last; several may share one."""


CHANGE_TRIES: Final = 3
"""How often a change is worked out beside running decisions, where another change comes first, before they wait."""


class PlaneOptions(TypedDict, total=False):
    """What a `ControlPlane` may be told beside its registry; meanings and defaults are the constructor's."""

    actor: str | None
    tenant: str | None
    task: str | None
    mode: Mode | str
    control_budget: int
    window: int
    reserved_output: int
    fixed_overhead: int
    minimum_tier: Tier | str
    counter: TokenCounter | None
    sink: Sink | None
    clock: Clock | None


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
        mode: Mode | str = Mode.ENFORCE,
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
            mode: ``enforce``, or ``observe`` to try policies out: verdicts are computed, recorded and marked, nothing
                is blocked. Whoever deploys the plane sets it; a single policy's mode is its issuer's (DESIGN 3.13).
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
        state = ControlState(
            registry,
            budget=budget,
            counter=counter or default_counter(),
            sink=sink or MemorySink(),
            clock=clock or Clock(),
            minimum=Tier(minimum_tier),
        )
        runtime = RuntimeState(tenant=tenant, task=task, chain=() if actor is None else (actor,))
        self._bind_to(state, runtime, Mode(mode))

    def _bind_to(self, state: ControlState, runtime: RuntimeState, mode: Mode, budget: Budget | None = None) -> None:
        self._state = state
        self._runtime = runtime
        self._mode = mode
        self._assembler = Assembler(state, runtime, mode, budget)
        self._gate = ActionGate(state, runtime, mode)
        self._register()

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], **options: Unpack[PlaneOptions]) -> Self:
        """Make a plane from a policy file; options as for the constructor.

        Raises:
            PolicyFileError: The file is missing or anything in it is wrong. No part of it is used.
            PolicyError: A size is not one a call could be made with.
        """
        plane = cls(load_policy_file(path), **options)
        plane._state.source = str(path)
        return plane

    @classmethod
    def unsafe_empty(cls, bindings: Iterable[ToolBinding] = (), *, counter: TokenCounter | None = None) -> Self:
        """Make a plane that carries and enforces nothing, asked for by name; for tests and comparisons."""
        return cls(PolicyRegistry.unsafe_empty(bindings), counter=counter)

    def as_actor(self, actor: str, *, mode: Mode | str | None = None) -> Self:
        """Return a view of the same control state for another agent: own scope, own evidence, own approvals.

        Args:
            actor: The agent that acts.
            mode: Its mode; None for this view's.
        """
        return self._view(chain=(actor,), mode=self._mode if mode is None else Mode(mode))

    def delegate(self, actor: str, *, mode: Mode | str | None = None) -> Self:
        """Return a view for an agent that this one's agent calls: a rule for any member of the chain applies (3.4).

        Args:
            actor: The agent that is called.
            mode: Its own mode; the call is observed only if both are.
        """
        observed = self._mode is Mode.OBSERVE and (mode is None or Mode(mode) is Mode.OBSERVE)
        mode = Mode.OBSERVE if observed else Mode.ENFORCE
        return self._view(chain=(*self._runtime.chain, actor), mode=mode)

    def with_budget(self, *, control_budget: int | None = None, window: int | None = None) -> Self:
        """Return a view of the same control state with other sizes, such as an operator grants on an overload (3.8).

        Args:
            control_budget: Most tokens the capsule may take; None for this view's.
            window: The model's context window; None for this view's.

        Raises:
            PolicyError: A size is not one a call could be made with.
        """
        sizes = self.budget
        budget = dataclasses.replace(
            sizes,
            control=sizes.control if control_budget is None else control_budget,
            window=sizes.window if window is None else window,
        )
        return self._view(chain=self._runtime.chain, mode=self._mode, budget=budget)

    def _view(self, *, chain: tuple[str, ...], mode: Mode, budget: Budget | None = None) -> Self:
        view = self.__class__.__new__(self.__class__)
        runtime = dataclasses.replace(self._runtime, chain=chain)
        view._bind_to(self._state, runtime, mode, budget or self.budget)  # noqa: SLF001  # its own class
        return view

    # -- what is in force ------------------------------------------------------------------------

    @property
    def runtime(self) -> RuntimeState:
        """Who this view acts for."""
        return self._runtime

    @property
    def mode(self) -> Mode:
        """Whether this view's verdicts are enforced. In observe mode a caller sends the native messages on overload."""
        return self._mode

    @property
    def registry(self) -> PolicyRegistry:
        """The newest snapshot."""
        return self._state.registry

    @property
    def budget(self) -> Budget:
        """Window, reserve, overhead and control budget, in tokens of `counter`."""
        return self._assembler.budget

    @property
    def counter(self) -> TokenCounter:
        """The token counter of every size in this plane."""
        return self._state.counter

    @property
    def sink(self) -> Sink:
        """Where the log goes."""
        return self._state.sink

    @property
    def source(self) -> str | None:
        """The policy file this plane was made from, None where it was none."""
        return self._state.source

    @property
    def head(self) -> str:
        """Hash of the newest log entry: a checkpoint to keep in a second place."""
        return self._state.head

    @property
    def reference(self) -> str:
        """Digest under which a saved agent finds this plane again, in this process or the next."""
        return self._register()

    @property
    def last_manifest(self) -> Manifest | None:
        """The manifest of this runtime's latest assembly, None before the first."""
        with self._state.lock:
            placed = self._state.placed.get(self._runtime)
        return None if placed is None else placed.manifest

    def _register(self) -> str:
        budget = self.budget
        reference = "sha256:" + digest_of(
            {
                "budget": [
                    budget.control,
                    budget.window,
                    budget.reserved_output,
                    budget.fixed,
                    self._state.minimum.value,
                ],
                "counter": self._state.counter.name,
                "mode": self._mode.value,
                "registry": self._state.registry.operator_digest,
                "runtime": [self._runtime.tenant, self._runtime.task, list(self._runtime.chain)],
            }
        )
        live = [held for held in _planes.get(reference, []) if held() is not None]
        if not any(held() is self for held in live):
            live.append(weakref.ref(self))
        _planes[reference] = live
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

    def admit_from(self, channel: HumanChannel, message: Message) -> Admission:
        """Admit the rules that a person says in a message from a declared channel (DESIGN 3.12).

        Hand over each message once, as it is received. ``channel.rules(plane.registry)`` lists what is in force.

        Returns:
            What was added, changed and withdrawn, and which marked lines were passed over; show it to the person.

        Raises:
            AdmissionError: A line that says a rule cannot be admitted as it is, or the registry changed all the time.
                Nothing of the message was admitted.
            SinkError: The log could not be written; nothing was admitted.
        """
        for _ in range(ADMISSION_TRIES):
            # Built outside the lock, so that no decision waits for it; then put in force only on what it was built on.
            before = self._state.registry
            with giving_way():
                after, admission = read_message(channel, message, registry=before)
            body = {"change": "human channel", "channel": channel.name, **admission.as_record()}
            if after is before or self._state.exchange_registry(before, after, body):
                self._register()
                return admission
        raise AdmissionError(
            f"the registry changed {ADMISSION_TRIES} times while the message was read; nothing was admitted.",
            mend="hand the message over again.",
        )

    def set_mode(self, identity: Identity, mode: Mode | str, *, by: Issuer) -> None:
        """Set whether one policy is enforced or only observed; from the next assembly and decision on (DESIGN 3.13).

        Raises:
            ProvenanceError: `by` is neither its issuer nor of a higher rank, or a higher one has set it.
            PolicyError: There is no such policy.
        """
        wanted = Mode(mode)
        self._change(
            lambda registry: registry.set_mode(identity, wanted, by=by), f"mode {wanted.value}", identity[3], None
        )

    def _change(
        self,
        change: Callable[[PolicyRegistry], PolicyRegistry],
        what: str,
        identifier: str,
        version: int | None,
    ) -> None:
        state = self._state
        body = {"change": what, "policy": identifier, "version": version}
        for _ in range(CHANGE_TRIES):
            before = state.registry
            with giving_way():  # and outside the lock: no decision waits for it
                after = change(before)
            if state.exchange_registry(before, after, body):
                break
        else:  # others changed it all the time; now nobody else can
            with state.lock:
                state.replace_registry(change(state.registry), body)
        self._register()

    # -- tools -----------------------------------------------------------------------------------

    def offer(self, tools: Iterable[Tool]) -> tuple[str, ...]:
        """Learn the tools an agent has, and pin their schemas.

        Args:
            tools: Names, schemas, or specs; all tools of one agent at once.

        Returns:
            Names of tools that are bound to no action, which the monitor will deny; empty where no rule has one.

        Raises:
            ToolBindingError: Two tools share a name, or a binding names an argument that the schema lacks or that is
                never of the type the binding declares.
        """
        specs = [ToolSpec.of(tool) for tool in tools]
        names = [spec.name for spec in specs]
        doubled = sorted({name for name in names if names.count(name) > 1})
        if doubled:
            raise ToolBindingError(
                f"two tools are named {doubled[0]!r}.", mend="rename one; a rule could bind the wrong one."
            )
        state = self._state
        with state.lock:
            for spec in specs:
                self._check_binding(spec)
            for spec in specs:
                known = state.tools.get(spec.name)
                if known is not None and known.digest is not None and spec.digest not in {None, known.digest}:
                    # 3.4: changed in schema, or two tools of one name: denied
                    state.changed_tools.add(spec.name)
                elif known is None or known.digest is None:
                    state.tools[spec.name] = spec
            if not state.registry.mediates:
                return ()
            return tuple(name for name in names if name not in state.registry.bindings)

    def _check_binding(self, spec: ToolSpec) -> None:
        for binding in self._state.registry.bindings.get(spec.name, ()):
            place = f" (policy file line {binding.line})" if binding.line else ""
            missing = [] if spec.arguments is None else sorted(binding.known_arguments - spec.arguments)
            if missing and spec.arguments is not None:
                raise ToolBindingError(
                    f"tools.{spec.name}{place} names the argument {missing[0]!r}, which the tool does not have.",
                    mend=near(missing[0], spec.arguments),
                )
            for argument, sort, types in binding.contradictions(dict(spec.types)):
                # 3.3: of another type than declared is unknown, at every call.
                raise ToolBindingError(
                    f"tools.{spec.name}{place} declares the argument {argument!r} as {sort}, "
                    f"and the tool's schema as {' or '.join(sorted(types))}.",
                    mend="declare the type that the schema gives.",
                )

    def bind(self, bindings: Iterable[ToolBinding]) -> None:
        """Add the bindings of a framework's own tools; a tool that is bound already keeps its own."""
        state = self._state
        with state.lock:
            registry = state.registry.with_bindings(bindings)
            if registry is not state.registry:
                state.replace_registry(registry, {"change": "bind"})
        self._register()

    # -- before the model call -------------------------------------------------------------------

    def capsule(self, tools: Iterable[Tool] | None = None) -> ControlCapsule:
        """Render the complete applicable set in the richest tier that fits the control budget.

        Args:
            tools: The candidate tools; None where they are not known, and then everything in scope applies.

        Raises:
            ControlOverloadError: No allowed tier fits; make no model call. The log records it.
        """
        return self._assembler.capsule(tools)

    def seal(self, assembly: Assembly) -> Manifest:
        """Check an assembly as it will be sent, and record it. Call it last, before any byte leaves.

        Raises:
            ControlOverloadError: It does not fit the window.
            CarriageIntegrityError: The capsule does not stand at its protected position.
            StaleCapsuleError: Policies changed since the capsule was rendered.
            SinkError: It could not be recorded.
        """
        return self._assembler.seal(assembly)

    def would_fail(self, problem: ControlError) -> bool:
        """Say whether a call that `problem` forbids is made natively all the same: only where this view observes.

        The log then says ``would_fail_closed``, once: an overload is on it already (DESIGN 3.13).
        """
        return self._assembler.would_fail(problem)

    def log_summary(self, body: Mapping[str, object]) -> None:
        """Record that part of the history was summarised or dropped, and what the summary says of rules.

        Args:
            body: A JSON tree without conversation text.

        Raises:
            SinkError: It could not be recorded.
        """
        state = self._state
        with state.lock:
            state.append(EntryKind.SUMMARY, {"actor": self._runtime.actor, **body})

    # -- before and after the action -------------------------------------------------------------

    def check(self, tool: str, arguments: object, *, call_id: str | None = None, server: str | None = None) -> Verdict:
        """Judge a call without taking or recording anything.

        Args:
            tool: The tool's name.
            arguments: The arguments as they would be executed, a JSON object.
            call_id: The framework's id of the call, if it has one.
            server: The server the tool comes from, if it has one.
        """
        return self._gate.check(tool, arguments, call_id=call_id, server=server)

    def authorize(
        self, tool: str, arguments: object, *, call_id: str | None = None, server: str | None = None
    ) -> Decision:
        """Decide a call, reserve the evidence it needs, and record the decision before anything runs.

        Run the tool only if the decision is `allowed`, with exactly `decision.arguments`, and report back with
        `settle`. Never raises for anything a call, a policy or the log can do: a fault is a denial.
        """
        return self._gate.authorize(tool, arguments, call_id=call_id, server=server)

    def settle(self, decision: Decision, settlement: Settlement, result: object = None) -> tuple[EvidenceRecord, ...]:
        """Record what became of an authorised action, and file the evidence it gives.

        Args:
            decision: From `authorize`; each is settled once.
            settlement: How it ended.
            result: The tool's structured result, before it becomes text; read only where it was executed.

        Returns:
            The evidence records that were filed.

        Raises:
            CarriageError: The decision was not allowed, or is settled already.
            SinkError: The outcome could not be recorded.
        """
        return self._gate.settle(decision, settlement, result)

    def approve(  # what an approval is bound to
        self,
        tool: str,
        arguments: object,
        *,
        by: str,
        call_id: str | None = None,
        server: str | None = None,
        life: timedelta = DEFAULT_APPROVAL_LIFE,
        call_digest: str | None = None,
    ) -> Approval:
        """File a person's approval of exactly this call; it is good for one execution.

        Args:
            tool: The tool's name.
            arguments: The arguments the person was shown, as they would be executed.
            by: Who approved, as an authenticated name.
            call_id: The call's id; an approval for one id does not fit another.
            server: The server the tool comes from.
            life: How long the approval is good for.
            call_digest: `Verdict.call_digest` of what the person was shown; the approval is refused where rules changed
                meanwhile.

        Raises:
            CarriageError: The call is not one that waits for an approval; a denied call cannot be approved.
        """
        return self._gate.approve(
            tool, arguments, by=by, call_id=call_id, server=server, life=life, call_digest=call_digest
        )

    # -- measuring -------------------------------------------------------------------------------

    def count(self, text: str) -> int:
        """Count tokens in the plane's counter.

        Raises:
            ControlError: The counter failed or answered what cannot be true.
        """
        return counted(self._state.counter, text)


def find_plane(reference: str, *, source: str | None = None) -> ControlPlane:
    """Find the plane a saved agent names.

    Args:
        reference: Its digest.
        source: The policy file it was made from, where that was saved too; the error names it.

    Raises:
        ControlNotFoundError: This process holds no plane with that reference; make no call without it.
    """
    for held in reversed(_planes.get(reference, [])):
        plane = held()
        if plane is not None:
            return plane
    raise ControlNotFoundError(reference, source)
