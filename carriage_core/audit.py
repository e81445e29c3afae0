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
from carriage_core.audit_findings import AuditReport, Carriage
from carriage_core.audit_messages import Segment, read_messages
from carriage_core.audit_prose import Name, names
from carriage_core.audit_reading import Reading, said, shown_clause
from carriage_core.errors import EmptyRegistryError, PolicyError
from carriage_core.policy import ANY_ACTION, Effect, Policy
from carriage_core.visible import Entry, Recogniser, Visible

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
        return Reading(self, segments).report()

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
        what = said(entry)
        if not what:
            return unverifiable("its entry holds another text")
        key = (policy.digest, what)
        if key not in self._known:
            self._remember(key, self._compare(policy, entry))
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
            effect = None if entry.equal or (clause := shown_clause(entry)) is None else clause.effect
            if effect not in _LIFTS:
                continue
            key = (policy.digest, f"lifts {said(entry)}")
            if key not in self._known:
                self._remember(key, self._lifted(policy, entry))
            found = self._known[key]
            if found.carriage is not Carriage.EQUIVALENT:
                return found, entry
        return None

    def _lifted(self, policy: Policy, entry: Entry) -> Comparison:
        shown = self.shown(policy, entry)
        if shown is None or not shown.mediated:
            return Comparison(carriage=Carriage.EQUIVALENT, why="no rule of the language, so it lifts nothing")
        found = lifted(self._lifters, (*self._lifters, shown), policy, self._decide)
        if found.witness is not None:
            why = f"a trusted or unattested {shown.effect} beside it lifts it"
            return Comparison(carriage=Carriage.WEAKENED, why=why, witness=found.witness)
        if found.undecided:
            return unverifiable(f"nobody can say whether a {shown.effect} beside it lifts it")
        return Comparison(carriage=Carriage.EQUIVALENT, why="it lifts nothing more")

    def _remember(self, key: tuple[str, str], found: Comparison) -> None:
        if len(self._known) >= MAX_REMEMBERED:
            self._known.clear()
        self._known[key] = found

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
