# SPDX-License-Identifier: Apache-2.0
"""Before and after an action: judge, reserve, record, and file what it proves (DESIGN 3.5, 3.9, 3.10)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from carriage_core.arguments import argument_digest, plain_arguments
from carriage_core.decision import Decision, Settlement
from carriage_core.errors import CarriageError, EvidenceError, SinkError
from carriage_core.manifest import EntryKind
from carriage_core.monitor import Outcome, ToolCall, Verdict, denied, judge

if TYPE_CHECKING:
    from carriage_core.binding import ToolSpec
    from carriage_core.registry import PolicyRegistry
    from carriage_core.runtime import Approval, EvidenceRecord, Moment, RuntimeState
    from carriage_core.state import ControlState

DEFAULT_APPROVAL_LIFE: Final = timedelta(minutes=10)


class ActionGate:
    """Decides the actions of one runtime."""

    def __init__(self, state: ControlState, runtime: RuntimeState) -> None:
        """Decide for `runtime` from `state`."""
        self._state = state
        self._runtime = runtime

    def check(self, tool: str, arguments: object, *, call_id: str | None = None, server: str | None = None) -> Verdict:
        """Do as `ControlPlane.check` says."""
        call = self._call(tool, arguments, call_id, server)
        with self._state.lock:
            return self._verdict(call)

    @staticmethod
    def _call(tool: str, arguments: object, call_id: str | None, server: str | None) -> ToolCall:
        """Take a private copy of the arguments, read once; what cannot be copied is not JSON and is denied as such."""
        try:
            arguments = plain_arguments(arguments)
        except Exception:  # noqa: BLE001  # a foreign mapping may do anything; judging this refuses it
            arguments = object()
        return ToolCall(tool=tool, arguments=arguments, call_id=call_id or None, server=server)

    def _verdict(self, call: ToolCall) -> Verdict:
        try:
            return self._stricter(call, self._state.clock.sample())
        except Exception as fault:  # noqa: BLE001  # invariant 11: a fault denies
            return denied(
                call.tool,
                "internal_fault",
                f"The monitor failed ({type(fault).__name__}); nothing was executed.",
            )

    def _stricter(self, call: ToolCall, moment: Moment) -> Verdict:
        """Judge against the newest registry and against what the model was shown; the stricter counts (3.9)."""
        state = self._state
        if call.tool in state.changed_tools and state.registry.mediates:
            return denied(
                call.tool,
                "changed_schema",
                f"The schema of {call.tool!r} is not the one first offered under that name.",
            )
        if call.call_id is not None and (self._runtime, call.call_id) in state.executed:
            return denied(call.tool, "replayed_call", "A call with this id was already authorised; a call runs once.")
        spec = state.tools.get(call.tool)
        newest = self._judge(call, state.registry, moment, spec)
        placed = state.placed.get(self._runtime)
        if placed is None or not newest.allowed:
            return newest
        offered = placed.capsule.candidates
        # 3.9: what binds now and was not shown, or a tool that was not offered: reassemble first.
        if not newest.governing <= placed.capsule.rendering.digests or (
            offered is not None and call.tool not in offered
        ):
            message = "The policies or tools in force changed since the model was last called; ask it again."
            return dataclasses.replace(newest, outcome=Outcome.DENY, code="control_changed", message=message)
        if placed.registry is state.registry:
            return newest
        shown_verdict = self._judge(call, placed.registry, moment, spec)
        if not shown_verdict.allowed:
            return shown_verdict
        # Both allow: what either of them rests on is spent.
        return dataclasses.replace(
            newest,
            evidence=tuple(dict.fromkeys((*newest.evidence, *shown_verdict.evidence))),
            one_use=tuple(dict.fromkeys((*newest.one_use, *shown_verdict.one_use))),
        )

    def _judge(self, call: ToolCall, registry: PolicyRegistry, moment: Moment, spec: ToolSpec | None) -> Verdict:
        return judge(
            call,
            registry=registry,
            runtime=self._runtime,
            ledger=self._state.ledger,
            moment=moment,
            spec=spec,
        )

    def authorize(
        self, tool: str, arguments: object, *, call_id: str | None = None, server: str | None = None
    ) -> Decision:
        """Do as `ControlPlane.authorize` says."""
        state = self._state
        with state.lock:
            call = self._call(tool, arguments, call_id, server)
            name = f"decision-{state.sequence}"
            verdict = self._reserved(self._verdict(call), name)
            placed = state.placed.get(self._runtime)
            decision = Decision(
                id=name,
                verdict=verdict,
                call=call,
                arguments=call.arguments if isinstance(call.arguments, Mapping) else {},
                runtime=self._runtime,
                assembly=None if placed is None else placed.manifest.sequence,
            )
            try:
                state.append(EntryKind.DECISION, _decision_body(decision))
            except Exception as fault:  # noqa: BLE001  # invariant 11: what cannot be recorded is not done
                state.ledger.release(name)
                lost = denied(
                    tool,
                    "sink_fault",
                    f"The decision could not be recorded ({type(fault).__name__}); nothing was executed.",
                )
                return dataclasses.replace(decision, verdict=lost)
            if verdict.allowed:
                state.open[name] = decision
                if call.call_id is not None:
                    state.executed.add((self._runtime, call.call_id))
            return decision

    def _reserved(self, verdict: Verdict, decision: str) -> Verdict:
        """Reserve what an allowed call spends; denied where another call holds it, or the ledger fails."""
        if not verdict.allowed:
            return verdict
        try:
            if self._state.ledger.reserve(verdict.one_use, decision):
                return verdict
        except Exception as fault:  # noqa: BLE001  # invariant 11: a fault denies
            message = f"The evidence could not be reserved ({type(fault).__name__}); nothing was executed."
            return dataclasses.replace(verdict, outcome=Outcome.DENY, code="internal_fault", message=message)
        message = "The evidence for this call is already in use by another."
        return dataclasses.replace(verdict, outcome=Outcome.DENY, code="evidence_taken", message=message)

    def settle(self, decision: Decision, settlement: Settlement, result: object = None) -> tuple[EvidenceRecord, ...]:
        """Do as `ControlPlane.settle` says."""
        state = self._state
        with state.lock:
            if state.open.pop(decision.id, None) is None:
                raise CarriageError(f"{decision.id} is not open.", mend="settle each allowed decision once.")
            if settlement is Settlement.NOT_STARTED:
                state.ledger.release(decision.id)
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
    ) -> Approval:
        """Do as `ControlPlane.approve` says."""
        call = self._call(tool, arguments, call_id, server)
        state = self._state
        with state.lock:
            verdict = self._verdict(call)
            if verdict.outcome is not Outcome.CONFIRM or verdict.call_digest is None:
                raise CarriageError(
                    f"this call of {tool!r} does not wait for an approval ({verdict.code}).",
                    mend="approve a call judged 'confirm'.",
                )
            state.append(
                EntryKind.APPROVAL,
                {"by": by, "call": verdict.call_digest, "policies": list(verdict.policies)},
            )
            return state.ledger.approve(verdict.call_digest, by=by, moment=state.clock.sample(), life=life)


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


def structured(result: object) -> object:
    """Turn a pydantic model or dataclass instance into a mapping; leave everything else as it is."""
    dump = getattr(result, "model_dump", None)
    if callable(dump) and not isinstance(result, type):
        with suppress(TypeError):
            return dump(mode="python")
    if dataclasses.is_dataclass(result) and not isinstance(result, type):
        return dataclasses.asdict(result)
    return result
