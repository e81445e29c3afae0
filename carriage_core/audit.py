# SPDX-License-Identifier: Apache-2.0
"""The carriage audit: what became of each policy in a list of messages, per policy and for the set (DESIGN 3.11).

*Preserved* needs trusted provenance, and a whole message or a whole capsule entry that is the policy letter for letter
after NFC, line ends and trailing blanks; nothing else counts. A clause of our grammar is compared by logic, with
a witness for each direction in which it differs. Prose is only searched for names and for words that may take a rule
back, and both only ever lower a finding. Position and marker authenticate nothing: where nobody recorded where a
message came from, the most that is found is *preserved-if-trusted*.

An audit knows its policies' side once; a transcript costs its own length, and a clause that was seen before nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from carriage_core.attribute_types import AttributeTypes
from carriage_core.audit_compare import Comparison, compare, lifted, rule_of, same_text, unverifiable
from carriage_core.audit_decide import Decide, exactly
from carriage_core.audit_findings import SEVERITY, AuditReport, Carriage, Finding, Stranger
from carriage_core.audit_messages import Segment, read_messages
from carriage_core.audit_prose import Name, Told, names
from carriage_core.capsule_text import count_imitations
from carriage_core.clause import clause_of, render_clause
from carriage_core.errors import EmptyRegistryError, PolicyError
from carriage_core.policy import ANY_ACTION, Effect, Policy
from carriage_core.visible import Entry, Form, Recogniser, Visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from carriage_core.binding import ToolBinding
    from carriage_core.registry import PolicyRegistry

MAX_REMEMBERED: Final = 20_000
"""Most comparisons that are kept for the next transcript."""

MAX_PIECES: Final = 8
"""Most clauses that are tried together as one policy written in pieces."""

_LIFTS: Final = frozenset({Effect.PERMIT, Effect.CONFIRM})


class CarriageAudit:
    """Audits transcripts against one set of policies. Safe to use for many transcripts, one after the other."""

    def __init__(
        self, policies: Iterable[Policy], bindings: Iterable[ToolBinding] = (), *, decide: Decide | None = None
    ) -> None:
        """Take the policies' side apart, once.

        Args:
            policies: What should have been carried; every one of them is judged.
            bindings: What the tools' names mean; a capsule that says otherwise misbinds its rules.
            decide: What answers questions of logic; exact analysis if none is given.

        Raises:
            EmptyRegistryError: There are no policies: an audit of nothing finds nothing wrong.
        """
        self._policies = tuple(sorted(policies, key=lambda policy: policy.order))
        if not self._policies:
            raise EmptyRegistryError("there are no policies to audit for.", mend="give at least one policy.")
        self._bound: dict[str, set[str]] = {}
        bindings = tuple(bindings)
        for binding in bindings:
            self._bound.setdefault(binding.tool, set()).add(repr(binding.canonical()))
        self._decide = decide or exactly(AttributeTypes.of(bindings) if bindings else None)
        self._recogniser = Recogniser(self._policies)
        self._names = names(self._policies)
        self._ids = {policy.id for policy in self._policies}
        self._lifters = tuple(policy for policy in self._policies if policy.effect in _LIFTS and policy.mediated)
        self._known: dict[tuple[str, str], Comparison] = {}

    @classmethod
    def of(cls, registry: PolicyRegistry) -> CarriageAudit:
        """Audit for every policy of a registry."""
        return cls(registry.policies, (binding for group in registry.bindings.values() for binding in group))

    def read(self, messages: Sequence[Mapping[str, object]]) -> AuditReport:
        """Audit one transcript.

        Args:
            messages: Objects with ``role``, ``content`` and perhaps ``provenance``, as a model call would have them.

        Raises:
            AuditError: A message is not of that shape, or the transcript is over a limit.
        """
        segments = read_messages(messages)
        return _Reading(self, segments).report()

    # -- the policies' side, for one reading ---------------------------------------------------------

    @property
    def policies(self) -> tuple[Policy, ...]:
        """The policies, in capsule order."""
        return self._policies

    def recognised(self, segments: Iterable[Segment]) -> Visible:
        """Recognise what stands in the segments that may speak policy."""
        return self._recogniser.read(segment for segment in segments if segment.counts)

    def compared(self, policy: Policy, entry: Entry) -> Comparison:
        """Compare an entry that is not the policy letter for letter; remembered by what it says."""
        clause = clause_of(entry.policy) if entry.policy is not None else entry.clause
        said = entry.policy.digest if entry.policy is not None else "" if clause is None else render_clause(clause)
        if not said:
            return unverifiable("its entry holds another text")
        key = (policy.digest, said)
        if key not in self._known:
            if len(self._known) >= MAX_REMEMBERED:
                self._known.clear()
            self._known[key] = self._compare(policy, entry)
        return self._known[key]

    def _compare(self, policy: Policy, entry: Entry) -> Comparison:
        shown = self.shown(policy, entry)
        if shown is None:
            return unverifiable("what is shown is no rule of the language")
        others = (other for other in self._lifters if other is not policy)
        found = compare(policy, shown, others, self._decide)
        if entry.policy is not None and found.carriage in {Carriage.EQUIVALENT, Carriage.OVER_INCLUDED}:
            return found if same_text(policy, shown) else unverifiable("its sentence was changed")
        return found

    def shown(self, like: Policy, entry: Entry) -> Policy | None:
        """The rule an entry shows, with what it does not show taken from `like`; None where it shows none."""
        if entry.policy is not None:
            return entry.policy
        if entry.clause is None:
            return None
        try:
            return rule_of(entry.clause, like)
        except PolicyError:
            return None

    def pieces(self, policy: Policy, entries: Sequence[Entry]) -> Comparison | None:
        """Judge several clauses together, each of which is needed; None where they are no policy in pieces.

        Only denials and confirms add up.
        """
        if policy.effect not in {Effect.DENY, Effect.CONFIRM}:
            return None
        shown = [rule for entry in entries if (rule := self.shown(policy, entry)) is not None]
        if not 1 < len(shown) == len(entries) <= MAX_PIECES or any(rule.effect is not policy.effect for rule in shown):
            return None
        whole = tuple(shown)
        for number in range(len(whole)):
            without = self._decide((policy,), whole[:number] + whole[number + 1 :])
            if without.witness is None:
                return None  # it stands without this one, which then contradicts it
        if (weaker := self._decide((policy,), whole)).witness is not None or weaker.undecided:
            return None
        stricter = self._decide(whole, (policy,)).turned()
        if stricter.undecided:
            return unverifiable("the question is past the limit of exact analysis")
        kind = Carriage.EQUIVALENT if stricter.witness is None else Carriage.OVER_INCLUDED
        return Comparison(carriage=kind, why="the policy, written in pieces", extra=stricter.witness)

    def name(self, policy: Policy) -> Name:
        """What a policy can be told by."""
        return self._names[policy.digest]

    def bears_known_id(self, entry: Entry) -> bool:
        """Whether an entry says which policy it is."""
        return bool(entry.equal) or entry.id in self._ids

    def lifted(self, policy: Policy, entries: Iterable[Entry]) -> tuple[Comparison, Entry] | None:
        """Find a permit or confirm among `entries` that lifts a default the source does not lift (DESIGN 3.11)."""
        for entry in entries:
            shown = None if entry.equal else self.shown(policy, entry)
            if shown is None or shown.effect not in _LIFTS or not shown.mediated:
                continue
            found = lifted(self._lifters, (*self._lifters, shown), policy, self._decide)
            if found.witness is not None:
                why = f"a {shown.effect} in message {entry.segment.index} lifts it"
                return Comparison(carriage=Carriage.WEAKENED, why=why, witness=found.witness), entry
            if found.undecided:
                return unverifiable(f"nobody can say whether a {shown.effect} beside it lifts it"), entry
        return None

    def misnamed(self, policy: Policy, bindings: Iterable[ToolBinding]) -> tuple[str, ...]:
        """Name the tools of a policy's actions and evidence that a capsule says mean something else."""
        sources = {declaration.from_tool for _, declaration in policy.evidence}
        return tuple(
            sorted(
                {
                    binding.tool
                    for binding in bindings
                    if (binding.action in policy.actions or ANY_ACTION in policy.actions or binding.tool in sources)
                    and binding.tool in self._bound
                    and repr(binding.canonical()) not in self._bound[binding.tool]
                }
            )
        )


class _Reading:
    """One transcript."""

    def __init__(self, audit: CarriageAudit, segments: tuple[Segment, ...]) -> None:
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
        findings = tuple(self._finding(policy) for policy in self._audit.policies)
        strangers = tuple(
            Stranger(
                id=entry.id,
                clause=self._line(entry),
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

    @staticmethod
    def _line(entry: Entry) -> str:
        clause = clause_of(entry.policy) if entry.policy is not None else entry.clause
        return "" if clause is None else render_clause(clause)

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
        shown = clause_of(entry.policy) if entry.policy is not None else entry.clause
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
