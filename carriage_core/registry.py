# SPDX-License-Identifier: Apache-2.0
"""The policy registry: immutable snapshots outside the conversation (paper V-B; DESIGN 3.1, 3.2, 3.6).

A snapshot is never changed; `admit` and `withdraw` return the next one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from carriage_core.binding import ToolBinding, confusable
from carriage_core.canonical import digest_of
from carriage_core.errors import EmptyRegistryError, PolicyError, ProvenanceError, ToolBindingError
from carriage_core.index import PolicyIndex
from carriage_core.pieces import in_pieces
from carriage_core.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from carriage_core.policy import Issuer, Mode, Policy

MAX_POLICIES: Final = 100_000
"""Most policies in one registry (DESIGN 3.14)."""

type Identity = tuple[str, str, str | None, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeSetting:
    """The mode that `by` set for a policy."""

    mode: Mode
    by: Issuer


_NO_MODES: Final[Mapping[Identity, ModeSetting]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRegistry:
    """One snapshot of everything trusted: policies in capsule order, and tool bindings by tool name.

    Build it with `of` (or from a policy file); the constructor takes what `of` has checked.

    Attributes:
        policies: The newest version of each identity, in capsule order, in the mode that holds for it.
        issued: The same as their issuers wrote them.
        modes: Modes that an authority set for a policy, whatever its versions say.
        bindings: All bindings of each tool; where several name a tool, all apply (DESIGN 3.1).
        versions: Newest version and digest ever admitted for each identity, withdrawn ones included.
        digest: SHA-256 over policies and bindings.
        operator_digest: The same without bindings an adapter shipped; what a saved agent is found by.
        index: Finds what could match an action.
    """

    policies: tuple[Policy, ...]
    issued: tuple[Policy, ...] = field(repr=False)
    modes: Mapping[Identity, ModeSetting]
    bindings: Mapping[str, tuple[ToolBinding, ...]]
    versions: Mapping[Identity, tuple[int, str]]
    digest: str
    operator_digest: str
    index: PolicyIndex = field(repr=False, compare=False)

    @classmethod
    def of(cls, policies: Iterable[Policy], bindings: Iterable[ToolBinding] = ()) -> PolicyRegistry:
        """Build the first snapshot.

        Raises:
            EmptyRegistryError: There are no policies.
            PolicyError: Two policies share an identity and a version, or one does not go with the bindings.
            ToolBindingError: Two tools' names could be confused.
        """
        policies = tuple(policies)
        if not policies:
            raise EmptyRegistryError(
                "the registry holds no policy, so it would protect nothing.",
                mend="add a policy, or use ControlPlane.unsafe_empty() if that is meant.",
            )
        return cls._snapshot(policies, tuple(bindings), {})

    @classmethod
    def unsafe_empty(cls, bindings: Iterable[ToolBinding] = ()) -> PolicyRegistry:
        """Build a snapshot that carries and enforces nothing, asked for by name."""
        return cls._snapshot((), tuple(bindings), {})

    @classmethod
    def _snapshot(
        cls,
        policies: tuple[Policy, ...],
        bindings: tuple[ToolBinding, ...],
        versions: Mapping[Identity, tuple[int, str]],
        modes: Mapping[Identity, ModeSetting] = _NO_MODES,
    ) -> PolicyRegistry:
        if len(policies) > MAX_POLICIES:
            raise PolicyError(f"a registry holds at most {MAX_POLICIES} policies.", mend="split it by tenant or agent.")
        by_tool = _by_tool(bindings)
        newest = _newest(policies, versions)
        vocabulary = Vocabulary(by_tool)
        for policy in in_pieces(newest):
            for fault in vocabulary.faults(policy):
                raise PolicyError(f"policy {policy.id}: {fault.path}: {fault.message}.", mend=fault.mend)
        issued = tuple(sorted(newest, key=lambda policy: policy.order))
        seen = dict(versions) | {policy.identity: (policy.version, policy.digest) for policy in in_pieces(issued)}
        ordered = tuple(_in_mode(policy, modes) for policy in in_pieces(issued)) if modes else issued
        return cls(
            policies=ordered,
            issued=issued,
            modes=MappingProxyType(dict(modes)),
            bindings=MappingProxyType(by_tool),
            versions=MappingProxyType(seen),
            digest=_digest(ordered, by_tool, shipped=True),
            operator_digest=_digest(ordered, by_tool, shipped=False),
            index=PolicyIndex(ordered),
        )

    @property
    def mediates(self) -> bool:
        """Whether any rule has an action; from then on unbound tools are denied (DESIGN 3.4)."""
        return self.index.mediates

    def admit(self, policy: Policy, *, by: Issuer) -> PolicyRegistry:
        """Return the snapshot with `policy` added, or replacing its older version.

        Raises:
            ProvenanceError: `by` is not the policy's issuer: authority comes from provenance, not from the record.
            PolicyError: The version does not rise, or the same version says something else.
        """
        return self.revise(admit=(policy,), by=by)

    def withdraw(self, identity: Identity, *, by: Issuer) -> PolicyRegistry:
        """Return the snapshot without the policy of that identity.

        Raises:
            ProvenanceError: `by` is not its issuer; only who said it may take it back.
            PolicyError: There is no such policy.
            EmptyRegistryError: It was the last one.
        """
        return self.revise(withdraw=(identity,), by=by)

    def revise(self, *, admit: Iterable[Policy] = (), withdraw: Iterable[Identity] = (), by: Issuer) -> PolicyRegistry:
        """Return the snapshot with all of these admitted and withdrawn, at the cost of one.

        Raises:
            ProvenanceError: `by` is not the issuer of one of them.
            PolicyError: One cannot be admitted or is not there, or one identity occurs twice.
            EmptyRegistryError: Nothing would be left.
        """
        present = {policy.identity for policy in in_pieces(self.issued)}
        touched: dict[Identity, Policy | None] = {}
        for policy in admit:
            self._may_admit(policy, by=by, present=policy.identity in present)
            _touch(touched, policy.identity, policy)
        for identity in withdraw:
            if identity[:2] != (by.kind.value, by.name):
                raise ProvenanceError(
                    f"{by.kind} {by.name!r} did not issue {identity[3]!r}.", mend="let its issuer withdraw it."
                )
            if identity not in present:
                raise _unknown(identity)
            _touch(touched, identity, None)
        kept = (policy for policy in in_pieces(self.issued) if policy.identity not in touched)
        policies = (*kept, *(policy for policy in touched.values() if policy is not None))
        if not policies:
            raise EmptyRegistryError(
                f"{', '.join(repr(identity[3]) for identity in touched)} would leave no policy.",
                mend="use a plane made with unsafe_empty() instead.",
            )
        # The next version of a policy says itself what it is, unless a higher one set its mode.
        modes = {
            identity: setting
            for identity, setting in self.modes.items()
            if (new := touched.get(identity)) is None or new.issuer != setting.by
        }
        return self._snapshot(policies, self._all_bindings(), self.versions, modes)

    def _may_admit(self, policy: Policy, *, by: Issuer, present: bool) -> None:
        if by != policy.issuer:
            raise ProvenanceError(
                f"{by.kind} {by.name!r} cannot issue policy {policy.id!r}: "
                f"it belongs to {policy.issuer.kind} {policy.issuer.name!r}.",
                mend="let its own issuer admit it.",
            )
        known = self.versions.get(policy.identity)
        if known is not None and policy.version < known[0]:
            raise PolicyError(
                f"version {policy.version} of {policy.id!r} is older than {known[0]}.",
                mend="raise the version.",
            )
        if known == (policy.version, policy.digest) and not present:
            raise PolicyError(f"version {policy.version} of {policy.id!r} was withdrawn.", mend="raise the version.")

    def set_mode(self, identity: Identity, mode: Mode, *, by: Issuer) -> PolicyRegistry:
        """Return the snapshot in which the policy of that identity is enforced, or only observed (DESIGN 3.13).

        What a higher issuer set holds for later versions too, until that issuer or a yet higher one sets it anew.

        Raises:
            ProvenanceError: `by` is neither its issuer nor of a higher rank, or a higher one has set it.
            PolicyError: There is no such policy.
        """
        policy = next((policy for policy in self.issued if policy.identity == identity), None)
        if policy is None:
            raise _unknown(identity)
        setting = self.modes.get(identity)
        last = policy.issuer if setting is None else setting.by
        if by != last and by.kind.rank >= last.kind.rank:
            raise ProvenanceError(
                f"{by.kind} {by.name!r} cannot set the mode of {identity[3]!r}: {last.kind} {last.name!r} has set it.",
                mend=f"let {last.name!r} set it, or an issuer of a higher rank.",
            )
        modes = {**self.modes, identity: ModeSetting(mode=mode, by=by)}
        return self._snapshot(self.issued, self._all_bindings(), self.versions, modes)

    def with_bindings(self, bindings: Iterable[ToolBinding]) -> PolicyRegistry:
        """Return the snapshot with further bindings, such as an adapter's for its framework's own tools.

        A tool that is already bound keeps its bindings; a shipped one never loosens an operator's.
        """
        fresh = tuple(replace(binding, shipped=True) for binding in bindings if binding.tool not in self.bindings)
        if not fresh:
            return self
        return self._snapshot(self.issued, (*self._all_bindings(), *fresh), self.versions, self.modes)

    def _all_bindings(self) -> tuple[ToolBinding, ...]:
        return tuple(binding for bindings in self.bindings.values() for binding in bindings)


def _unknown(identity: Identity) -> PolicyError:
    return PolicyError(f"no policy {identity[3]!r} of that issuer and tenant.", mend="list the registry's policies.")


def _touch(touched: dict[Identity, Policy | None], identity: Identity, policy: Policy | None) -> None:
    if identity in touched:
        raise PolicyError(f"{identity[3]!r} is to be changed twice at once.", mend="say once what becomes of it.")
    touched[identity] = policy


def _in_mode(policy: Policy, modes: Mapping[Identity, ModeSetting]) -> Policy:
    setting = modes.get(policy.identity)
    return policy if setting is None or setting.mode is policy.mode else replace(policy, mode=setting.mode)


def _digest(policies: tuple[Policy, ...], by_tool: Mapping[str, tuple[ToolBinding, ...]], *, shipped: bool) -> str:
    bindings = [
        binding.canonical() for name in sorted(by_tool) for binding in by_tool[name] if shipped or not binding.shipped
    ]
    return "sha256:" + digest_of({"bindings": bindings, "policies": [policy.digest for policy in policies]})


def _by_tool(bindings: tuple[ToolBinding, ...]) -> dict[str, tuple[ToolBinding, ...]]:
    by_tool: dict[str, tuple[ToolBinding, ...]] = {}
    for binding in bindings:
        by_tool[binding.tool] = (*by_tool.get(binding.tool, ()), binding)
    folded: dict[str, str] = {}
    for name in sorted(by_tool):
        twin = folded.setdefault(confusable(name), name)
        if twin != name:
            raise ToolBindingError(f"the tool names {twin!r} and {name!r} can be confused.", mend="rename one of them.")
    return by_tool


def _newest(policies: tuple[Policy, ...], versions: Mapping[Identity, tuple[int, str]]) -> tuple[Policy, ...]:
    newest: dict[Identity, Policy] = {}
    for policy in in_pieces(policies):
        version, digest = versions.get(policy.identity, (0, ""))
        other = newest.get(policy.identity)
        clash = (policy.version == version and policy.digest != digest) or (
            other is not None and other.version == policy.version and other.digest != policy.digest
        )
        if clash:
            # 3.2: the same version with another digest is an error, whichever came first.
            raise PolicyError(
                f"version {policy.version} of {policy.id!r} already says something else.",
                mend="raise the version.",
            )
        if other is None or policy.version > other.version:
            newest[policy.identity] = policy
    return tuple(newest.values())
