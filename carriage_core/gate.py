# SPDX-License-Identifier: Apache-2.0
"""Before and after an action: judge, reserve, record, and file what it proves (DESIGN 3.5, 3.9, 3.10)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from carriage_core.arguments import PlainArguments, argument_digest
from carriage_core.decision import Decision, Settlement
from carriage_core.errors import CarriageError, EvidenceError, SinkError
from carriage_core.manifest import EntryKind
from carriage_core.monitor import judge
from carriage_core.policy import Mode
from carriage_core.ruling import Circumstances
from carriage_core.verdict import Outcome, ToolCall, Verdict, denied

if TYPE_CHECKING:
    from carriage_core.binding import ToolSpec
    from carriage_core.counters import Charge
    from carriage_core.registry import PolicyRegistry
    from carriage_core.runtime import Approval, EvidenceRecord, Moment, RuntimeState
    from carriage_core.state import ControlState

DEFAULT_APPROVAL_LIFE: Final = timedelta(minutes=10)


class ActionGate:
    """Decides the actions of one runtime."""

    def __init__(self, state: ControlState, runtime: RuntimeState, mode: Mode) -> None:
        """Decide for `runtime` from `state`; with `Mode.OBSERVE` verdicts are marked and nothing is blocked."""
        self._state = state
        self._runtime = runtime
        self._mode = mode

    def check(self, tool: str, arguments: object, *, call_id: str | None = None, server: str | None = None) -> Verdict:
        """Do as `ControlPlane.check` says."""
        proposal = _Proposal.of(tool, arguments, call_id, server)
        with self._state.lock:
            return self._verdict(proposal)

    def _verdict(self, proposal: _Proposal) -> Verdict:
        tool = proposal.call.tool
        try:
            return self._marked(self._stricter(proposal, self._state.clock.sample()))
        except Exception as fault:  # noqa: BLE001  # invariant 11: a fault denies
            message = f"The monitor failed ({type(fault).__name__}); nothing was executed."
            return self._marked(denied(tool, "internal_fault", message))

    def _marked(self, verdict: Verdict) -> Verdict:
        """3.13: in observe mode nothing is blocked and nothing spent; what would have happened is marked."""
        if self._mode is Mode.ENFORCE:
            return verdict
        marked = verdict.would is not None
        would, code = (verdict.would, verdict.would_code) if marked else (verdict.outcome, verdict.code)
        passes = would is Outcome.ALLOW
        return dataclasses.replace(
            verdict,
            outcome=Outcome.ALLOW,
            code="allowed" if passes else "observed",
            one_use=(),
            would=None if passes else would,
            would_code=None if passes else code,
        )

    def _stricter(self, proposal: _Proposal, moment: Moment) -> Verdict:
        """Judge against the newest registry and against what the model was shown; the stricter counts (3.9)."""
        state, call = self._state, proposal.call
        if call.tool in state.changed_tools and state.registry.mediates:
            return denied(
                call.tool,
                "changed_schema",
                f"The schema of {call.tool!r} is not the one first offered under that name.",
            )
        if call.call_id is not None and (self._runtime, call.call_id) in state.executed:
            return denied(call.tool, "replayed_call", "A call with this id was already authorised; a call runs once.")
        spec = state.tools.get(call.tool)
        newest = self._judge(proposal, state.registry, moment, spec)
        if not newest.allowed:
            return newest
        placed = state.placed.get(self._runtime)
        if placed is None:
            return newest
        offered = placed.capsule.candidates
        # 3.9: what binds now and was not shown, or a tool that was not offered: reassemble first.
        if not newest.governing <= placed.capsule.rendering.digests or (
            offered is not None and call.tool not in offered
        ):
            message = "The policies or tools in force changed since the model was last called; ask it again."
            return _refused(newest, "control_changed", message)
        if placed.registry is state.registry:
            return newest
        shown_verdict = self._judge(proposal, placed.registry, moment, spec)
        if not shown_verdict.allowed:
            return shown_verdict
        # Both allow: what either of them rests on is spent.
        return dataclasses.replace(
            newest,
            evidence=tuple(dict.fromkeys((*newest.evidence, *shown_verdict.evidence))),
            one_use=tuple(dict.fromkeys((*newest.one_use, *shown_verdict.one_use))),
            charges=_merged(newest.charges, shown_verdict.charges),
        )

    def _judge(self, proposal: _Proposal, registry: PolicyRegistry, moment: Moment, spec: ToolSpec | None) -> Verdict:
        state = self._state
        held = Circumstances(runtime=self._runtime, moment=moment, ledger=state.ledger, counters=state.counters)
        return judge(proposal.call, registry=registry, circumstances=held, spec=spec, arguments=proposal.arguments)

    def authorize(
        self, tool: str, arguments: object, *, call_id: str | None = None, server: str | None = None
    ) -> Decision:
        """Do as `ControlPlane.authorize` says."""
        state = self._state
        with state.lock:
            proposal = _Proposal.of(tool, arguments, call_id, server)
            name = f"decision-{state.sequence}"
            verdict = self._reserved(self._verdict(proposal), name)
            placed = state.placed.get(self._runtime)
            decision = Decision(
                id=name,
                verdict=verdict,
                call=proposal.call,
                arguments=proposal.executed(self._mode),
                runtime=self._runtime,
                assembly=None if placed is None else placed.manifest.sequence,
            )
            try:
                state.append(EntryKind.DECISION, _decision_body(decision, self._mode))
            except Exception as fault:  # noqa: BLE001  # invariant 11: what cannot be recorded is not done
                self._release(name, verdict)
                message = f"The decision could not be recorded ({type(fault).__name__}); nothing was executed."
                lost = self._marked(denied(tool, "sink_fault", message))
                decision = dataclasses.replace(decision, verdict=lost)
            if decision.allowed:
                state.open[name] = decision
                if call_id:
                    state.executed.add((self._runtime, call_id))
            return decision

    def _reserved(self, verdict: Verdict, decision: str) -> Verdict:
        """Reserve what an allowed call spends; denied where another call holds it, or a ledger fails."""
        if not verdict.allowed:
            return verdict
        state = self._state
        try:
            if not state.ledger.reserve(verdict.one_use, decision):
                code, message = "evidence_taken", "The evidence for this call is already in use by another."
            elif verdict.charges and not state.counters.reserve(verdict.charges, decision, moment=state.clock.sample()):
                state.ledger.release(decision)
                code, message = "counter_full", "The counters of this plane are full; start a new one."
            else:
                return verdict
        except Exception as fault:  # noqa: BLE001  # invariant 11: a fault denies
            code = "internal_fault"
            message = f"The evidence could not be reserved ({type(fault).__name__}); nothing was executed."
        return self._marked(_refused(verdict, code, message))

    def _release(self, decision: str, verdict: Verdict) -> None:
        self._state.ledger.release(decision)
        if verdict.charges:
            self._state.counters.release(decision, verdict.charges)

    def settle(self, decision: Decision, settlement: Settlement, result: object = None) -> tuple[EvidenceRecord, ...]:
        """Do as `ControlPlane.settle` says."""
        state = self._state
        with state.lock:
            if state.open.pop(decision.id, None) is None:
                raise CarriageError(f"{decision.id} is not open.", mend="settle each allowed decision once.")
            if settlement is Settlement.NOT_STARTED:
                self._release(decision.id, decision.verdict)
                state.executed.discard((decision.runtime, decision.call.call_id or ""))
            records, refused = self._file_evidence(decision, settlement, result)
            body = {
                "decision": decision.id,
                "evidence": [record.id for record in records],
                "evidence_refused": refused,
                "outcome": settlement.value,
            }
            try:
                state.append(EntryKind.OUTCOME, body)
            except SinkError:
                # Invariant 11: evidence that no log entry names must not lift a rule.
                self._file_evidence(decision, Settlement.UNKNOWN, None)
                raise
            return records

    def _file_evidence(
        self, decision: Decision, settlement: Settlement, result: object
    ) -> tuple[tuple[EvidenceRecord, ...], list[str]]:
        state = self._state
        bindings = state.registry.bindings.get(decision.call.tool, ())
        if settlement is Settlement.NOT_STARTED or not any(binding.trusted_evidence for binding in bindings):
            return (), []
        records: list[EvidenceRecord] = []
        refused: list[str] = []
        for declaration in state.registry.index.declarations(decision.call.tool):
            if settlement is not Settlement.EXECUTED:
                state.ledger.forget(declaration, arguments=decision.arguments, runtime=decision.runtime)
                continue
            try:
                record = state.ledger.record(
                    declaration,
                    arguments=decision.arguments,
                    result=structured(result),
                    runtime=decision.runtime,
                    moment=state.clock.sample(),
                    call_id=decision.call.call_id,
                    argument_digest=argument_digest(decision.arguments),
                )
            except EvidenceError as problem:
                refused.append(str(problem))
            except Exception as fault:  # noqa: BLE001  # invariant 11: a result that cannot be read proves nothing
                state.ledger.forget(declaration, arguments=decision.arguments, runtime=decision.runtime)
                refused.append(f"the result could not be read ({type(fault).__name__}).")
            else:
                records.append(record)
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
        call_digest: str | None = None,
    ) -> Approval:
        """Do as `ControlPlane.approve` says."""
        proposal = _Proposal.of(tool, arguments, call_id, server)
        state = self._state
        with state.lock:
            verdict = self._verdict(proposal)
            if verdict.outcome is not Outcome.CONFIRM or verdict.call_digest is None:
                raise CarriageError(
                    f"this call of {tool!r} does not wait for an approval ({verdict.code}).",
                    mend="approve a call judged 'confirm'.",
                )
            if call_digest not in {None, verdict.call_digest}:
                raise CarriageError(
                    f"the call of {tool!r} is not the one that was shown any more.", mend="ask again about the call."
                )
            state.append(
                EntryKind.APPROVAL,
                {"by": by, "call": verdict.call_digest, "policies": list(verdict.policies)},
            )
            return state.ledger.approve(verdict.call_digest, by=by, moment=state.clock.sample(), life=life)


@dataclasses.dataclass(frozen=True, slots=True)
class _Proposal:
    """A proposed call, its arguments read once."""

    call: ToolCall
    arguments: PlainArguments | None

    @classmethod
    def of(cls, tool: str, arguments: object, call_id: str | None, server: str | None) -> _Proposal:
        try:
            plain = PlainArguments.of(arguments)
        except Exception:  # noqa: BLE001  # a foreign mapping may do anything; judging it again refuses it
            return cls(ToolCall(tool=tool, arguments=_Unreadable(arguments), call_id=call_id, server=server), None)
        return cls(ToolCall(tool=tool, arguments=plain.values, call_id=call_id or None, server=server), plain)

    def executed(self, mode: Mode) -> Mapping[str, object]:
        """What an allowed call runs with: the private copy, or what only observe mode lets through."""
        if self.arguments is not None:
            return self.arguments.values
        given = self.call.arguments.given if isinstance(self.call.arguments, _Unreadable) else None
        return given if mode is Mode.OBSERVE and isinstance(given, Mapping) else {}


@dataclasses.dataclass(frozen=True, slots=True)
class _Unreadable:
    """Arguments that are not JSON; no monitor can read them."""

    given: object


def _refused(verdict: Verdict, code: str, message: str) -> Verdict:
    """Deny what the rules allow, for a reason that is none of theirs and that no mode of a rule changes."""
    return dataclasses.replace(
        verdict, outcome=Outcome.DENY, code=code, message=message, charges=(), would=None, would_code=None
    )


def _merged(charges: tuple[Charge, ...], others: tuple[Charge, ...]) -> tuple[Charge, ...]:
    """Charges of both snapshots; a counter that both have is charged once."""
    known = {charge.account for charge in charges}
    return (*charges, *(charge for charge in others if charge.account not in known))


def _decision_body(decision: Decision, mode: Mode) -> dict[str, object]:
    verdict = decision.verdict
    return {
        "arguments": verdict.argument_digest,
        "assembly": decision.assembly,
        "call_id": decision.call.call_id,
        "chain": list(decision.runtime.chain),
        "code": verdict.code,
        "decision": decision.id,
        "evidence": list(verdict.evidence),
        "mode": mode.value,
        "observed": verdict.observed,
        "policies": list(verdict.policies),
        "reasons": [
            {
                "effect": reason.effect,
                "observed": reason.observed,
                "policy": reason.policy_id,
                "values": dict(reason.values),
            }
            for reason in verdict.reasons
        ],
        "registry": verdict.registry_digest,
        "tool": decision.call.tool,
        "verdict": verdict.outcome.value,
        "would": None if verdict.would is None else verdict.would.value,
        "would_code": verdict.would_code,
    }


def structured(result: object) -> object:
    """Turn a pydantic model or dataclass instance into a mapping; leave everything else as it is."""
    dump = getattr(result, "model_dump", None)
    if callable(dump) and not isinstance(result, type):
        with suppress(TypeError):
            return dump(mode="python")
    if dataclasses.is_dataclass(result) and not isinstance(result, type):
        return dataclasses.asdict(result)
    return result
