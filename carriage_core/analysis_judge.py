# SPDX-License-Identifier: Apache-2.0
"""Judges sets of rules of which not everything is known yet: the least and the most strict they may come to.

It mirrors `ruling`: whether each policy applies, is lifted and speaks, and what prevails (DESIGN 3.2 to 3.5).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from carriage_core.analysis_rules import account_of, gates_of
from carriage_core.analysis_search import OPEN, exceeds
from carriage_core.policy import ANY_ACTION, Effect, Mode
from carriage_core.schema import Absent
from carriage_core.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from carriage_core.analysis_attributes import Variable
    from carriage_core.analysis_rules import RuleQuestion
    from carriage_core.analysis_search import Assigned, Goal, Range, Ranges
    from carriage_core.condition import Compare, Condition
    from carriage_core.policy import Policy

_STRICT: Final = (Effect.DENY, Effect.DEFAULT_DENY, Effect.CONFIRM, Effect.PERMIT)
_REACH: Final = {
    Effect.DENY: Outcome.DENY.strictness,
    Effect.DEFAULT_DENY: Outcome.DENY.strictness,
    Effect.CONFIRM: Outcome.CONFIRM.strictness,
    Effect.PERMIT: Outcome.ALLOW.strictness,
}
_TRUE: Final = 2

type Maybe = tuple[bool, bool]
"""Whether something surely is, and whether it may be."""

_NO: Final[Maybe] = (False, False)
_YES: Final[Maybe] = (True, True)


@dataclass(frozen=True, slots=True)
class Status:
    """What is known of one policy on one action.

    Attributes:
        applies: Whether it governs the action.
        lifted: Whether its `unless` lifts it; for a permit, whether it silences it.
        certain: Whether it applies whatever is unknown, as a permit must.
        open: The variables that this turns on.
    """

    applies: Maybe
    lifted: Maybe
    certain: Maybe
    open: tuple[Variable, ...] = ()

    @property
    def binds(self) -> Maybe:
        """Whether it applies and is not lifted."""
        return _both(self.applies, _no(self.lifted))


@dataclass(frozen=True, slots=True)
class _Rule:
    """A policy with what is worked out once.

    Attributes:
        policy: The policy.
        gates: Its scope and validity window.
        when: Equal for policies that apply to the same actions.
        lift: Equal for policies that are lifted together.
        handles: For each evidence handle its declaration's digest and the records it may use.
        variables: The variable of each attribute, by member of the chain.
    """

    policy: Policy
    gates: tuple[Compare, ...]
    when: object
    lift: object
    handles: tuple[tuple[str, str, tuple[int, ...]], ...]
    variables: dict[tuple[str, int], Variable]


class RuleJudge:
    """Judges both sides of a question as far as its variables have values."""

    def __init__(self, question: RuleQuestion, goal: Goal, ranges: Ranges) -> None:
        """Judge by `goal`; open variables are noted in `ranges`."""
        self._question = question
        self._goal = goal
        self._ranges = ranges
        rules = {policy: self._worked_out(policy) for policy in question.every}
        self._sides = [
            [rules[policy] for policy in sorted(side, key=lambda one: _STRICT.index(one.effect))]
            for side in (question.first, question.second)
        ]
        self._rules = list(rules.values())

    def _worked_out(self, policy: Policy) -> _Rule:
        records = self._question.records
        return _Rule(
            policy=policy,
            gates=tuple(gates_of(policy)),
            when=_when(policy),
            lift=_lift(policy),
            handles=tuple(
                (handle, declaration.digest, tuple(records.of(declaration))) for handle, declaration in policy.evidence
            ),
            variables={},
        )

    def __call__(self, given: Assigned) -> tuple[bool, bool]:
        """Whether the goal may be met, and whether it surely is."""
        found = {rule.policy: self._status(rule, given) for rule in self._rules}
        trusted = given["time"] is not Absent.UNKNOWN
        first, second = (self._reach(side, found, trusted=trusted) for side in self._sides)
        low, high = (max(one[0] for one in first), max(one[1] for one in first))
        other = (max(one[0] for one in second), max(one[1] for one in second))
        watched = self._sides[0]
        if self._goal is exceeds:
            # What binds wherever a rule of the other side binds as strictly is no difference.
            kept = [not self._covered(rule, found) for rule in watched]
            high = max(itertools.compress((one[1] for one in first), (*kept, True)))
            watched = list(itertools.compress(watched, kept))
        possible, certain = self._goal((min(low, high), high), other)
        for rule in (*watched, *self._sides[0], *self._sides[1]):
            self._ranges.open.extend(found[rule.policy].open)
        return possible, certain and possible

    @staticmethod
    def _reach(side: list[_Rule], found: Mapping[Policy, Status], *, trusted: bool) -> list[Range]:
        """How strict each rule makes the outcome, at least and at most; one more range for no rule at all."""
        speakers: list[tuple[int, Maybe]] = []
        for rule in side:
            policy, status = rule.policy, found[rule.policy]
            if policy.effect is Effect.CONFIRM or (policy.effect is Effect.PERMIT and trusted):
                speakers.append((policy.issuer.kind.rank, _both(status.binds, status.certain)))
        reached: list[Range] = []
        for rule in side:
            policy, binds = rule.policy, found[rule.policy].binds
            if policy.effect is Effect.DEFAULT_DENY:
                # 3.1: only a permit or confirm of its own or a higher rank lifts a default.
                binds = _both(binds, _no(_some(said for rank, said in speakers if rank <= policy.issuer.kind.rank)))
            reached.append((_REACH[policy.effect] * binds[0], _REACH[policy.effect] * binds[1]))
        return [*reached, (0, 0)]

    def _covered(self, rule: _Rule, found: Mapping[Policy, Status]) -> bool:
        """Whether wherever a deny or confirm binds, one of the other side surely binds at least as strictly."""
        effect = rule.policy.effect
        return any(
            _REACH[other.policy.effect] >= _REACH[effect]
            and other.policy.effect in {Effect.DENY, Effect.CONFIRM}
            and (found[other.policy].applies[0] or other.when == rule.when)
            and (not found[other.policy].lifted[1] or other.lift == rule.lift)
            for other in self._sides[1]
        )

    # -- one policy ------------------------------------------------------------------------------------

    def _status(self, rule: _Rule, given: Assigned) -> Status:
        self._ranges.open.clear()
        policy = rule.policy
        named, typed = self._named(policy, given), self._typed(policy, given)
        if not named[1] or not typed[1]:
            return Status(_NO, _NO, _NO)
        members = range(max(1, given.get("chain", 0)))
        applies = _both(_YES, typed)
        for gate in rule.gates:
            several = members if gate.attribute == "actor.id" else range(1)
            applies = _both(applies, _some(_binds(self._truth(rule, gate, given, one)) for one in several))
            if not applies[1]:
                return Status(_NO, _NO, _NO)
        wheres = [self._truth(rule, policy.where, given, member) for member in members]
        applies = _both(applies, _some(map(_binds, wheres)))
        if not applies[1]:
            return Status(_NO, _NO, _NO)
        certain = _both(self._sure(policy, given), _every((low == _TRUE, high == _TRUE) for low, high in wheres))
        lifted = self._lifted(rule, given, members)
        if lifted == _YES or (applies[0] and lifted[0] == lifted[1] and certain[0] == certain[1]):
            self._ranges.open.clear()
        return Status(applies, lifted, certain, tuple(dict.fromkeys(self._ranges.open)))

    @staticmethod
    def _named(policy: Policy, given: Assigned) -> Maybe:
        name = given["action.name"]
        fits = name is Absent.UNKNOWN or policy.actions == (ANY_ACTION,) or name in policy.actions
        return fits, fits

    def _typed(self, policy: Policy, given: Assigned) -> Maybe:
        if policy.object_type is None:
            return _YES
        kind = self._read("object.type", given)
        fits = isinstance(kind, Absent) or kind == policy.object_type
        return (False, True) if kind is OPEN else (fits, fits)

    @staticmethod
    def _sure(policy: Policy, given: Assigned) -> Maybe:
        """Whether the action is known, and the type of its object where the policy asks for one."""
        if given["action.name"] is Absent.UNKNOWN:
            return _NO
        kind = given.get("object.type", OPEN)
        fits = policy.object_type is None or kind == policy.object_type
        return (False, True) if kind is OPEN and policy.object_type is not None else (fits, fits)

    def _lifted(self, rule: _Rule, given: Assigned, members: range) -> Maybe:
        unless = rule.policy.unless
        if unless is None:
            return _NO
        if rule.policy.effect is Effect.PERMIT:
            return _some(_binds(self._truth(rule, unless, given, member)) for member in members)
        mark = len(self._ranges.open)
        surely = possibly = False
        for sure, choice in self._choices(rule, given):
            every = _every(
                (low == _TRUE, high == _TRUE)
                for low, high in (self._truth(rule, unless, given, member, choice) for member in members)
            )
            possibly |= every[1]
            surely |= sure and every[0]
            if surely:
                break
        if surely or not possibly:
            del self._ranges.open[mark:]
        return surely, possibly

    def _choices(self, rule: _Rule, given: Assigned) -> Iterator[tuple[bool, dict[str, tuple[int, str]]]]:
        """Every choice of one record or none for each handle, and whether the records surely are there."""
        per_handle: list[list[tuple[str, tuple[int, str] | None, bool]]] = []
        for handle, digest, numbers in rule.handles:
            options: list[tuple[str, tuple[int, str] | None, bool]] = [(handle, None, True)]
            if given["time"] is not Absent.UNKNOWN:  # 3.3: evidence lapses with the clock
                for number in numbers:
                    slot = self._question.records.slot(number)
                    live = given.get(slot, OPEN)
                    if live is OPEN:
                        self._ranges.open.append(slot)
                        options.append((handle, (number, digest), False))
                    elif digest in live:
                        options.append((handle, (number, digest), True))
            per_handle.append(options)
        for picked in itertools.product(*per_handle):
            yield (
                all(sure for _, _, sure in picked),
                {handle: record for handle, record, _ in picked if record is not None},
            )

    # -- conditions ------------------------------------------------------------------------------------

    def _truth(
        self,
        rule: _Rule,
        condition: Condition | None,
        given: Assigned,
        member: int,
        records: Mapping[str, tuple[int, str]] | None = None,
    ) -> Range:
        if condition is None:
            return _TRUE, _TRUE
        return self._ranges.of(condition, self._reader(rule, given, member, records or {}))

    def _reader(
        self, rule: _Rule, given: Assigned, member: int, records: Mapping[str, tuple[int, str]]
    ) -> Callable[[str], Any]:
        def value(name: str) -> Any:  # noqa: ANN401  # a value, an absence or OPEN
            if name.startswith("evidence."):
                _, handle, inner = name.split(".")
                held = records.get(handle)
                if held is None:
                    return Absent.UNKNOWN
                return self._read(self._question.records.field_of(*held, inner), given)
            if name == "actor.id" and not given.get("chain", 0):
                return Absent.UNKNOWN
            variable = rule.variables.get((name, member))
            if variable is None:
                variable = rule.variables[name, member] = _variable(rule.policy, name, member)
            return self._read(variable, given)

        return value

    def _read(self, variable: Variable, given: Assigned) -> Any:  # noqa: ANN401  # a value, an absence or OPEN
        found = given.get(variable, OPEN)
        if found is OPEN:
            self._ranges.open.append(variable)
        elif found is Absent.MISSING and given["action.name"] is Absent.UNKNOWN:
            return Absent.UNKNOWN  # of an unknown action nobody can say that something is missing
        return found


def _when(policy: Policy) -> object:
    return policy.actions, policy.object_type, policy.where, policy.scope, policy.valid_from, policy.valid_until


def _lift(policy: Policy) -> object:
    return policy.unless, policy.evidence, policy.counters, policy.identity if policy.counters else None


def plainly_kept(first: Iterable[Policy], second: Iterable[Policy]) -> bool:
    """Whether the second set holds each rule of the first as it is, or as strictly, so that nothing need be looked at.

    With a default among them all rules must be the same, since a permit or confirm beside it may lift it.
    """
    ours, theirs = (
        {
            (_REACH[one.effect], one.effect, _when(one), _lift(one), one.issuer.kind)
            for one in side
            if one.mediated and one.mode is Mode.ENFORCE
        }
        for side in (first, second)
    )
    if ours == theirs:
        return True
    stops = {Effect.DENY, Effect.CONFIRM}
    return all(
        one[1] is Effect.PERMIT
        or (one[1] in stops and any(one[0] <= two[0] and two[1] in stops and one[2:4] == two[2:4] for two in theirs))
        for one in ours
    )


def _variable(policy: Policy, name: str, member: int) -> Variable:
    if name.startswith("counter."):
        return account_of(policy, name.partition(".")[2])
    return f"actor.id#{member}" if name == "actor.id" else name


def _binds(truth: Range) -> Maybe:
    """Whether a condition is not false."""
    return truth[0] > 0, truth[1] > 0


def _both(one: Maybe, other: Maybe) -> Maybe:
    return one[0] and other[0], one[1] and other[1]


def _no(one: Maybe) -> Maybe:
    return not one[1], not one[0]


def _some(found: Iterable[Maybe]) -> Maybe:
    sure = may = False
    for one in found:
        sure |= one[0]
        may |= one[1]
    return sure, may


def _every(found: Iterable[Maybe]) -> Maybe:
    sure = may = True
    for one in found:
        sure &= one[0]
        may &= one[1]
    return sure, may
