# SPDX-License-Identifier: Apache-2.0
"""Judges a set of rules of which not everything is known yet: the least and the most strict it may come to.

It mirrors `ruling`: whether each policy applies, is lifted and speaks, and what prevails (DESIGN 3.2 to 3.5).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from carriage_core.analysis_rules import account_of, gates_of
from carriage_core.analysis_search import OPEN
from carriage_core.policy import ANY_ACTION, Effect
from carriage_core.schema import Absent
from carriage_core.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from carriage_core.analysis_attributes import Variable
    from carriage_core.analysis_rules import RuleQuestion
    from carriage_core.analysis_search import Assigned, Range, Ranges
    from carriage_core.condition import Condition
    from carriage_core.policy import Policy

_NOTHING: Final = (False, False)
_STRICT: Final = (Effect.DENY, Effect.DEFAULT_DENY, Effect.CONFIRM, Effect.PERMIT)

type Maybe = tuple[bool, bool]
"""Whether something surely is, and whether it may be."""


@dataclass(frozen=True, slots=True)
class Status:
    """What is known of one policy on one action."""

    applies: Maybe
    lifted: Maybe
    certain: Maybe


class SetJudge:
    """Judges one set of rules as far as the variables have values."""

    def __init__(self, policies: tuple[Policy, ...], question: RuleQuestion, ranges: Ranges) -> None:
        """Judge `policies`; open variables are noted in `ranges`."""
        self._policies = sorted(policies, key=lambda policy: _STRICT.index(policy.effect))
        self._gates = {policy.digest: tuple(gates_of(policy)) for policy in policies}
        self._question = question
        self._ranges = ranges

    def __call__(self, given: Assigned) -> Range:
        """The least and the most strict outcome there may be."""
        mark = len(self._ranges.open)
        found = [(policy, self._status(policy, given)) for policy in self._policies]
        found = [(policy, status) for policy, status in found if status.applies[1]]
        trusted = given["time"] is not Absent.UNKNOWN
        speakers: list[tuple[int, Maybe]] = []
        for policy, status in found:
            if policy.effect in {Effect.PERMIT, Effect.CONFIRM}:
                speaks = _both(status.applies, _both(status.certain, _no(status.lifted)))
                if policy.effect is Effect.PERMIT and not trusted:
                    speaks = _NOTHING
                speakers.append((policy.issuer.kind.rank, speaks))
        low = high = Outcome.ALLOW.strictness
        for policy, status in found:
            if policy.effect is Effect.PERMIT:
                continue
            binds = _both(status.applies, _no(status.lifted))
            if policy.effect is Effect.DEFAULT_DENY:
                rank = policy.issuer.kind.rank
                spoken = [speaks for other, speaks in speakers if other <= rank]
                binds = _both(binds, _no((any(one[0] for one in spoken), any(one[1] for one in spoken))))
            reach = Outcome.CONFIRM if policy.effect is Effect.CONFIRM else Outcome.DENY
            low = max(low, reach.strictness if binds[0] else 0)
            high = max(high, reach.strictness if binds[1] else 0)
        if low == high:
            del self._ranges.open[mark:]
        return low, high

    def _status(self, policy: Policy, given: Assigned) -> Status:
        """For a permit `lifted` says whether its `unless` is not surely false, which silences it."""
        named, typed = self._governs(policy, given)
        if not named[1] or not typed[1]:
            return Status(_NOTHING, _NOTHING, _NOTHING)
        mark = len(self._ranges.open)
        members = range(max(1, given.get("chain", 0)))
        wheres = [self._truth(policy, policy.where, given, member) for member in members]
        applies = _both(typed, _some([_binds(one) for one in wheres]))
        for gate in self._gates[policy.digest]:
            if not applies[1]:
                break
            several = members if gate.attribute == "actor.id" else range(1)
            applies = _both(applies, _some([_binds(self._truth(policy, gate, given, one)) for one in several]))
        if not applies[1]:
            del self._ranges.open[mark:]
            return Status(_NOTHING, _NOTHING, _NOTHING)
        certain = _every([(low == 2, high == 2) for low, high in wheres])  # noqa: PLR2004  # Truth.TRUE
        return Status(
            applies,
            self._lifted(policy, given, members),
            _both(named[:1] * 2, _both(self._sure(policy, given), certain)),
        )

    def _governs(self, policy: Policy, given: Assigned) -> tuple[Maybe, Maybe]:
        name = given["action.name"]
        if name is Absent.UNKNOWN:
            named = (False, True)
        else:
            known = policy.actions == (ANY_ACTION,) or name in policy.actions
            named = (known, known)
        if policy.object_type is None:
            return named, (True, True)
        kind = self._read("object.type", given)
        if kind is OPEN:
            return named, (False, True)
        fits = isinstance(kind, Absent) or kind == policy.object_type
        return named, (fits, fits)

    def _sure(self, policy: Policy, given: Assigned) -> Maybe:
        """Whether the type of the object is known to be that of the policy."""
        if policy.object_type is None:
            return True, True
        kind = given.get("object.type", OPEN)
        return (False, True) if kind is OPEN else (kind == policy.object_type,) * 2

    def _lifted(self, policy: Policy, given: Assigned, members: range) -> Maybe:
        if policy.unless is None:
            return _NOTHING
        if policy.effect is Effect.PERMIT:
            return _some([_binds(self._truth(policy, policy.unless, given, member)) for member in members])
        mark = len(self._ranges.open)
        surely = possibly = False
        for sure, choice in self._choices(policy, given):
            ranges = [self._truth(policy, policy.unless, given, member, choice) for member in members]
            possibly |= all(high == 2 for _, high in ranges)  # noqa: PLR2004  # Truth.TRUE
            surely |= sure and all(low == 2 for low, _ in ranges)  # noqa: PLR2004
            if surely:
                del self._ranges.open[mark:]
                return True, True
        if not possibly:
            del self._ranges.open[mark:]
        return surely, possibly

    def _choices(self, policy: Policy, given: Assigned) -> Iterator[tuple[bool, dict[str, int]]]:
        """Every choice of one record or none for each handle, and whether the records surely are there."""
        per_handle: list[list[tuple[str, int | None, bool]]] = []
        for handle, declaration in policy.evidence:
            options: list[tuple[str, int | None, bool]] = [(handle, None, True)]
            if given["time"] is not Absent.UNKNOWN:
                for slot in self._question.records.of(declaration):
                    live = given.get(self._question.records.slot(slot), OPEN)
                    if live is OPEN:
                        self._ranges.open.append(self._question.records.slot(slot))
                        options.append((handle, slot, False))
                    elif declaration.digest in live:
                        options.append((handle, slot, True))
            per_handle.append(options)
        for picked in itertools.product(*per_handle):
            yield (
                all(sure for _, _, sure in picked),
                {handle: slot for handle, slot, _ in picked if slot is not None},
            )

    def _truth(
        self,
        policy: Policy,
        condition: Condition | None,
        given: Assigned,
        member: int,
        records: Mapping[str, int] | None = None,
    ) -> Range:
        if condition is None:
            return 2, 2
        return self._ranges.of(condition, self._reader(policy, given, member, records or {}))

    def _reader(self, policy: Policy, given: Assigned, member: int, records: Mapping[str, int]) -> Callable[[str], Any]:
        def value(name: str) -> Any:  # noqa: ANN401  # a value, an absence or OPEN
            if name.startswith("evidence."):
                _, handle, inner = name.split(".")
                if handle not in records:
                    return Absent.UNKNOWN
                name = self._question.records.field(records[handle], policy.declarations[handle], inner)
            elif name.startswith("counter."):
                name = account_of(policy, name.partition(".")[2])
            elif name == "actor.id":
                if not given.get("chain", 0):
                    return Absent.UNKNOWN
                name = f"actor.id#{member}"
            return self._read(name, given)

        return value

    def _read(self, name: Variable, given: Assigned) -> Any:  # noqa: ANN401  # a value, an absence or OPEN
        found = given.get(name, OPEN)
        if found is OPEN:
            self._ranges.open.append(name)
        elif found is Absent.MISSING and given["action.name"] is Absent.UNKNOWN:
            return Absent.UNKNOWN  # of an unknown action nobody can say that something is missing
        return found


def _binds(truth: Range) -> Maybe:
    """Whether a condition is not false."""
    return truth[0] > 0, truth[1] > 0


def _both(one: Maybe, other: Maybe) -> Maybe:
    return one[0] and other[0], one[1] and other[1]


def _no(one: Maybe) -> Maybe:
    return not one[1], not one[0]


def _some(found: list[Maybe]) -> Maybe:
    return any(one[0] for one in found), any(one[1] for one in found)


def _every(found: list[Maybe]) -> Maybe:
    return all(one[0] for one in found), all(one[1] for one in found)
