# SPDX-License-Identifier: Apache-2.0
"""Admission from a declared human channel (DESIGN 3.12, 3.1): what may turn a person's words into policy.

An operator declares a channel: whose words come through it and where their rules are in force. Infrastructure then
hands over each message once, with its provenance. Only ``final request`` from that very channel is read, and of that
only lines with the marker that `human_lines` finds. Tool output, documents, other agents' words and summaries are never
read, whatever stands in them and whatever role they have in the transcript.

A line becomes a rule of the channel's issuer that may only deny or confirm: judged, where it is a clause of our
grammar, else carried and not mediated. A channel touches its own rules alone: their ids begin with its name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from carriage_core.characters import composed, hidden_character
from carriage_core.clause import Clause, parse_clause
from carriage_core.errors import AdmissionError, CapsuleFormatError, PolicyError
from carriage_core.human_lines import LineReader, PassedLine, SaidLine
from carriage_core.policy import Effect, Issuer, Policy, Scope
from carriage_core.provenance import Provenance
from carriage_core.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Mapping

    from carriage_core.registry import Identity, PolicyRegistry

DEFAULT_MARKER: Final = "POLICY:"

MAX_MESSAGE: Final = 100_000
"""Longest message that is read, in characters (DESIGN 3.14)."""

MAX_LINES: Final = 20
"""Most rules in one message."""

MAX_RULE: Final = 1_000
"""Longest rule, in characters."""

MAX_RULES: Final = 32
"""Most rules of one channel in force at once, unless it is declared otherwise."""

MAX_EVER: Final = 10_000
"""Most ids that one channel may ever use in one registry, withdrawn ones included."""

_NESTING: Final = 64
"""Most brackets and ``not`` in a clause."""

_NESTS: Final = re.compile(r"\(|\bnot\b")
_NAME: Final = re.compile(r"[a-z0-9_-]{1,24}")
_MARKER: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,30}:")
_RULE_ID: Final = re.compile(r"[a-z0-9._-]{1,39}")


@dataclass(frozen=True, slots=True, kw_only=True)
class HumanChannel:
    """A way in that an operator vouches for: an authenticated chat box, a form, a ticket's author.

    Attributes:
        name: ``[a-z0-9_-]{1,24}``; ids of its rules are this, a dot and the id that was said.
        issuer: Who speaks through it. One channel for each authenticated person or group.
        scope: Where its rules are in force; ``Scope()`` is everywhere, so it is asked for.
        marker: A word and a colon, exact case.
        most: Most rules in force at once.

    Raises:
        AdmissionError: It cannot be declared like that.
    """

    name: str
    issuer: Issuer
    scope: Scope
    marker: str = DEFAULT_MARKER
    most: int = MAX_RULES

    def __post_init__(self) -> None:
        """Check every part."""
        if not _NAME.fullmatch(self.name):
            raise AdmissionError(f"the channel name {self.name!r} is not [a-z0-9_-]{{1,24}}.", mend="shorten it.")
        if not _MARKER.fullmatch(self.marker):
            raise AdmissionError(
                f"the marker {self.marker!r} is not a plain word and a colon.", mend=f"write it as {DEFAULT_MARKER!r}."
            )
        if not 1 <= self.most <= MAX_EVER:
            raise AdmissionError(f"a channel may hold 1 to {MAX_EVER} rules.", mend="give `most` such a number.")

    def rules(self, registry: PolicyRegistry) -> tuple[Policy, ...]:
        """List its rules in force, in capsule order."""
        return tuple(policy for policy in registry.policies if self.owns(policy.identity))

    def owns(self, identity: Identity) -> bool:
        """Whether a rule of that identity is the channel's to change."""
        kind, name, tenant, identifier = identity
        mine = (self.issuer.kind.value, self.issuer.name, self.scope.tenant)
        return (kind, name, tenant) == mine and identifier.startswith(f"{self.name}.")

    def identity(self, said: str) -> Identity:
        """Return the identity of the rule that the channel calls `said`, with or without the channel's name."""
        short = said.removeprefix(f"{self.name}.")
        return (self.issuer.kind.value, self.issuer.name, self.scope.tenant, f"{self.name}.{short}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What infrastructure received, and from where.

    Attributes:
        text: Its whole text.
        provenance: Where it came from, or None where nobody recorded it. A transcript's role says nothing about it.
        channel: The name of the human channel it came through, or None.

    Raises:
        AdmissionError: A part is of another type, so that it proves nothing.
    """

    text: str
    provenance: Provenance | None
    channel: str | None = None

    def __post_init__(self) -> None:
        """Refuse look-alikes of a provenance."""
        if type(self.text) is not str or not isinstance(self.provenance, Provenance | None):
            raise AdmissionError(
                "a message needs text and a Provenance.", mend="build it where the message is received."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """What became of one message. Show it to the person: ``carried`` rules are only shown to the model.

    Attributes:
        added: New rules.
        changed: New versions of rules that were there.
        withdrawn: Rules taken back.
        unchanged: Rules that were said again in the same words.
        passed_over: Lines that bear the marker and were not read as rules, with the reason.
    """

    added: tuple[Policy, ...] = ()
    changed: tuple[Policy, ...] = ()
    withdrawn: tuple[Policy, ...] = ()
    unchanged: tuple[Policy, ...] = ()
    passed_over: tuple[PassedLine, ...] = ()

    @property
    def carried(self) -> tuple[Policy, ...]:
        """Rules of this message that nothing enforces."""
        return tuple(policy for policy in (*self.added, *self.changed, *self.unchanged) if not policy.mediated)

    def as_record(self) -> Mapping[str, object]:
        """What the log says: ids, versions and digests, no text."""
        return {
            name: [[policy.id, policy.version, policy.digest] for policy in policies]
            for name, policies in (("added", self.added), ("changed", self.changed), ("withdrawn", self.withdrawn))
        }


def read_message(
    channel: HumanChannel, message: Message, *, registry: PolicyRegistry
) -> tuple[PolicyRegistry, Admission]:
    """Read one message against a snapshot; all of its rules are admitted, or none. `ControlPlane.admit_from` uses it.

    Args:
        channel: The declared channel.
        message: The message, handed over once.
        registry: The snapshot to start from.

    Returns:
        The next snapshot, the same object where nothing changes, and what was done.

    Raises:
        AdmissionError: A line that says a rule cannot be admitted as it is. Nothing was.
    """
    reader = LineReader(channel.marker)
    if message.provenance is not Provenance.FINAL_REQUEST:
        source = "a message of unrecorded origin" if message.provenance is None else message.provenance.value
        return registry, Admission(passed_over=reader.mentions(message.text, f"{source} is no human channel"))
    if message.channel != channel.name:
        reason = f"the message did not come through the channel {channel.name}"
        return registry, Admission(passed_over=reader.mentions(message.text, reason))
    if len(message.text) > MAX_MESSAGE:
        raise AdmissionError(
            f"the message is longer than {MAX_MESSAGE} characters.", mend="say the rules in a message of their own."
        )
    said, passed = reader.read(message.text)
    if not said:
        return registry, Admission(passed_over=passed)
    if len(said) > MAX_LINES:
        raise AdmissionError(f"a message may say at most {MAX_LINES} rules.", mend="send the rest in the next one.")
    return _Draft(channel, registry, passed).over(said)


class _Draft:
    """The next snapshot in the making."""

    def __init__(self, channel: HumanChannel, registry: PolicyRegistry, passed: tuple[PassedLine, ...]) -> None:
        self._channel = channel
        self._registry = registry
        self._admission = Admission(passed_over=passed)
        self._mine = {policy.identity: policy for policy in registry.issued if channel.owns(policy.identity)}
        self._named: set[Identity] = set()
        self._vocabulary = Vocabulary(registry.bindings)

    def over(self, said: tuple[SaidLine, ...]) -> tuple[PolicyRegistry, Admission]:
        for line in said:
            try:
                self._take(line)
            except AdmissionError:
                raise
            except PolicyError as problem:
                raise AdmissionError(_at(line, problem.args[0]), mend=problem.mend) from problem
        if len(self._mine) > self._channel.most:
            raise AdmissionError(
                f"the channel {self._channel.name} may hold {self._channel.most} rules, and this would make "
                f"{len(self._mine)}.",
                mend="withdraw some first.",
            )
        done = self._admission
        if not (done.added or done.changed or done.withdrawn):
            return self._registry, done
        gone = (policy.identity for policy in done.withdrawn)
        try:
            # One snapshot for all: with many policies each costs.
            after = self._registry.revise(admit=(*done.added, *done.changed), withdraw=gone, by=self._channel.issuer)
        except PolicyError as problem:
            raise AdmissionError(f"{problem.args[0]} Nothing was admitted.", mend=problem.mend) from problem
        return after, done

    def _take(self, line: SaidLine) -> None:
        self._check(line)
        if line.withdraws:
            self._withdraw(line)
            return
        identity = self._identity(line)
        policy = self._policy(line, identity)
        old = self._mine.get(identity) if line.id is not None else self._same(policy)
        if old is not None and replace(policy, id=old.id, version=old.version) == old:
            self._record(unchanged=old)
            return
        for fault in self._vocabulary.faults(policy):
            raise AdmissionError(_at(line, f"{fault.path}: {fault.message}."), mend=fault.mend)
        self._mine[identity] = policy
        if old is None:
            self._record(added=policy)
        else:
            self._record(changed=policy)

    def _check(self, line: SaidLine) -> None:
        if line.continued:
            raise AdmissionError(
                _at(line, "the rule goes on in the next line, and half a rule may say something else."),
                mend="write it on one line, with a blank line below.",
            )
        if not line.text:
            raise AdmissionError(_at(line, "there is no rule behind the marker."), mend="write the sentence there.")
        if len(line.text) > MAX_RULE:
            raise AdmissionError(_at(line, f"the rule is longer than {MAX_RULE} characters."), mend="split it.")
        hidden = hidden_character(line.text)
        if hidden is not None:
            raise AdmissionError(
                _at(line, f"the rule holds the character U+{ord(hidden):04X}, which readers cannot see."),
                mend="type the line anew.",
            )
        if line.id is not None and not _RULE_ID.fullmatch(line.id.removeprefix(f"{self._channel.name}.")):
            raise AdmissionError(_at(line, "the id is not [a-z0-9._-]{1,39}."), mend="use lower case, digits, . _ -")

    def _identity(self, line: SaidLine) -> Identity:
        known = self._registry.versions
        mine = sum(self._channel.owns(identity) for identity in known)
        if line.id is not None:
            identity = self._channel.identity(line.id)
            self._once(line, identity)
        else:
            identity = next(
                identity
                for number in range(1, len(known) + MAX_LINES + 2)
                if (identity := self._channel.identity(str(number))) not in known and identity not in self._named
            )
        if identity not in known and mine >= MAX_EVER:
            raise AdmissionError(
                _at(line, f"the channel has used {MAX_EVER} ids."), mend="give new rules the ids of withdrawn ones."
            )
        self._named.add(identity)
        return identity

    def _once(self, line: SaidLine, identity: Identity) -> None:
        if identity in self._named:
            raise AdmissionError(_at(line, "the message names that id twice."), mend="say each rule once.")

    def _policy(self, line: SaidLine, identity: Identity) -> Policy:
        text = composed(line.text)
        clause = _clause(line, text)
        if clause is not None and clause.effect not in {Effect.DENY, Effect.CONFIRM}:
            raise AdmissionError(
                _at(line, f"a rule from a human channel cannot {clause.effect.value}."),
                mend="say what to deny or confirm; operators lift rules in policy files.",
            )
        return Policy(
            id=identity[3],
            issuer=self._channel.issuer,
            effect=Effect.DENY if clause is None else clause.effect,
            text=text,
            version=self._registry.versions.get(identity, (0, ""))[0] + 1,
            scope=self._channel.scope,
            actions=() if clause is None else clause.actions,
            object_type=None if clause is None else clause.object_type,
            where=None if clause is None else clause.where,
            unless=None if clause is None else clause.unless,
        )

    def _same(self, policy: Policy) -> Policy | None:
        """Return a rule of the channel that was said without an id in the same words, so that it need not be twice."""
        alike = (old for old in self._mine.values() if old.text == policy.text)
        return next((old for old in alike if replace(policy, id=old.id, version=old.version) == old), None)

    def _withdraw(self, line: SaidLine) -> None:
        if line.id is None:
            raise AdmissionError(
                _at(line, "it does not say which rule to withdraw."),
                mend=f"write {self._channel.marker.removesuffix(':')}[id]: withdraw.",
            )
        identity = self._channel.identity(line.id)
        self._once(line, identity)
        self._named.add(identity)
        policy = self._mine.pop(identity, None)
        if policy is None:
            raise AdmissionError(
                _at(line, "the channel has no rule of that id in force."), mend="list the channel's rules."
            )
        self._record(withdrawn=policy)

    def _record(self, **what: Policy) -> None:
        done = {name: (*getattr(self._admission, name), policy) for name, policy in what.items()}
        self._admission = replace(self._admission, **done)


def _clause(line: SaidLine, text: str) -> Clause | None:
    """Read a rule as a clause of our grammar, whole; None where it is a sentence."""
    if not text.startswith(tuple(f"{effect.value} " for effect in Effect)):
        return None
    if len(_NESTS.findall(text)) > _NESTING:
        raise AdmissionError(_at(line, "the rule nests too deep to be read."), mend="say it in several rules.")
    try:
        return parse_clause(text)
    except CapsuleFormatError:
        return None


def _at(line: SaidLine, problem: str) -> str:
    return f"line {line.number} of the message: {problem} Nothing of the message was admitted."
