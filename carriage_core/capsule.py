# SPDX-License-Identifier: Apache-2.0
"""The control capsule: the complete applicable set, rendered in the richest tier that fits (DESIGN 3.7, paper V-B).

- full: every field that affects a verdict, a clause a parser reads back, and the text.
- compact: id and clause, or id and text where there is no clause.
- exact: the texts joined by line ends, byte for byte what exact active-policy replay sends; read back by offset.

Rendering is a pure function of the set and the bindings, so the bytes stay the same while A+ does and provider
prefix caches hold. Control is recognised by its position, never by what it looks like.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from carriage_core.canonical import digest_of
from carriage_core.capsule_text import compact_entry, compact_text, full_text, parse_capsule
from carriage_core.condition import constants
from carriage_core.errors import CapsuleFormatError, CarriageIntegrityError
from carriage_core.policy import ANY_ACTION, IssuerKind, Policy
from carriage_core.schema import spelled

if TYPE_CHECKING:
    from carriage_core.binding import ToolBinding
    from carriage_core.registry import PolicyRegistry

USER_LABEL: Final = "User rule: "
"""Labels a user's sentence in the exact tier, where no other field says who issued it."""


class Tier(StrEnum):
    """How much of each policy is shown."""

    FULL = "full"
    COMPACT = "compact"
    EXACT = "exact"


TIERS: Final = (Tier.FULL, Tier.COMPACT, Tier.EXACT)
"""Richest first: the order in which they are tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Where the text of one policy lies in an exact capsule, in characters."""

    id: str
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendering:
    """A+ in one tier, proven to read back, not yet counted.

    Attributes:
        tier: How it is written.
        text: The bytes, without outer blanks.
        digest: SHA-256 of A+ and the bindings it speaks of.
        policies: A+, in capsule order.
        a_plus: Id and digest of each, as manifests record them.
        digests: Their digests as a set.
        unmediated: Ids that nothing enforces.
        spans: Exact tier only: where each text lies.
        unbound: Ids whose shown form does not name every constant of its clause (carried, unbound).
    """

    tier: Tier
    text: str
    digest: str
    policies: tuple[Policy, ...]
    a_plus: tuple[tuple[str, str], ...]
    digests: frozenset[str]
    unmediated: tuple[str, ...]
    spans: tuple[Span, ...] = ()
    unbound: tuple[str, ...] = ()

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids of A+, in capsule order."""
        return tuple(identifier for identifier, _ in self.a_plus)


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlCapsule:
    """A rendered set that fits its control budget, ready to be placed.

    Attributes:
        rendering: Text, tier, digest and policies.
        tokens: Size in tokens of `counter`.
        counter: Name of the token counter.
        control_budget: The budget it was fitted into.
        registry_digest: The snapshot it came from.
        candidates: Names of the candidate tools, or None where they were not known.
    """

    rendering: Rendering
    tokens: int
    counter: str
    control_budget: int
    registry_digest: str
    candidates: frozenset[str] | None

    @property
    def text(self) -> str:
        """The bytes to place; empty only for a registry that is empty by name."""
        return self.rendering.text

    @property
    def tier(self) -> Tier:
        """The tier that was chosen."""
        return self.rendering.tier

    @property
    def policies(self) -> tuple[Policy, ...]:
        """A+, in capsule order."""
        return self.rendering.policies

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids of A+, in capsule order."""
        return self.rendering.ids

    def read_back(self, message: str, offset: int) -> tuple[str, ...]:
        """Return the ids that stand at the protected position of an assembled message.

        Args:
            message: Content of the message as it goes to the model.
            offset: Where the capsule was placed in it, in characters.

        Raises:
            CarriageIntegrityError: Other bytes stand there.
        """
        if not message.startswith(self.rendering.text, offset):
            raise CarriageIntegrityError(
                "the assembled message does not hold the capsule at its protected position; the call was not made.",
                mend="find what rewrites system messages between the context and the client.",
            )
        return self.ids


def render(policies: tuple[Policy, ...], registry: PolicyRegistry, tier: Tier) -> Rendering:
    """Render a set in one tier and prove that it reads back.

    Raises:
        CapsuleFormatError: The rendering does not parse back to the set; no call is made with it.
    """
    bindings = _shown_bindings(policies, registry)
    digest = digest_of(_canonical(policies, bindings))
    if not policies:
        return _rendering(tier, "", digest, policies)
    if tier is Tier.EXACT:
        return _exact(policies, digest)
    if tier is Tier.FULL:
        text = full_text(policies, bindings, digest)
        parsed = parse_capsule(text)
        proven = _canonical(parsed.policies, parsed.bindings) == _canonical(policies, bindings)
    else:
        text = compact_text(policies, digest)
        proven = parse_capsule(text).compact == tuple(compact_entry(policy) for policy in policies)
    if not proven:
        raise CapsuleFormatError("the capsule does not read back to its policies.", mend="report this as a defect.")
    return _rendering(tier, text, digest, policies)


def _canonical(policies: tuple[Policy, ...], bindings: tuple[ToolBinding, ...]) -> dict[str, object]:
    """Everything a full capsule must read back to; its digest names the set."""
    return {
        "bindings": [binding.canonical() for binding in bindings],
        "policies": [policy.digest for policy in policies],
    }


def _rendering(
    tier: Tier,
    text: str,
    digest: str,
    policies: tuple[Policy, ...],
    spans: tuple[Span, ...] = (),
    unbound: tuple[str, ...] = (),
) -> Rendering:
    return Rendering(
        tier=tier,
        text=text,
        digest=digest,
        policies=policies,
        a_plus=tuple((policy.id, policy.digest) for policy in policies),
        digests=frozenset(policy.digest for policy in policies),
        unmediated=tuple(policy.id for policy in policies if not policy.mediated),
        spans=spans,
        unbound=unbound,
    )


def _exact(policies: tuple[Policy, ...], digest: str) -> Rendering:
    pieces = [replay_text(policy) for policy in policies]
    spans: list[Span] = []
    start = 0
    for policy, piece in zip(policies, pieces, strict=True):
        spans.append(Span(id=policy.id, start=start, end=start + len(piece)))
        start += len(piece) + 1
    unbound = tuple(policy.id for policy in policies if not names_every_constant(policy))
    return _rendering(Tier.EXACT, "\n".join(pieces), digest, policies, tuple(spans), unbound)


def replay_text(policy: Policy) -> str:
    """What exact replay sends for a policy: its text; a user's is labelled, never shown as if an operator's."""
    return f"{USER_LABEL}{policy.text}" if policy.issuer.kind is IssuerKind.USER else policy.text


def names_every_constant(policy: Policy) -> bool:
    """Whether the text alone names every constant of the clause, so that it stays bound to its object."""
    return not constants_not_in_text(policy)


def constants_not_in_text(policy: Policy) -> tuple[str, ...]:
    """The constants of the clause, as people write them, that the text does not name."""
    written = dict.fromkeys(map(spelled, (*constants(policy.where), *constants(policy.unless))))
    return tuple(constant for constant in written if constant not in policy.text)


def _shown_bindings(policies: tuple[Policy, ...], registry: PolicyRegistry) -> tuple[ToolBinding, ...]:
    """List the bindings that say what the set's actions mean, and the tools its evidence comes from."""
    actions = {action for policy in policies if policy.mediated for action in policy.actions}
    sources = {declaration.from_tool for policy in policies for _, declaration in policy.evidence}
    return tuple(
        binding
        for name in sorted(registry.bindings)
        for binding in registry.bindings[name]
        if binding.acts
        and (
            binding.action in actions
            or name in sources
            # A command may be any action, and one that cannot be read is under every rule.
            or (bool(actions) and (ANY_ACTION in actions or binding.shell is not None))
        )
    )
