# SPDX-License-Identifier: Apache-2.0
"""What an audit finds: one finding a policy, and the same for the set (DESIGN 3.11)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Carriage(StrEnum):
    """What became of a policy. Only `PRESERVED` says that it was carried."""

    PRESERVED = "preserved"
    """It stands, letter for letter, where only trusted infrastructure writes."""
    PRESERVED_IF_TRUSTED = "preserved-if-trusted"
    """It stands, letter for letter, in a message that nobody said the source of."""
    EQUIVALENT = "equivalent"
    """Other letters, the same rule: both judge every action alike."""
    OVER_INCLUDED = "over-included"
    """What is shown forbids more, never less."""
    UNVERIFIABLE = "unverifiable"
    """It is spoken of, and logic cannot say what is left of it."""
    MISBOUND = "misbound"
    """The rule's shape stands, about another actor, object, action or evidence."""
    WEAKENED = "weakened"
    """What is shown permits an action that the policy forbids."""
    ABSENT = "absent"
    """Neither its id, nor a clause, nor a constant of its own stands in a message that may speak policy."""


SEVERITY: Final = {kind: place for place, kind in enumerate(Carriage)}
"""How bad each is, best first; the worst finding names the set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Witness:
    """One action that the source and what is shown judge differently.

    Attributes:
        action: Its name.
        object_type: The type of its object, or None.
        values: Attributes with their values as a clause writes them; an attribute left out has no part in it.
        source: The source's verdict on it: allow, confirm or deny.
        shown: The verdict of what is shown.
        note: What attributes cannot say, such as the age of the evidence; empty for most.
    """

    action: str
    object_type: str | None
    values: tuple[tuple[str, str], ...]
    source: str
    shown: str
    note: str = ""

    def sentence(self) -> str:
        """Say it in one sentence."""
        what = self.action if self.object_type is None else f"{self.action} on {self.object_type}"
        held = ", ".join(f"{name} = {value}" for name, value in self.values)
        note = f", {self.note}" if self.note else ""
        return f"{what}{f' with {held}' if held else ''}{note}: source {self.source}, shown {self.shown}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What became of one policy.

    Attributes:
        policy_id: Its id.
        digest: Its digest, since ids repeat across issuers.
        carriage: What became of it.
        mediated: Whether a monitor can enforce it; otherwise it is carried only.
        messages: Indices of the messages the finding rests on.
        form: How it is shown there, such as ``compact tier``; empty where it is not.
        witness: Weakened and misbound: an action the source forbids and what is shown permits.
        extra: Over-included and misbound: an action that what is shown forbids in excess.
        bound: Misbound: what is bound to wrongly: actor, tenant, object, action, handle, evidence source, value.
        why: One sentence.
    """

    policy_id: str
    digest: str
    carriage: Carriage
    mediated: bool
    messages: tuple[int, ...] = ()
    form: str = ""
    witness: Witness | None = None
    extra: Witness | None = None
    bound: tuple[str, ...] = ()
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stranger:
    """A rule that stands in the transcript and belongs to none of the policies; the model may follow it.

    Attributes:
        id: The id it bears, or None.
        clause: The rule in one line; for a rule without a clause, empty.
        message: Where it stands.
        trusted: Whether its source is known to speak policy.
    """

    id: str | None
    clause: str
    message: int
    trusted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditReport:
    """What became of every policy, in capsule order, in one transcript.

    Attributes:
        findings: One a policy.
        strangers: Recognised rules that are none of the policies.
        messages: How many messages the transcript has.
        attested: How many of them say where they came from.
        imitations: Phrases in messages that cannot speak policy which look like the capsule's marker (DESIGN 3.7).
    """

    findings: tuple[Finding, ...]
    strangers: tuple[Stranger, ...]
    messages: int
    attested: int
    imitations: int

    @property
    def carriage(self) -> Carriage:
        """What became of the set: the worst that became of any policy; absent for a set of none."""
        return max((finding.carriage for finding in self.findings), key=SEVERITY.__getitem__, default=Carriage.ABSENT)

    @property
    def preserved(self) -> bool:
        """Whether every policy is; a set of none is not."""
        return self.carriage is Carriage.PRESERVED

    @property
    def tally(self) -> dict[Carriage, int]:
        """How many policies each thing became of; every kind is there."""
        counts = dict.fromkeys(Carriage, 0)
        for finding in self.findings:
            counts[finding.carriage] += 1
        return counts

    def of(self, policy_id: str) -> tuple[Finding, ...]:
        """Find the policies of an id."""
        return tuple(finding for finding in self.findings if finding.policy_id == policy_id)
