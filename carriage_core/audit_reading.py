# SPDX-License-Identifier: Apache-2.0
"""One transcript against the policies of an audit: which entries belong to which policy, and what they amount to.

An entry belongs to the policy whose id it bears, or that it is letter for letter; a clause without a known id to the
policies that it is by logic, else to those of its action and object that nothing else shows. Of the entries that bear
an id the worst counts, since a model may follow any of them; of those that bear none the best, since denials add up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from carriage_core.audit_compare import Comparison, unverifiable
from carriage_core.audit_findings import SEVERITY, AuditReport, Carriage, Finding, Stranger
from carriage_core.audit_prose import Told
from carriage_core.capsule_text import count_imitations
from carriage_core.clause import clause_of, render_clause
from carriage_core.policy import ANY_ACTION, Effect
from carriage_core.visible import Form

if TYPE_CHECKING:
    from collections.abc import Sequence

    from carriage_core.audit import CarriageAudit
    from carriage_core.audit_messages import Segment
    from carriage_core.clause import Clause
    from carriage_core.policy import Policy
    from carriage_core.visible import Entry, Visible


def shown_clause(entry: Entry) -> Clause | None:
    """The clause an entry shows, or None."""
    return entry.clause if entry.policy is None else clause_of(entry.policy)


def said(entry: Entry) -> str:
    """What a comparison depends on; empty for an entry without a rule."""
    if entry.policy is not None:
        return entry.policy.digest
    return "" if entry.clause is None else render_clause(entry.clause)


class Reading:
    """One transcript, judged once."""

    def __init__(self, audit: CarriageAudit, segments: tuple[Segment, ...]) -> None:
        """Recognise what stands in it, and sort it by the policies it belongs to."""
        self._audit = audit
        self._segments = segments
        self._visible: Visible = audit.recognised(segments)
        self._told = Told(self._visible)
        self._used: set[int] = set()
        self._by_digest: dict[str, list[Entry]] = {}
        self._by_id: dict[str, list[Entry]] = {}
        self._free: list[Entry] = []
        for entry in self._visible.entries:
            for digest in entry.equal:
                self._by_digest.setdefault(digest, []).append(entry)
            if not entry.equal and entry.id is not None:
                self._by_id.setdefault(entry.id, []).append(entry)
            if not audit.bears_known_id(entry):
                self._free.append(entry)
        self._bindings = {(each.segment.index, each.start): each.bindings for each in self._visible.capsules}
        self._taken = self._claimed()

    def report(self) -> AuditReport:
        """Judge every policy."""
        findings = tuple(self._finding(policy) for policy in self._audit.policies)
        strangers = tuple(
            Stranger(
                id=entry.id,
                clause="" if (clause := shown_clause(entry)) is None else render_clause(clause),
                message=entry.segment.index,
                trusted=entry.segment.trusted,
            )
            for entry in self._free
            if id(entry) not in self._used
        )
        return AuditReport(
            findings=findings,
            strangers=strangers,
            messages=len(self._segments),
            attested=sum(segment.provenance is not None for segment in self._segments),
            imitations=sum(count_imitations(segment.text) for segment in self._segments if not segment.counts),
        )

    def _claimed(self) -> dict[int, set[str]]:
        """Give each rule without a known id to the policies that it is, where it is any."""
        claimed: dict[int, set[str]] = {}
        for entry in self._free:
            for policy in self._audit.policies:
                if (
                    self._overlaps(policy, entry)
                    and self._audit.compared(policy, entry).carriage is Carriage.EQUIVALENT
                ):
                    claimed.setdefault(id(entry), set()).add(policy.digest)
        return claimed

    def _overlaps(self, policy: Policy, entry: Entry) -> bool:
        shown = shown_clause(entry)
        if shown is None or not policy.mediated:
            return False
        wild = ANY_ACTION in policy.actions or ANY_ACTION in shown.actions
        same_type = policy.object_type in {None, shown.object_type} or shown.object_type is None
        return same_type and (wild or bool(set(policy.actions) & set(shown.actions)))

    def _finding(self, policy: Policy) -> Finding:
        every = (*self._by_digest.get(policy.digest, ()), *self._of_id(policy))
        trusted = tuple(entry for entry in every if entry.segment.trusted)
        # What nobody vouches for takes nothing from what somebody does, and adds nothing to it (DESIGN 3.1).
        entries = trusted or every
        if entries:
            return self._own(policy, entries, self._beside(trusted=bool(trusted)))
        free = [entry for entry in self._free if self._belongs(policy, entry)]
        free = [entry for entry in free if entry.segment.trusted] or free
        if free:
            return self._loose(policy, free)
        mentioned = self._told.mentions(self._audit.name(policy))
        if mentioned:
            why = "prose names it; logic cannot say what the prose makes of it"
            return self._made(policy, unverifiable(why), mentioned, "")
        return self._made(policy, Comparison(carriage=Carriage.ABSENT, why="nothing names it"), (), "")

    def _of_id(self, policy: Policy) -> list[Entry]:
        found = self._by_id.get(policy.id, [])
        return [
            entry
            for entry in found
            if entry.policy is None
            or entry.policy.identity == policy.identity
            or entry.policy.identity not in {other.identity for other in self._audit.policies}
        ]

    def _belongs(self, policy: Policy, entry: Entry) -> bool:
        claimed = self._taken.get(id(entry))
        return self._overlaps(policy, entry) if claimed is None else policy.digest in claimed

    def _beside(self, *, trusted: bool) -> list[Entry]:
        return [entry for entry in self._visible.entries if entry.segment.trusted or not trusted]

    def _own(self, policy: Policy, entries: Sequence[Entry], beside: Sequence[Entry]) -> Finding:
        """Judge a policy by the entries that bear its id or are it: the worst of them counts."""
        judged = [(self._judged(policy, entry), entry) for entry in entries]
        if len(judged) > 1 and all(found.carriage is Carriage.WEAKENED and found.extra is None for found, _ in judged):
            whole = self._audit.pieces(policy, entries)
            if whole is not None:
                judged = [(whole, entry) for entry in entries]
        if any(found.carriage in {Carriage.PRESERVED, Carriage.PRESERVED_IF_TRUSTED} for found, _ in judged):
            judged = [pair for pair in judged if pair[0].carriage is not Carriage.EQUIVALENT]
        worst, entry = max(judged, key=lambda pair: SEVERITY[pair[0].carriage])
        if policy.effect is Effect.DEFAULT_DENY and SEVERITY[worst.carriage] < SEVERITY[Carriage.MISBOUND]:
            lift = self._audit.lifted(policy, beside)
            if lift is not None and SEVERITY[lift[0].carriage] > SEVERITY[worst.carriage]:
                self._used.add(id(lift[1]))
                return self._made(policy, lift[0], (entry.segment.index, lift[1].segment.index), entry.form)
        places = [each.segment.index for found, each in judged if found.carriage is worst.carriage]
        return self._made(policy, worst, places, entry.form)

    def _loose(self, policy: Policy, entries: Sequence[Entry]) -> Finding:
        """Judge a policy by clauses without its id. Denials add up, so the best of them holds."""
        judged = [(self._judged(policy, entry), entry) for entry in entries]
        doubtful = [pair for pair in judged if pair[0].carriage is Carriage.UNVERIFIABLE]
        whole = self._audit.pieces(policy, entries) if not doubtful else None
        best, entry = min(doubtful or judged, key=lambda pair: SEVERITY[pair[0].carriage])
        if whole is not None and best.carriage is not Carriage.EQUIVALENT:
            best = whole
        self._used.update(id(each) for each in entries)
        return self._made(policy, best, [entry.segment.index], entry.form)

    def _judged(self, policy: Policy, entry: Entry) -> Comparison:
        doubt = self._told.doubt(entry, self._audit.name(policy))
        if doubt:
            return unverifiable(doubt)
        bindings = self._bindings.get((entry.segment.index, entry.start), ()) if entry.form is Form.FULL else ()
        misnamed = self._audit.misnamed(policy, bindings)
        if misnamed:
            return Comparison(
                carriage=Carriage.MISBOUND,
                why=f"the capsule says that {' and '.join(misnamed)} means something else",
                bound=tuple(f"tool {tool}" for tool in misnamed),
            )
        if policy.digest in entry.equal:
            kind = Carriage.PRESERVED if entry.segment.trusted else Carriage.PRESERVED_IF_TRUSTED
            return Comparison(carriage=kind, why=f"{entry.form}, letter for letter")
        return self._audit.compared(policy, entry)

    @staticmethod
    def _made(policy: Policy, found: Comparison, messages: Sequence[int], form: str) -> Finding:
        return Finding(
            policy_id=policy.id,
            digest=policy.digest,
            carriage=found.carriage,
            mediated=policy.mediated,
            messages=tuple(sorted(set(messages))),
            form=str(form),
            witness=found.witness,
            extra=found.extra,
            bound=found.bound,
            why=found.why,
        )
