"""Policies and requests that both we and Cedar can express, written down in both languages.

The shared subset: deny is `forbid`, permit is `permit`, and one deny-by-default stands for Cedar's own default. `in` is
`[...].contains(x)`; `glob`, `prefix`, `suffix` and `contains` are `like`; `exists` is `has`. Values are what both know:
text, integers, truth values. Evidence, times, money and the like have no counterpart there and are left out.
"""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import cedarpy

from carriage_core import (
    AttributeSource,
    ControlPlane,
    Effect,
    Issuer,
    IssuerKind,
    Policy,
    PolicyRegistry,
    Scope,
    Sort,
    ToolBinding,
    Utf8UpperBound,
)
from carriage_core.condition import All, AnyOf, Attribute, Compare, Condition, Not, Operator
from carriage_core.runtime import Clock
from integration_tests.core.strategies import NOW

ACTORS = ("bot", "deputy")
TENANT = "acme"
ACTIONS = ("delete", "send", "publish")
TYPES = ("Mail", "Artifact")
OBJECT = {"name": Sort.TEXT, "owner": Sort.TEXT, "size": Sort.INTEGER, "flag": Sort.BOOL}
CONTEXT = {"reason": Sort.TEXT, "amount": Sort.INTEGER, "urgent": Sort.BOOL}
SORTS = {f"object.{name}": sort for name, sort in OBJECT.items()}
SORTS |= {f"action.{name}": sort for name, sort in CONTEXT.items()}
SORTS |= {"actor.id": Sort.TEXT, "tenant": Sort.TEXT}
OPTIONAL = ("object.owner", "object.size", "action.amount", "action.reason")
# Most hold one another, at either end or inside, so that no pattern can stand in for another.
TEXTS = (
    "a1",
    "a1/b",
    "b/a1",
    "b/a1/b",
    "bot",
    "bots",
    "deputy",
    "acme",
    "a*b",
    "b/a*b/",
    'quo"te',
    "back\\slash",
    "é/a1",
    "",
)
GLOBS = ("a1*", "*a1", "*a1*", "b*b", "*", "a\\*b", "*\\**", "*\\\\*", "*\\*b/", "*/*", "a1", "")
NUMBERS = (-3, 0, 1, 2, 7, 2**40)
ISSUER = Issuer(kind=IssuerKind.ORGANIZATION, name="platform-security")

DEFAULT = Policy(id="default", issuer=ISSUER, effect=Effect.DEFAULT_DENY, text="Nothing by default.", actions=("*",))
BINDINGS = tuple(
    ToolBinding(
        tool=f"{action}_{kind}".lower(),
        action=action,
        object_type=kind,
        object_attributes=tuple((n, AttributeSource(argument=n, sort=sort)) for n, sort in sorted(OBJECT.items())),
        action_attributes=tuple((n, AttributeSource(argument=n, sort=sort)) for n, sort in sorted(CONTEXT.items())),
    )
    for action in ACTIONS
    for kind in TYPES
)


# -- ours in Cedar's words -----------------------------------------------------------------------


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def literal(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return quoted(value) if isinstance(value, str) else str(value)


def path(name: str) -> str:
    root, _, rest = name.partition(".")
    return {
        "object": f"resource.{rest}",
        "action": f"context.{rest}",
        "actor": "principal.id",
        "tenant": "context.tenant",
    }[root]


def pattern(glob: str) -> str:
    r"""Write a glob as a `like` pattern: a star stays one, ``\*`` stays a literal star, the rest is quoted."""
    pieces = [piece.split("*") for piece in glob.split("\\*")]
    return '"' + "\\*".join("*".join(quoted(part)[1:-1] for part in piece) for piece in pieces) + '"'


def starless(text: str) -> str:
    return quoted(text)[1:-1].replace("*", "\\*")


_SIGNS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def expression(condition: Condition) -> str:
    if isinstance(condition, Not):
        return f"!({expression(condition.part)})"
    if isinstance(condition, All | AnyOf):
        return "(" + (" && " if isinstance(condition, All) else " || ").join(map(expression, condition.parts)) + ")"
    operator, operand, left = condition.operator.value, condition.operand, path(condition.attribute)
    if operator == "exists":
        owner, _, name = left.partition(".")
        return f"({owner} has {name})"
    if operator == "in":
        assert isinstance(operand, tuple)
        return f"[{', '.join(map(literal, operand))}].contains({left})"
    if isinstance(operand, Attribute):
        return f"({left} {_SIGNS[operator]} {path(operand.name)})"
    if operator in _SIGNS:
        return f"({left} {_SIGNS[operator]} {literal(operand)})"
    assert isinstance(operand, str)
    like = {
        "glob": pattern(operand),
        "prefix": f'"{starless(operand)}*"',
        "suffix": f'"*{starless(operand)}"',
        "contains": f'"*{starless(operand)}*"',
    }
    return f"({left} like {like[operator]})"


def cedar_policy(policy: Policy) -> str:
    effect = {Effect.DENY: "forbid", Effect.PERMIT: "permit"}[policy.effect]
    principal = "principal" if policy.scope.agent is None else f"principal == User::{quoted(policy.scope.agent)}"
    action = f"action in [{', '.join(f'Action::{quoted(name)}' for name in policy.actions)}]"
    action = "action" if policy.actions == ("*",) else action
    resource = "resource" if policy.object_type is None else f"resource is {policy.object_type}"
    when = "" if policy.where is None else f" when {{ {expression(policy.where)} }}"
    unless = "" if policy.unless is None else f" unless {{ {expression(policy.unless)} }}"
    return f"@id({quoted(policy.id)})\n{effect}({principal}, {action}, {resource}){when}{unless};"


# -- both sides of one case ----------------------------------------------------------------------


@dataclass(frozen=True)
class Request:
    """One call: who, what, on which kind of object, with which arguments."""

    actor: str
    action: str
    kind: str
    arguments: dict[str, Any]


@dataclass
class Rules:
    """One set of rules, as our planes and as Cedar's parsed policies."""

    policies: tuple[Policy, ...]
    planes: dict[str, ControlPlane] = field(init=False)
    parsed: cedarpy.PolicySet = field(init=False)

    def __post_init__(self) -> None:
        registry = PolicyRegistry.of((*self.policies, DEFAULT), BINDINGS)
        options: dict[str, Any] = {"tenant": TENANT, "counter": Utf8UpperBound(), "clock": Clock(lambda: NOW)}
        self.planes = {actor: ControlPlane(registry, actor=actor, **options) for actor in ACTORS}
        self.parsed = cedarpy.PolicySet.from_str("\n".join(map(cedar_policy, self.policies)))

    def ours(self, request: Request) -> bool:
        """Whether we allow, by the public call."""
        tool = f"{request.action}_{request.kind}".lower()
        verdict = self.planes[request.actor].check(tool, request.arguments)
        assert verdict.code in {"allowed", "rule"}, verdict
        return verdict.allowed

    def theirs(self, request: Request) -> tuple[bool, list[str]]:
        """Whether Cedar allows, and the errors it reports."""
        given = request.arguments
        resource = {name: given[name] for name in OBJECT if name in given}
        entities = [
            {"uid": {"type": "User", "id": request.actor}, "attrs": {"id": request.actor}, "parents": []},
            {"uid": {"type": request.kind, "id": "it"}, "attrs": resource, "parents": []},
        ]
        result = cedarpy.is_authorized(
            {
                "principal": f"User::{quoted(request.actor)}",
                "action": f"Action::{quoted(request.action)}",
                "resource": f'{request.kind}::"it"',
                "context": {"tenant": TENANT, **{name: given[name] for name in CONTEXT if name in given}},
            },
            self.parsed,
            json.dumps(entities),
        )
        return result.allowed, result.diagnostics.errors

    def heads(self, request: Request) -> list[Policy]:
        """The rules whose action, type and agent are the request's."""
        return [
            policy
            for policy in self.policies
            if (policy.actions == ("*",) or request.action in policy.actions)
            and policy.object_type in {None, request.kind}
            and policy.scope.agent in {None, request.actor}
        ]


# -- generating ----------------------------------------------------------------------------------


def cases(seed: int, *, sets: int, requests: int, exists: bool = True) -> Iterator[tuple[Rules, list[Request]]]:
    """Yield sets of rules, each with requests; without `exists`, no rule asks whether an attribute is there."""
    rng = random.Random(seed)  # noqa: S311  # repeatable, not secret
    for _ in range(sets):
        rules = Rules(tuple(_rule(rng, number, exists=exists) for number in range(rng.randint(3, 7))))
        yield rules, [_request(rng) for _ in range(requests)]


def _rule(rng: random.Random, number: int, *, exists: bool) -> Policy:
    # Permits are wide and few are lifted, forbids narrow: about half of the requests are then allowed.
    effect = Effect.PERMIT if number < 2 or rng.random() < 0.3 else Effect.DENY
    wide = effect is Effect.PERMIT
    return Policy(
        id=f"rule-{number}",
        issuer=ISSUER,
        effect=effect,
        text=f"Rule {number}.",
        scope=Scope(agent=rng.choice((None, None, None, *ACTORS))),
        actions=("*",) if rng.random() < (0.6 if wide else 0.2) else tuple(rng.sample(ACTIONS, rng.randint(1, 2))),
        object_type=rng.choice((None, None, *TYPES)),
        where=None if rng.random() < 0.3 and wide else _condition(rng, 2, exists=exists),
        unless=_condition(rng, 1, exists=exists) if rng.random() < 0.3 else None,
    )


def _condition(rng: random.Random, depth: int, *, exists: bool) -> Condition:
    shape = rng.random() if depth else 0.0
    if shape < 0.5:
        return _guarded(rng, exists=exists)
    if shape < 0.65:
        return Not(_condition(rng, depth - 1, exists=exists))
    parts = tuple(_condition(rng, depth - 1, exists=exists) for _ in range(rng.randint(2, 3)))
    return All(parts) if shape < 0.8 else AnyOf(parts)


def _guarded(rng: random.Random, *, exists: bool) -> Condition:
    """One comparison; over an attribute that may be left out, mostly behind a test that it is there."""
    if exists and rng.random() < 0.06:
        return Compare(rng.choice(OPTIONAL), Operator.EXISTS)
    one = _comparison(rng)
    right = one.operand.name if isinstance(one.operand, Attribute) else ""
    needed = [name for name in OPTIONAL if name in {one.attribute, right}]
    if not exists or not needed or rng.random() < 0.1:
        return one
    return All((*(Compare(name, Operator.EXISTS) for name in needed), one))


def _comparison(rng: random.Random) -> Compare:
    name = rng.choice(tuple(SORTS))
    sort = SORTS[name]
    operators = [Operator.EQ, Operator.NE, Operator.IN]
    if sort is Sort.INTEGER:
        operators += [Operator.LT, Operator.LE, Operator.GT, Operator.GE] * 2
    elif sort is Sort.TEXT:
        operators += [Operator.GLOB, Operator.PREFIX, Operator.SUFFIX, Operator.CONTAINS] * 2
    operator = rng.choice(operators)
    values = {Sort.TEXT: TEXTS, Sort.BOOL: (True, False)}.get(sort, tuple(map(Decimal, NUMBERS)))
    if operator is Operator.IN:
        return Compare(name, operator, tuple(dict.fromkeys(rng.choices(values, k=rng.randint(1, 3)))))
    if operator is Operator.GLOB:
        return Compare(name, operator, rng.choice(GLOBS))
    others = [other for other, its in SORTS.items() if its is sort and other != name]
    if rng.random() < 0.2 and operator.value in _SIGNS:
        return Compare(name, operator, Attribute(rng.choice(others)))
    return Compare(name, operator, rng.choice(values))


def value_of(rng: random.Random, sort: Sort) -> Any:
    return rng.choice({Sort.TEXT: TEXTS, Sort.BOOL: (True, False)}.get(sort, NUMBERS))


def _request(rng: random.Random) -> Request:
    arguments = {name: value_of(rng, sort) for name, sort in (OBJECT | CONTEXT).items()}
    for name in OPTIONAL:
        if rng.random() < 0.15:
            del arguments[name.partition(".")[2]]
    return Request(rng.choice(ACTORS), rng.choice(ACTIONS), rng.choice(TYPES), arguments)
