"""The same questions put to z3: two Booleans for each three-valued atom, is-true and is-false.

Written apart from the analysis and from the evaluator: conditions become formulas over tagged values, sets of rules
over a chain of up to three members and up to three evidence records.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import z3

from carriage_core.condition import All, AnyOf, Attribute, Compare, Condition, Not, Operator
from carriage_core.policy import Effect, Mode, Policy
from carriage_core.schema import FilePath, Sort
from integration_tests.core.analysis_samples import SORTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

MISSING, UNKNOWN, TEXT, NUMBER, BOOL, TIME, PATH = range(7)
CHAIN, RECORDS = 3, 3
_TAGS = {
    Sort.ID: (TEXT,),
    Sort.TEXT: (TEXT,),
    Sort.MONEY: (NUMBER,),
    Sort.INTEGER: (NUMBER,),
    Sort.NUMBER: (NUMBER,),
    Sort.BOOL: (BOOL,),
    Sort.TIME: (TIME,),
    Sort.PATH: (PATH,),
    Sort.ANY: (TEXT, NUMBER, BOOL),
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

type Pair = tuple[Any, Any]
"""Is-true and is-false."""


def _any_text() -> Any:
    return z3.Star(z3.Range(" ", "~"))


def _id_text() -> Any:
    hexadecimal = z3.Union(z3.Range("0", "9"), z3.Range("a", "f"), z3.Range("A", "F"))
    every = z3.Star(z3.Range(" ", "~"))
    starts = z3.Union(z3.Range("a", "z"), z3.Range("A", "Z"), z3.Re("_"), z3.Re("{"), z3.Re("("))
    bad = z3.Union(
        z3.Concat(every, z3.Re("%"), hexadecimal, hexadecimal, every),
        z3.Concat(every, z3.Re("$"), starts, every),
        z3.Concat(z3.Re("~"), every),
    )
    return z3.Intersect(every, z3.Complement(bad))


def _path_text() -> Any:
    # One letter, the dot, and what the literals are made of: enough kinds of characters for a segment.
    inside = z3.Union(z3.Range("a", "z"), z3.Re("."))
    segment = z3.Intersect(z3.Plus(inside), z3.Complement(z3.Union(z3.Re("."), z3.Re(".."))))
    return z3.Union(z3.Re("/"), z3.Plus(z3.Concat(z3.Re("/"), segment)))


@dataclass(frozen=True)
class Tagged:
    """One value: its tag, and what it is under each tag."""

    tag: Any
    text: Any
    number: Any
    flag: Any
    time: Any

    @property
    def there(self) -> Any:
        return self.tag >= TEXT


class World:
    """The variables of one question, made as they are asked for."""

    def __init__(self) -> None:
        self.laws: list[Any] = []
        self._made: dict[str, Tagged] = {}

    def value(self, name: str, sort: Sort, *absent: int) -> Tagged:
        if name not in self._made:
            tag = z3.Int(f"{name} tag")
            made = Tagged(
                tag,
                z3.String(f"{name} text"),
                z3.Real(f"{name} number"),
                z3.Bool(f"{name} flag"),
                z3.Int(f"{name} time"),
            )
            self._made[name] = made
            self.laws.append(z3.Or(*(tag == one for one in (*_TAGS[sort], *absent))))
            if TEXT in _TAGS[sort]:
                self.laws.append(z3.InRe(made.text, _any_text() if sort is Sort.TEXT else _id_text()))
            if PATH in _TAGS[sort]:
                self.laws.append(z3.InRe(made.text, _path_text()))
            if sort in {Sort.INTEGER, Sort.MONEY}:
                self.laws.append(z3.IsInt(made.number * (100 if sort is Sort.MONEY else 1)))
        return self._made[name]

    def attribute(self, name: str) -> Tagged:
        return self.value(name, SORTS.get(name, Sort.ID), MISSING, UNKNOWN)


def _literal(value: object) -> tuple[int, Any]:
    if isinstance(value, bool):
        return BOOL, z3.BoolVal(value)
    if isinstance(value, Decimal):
        return NUMBER, z3.RealVal(str(value))
    if isinstance(value, datetime):
        return TIME, z3.IntVal(round((value - _EPOCH).total_seconds()) * 10**6 + value.microsecond)
    if isinstance(value, FilePath):
        return PATH, z3.StringVal(value.text)
    return TEXT, z3.StringVal(str(value))


def _part(held: Tagged, tag: int) -> Any:
    return {TEXT: held.text, PATH: held.text, NUMBER: held.number, BOOL: held.flag, TIME: held.time}[tag]


def _glob(pattern: str) -> Any:
    pieces: list[Any] = []
    for piece in pattern.replace("\\*", "\0").split("*"):
        pieces += [z3.Re(piece.replace("\0", "*")), z3.Full(z3.ReSort(z3.StringSort()))]
    parts = pieces[:-1]
    return parts[0] if len(parts) == 1 else z3.Concat(*parts)


def _decided(there: Any, holds: Any) -> Pair:
    return z3.And(there, holds), z3.And(there, z3.Not(holds))


def _order(operator: Operator, left: Any, right: Any) -> Any:
    match operator:
        case Operator.EQ:
            return left == right
        case Operator.NE:
            return left != right
        case Operator.LT:
            return left < right
        case Operator.LE:
            return left <= right
        case Operator.GT:
            return left > right
        case _:
            return left >= right


def atom(compare: Compare, read: Callable[[str], Tagged]) -> Pair:
    """One comparison."""
    left = read(compare.attribute)
    operator, operand = compare.operator, compare.operand
    if operator is Operator.EXISTS:
        return left.there, left.tag == MISSING
    if isinstance(operand, Attribute):
        right = read(operand.name)
        ordered = operator not in {Operator.EQ, Operator.NE}
        found = [
            _decided(z3.And(left.tag == tag, right.tag == tag), _order(operator, _part(left, tag), _part(right, tag)))
            for tag in ((NUMBER, TIME) if ordered else (TEXT, NUMBER, BOOL, TIME, PATH))
        ]
        return z3.Or(*(one[0] for one in found)), z3.Or(*(one[1] for one in found))
    if isinstance(operand, tuple):
        found = [atom(Compare(compare.attribute, Operator.EQ, literal), read) for literal in operand]
        return z3.Or(*(one[0] for one in found)), z3.And(*(one[1] for one in found))
    tag, right = _literal(operand)
    if operator in {Operator.SUFFIX, Operator.CONTAINS, Operator.GLOB} or (operator is Operator.PREFIX and tag == TEXT):
        there = left.tag == TEXT if operator is Operator.PREFIX else z3.Or(left.tag == TEXT, left.tag == PATH)
        holds = {
            Operator.PREFIX: lambda: z3.PrefixOf(right, left.text),
            Operator.SUFFIX: lambda: z3.SuffixOf(right, left.text),
            Operator.CONTAINS: lambda: z3.Contains(left.text, right),
            Operator.GLOB: lambda: z3.InRe(left.text, _glob(str(operand))),
        }[operator]()
        return _decided(there, holds)
    if operator is Operator.PREFIX and isinstance(operand, FilePath):
        below = z3.PrefixOf(z3.StringVal(operand.text.rstrip("/") + "/"), left.text)
        return _decided(left.tag == PATH, z3.Or(left.text == right, below))
    return _decided(left.tag == tag, _order(operator, _part(left, tag), right))


def formula(condition: Condition | None, read: Callable[[str], Tagged]) -> Pair:
    """A whole condition."""
    match condition:
        case None:
            return z3.BoolVal(True), z3.BoolVal(False)
        case Compare():
            return atom(condition, read)
        case Not(part):
            true, false = formula(part, read)
            return false, true
        case All(parts):
            found = [formula(part, read) for part in parts]
            return z3.And(*(one[0] for one in found)), z3.Or(*(one[1] for one in found))
        case AnyOf(parts):
            found = [formula(part, read) for part in parts]
            return z3.Or(*(one[0] for one in found)), z3.And(*(one[1] for one in found))


def _says(world: World, difference: Any, timeout: int) -> str:
    solver = z3.Solver()
    solver.set("timeout", timeout)
    solver.add(*world.laws, difference)
    return {"sat": "no", "unsat": "yes"}.get(str(solver.check()), "unknown")


def ask_conditions(kind: str, first: Condition, second: Condition, timeout: int = 4_000) -> str:
    """Answer yes, no or unknown."""
    world = World()
    (true, false), (other_true, other_false) = (formula(one, world.attribute) for one in (first, second))
    more = z3.Or(z3.And(true, z3.Not(other_true)), z3.And(z3.Not(false), other_false))
    less = z3.Or(z3.And(other_true, z3.Not(true)), z3.And(z3.Not(other_false), false))
    return _says(
        world, {"implies": more, "equivalent": z3.Or(more, less), "disjoint": z3.And(true, other_true)}[kind], timeout
    )


# -- rules -----------------------------------------------------------------------------------------


class Situation(World):
    """What a decision rests on: an action, a chain, a clock that may not be trusted, and records."""

    def __init__(self, policies: Iterable[Policy]) -> None:
        super().__init__()
        self.known = z3.Bool("action known")
        self.action = z3.String("action")
        self.typed = z3.Bool("type known")
        self.kind = z3.String("type")
        self.length = z3.Int("chain length")
        self.trusted = z3.Bool("clock trusted")
        self.now = z3.Int("now")
        self.tenant_known = z3.Bool("tenant known")
        self.tenant = z3.String("tenant")
        self.laws += [self.length >= 0, self.length <= CHAIN]
        lives = sorted({one.expires_seconds or 10**9 for policy in policies for _, one in policy.evidence})
        self.ages = [z3.Int(f"age {number}") for number in range(RECORDS)]
        self.lives = lives
        # Per key one record is live.
        for one, other in itertools.combinations(range(RECORDS), 2):
            self.laws.append(self.field(one, "artifact").text != self.field(other, "artifact").text)
        self.laws += [age >= 0 for age in self.ages]

    def member(self, number: int) -> Tagged:
        held = self.value(f"actor {number}", Sort.ID)
        return Tagged(z3.If(self.length == 0, UNKNOWN, TEXT), held.text, held.number, held.flag, held.time)

    def field(self, record: int, name: str) -> Tagged:
        return self.value(f"record {record} {name}", Sort.ID)

    def live(self, record: int, life: int | None) -> Any:
        return z3.And(self.trusted, self.ages[record] < (life or 10**9))

    def reader(self, member: int, record: int | None) -> Callable[[str], Tagged]:
        def read(name: str) -> Tagged:
            if name == "actor.id":
                return self.member(member)
            if name.startswith("evidence."):
                if record is None:
                    blank = self.field(0, "status")
                    return Tagged(z3.IntVal(UNKNOWN), blank.text, blank.number, blank.flag, blank.time)
                return self.field(record, name.rpartition(".")[2])
            held = self.attribute(name)
            tag = z3.If(z3.And(z3.Not(self.known), held.tag == MISSING), UNKNOWN, held.tag)
            return Tagged(tag, held.text, held.number, held.flag, held.time)

        return read

    def _each(self, pick: Callable[[int], Any]) -> list[tuple[Any, Any]]:
        """For each member: whether it is there, and what it says. Of an empty chain, one unknown member."""
        return [(z3.Or(self.length > number, number == 0), pick(number)) for number in range(CHAIN)]

    def some(self, pick: Callable[[int], Any]) -> Any:
        return z3.Or(*(z3.And(there, said) for there, said in self._each(pick)))

    def every(self, pick: Callable[[int], Any]) -> Any:
        return z3.And(*(z3.Implies(there, said) for there, said in self._each(pick)))

    def applies(self, policy: Policy) -> Any:
        named = z3.BoolVal(True) if policy.actions == ("*",) else z3.Or(*(self.action == one for one in policy.actions))
        parts = [z3.Or(z3.Not(self.known), named)]
        if policy.object_type is not None:
            parts.append(z3.Or(z3.Not(self.typed), self.kind == policy.object_type))
        if policy.scope.tenant is not None:
            parts.append(z3.Or(z3.Not(self.tenant_known), self.tenant == policy.scope.tenant))
        if policy.scope.agent is not None:
            agent = policy.scope.agent
            parts.append(z3.Or(self.length == 0, self.some(lambda number: self.member(number).text == agent)))
        if policy.valid_until is not None:
            parts.append(z3.Or(z3.Not(self.trusted), self.now < _literal(policy.valid_until)[1]))
        parts.append(self.some(lambda number: z3.Not(formula(policy.where, self.reader(number, None))[1])))
        return z3.And(*parts)

    def certain(self, policy: Policy) -> Any:
        named = z3.BoolVal(True) if policy.actions == ("*",) else z3.Or(*(self.action == one for one in policy.actions))
        parts = [self.known, named]
        if policy.object_type is not None:
            parts += [self.typed, self.kind == policy.object_type]
        parts.append(self.every(lambda number: formula(policy.where, self.reader(number, None))[0]))
        return z3.And(*parts)

    def lifted(self, policy: Policy) -> Any:
        if policy.unless is None:
            return z3.BoolVal(False)
        unless = policy.unless
        choices = [self.every(lambda number: formula(unless, self.reader(number, None))[0])]
        for _, declaration in policy.evidence:
            for record in range(RECORDS):
                holds = self.every(lambda number, held=record: formula(unless, self.reader(number, held))[0])
                choices.append(z3.And(self.live(record, declaration.expires_seconds), holds))
        return z3.Or(*choices)

    def stops(self, policies: Iterable[Policy]) -> tuple[Any, Any]:
        """Whether a set denies, and whether it holds for confirmation."""
        policies = [one for one in policies if one.mode is Mode.ENFORCE]
        speaks: list[tuple[int, Any]] = []
        for one in policies:
            if one.effect is Effect.CONFIRM:
                said = z3.And(self.applies(one), self.certain(one), z3.Not(self.lifted(one)))
                speaks.append((one.issuer.kind.rank, said))
            elif one.effect is Effect.PERMIT:
                maybe = z3.BoolVal(False)
                if one.unless is not None:
                    maybe = self.some(
                        lambda number, held=one: z3.Not(formula(held.unless, self.reader(number, None))[1])
                    )
                said = z3.And(self.trusted, self.applies(one), self.certain(one), z3.Not(maybe))
                speaks.append((one.issuer.kind.rank, said))
        denies: list[Any] = []
        holds: list[Any] = []
        for one in policies:
            binds = z3.And(self.applies(one), z3.Not(self.lifted(one)))
            if one.effect is Effect.DENY:
                denies.append(binds)
            elif one.effect is Effect.CONFIRM:
                holds.append(binds)
            elif one.effect is Effect.DEFAULT_DENY:
                lifting = [said for rank, said in speaks if rank <= one.issuer.kind.rank]
                denies.append(z3.And(binds, *(z3.Not(said) for said in lifting)))
        return z3.Or(*denies), z3.Or(*holds)


def ask_rules(kind: str, first: tuple[Policy, ...], second: tuple[Policy, ...], timeout: int = 6_000) -> str:
    """Answer yes, no or unknown."""
    world = Situation((*first, *second))
    (denies, holds), (other_denies, other_holds) = world.stops(first), world.stops(second)
    stopped, other = z3.Or(denies, holds), z3.Or(other_denies, other_holds)
    more = z3.Or(z3.And(denies, z3.Not(other_denies)), z3.And(stopped, z3.Not(other)))
    less = z3.Or(z3.And(other_denies, z3.Not(denies)), z3.And(other, z3.Not(stopped)))
    asked = {"complete": more, "sound": less, "equivalent": z3.Or(more, less), "disjoint": z3.And(stopped, other)}
    return _says(world, asked[kind], timeout)
