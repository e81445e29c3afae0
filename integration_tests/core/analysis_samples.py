"""Questions for the analysis, drawn from a seed: conditions and small sets of rules over a few attributes.

Literals lie close together on purpose (500, 500.01, 501; "a", "ab", "a*b"), so that most answers turn on a detail.
"""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random

from carriage_core.attribute_types import AttributeTypes
from carriage_core.binding import AttributeSource, ToolBinding
from carriage_core.condition import All, AnyOf, Attribute, Compare, Condition, Not, Operator, all_of, any_of
from carriage_core.policy import (
    Effect,
    EvidenceDeclaration,
    FieldOrigin,
    FieldSource,
    Issuer,
    IssuerKind,
    Mode,
    Policy,
    Scope,
)
from carriage_core.schema import FilePath, Sort

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
SORTS = {
    "object.id": Sort.ID,
    "object.owner": Sort.ID,
    "object.note": Sort.TEXT,
    "object.amount": Sort.MONEY,
    "object.count": Sort.INTEGER,
    "object.most": Sort.INTEGER,
    "object.rate": Sort.NUMBER,
    "object.flag": Sort.BOOL,
    "object.when": Sort.TIME,
    "object.path": Sort.PATH,
    "object.any": Sort.ANY,
}
TYPES = AttributeTypes({name: frozenset({sort}) for name, sort in SORTS.items()})

_TEXTS = ("a", "ab", "b", "acme/x", "")
_PARTS = ("a", "b", "ab", "/", "")
_GLOBS = ("a*", "*b", "a*b", "*", "*a*b*", "ab")
_NUMBERS = {
    Sort.MONEY: (Decimal(5), Decimal("5.01"), Decimal("5.5"), Decimal(6)),
    Sort.INTEGER: (Decimal(0), Decimal(1), Decimal(2), Decimal("1.5")),
    Sort.NUMBER: (Decimal(1), Decimal("1.5"), Decimal(2)),
}
_TIMES = (NOW, NOW + timedelta(microseconds=1), NOW + timedelta(microseconds=3))
_PATHS = tuple(map(FilePath, ("/", "/a", "/a/b", "/ab")))
_ORDER = (Operator.LT, Operator.LE, Operator.GT, Operator.GE)
_EQUAL = (Operator.EQ, Operator.NE)
_STRING = (Operator.PREFIX, Operator.SUFFIX, Operator.CONTAINS)
# What can be compared with what.
_FELLOWS = (
    ("object.id", "object.owner"),
    ("object.id", "object.note"),
    ("object.count", "object.most"),
    ("object.rate", "object.count"),
    ("object.amount", "object.count"),
    ("object.id", "object.any"),
    ("object.any", "object.rate"),
)


def drawn(label: str, seed: int) -> Random:
    """The source of one question."""
    return Random(f"{label} {seed}")  # noqa: S311  # no secrets


def comparison(rng: Random, names: list[str]) -> Compare:  # noqa: PLR0911  # one return a sort
    """Draw one comparison."""
    name = rng.choice(names)
    if rng.random() < 0.1:
        return Compare(name, Operator.EXISTS)
    fellows = [pair for pair in _FELLOWS if set(pair) <= set(names)]
    if fellows and rng.random() < 0.25:
        left, right = rng.sample(rng.choice(fellows), 2)
        numeric = {SORTS[left], SORTS[right]} <= set(_NUMBERS)
        return Compare(left, rng.choice(_EQUAL + (_ORDER if numeric else ())), Attribute(right))
    sort = SORTS.get(name, Sort.ID)
    if sort is Sort.ANY:
        sort = rng.choice((Sort.ID, Sort.NUMBER, Sort.BOOL))
    match sort:
        case Sort.BOOL:
            return Compare(name, rng.choice(_EQUAL), rng.random() < 0.5)
        case Sort.TIME:
            return Compare(name, rng.choice(_EQUAL + _ORDER), rng.choice(_TIMES))
        case Sort.PATH if rng.random() < 0.7:
            return Compare(name, rng.choice((*_EQUAL, Operator.PREFIX, Operator.PREFIX)), rng.choice(_PATHS))
        case Sort.PATH:
            return Compare(name, rng.choice(_STRING[1:]), rng.choice(_PARTS))
        case Sort.MONEY | Sort.INTEGER | Sort.NUMBER:
            if rng.random() < 0.15:
                return Compare(name, Operator.IN, tuple(rng.sample(_NUMBERS[sort], 2)))
            return Compare(name, rng.choice(_EQUAL + _ORDER), rng.choice(_NUMBERS[sort]))
        case _:
            operator = rng.choice((*_EQUAL, *_EQUAL, Operator.IN, *_STRING, Operator.GLOB))
            if operator is Operator.IN:
                return Compare(name, operator, tuple(rng.sample(_TEXTS, 2)))
            pool = _GLOBS if operator is Operator.GLOB else _PARTS if operator in _STRING else _TEXTS
            return Compare(name, operator, rng.choice(pool))


def condition(rng: Random, names: list[str], depth: int = 2) -> Condition:
    """Draw a tree."""
    shape = rng.random()
    if depth == 0 or shape < 0.35:
        return comparison(rng, names)
    if shape < 0.5:
        return Not(condition(rng, names, depth - 1))
    parts = [condition(rng, names, depth - 1) for _ in range(rng.choice((2, 2, 3)))]
    return all_of(*parts) if shape < 0.75 else any_of(*parts)


def altered(rng: Random, tree: Condition, names: list[str]) -> Condition:
    """Say the same otherwise, or change one detail: questions whose answer is yes are rare among unrelated trees."""
    match tree:
        case Not(part):
            return part if rng.random() < 0.1 else Not(altered(rng, part, names))
        case All(parts) | AnyOf(parts):
            rest = list(parts)
            where = rng.randrange(len(rest))
            choice = rng.random()
            join = all_of if isinstance(tree, All) else any_of
            if choice < 0.35:  # de Morgan
                other = any_of if join is all_of else all_of
                return Not(other(*(Not(part) for part in rest)))
            if choice < 0.5:
                rng.shuffle(rest)
            elif choice < 0.65 and len(rest) > 1:
                del rest[where]
            elif choice < 0.75:
                rest.append(condition(rng, names, 0))
            else:
                rest[where] = altered(rng, rest[where], names)
            return join(*rest)
        case Compare(name, operator, operand):
            turned = {
                Operator.LT: Operator.GE,
                Operator.GE: Operator.LT,
                Operator.GT: Operator.LE,
                Operator.LE: Operator.GT,
                Operator.EQ: Operator.NE,
                Operator.NE: Operator.EQ,
            }
            if rng.random() < 0.5 and operator in turned:
                return Not(Compare(name, turned[operator], operand))
            return comparison(rng, [name]) if rng.random() < 0.4 else tree
    return tree


def condition_pair(rng: Random) -> tuple[Condition, Condition]:
    """Draw two conditions of which one is often the other in other words."""
    names = rng.sample(sorted(SORTS), rng.choice((1, 2, 2, 3)))
    first = condition(rng, names)
    return first, altered(rng, first, names) if rng.random() < 0.7 else condition(rng, names)


# -- rules -----------------------------------------------------------------------------------------

ACTIONS = ("send", "delete")
DECLARATIONS = tuple(
    EvidenceDeclaration(
        from_tool="verify",
        key=("artifact",),
        fields=(
            ("artifact", FieldSource(origin=FieldOrigin.ARGUMENT, path="artifact", sort=Sort.ID)),
            ("status", FieldSource(origin=FieldOrigin.RESULT, path="status", sort=Sort.ID)),
        ),
        expires_seconds=life,
    )
    for life in (None, 3600)
)
BINDINGS = (
    *(
        ToolBinding(
            tool=f"{action}_{kind or 'thing'}",
            action=action,
            object_type=kind,
            object_attributes=tuple(
                sorted(
                    (name.removeprefix("object."), AttributeSource(argument=name.removeprefix("object."), sort=sort))
                    for name, sort in SORTS.items()
                )
            ),
        )
        for action in (*ACTIONS, "look")
        for kind in ("mail", "file", None)
    ),
    ToolBinding(
        tool="verify",
        action="verify",
        external=False,
        object_type="proof",
        object_attributes=(("artifact", AttributeSource(argument="artifact", sort=Sort.ID)),),
        trusted_evidence=True,
    ),
)


@dataclasses.dataclass(frozen=True)
class Shape:
    """What rules of one question may use.

    Attributes:
        names: Attributes.
        actors: Whether they read who acts.
        evidence: Whether they read evidence.
        focus: "chains" for rules about who acts, "defaults" for permits and what they lift, else empty.
    """

    names: tuple[str, ...]
    actors: bool
    evidence: bool
    focus: str = ""


def shape(rng: Random) -> Shape:
    """Draw what the rules of one question use; not everything at once, or nothing can be compared with z3."""
    focus = rng.choice(("", "", "", "chains", "defaults"))
    if focus == "chains":
        return Shape(names=(), actors=True, evidence=False, focus=focus)
    names = rng.sample(sorted(SORTS), rng.choice((1, 2)))
    if focus == "defaults":
        return Shape(names=tuple(names[:1]), actors=rng.random() < 0.3, evidence=False, focus=focus)
    evidence = rng.random() < 0.35
    if evidence and "object.id" not in names:
        names.append("object.id")
    return Shape(names=tuple(names), actors=rng.random() < 0.3, evidence=evidence)


def policy(rng: Random, used: Shape, name: str) -> Policy:
    """Draw one rule."""
    names = [*used.names, *(("actor.id",) if used.actors else ())]
    effects = (Effect.DENY, Effect.DENY, Effect.CONFIRM, Effect.DEFAULT_DENY, Effect.PERMIT)
    effect = rng.choice(effects[2:] if used.focus == "defaults" else effects)
    where = condition(rng, names, 1) if rng.random() < 0.7 else None
    unless, evidence = None, ()
    if effect is not Effect.PERMIT and used.evidence and rng.random() < 0.6:
        parts: list[Condition] = [Compare("evidence.proof.status", Operator.EQ, rng.choice(("ok", "bad")))]
        if rng.random() < 0.7:
            parts.append(Compare("evidence.proof.artifact", Operator.EQ, Attribute("object.id")))
        if rng.random() < 0.3:
            parts.append(comparison(rng, names))
        unless, evidence = all_of(*parts), (("proof", rng.choice(DECLARATIONS)),)
    elif rng.random() < 0.4:
        unless = condition(rng, names, 1)
    if used.focus:
        return Policy(
            id=name,
            issuer=Issuer(kind=IssuerKind.DEVELOPER, name="team"),
            effect=effect,
            actions=("send",),
            object_type=rng.choice((None, "mail")) if used.focus == "defaults" else None,
            where=where,
            unless=unless,
            text="The rule says so.",
        )
    return Policy(
        id=name,
        issuer=Issuer(kind=rng.choice((IssuerKind.ORGANIZATION, IssuerKind.DEVELOPER)), name="team"),
        effect=effect,
        actions=rng.choice((("send",), ("delete",), ("send", "delete"), ("*",), ("send",))),
        object_type=rng.choice((None, None, "mail", "file")),
        where=where,
        unless=unless,
        evidence=evidence,
        scope=rng.choice(
            (Scope(), Scope(), Scope(), Scope(tenant="acme"), Scope(agent="bot") if used.actors else Scope())
        ),
        valid_until=NOW if rng.random() < 0.05 else None,
        mode=Mode.OBSERVE if rng.random() < 0.05 else Mode.ENFORCE,
        text="The rule says so.",
    )


def changed(rng: Random, rule: Policy, used: Shape) -> Policy:
    """Change nothing or one part of a rule."""
    names = [*used.names, *(("actor.id",) if used.actors else ())]
    other = policy(rng, used, rule.id)
    if used.focus == "chains" and rule.unless is not None and rng.random() < 0.5:
        # The same for one actor, and not for a chain: what lifts must hold for all members.
        where = Not(rule.unless) if rule.where is None else all_of(rule.where, Not(rule.unless))
        return dataclasses.replace(rule, where=where, unless=None)
    match rng.randrange(6):
        case 0 if rule.where is not None:
            return dataclasses.replace(rule, where=altered(rng, rule.where, names))
        case 1 if rule.unless is not None and not rule.evidence:
            return dataclasses.replace(rule, unless=altered(rng, rule.unless, names))
        case 2 if Effect.PERMIT not in {rule.effect, other.effect}:
            return dataclasses.replace(rule, effect=other.effect)
        case 3 if rule.evidence or rule.effect is not Effect.PERMIT:
            return (
                dataclasses.replace(rule, unless=other.unless, evidence=other.evidence)
                if other.effect is not Effect.PERMIT
                else rule
            )
        case 4:
            return dataclasses.replace(rule, actions=other.actions, object_type=other.object_type)
        case _:
            return rule


def rule_pair(rng: Random) -> tuple[tuple[Policy, ...], tuple[Policy, ...]]:
    """Draw two sets of one to three rules; often the second is the first with a change."""
    used = shape(rng)
    first = tuple(policy(rng, used, f"rule-{number}") for number in range(rng.choice((1, 1, 2, 3))))
    if rng.random() < 0.75:
        second = [changed(rng, rule, used) for rule in first]
        if rng.random() < 0.2:
            second.append(policy(rng, used, "extra"))
        return first, tuple(second)
    return first, tuple(policy(rng, used, f"rule-{number}") for number in range(rng.choice((1, 2))))
