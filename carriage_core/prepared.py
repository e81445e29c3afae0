# SPDX-License-Identifier: Apache-2.0
"""What judging by one policy needs, worked out once and kept with the policy: its conditions as functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from carriage_core.compiled import compiled
from carriage_core.condition import All, Compare, attributes

if TYPE_CHECKING:
    from carriage_core.compiled import Decider
    from carriage_core.condition import Condition
    from carriage_core.policy import EvidenceDeclaration, Policy


@dataclass(slots=True, kw_only=True)
class Sieve:
    """What each record of one evidence handle must pass on its own for `unless` to be true with it.

    Attributes:
        handle: The handle.
        declaration: What its records are filed under.
        names: Full attribute names by the names of the record's fields.
        parts: The parts of an `all` that read this handle and no other.
        needed: Whether one of them is a comparison, which is unknown without a record.
    """

    handle: str
    declaration: EvidenceDeclaration
    names: dict[str, str]
    parts: tuple[Decider, ...]
    needed: bool


@dataclass(slots=True, kw_only=True)
class Prepared:
    """One policy, ready to judge.

    Attributes:
        where: Decides `where`; None where there is none.
        unless: Decides `unless`; None where there is none.
        sieves: One for each evidence handle.
        explained: How a reason reads: the clause, the attributes it shows, what lifts it; None before the first.
    """

    where: Decider | None
    unless: Decider | None
    sieves: tuple[Sieve, ...]
    explained: tuple[str, tuple[str, ...], str] | None = None


def prepared(policy: Policy) -> Prepared:
    """Prepare a policy at its first use; building a registry must not pay for rules that never match."""
    try:
        return policy.prepared
    except AttributeError:
        found = Prepared(
            where=None if policy.where is None else compiled(policy.where),
            unless=None if policy.unless is None else compiled(policy.unless),
            sieves=_sieves(policy),
        )
        object.__setattr__(policy, "prepared", found)
        return found


def _sieves(policy: Policy) -> tuple[Sieve, ...]:
    unless = policy.unless
    parts = unless.parts if isinstance(unless, All) else () if unless is None else (unless,)
    found: list[Sieve] = []
    for handle, declaration in policy.evidence:
        own = [part for part in parts if _handles(part) == {handle}]
        found.append(
            Sieve(
                handle=handle,
                declaration=declaration,
                names={name: f"evidence.{handle}.{name}" for name, _ in declaration.fields},
                parts=tuple(map(compiled, own)),
                needed=any(isinstance(part, Compare) for part in own),
            )
        )
    return tuple(found)


def _handles(condition: Condition) -> set[str]:
    return {name.split(".")[1] for name in attributes(condition) if name.startswith("evidence.")}
