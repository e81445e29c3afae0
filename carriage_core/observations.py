# SPDX-License-Identifier: Apache-2.0
"""What observe mode saw: the log of a plane, grouped by the rule or fault and the tool (DESIGN 3.13).

A call is counted where it ran and enforcement would have blocked it or asked for an approval. Each rule that alone
would have done so counts it, so groups add up to more than the calls; the totals count each call once. A call or an
assembly that no rule but a missing piece would have stopped (an unbound tool, a budget) *would have failed closed*.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from carriage_core.errors import CarriageError
from carriage_core.manifest import EntryKind, verify_chain

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from carriage_core.manifest import ChainReport

MAX_GROUPS: Final = 10_000
"""Most groups kept apart; the names of unbound tools come from a model, so there is no other bound."""

EXAMPLES: Final = 3
"""Examples kept of each group: the first ones."""

OTHER: Final = "(other)"
"""Rule and tool of everything past `MAX_GROUPS`."""

UNRECORDED: Final = "cause not recorded"

_BY_RULE: Final = frozenset({"rule", "needs_approval"})


class ObservationError(CarriageError):
    """Something in the log is no entry that a plane writes. Nothing is reported of such a log."""


class Fate(StrEnum):
    """What enforcement would have done."""

    BLOCKED = "blocked by rule"
    ASKED = "asked for approval"
    FAILED_CLOSED = "failed closed"
    NOT_ASSEMBLED = "model call not made"


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One entry of a group.

    Attributes:
        sequence: Its place in the log.
        actor: The chain of who acted, outermost first.
        call_id: The framework's id of the call, if it had one.
        values: What the rule read of the call, secret values masked; for an assembly the sizes.
    """

    sequence: int
    actor: tuple[str, ...]
    call_id: str | None
    values: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Calls of one tool, or assemblies, that one cause would have stopped.

    Attributes:
        fate: What would have happened.
        rule: The policy's id, or the code of the fault.
        tool: The tool, or None for an assembly.
        count: How often it went through and would not have.
        anyway: How often a rule on trial agreed with what was stopped for another reason.
        examples: The first of them.
    """

    fate: Fate
    rule: str
    tool: str | None
    count: int
    anyway: int
    examples: tuple[Example, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservationReport:
    """A log, counted.

    Attributes:
        entries: Entries read.
        decisions: Calls decided, in any mode.
        assemblies: Assemblies made or refused, in any mode.
        would: Calls, and assemblies, by what would have happened, each once.
        stopped: Calls, and assemblies, that really were, by the same words.
        groups: By cause and tool, the most frequent first.
        chain: What the hash chain proves of the log.
    """

    entries: int
    decisions: int
    assemblies: int
    would: Mapping[Fate, int]
    stopped: Mapping[Fate, int]
    groups: tuple[Group, ...]
    chain: ChainReport

    @property
    def anything(self) -> bool:
        """Whether enforcement would have stopped anything that went through."""
        return any(self.would.values())


def observations(entries: Iterable[Mapping[str, object]], *, checkpoint: str | None = None) -> ObservationReport:
    """Read a log once, entry by entry.

    Args:
        entries: As sinks wrote them (`Entry.as_json`), from the first on.
        checkpoint: Hash of the last entry, kept in a second place.

    Raises:
        ObservationError: An entry is none that a plane writes.
        CarriageError: There are no entries.
    """
    tally = _Tally()
    stream = tally.through(entries)
    chain = verify_chain(stream, checkpoint=checkpoint)
    for _ in stream:  # behind a break of the chain
        pass
    return tally.report(chain)


@dataclass(slots=True)
class _Bucket:
    count: int = 0
    anyway: int = 0
    examples: list[Example] = field(default_factory=list[Example])


type _Key = tuple[Fate, str, str | None]


class _Tally:
    """Counts entries as they pass."""

    def __init__(self) -> None:
        self._entries = self._decisions = self._assemblies = 0
        self._would: Counter[Fate] = Counter()
        self._stopped: Counter[Fate] = Counter()
        self._buckets: dict[_Key, _Bucket] = {}

    def through(self, entries: Iterable[Mapping[str, object]]) -> Iterator[Mapping[str, object]]:
        for entry in entries:
            self._add(entry)
            yield entry

    def report(self, chain: ChainReport) -> ObservationReport:
        ordered = sorted(self._buckets.items(), key=lambda pair: (-pair[1].count, -pair[1].anyway, _name(pair[0])))
        return ObservationReport(
            entries=self._entries,
            decisions=self._decisions,
            assemblies=self._assemblies,
            would={fate: self._would[fate] for fate in Fate},
            stopped={fate: self._stopped[fate] for fate in Fate},
            groups=tuple(
                Group(
                    fate=fate,
                    rule=rule,
                    tool=tool,
                    count=bucket.count,
                    anyway=bucket.anyway,
                    examples=tuple(bucket.examples),
                )
                for (fate, rule, tool), bucket in ordered
            ),
            chain=chain,
        )

    def _add(self, entry: object) -> None:
        reader = _Reader(self._entries)
        self._entries += 1
        whole = reader.mapping(entry, "the entry")
        body = reader.mapping(whole.get("body"), "body")
        kind = reader.text(whole.get("kind"), "kind")
        if kind == EntryKind.DECISION:
            self._decisions += 1
            self._decision(reader, body)
        elif kind == EntryKind.ASSEMBLY:
            self._assemblies += 1
            self._assembly(reader, body)
        elif kind not in set(EntryKind):
            raise reader.error("kind is none that a plane writes")

    def _decision(self, reader: _Reader, body: Mapping[str, object]) -> None:
        verdict = reader.outcome(body.get("verdict"), "verdict")
        would = None if body.get("would") is None else reader.outcome(body["would"], "would")
        tool = reader.text(body.get("tool"), "tool")
        reasons = reader.reasons(body.get("reasons"))
        if verdict != "allow":
            self._stopped[_fate(verdict, reader.text(body.get("code"), "code"))] += 1
        if verdict == "allow" and would is not None and would != "allow":
            code = body.get("would_code")
            cause = UNRECORDED if code is None else reader.text(code, "would_code")
            fate = _fate(would, cause)
            self._would[fate] += 1
            found = [reason for reason in reasons if cause in _BY_RULE and reason.outcome == would]
            for rule, values in [(reason.rule, reason.values) for reason in found] or [(cause, ())]:
                self._count((fate, rule, tool), reader.example(body, values))
        elif verdict != "allow":
            for reason in reasons:
                if reason.observed:
                    self._bucket((_fate(reason.outcome, "rule"), reason.rule, tool)).anyway += 1

    def _assembly(self, reader: _Reader, body: Mapping[str, object]) -> None:
        outcome = reader.text(body.get("outcome"), "outcome")
        if outcome == "failed_closed":
            self._stopped[Fate.NOT_ASSEMBLED] += 1
        elif outcome == "would_fail_closed":
            self._would[Fate.NOT_ASSEMBLED] += 1
            numbers = body.get("numbers")
            sizes: tuple[tuple[str, str], ...] = ()
            if isinstance(numbers, Mapping):
                cause = f"{reader.text(numbers.get('reason'), 'numbers.reason')} overload"
                sizes = tuple((name, str(numbers.get(name))) for name in ("needed", "available", "policies"))
            else:
                cause = reader.text(body.get("problem", UNRECORDED), "problem")
            self._count((Fate.NOT_ASSEMBLED, cause, None), reader.example(body, sizes))
        elif outcome != "assembled":
            raise reader.error("outcome is none that a plane writes")

    def _count(self, key: _Key, example: Example) -> None:
        bucket = self._bucket(key)
        bucket.count += 1
        if len(bucket.examples) < EXAMPLES:
            bucket.examples.append(example)

    def _bucket(self, key: _Key) -> _Bucket:
        if key not in self._buckets and len(self._buckets) >= MAX_GROUPS:
            key = (key[0], OTHER, OTHER)
        return self._buckets.setdefault(key, _Bucket())


def _name(key: _Key) -> tuple[str, str, str]:
    fate, rule, tool = key
    return fate.value, rule, tool or ""


_OUTCOMES: Final = frozenset({"allow", "confirm", "deny"})


def _fate(outcome: str, code: str) -> Fate:
    if outcome == "confirm":
        return Fate.ASKED
    return Fate.BLOCKED if code in _BY_RULE else Fate.FAILED_CLOSED


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reason:
    rule: str
    outcome: str
    observed: bool
    values: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class _Reader:
    """Takes one entry apart."""

    sequence: int

    def error(self, problem: str) -> ObservationError:
        return ObservationError(
            f"entry {self.sequence} (from 0) is no log entry: {problem}.",
            mend="give a log as a JsonlSink wrote it, from its first entry on.",
        )

    def mapping(self, value: object, what: str) -> Mapping[str, object]:
        if not isinstance(value, Mapping):
            raise self.error(f"{what} is no object")
        return value

    def text(self, value: object, what: str) -> str:
        if not isinstance(value, str):
            raise self.error(f"{what} is no text")
        return value

    def outcome(self, value: object, what: str) -> str:
        if not isinstance(value, str) or value not in _OUTCOMES:
            raise self.error(f"{what} is no outcome")
        return value

    def reasons(self, value: object) -> list[_Reason]:
        if not isinstance(value, Sequence) or isinstance(value, str):
            raise self.error("reasons is no list")
        found: list[_Reason] = []
        for each in value:
            reason = self.mapping(each, "a reason")
            effect = self.text(reason.get("effect"), "effect")
            values = self.mapping(reason.get("values"), "values")
            found.append(
                _Reason(
                    rule=self.text(reason.get("policy"), "policy"),
                    outcome="confirm" if effect == "confirm" else "deny",
                    observed=reason.get("observed") is True,
                    values=tuple((str(name), str(seen)) for name, seen in values.items()),
                )
            )
        return found

    def example(self, body: Mapping[str, object], values: tuple[tuple[str, str], ...]) -> Example:
        chain, actor, call_id = body.get("chain"), body.get("actor"), body.get("call_id")
        if isinstance(chain, Sequence) and not isinstance(chain, str):
            who = tuple(map(str, chain))
        else:
            who = (actor,) if isinstance(actor, str) else ()
        return Example(
            sequence=self.sequence, actor=who, call_id=call_id if isinstance(call_id, str) else None, values=values
        )
