# SPDX-License-Identifier: Apache-2.0
"""The manifest of an assembly, the record of a decision, and the hash chain they lie in (DESIGN 3.9).

One chain for each plane. Each entry holds the SHA-256 of the one before it, so a changed, removed or reordered
entry is found. Whoever can rewrite the whole file can rewrite the chain: without a checkpoint kept elsewhere,
`verify_chain` says ``accidental damage only; tail unverified``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from carriage_core.canonical import digest_of, digest_of_built
from carriage_core.errors import CarriageError

if TYPE_CHECKING:
    from collections.abc import Iterable

GENESIS: Final = "0" * 64
"""Previous hash of the first entry."""


class EntryKind(StrEnum):
    """What an entry is about. Proposed, blocked and executed stay apart."""

    CAPSULE = "capsule"
    ASSEMBLY = "assembly"
    DECISION = "decision"
    OUTCOME = "outcome"
    EVIDENCE = "evidence"
    APPROVAL = "approval"
    REGISTRY = "registry"
    SUMMARY = "summary"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One link of the chain.

    Attributes:
        sequence: Position in the chain, from 0.
        kind: What `body` is.
        body: A JSON tree.
        previous: `hash` of the entry before.
        hash: SHA-256 over the RFC 8785 form of the other four.
    """

    sequence: int
    kind: EntryKind
    body: Mapping[str, object]
    previous: str
    hash: str

    def as_json(self) -> dict[str, object]:
        """The entry as one JSON object, the form sinks write."""
        return {
            "sequence": self.sequence,
            "kind": self.kind.value,
            "body": dict(self.body),
            "previous": self.previous,
            "hash": self.hash,
        }


def _hash(sequence: int, kind: str, body: object, previous: str) -> str:
    return digest_of(_hashed(sequence, kind, body, previous))


def _hashed(sequence: int, kind: str, body: object, previous: str) -> dict[str, object]:
    return {"body": body, "kind": kind, "previous": previous, "sequence": sequence}


def link(sequence: int, kind: EntryKind, body: Mapping[str, object], previous: str) -> Entry:
    """Make the entry that follows `previous`."""
    return Entry(
        sequence=sequence,
        kind=kind,
        body=body,
        previous=previous,
        # A decision's body is the gate's own, and there are many of them.
        hash=(digest_of_built if kind is EntryKind.DECISION else digest_of)(
            _hashed(sequence, kind.value, dict(body), previous)
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What was in force in one assembly (paper V-B).

    Attributes:
        sequence: Its place in the chain.
        registry_digest: The snapshot of the registry.
        actor: Who was about to act, or None.
        a_plus: Id and digest of every policy of A+.
        read_back: Ids found at the protected position of the assembled messages.
        unbound: Ids carried in a form that does not name every constant of their clause.
        unmediated: Ids that nothing enforces.
        tier: Tier of the capsule.
        capsule_digest: Digest of A+ and the bindings shown.
        candidates: Candidate tools, or None where they were not known.
        control_tokens: Size of the capsule.
        data_tokens: Size of the data as sent.
        candidate_tokens: Size of the data before it was cut.
        fixed_tokens: Overhead.
        rho: Normalised pressure.
        imitations: Marker look-alikes counted in the data.
        counter: The token counter.
        outcome: ``assembled`` or ``failed_closed``.
        hash: Hash of its chain entry.
    """

    sequence: int
    registry_digest: str
    actor: str | None
    a_plus: tuple[tuple[str, str], ...]
    read_back: tuple[str, ...]
    unbound: tuple[str, ...]
    unmediated: tuple[str, ...]
    tier: str | None
    capsule_digest: str | None
    candidates: frozenset[str] | None
    control_tokens: int
    data_tokens: int
    candidate_tokens: int
    fixed_tokens: int
    rho: float
    imitations: int
    counter: str
    outcome: str
    hash: str

    @property
    def complete(self) -> bool:
        """Whether all of A+ was read back; false for an assembly that failed closed."""
        return self.outcome == "assembled" and self.read_back == tuple(identifier for identifier, _ in self.a_plus)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainReport:
    """What verification of a chain can say.

    Attributes:
        intact: No entry before `broken_at` was changed, removed, added or reordered.
        entries: How many entries were read.
        broken_at: Sequence expected where the first break lies, or None.
        assurance: How much an intact chain proves.
    """

    intact: bool
    entries: int
    broken_at: int | None
    assurance: str


def _follows(entry: object, sequence: int, previous: str) -> bool:
    """Whether `entry` is exactly the next link; whatever cannot be hashed is not."""
    if not isinstance(entry, Mapping) or set(entry) != {"sequence", "kind", "body", "previous", "hash"}:
        return False
    body, kind = entry["body"], entry["kind"]
    if type(entry["sequence"]) is not int or entry["sequence"] != sequence or entry["previous"] != previous:
        return False
    if not isinstance(body, Mapping) or not isinstance(kind, str):
        return False
    try:
        return bool(entry["hash"] == _hash(sequence, kind, dict(body), previous))
    except (ValueError, RecursionError):
        return False


def verify_chain(entries: Iterable[Mapping[str, object]], *, checkpoint: str | None = None) -> ChainReport:
    """Verify entries as sinks wrote them.

    Args:
        entries: `Entry.as_json` objects, from the first on.
        checkpoint: Hash of the last entry, kept in a second place; with it the tail is verified too.

    Raises:
        CarriageError: There are no entries; an empty log proves nothing.
    """
    previous, count = GENESIS, 0
    for expected, entry in enumerate(entries):
        count += 1
        if not _follows(entry, expected, previous):
            return ChainReport(intact=False, entries=count, broken_at=expected, assurance="broken")
        previous = str(entry["hash"])
    if not count:
        raise CarriageError("the log holds no entry.", mend="check the path; an empty log proves nothing.")
    if checkpoint is None:
        return ChainReport(
            intact=True, entries=count, broken_at=None, assurance="accidental damage only; tail unverified"
        )
    if checkpoint != previous:
        return ChainReport(
            intact=False, entries=count, broken_at=count, assurance="the tail does not match the checkpoint"
        )
    return ChainReport(intact=True, entries=count, broken_at=None, assurance="matches the checkpoint")
