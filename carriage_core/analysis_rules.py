# SPDX-License-Identifier: Apache-2.0
"""Turns a question about two sets of rules into variables, and judges the sets as far as these have values.

The judgement mirrors `ruling`: whether each policy applies, is lifted and speaks, and what prevails (DESIGN 3.2 to
3.5). How many members of a delegation chain and how many evidence records matter follows from the rules: a chain or a
ledger that shows a difference still shows it when all but these are taken away.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from carriage_core.analysis_attributes import Domains, kinds_and_absences
from carriage_core.analysis_points import EPOCH, Point, kinds_of
from carriage_core.analysis_records import Records
from carriage_core.analysis_search import Constraint
from carriage_core.analysis_situation import Witness
from carriage_core.binding import Action
from carriage_core.condition import Attribute, Compare, Operator, attributes, comparisons
from carriage_core.policy import ANY_ACTION, Effect, Mode
from carriage_core.runtime import Moment, RuntimeState
from carriage_core.schema import Absent, Sort
from carriage_core.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from carriage_core.analysis_attributes import Variable
    from carriage_core.analysis_search import Assigned
    from carriage_core.attribute_types import AttributeTypes
    from carriage_core.condition import Condition
    from carriage_core.policy import Policy
    from carriage_core.schema import Value

MAX_CHAIN: Final = 4
"""Longest delegation chain that is looked at; where a longer one could matter there is no yes."""


class RuleQuestion:
    """The variables of a question about two sets of rules.

    Attributes:
        first: The enforced, mediated policies of the first set.
        second: Those of the second.
        domains: What each variable can be.
        constraints: What cannot be together.
        linked: See `Domains`.
        early: What to decide first.
        records: The evidence there can be.
        doubts: Why the absence of a difference is no proof; empty where it is one.
    """

    def __init__(
        self, first: Iterable[Policy], second: Iterable[Policy], types: AttributeTypes | None, *, lifts: bool
    ) -> None:
        """Collect the variables; `lifts` says whether a rule of the second side may have to be lifted.

        Raises:
            UndecidableError: A limit was met.
        """
        self.first, self.second = (
            tuple(dict.fromkeys(one for one in side if one.mediated and one.mode is Mode.ENFORCE))
            for side in (first, second)
        )
        self._types = types
        self._domains = Domains()
        self._found: dict[Variable, list[Point]] = {}
        self._constraints: list[Constraint] = []
        self._named: set[object] = set()
        self.every = tuple(dict.fromkeys((*self.first, *self.second)))
        defaults = any(one.effect is Effect.DEFAULT_DENY for one in self.first)
        lifted = [one for one in self.second if lifts] + [
            one for one in self.first if lifts and defaults and one.effect is Effect.CONFIRM
        ]
        self.records = Records(lifted, self.every)
        self._actors, shortened = self._chain(both=not lifts)
        self._collect()
        self.domains: Mapping[Variable, list[Point]] = {**self._found, **self._domains.listed()}
        for variable in ("action.name", "object.type"):
            # What the rules name comes first: that is where they differ, and what people understand.
            self.domains.get(variable, []).sort(key=lambda point: point.value not in self._named)
        self.linked = self._domains.linked
        self.constraints = (*self._constraints, *self.records.constraints())
        order = ("action.name", "chain", "time")
        self.early = tuple(variable for variable in order if variable in self.domains)
        self.doubts = ""
        if shortened:
            self.doubts = f"delegation chains of more than {MAX_CHAIN} could matter"
        elif self._folders():
            self.doubts = "commands on everything below a folder could be judged as no single path is"
        elif self._own_counters():
            self.doubts = "members of a delegation chain could stand differently to counters of their own"

    # -- which members of a chain matter ------------------------------------------------------------

    def _chain(self, *, both: bool) -> tuple[int, bool]:
        if not any(_reads_actor(policy) for policy in self.every):
            return 0, False
        needed = max((self._members_for(one, self.first) for one in self.first), default=0)
        if both:
            needed += max((self._members_for(one, self.second) for one in self.second), default=0)
        elif any(one.effect is Effect.DEFAULT_DENY for one in self.second):
            needed += sum(self._failing(one) for one in self.second if one.effect is Effect.CONFIRM)
        needed = max(needed, 1)
        return min(needed, MAX_CHAIN), needed > MAX_CHAIN

    def _members_for(self, policy: Policy, side: tuple[Policy, ...]) -> int:
        """How many members it takes to show that a policy binds: each that makes one thing so which must be so."""
        needed = (_reads(policy.where) + (policy.scope.agent is not None)) + self._failing(policy)
        if policy.effect is Effect.DEFAULT_DENY:
            speakers = (one for one in side if one.effect in {Effect.PERMIT, Effect.CONFIRM})
            needed += sum(_reads(one.where) or _reads(one.unless) for one in speakers)
        return needed

    def _failing(self, policy: Policy) -> int:
        """How many members it takes to show that nothing lifts a policy: one for each choice of records."""
        if not _reads(policy.unless):
            return 0
        choices = 1
        for _, declaration in policy.evidence:
            choices *= 1 + len(self.records.of(declaration))
        return choices

    def _folders(self) -> bool:
        """Whether a command on a whole folder is more than its paths one by one (see `views.views_of`).

        A rule that binds for one of the paths binds for the folder. But what lifts must hold for all paths.
        """
        if self._types is not None and "object.within" not in self._types.sorts:
            return False
        if any("object.path" in attributes(policy.unless) for policy in self.every):
            return True
        lifting = any(policy.effect is Effect.DEFAULT_DENY for policy in self.every)
        return lifting and any("object.path" in attributes(policy.where) for policy in self.every)

    def _own_counters(self) -> bool:
        """Whether counters keyed by the actor could differ along a chain in a way that one sum does not show.

        Where nothing else tells the members apart, a rule that stands for a chain stands for one of its members alone.
        """
        if not any("actor.id" in one.key for policy in self.every for _, one in policy.counters):
            return False
        return any(
            policy.scope.agent is not None
            or _reads(policy.where)
            or _reads(policy.unless)
            or policy.effect is Effect.DEFAULT_DENY
            for policy in self.every
        )

    # -- variables -----------------------------------------------------------------------------------

    def _add(self, name: str) -> None:
        self._domains.add(name, *kinds_and_absences(name, self._types))

    def _collect(self) -> None:
        self._add("action.name")
        named = {action for policy in self.every for action in policy.actions if action != ANY_ACTION}
        for action in sorted(named):
            self._domains.compare(["action.name"], Compare("action.name", Operator.EQ, action))
        # Whether the action is known matters beside what it is called.
        self._domains.compare(["action.name"], Compare("action.name", Operator.EXISTS))
        self._named |= named
        typed = sorted({policy.object_type for policy in self.every if policy.object_type is not None})
        self._named |= set(typed)
        if typed:
            self._add("object.type")
            self._domains.compare(["object.type"], Compare("object.type", Operator.EXISTS))
        for kind in typed:
            self._domains.compare(["object.type"], Compare("object.type", Operator.EQ, kind))
        self._add("time")
        # Permits, evidence and counters end with the clock.
        self._domains.compare(["time"], Compare("time", Operator.EXISTS))
        if self._actors:
            lengths = [*range(1, self._actors + 1), 0]
            self._found["chain"] = [Point(length, length, 0) for length in lengths]
            for number in range(self._actors):
                self._domains.add(f"actor.id#{number}", kinds_and_absences("actor.id", None)[0], ())
        self.records.declare(self._domains, self._found)
        for policy in self.every:
            for counter in dict(policy.counters):
                self._counter(policy, counter)
        for policy in self.every:
            for atom in (*gates_of(policy), *comparisons(policy.where), *comparisons(policy.unless)):
                self._compare(policy, atom)

    def _compare(self, policy: Policy, atom: Compare) -> None:
        left = self._instances(policy, atom.attribute)
        right = self._instances(policy, atom.operand.name) if isinstance(atom.operand, Attribute) else []
        self._domains.compare(left, atom, right)

    def _instances(self, policy: Policy, name: str) -> list[Variable]:
        """The variables that an attribute may be read from."""
        root, *rest = name.split(".")
        if root == "evidence":
            declaration = policy.declarations[rest[0]]
            return [self.records.field(slot, declaration, rest[1]) for slot in self.records.of(declaration)]
        if root == "counter":
            return [account_of(policy, rest[0])]
        if name == "actor.id":
            return [f"actor.id#{number}" for number in range(self._actors)]
        self._add(name)
        return [name]

    def _counter(self, policy: Policy, counter: str) -> None:
        """A counter stands at what was charged before and what this call adds (DESIGN 3.5)."""
        declaration = dict(policy.counters)[counter]
        account, amount = account_of(policy, counter), declaration.amount
        zero = Compare(account, Operator.GE, Decimal(0 if amount else 1))
        kinds = kinds_of({Sort.INTEGER})
        if amount is not None:
            self._add(amount)
            declared = kinds_and_absences(amount, self._types)[0]
            kinds = (declared & kinds_of({Sort.INTEGER, Sort.MONEY})) or kinds_of({Sort.NUMBER})
            if Sort.NUMBER in declared:
                kinds = kinds_of({Sort.NUMBER})
        self._domains.add(account, kinds, (Absent.UNKNOWN,))
        self._domains.keep(account)
        self._domains.compare([account], zero)
        if amount is not None:
            self._domains.link(account, amount, ordered=True)
            self._domains.compare([amount], zero)
        keys = [name for name in declaration.key if name != "actor.id"]
        for name in keys:
            self._add(name)
            self._domains.keep(name)
        watched = {account, "time", *keys, *(() if amount is None else (amount,))}
        by_actor = self._actors > 0 and "actor.id" in declaration.key
        if by_actor:
            watched.add("chain")

        def allows(given: Assigned) -> bool:
            added = Decimal(1) if amount is None else given[amount]
            known = (
                given["time"] is not Absent.UNKNOWN
                and isinstance(added, Decimal)
                and added >= 0
                and not any(isinstance(given[name], Absent) for name in keys)
                and not (by_actor and given["chain"] == 0)
            )
            stands = given[account]
            return stands is Absent.UNKNOWN or (known and stands >= added)

        self._constraints.append(Constraint(frozenset(watched), allows))

    # -- back from values to a situation ---------------------------------------------------------------

    def situation(self, given: Assigned) -> Witness:
        """The situation that some values describe."""
        plain: dict[str, Value | Absent] = {
            name: value
            for name, value in given.items()
            if name.startswith(("object.", "action."))
            or not (name in _NOT_OF_THE_ACTION or name.startswith(("record#", "counter ", "actor.id#")))
        }
        name, kind = given["action.name"], plain.get("object.type")
        opaque = name is Absent.UNKNOWN
        attributes = {one: value for one, value in plain.items() if value is not Absent.MISSING}
        if opaque:
            del attributes["action.name"]
        tool, external = attributes.get("action.tool", "some_tool"), attributes.get("action.external", True)
        now = given["time"]
        trusted = isinstance(now, datetime)
        charged: list[tuple[Policy, str, Decimal | None]] = []
        seen: set[Variable] = set()
        for policy in self.every:
            for counter, declaration in policy.counters:
                account = account_of(policy, counter)
                if trusted and account not in seen:
                    seen.add(account)
                    added = Decimal(1) if declaration.amount is None else given[declaration.amount]
                    stands = given[account]
                    charged.append((policy, counter, None if stands is Absent.UNKNOWN else stands - added))
        unknown = Absent.UNKNOWN
        tenant, task = given.get("tenant", unknown), given.get("task", unknown)
        return Witness(
            action=Action(
                name=None if opaque else name,
                tool=str(tool),
                object_type=kind if isinstance(kind, str) else None,
                external=bool(external),
                attributes=attributes,
            ),
            runtime=RuntimeState(
                tenant=None if tenant is unknown else tenant,
                task=None if task is unknown else task,
                chain=tuple(given[f"actor.id#{number}"] for number in range(given.get("chain", 0))),
            ),
            moment=Moment(now=now if trusted else EPOCH, trusted=trusted),
            first=Outcome.ALLOW,
            second=Outcome.ALLOW,
            records=tuple(self.records.filed(given)) if trusted else (),
            charged=tuple(charged),
        )


_NOT_OF_THE_ACTION: Final = frozenset({"time", "tenant", "task", "chain"})


def gates_of(policy: Policy) -> Iterator[Compare]:
    """What a scope and a validity window ask, as comparisons: unknown applies, like in a `where` (DESIGN 3.2)."""
    scope = policy.scope
    for name, value in (("tenant", scope.tenant), ("task", scope.task), ("actor.id", scope.agent)):
        if value is not None:
            yield Compare(name, Operator.EQ, value)
    if policy.valid_from is not None:
        yield Compare("time", Operator.GE, policy.valid_from)
    if policy.valid_until is not None:
        yield Compare("time", Operator.LT, policy.valid_until)


def _reads(condition: Condition | None) -> bool:
    return "actor.id" in attributes(condition)


def _reads_actor(policy: Policy) -> bool:
    counted = any("actor.id" in declaration.key for _, declaration in policy.counters)
    return policy.scope.agent is not None or _reads(policy.where) or _reads(policy.unless) or counted


def account_of(policy: Policy, counter: str) -> Variable:
    """One variable for each counter there is: those of one policy's versions are the same (see `counters`)."""
    declaration = dict(policy.counters)[counter]
    return f"counter {policy.identity} {counter} {declaration}"
