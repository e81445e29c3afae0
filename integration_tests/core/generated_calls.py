"""Registries, candidate tools and calls from a seed, for sweeps too long for hypothesis.

Everything that an index could get wrong is drawn often: rules for any action or type, several actions or bindings,
rules that name a required value in every way, values that are missing, unknown, ill-typed, listed or nested,
delegation chains, and actors, tenants and tasks that nobody knows.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from carriage_core import Effect, IssuerKind, Mode, Policy, RuntimeState, ToolBinding
from carriage_core.condition import All, AnyOf, Attribute, Compare, Condition, Not, Operator
from carriage_core.runtime import Moment
from integration_tests.core.strategies import (
    ARGUMENTS,
    BOUNDS,
    EXTRAS,
    GLOBS,
    ISSUERS,
    LIKELY,
    LITERALS,
    NOW,
    NUMBERS,
    OBJECTS,
    RAW,
    SCOPES,
    TEXTS,
    TIMES,
    TYPES,
    UNBOUND,
    UNJUDGEABLE,
    World,
)

TOOLS = ("delete_artifact", "send_mail", "archive_case", "publish_note", "rotate_key", "list_cases")
ACTIONS = ("delete", "send", "archive", "publish")
_SORTS = {"object.size": "number", "action.amount": "number", "object.flag": "bool", "action.external": "bool"}
_SORTS |= {"object.when": "time", "time": "time"}
# The values that calls hold most, so that rules and calls meet.
_MET = {"text": ("a1", "a2", "acme/api"), "number": NUMBERS[:3], "bool": (True, False), "time": TIMES[:2]}
_NAMES = ("actor.id", "tenant", "task", "time", "action.external", "action.name", "object.type")


@dataclass(frozen=True)
class Case:
    """One registry, who acts, which tools are offered, and calls of them."""

    world: World
    runtime: RuntimeState
    moment: Moment
    candidates: tuple[str, ...]
    calls: tuple[tuple[str, object], ...]


def cases(seed: int, *, worlds: int, calls: int) -> Iterator[Case]:
    """Yield two cases for each of `worlds` registries, with half of `calls` calls each; the same for one seed."""
    rng = random.Random(seed)  # noqa: S311  # a sweep, no secret
    for _ in range(worlds):
        world = _world(rng)
        for _ in range(2):
            candidates = tuple(sorted(rng.sample(TOOLS, rng.randint(1, 4))))
            proposed = tuple((rng.choice(candidates), _arguments(rng)) for _ in range(calls // 2))
            if rng.random() < 0.1:
                candidates = (*candidates, UNBOUND)
            yield Case(world, _runtime(rng), Moment(NOW, rng.random() < 0.7), candidates, proposed)


def _runtime(rng: random.Random) -> RuntimeState:
    return RuntimeState(
        tenant=rng.choice((None, "acme", "acme", "globex")),
        task=rng.choice((None, "t1", "t2")),
        chain=rng.choice(((), ("bot",), ("deputy",), ("bot", "deputy"), ("deputy", "bot"))),
    )


def _world(rng: random.Random) -> World:
    bound = tuple(_binding(rng, tool) for tool in TOOLS for _ in range(2 if rng.random() < 0.3 else 1))
    return World(bound, tuple(_policy(rng, bound, f"rule-{number}") for number in range(rng.randint(2, 12))))


def _binding(rng: random.Random, tool: str) -> ToolBinding:
    return ToolBinding(
        tool=tool,
        action=None if rng.random() < 0.1 else rng.choice(ACTIONS),
        external=rng.random() < 0.5,
        object_type=rng.choice(TYPES),
        object_attributes=rng.choice(OBJECTS),
        action_attributes=rng.choice(EXTRAS),
    )


def _policy(rng: random.Random, bound: tuple[ToolBinding, ...], identifier: str) -> Policy:
    issuer = rng.choice(ISSUERS)
    common: dict[str, Any] = {
        "id": identifier,
        "issuer": issuer,
        "text": f"Sentence of {identifier}.",
        "mode": Mode.OBSERVE if rng.random() < 0.1 else Mode.ENFORCE,
        "scope": rng.choice(SCOPES),
        "priority": rng.choice((0, 0, 5, -2)),
        "valid_from": rng.choice(BOUNDS),
        "valid_until": rng.choice(BOUNDS),
    }
    known = sorted({binding.action for binding in bound if binding.action is not None})
    if not known or rng.random() < 0.08:
        return Policy(**common, effect=Effect.DENY, actions=rng.choice(((), ("respond",))))
    effects = (Effect.DENY, Effect.CONFIRM)
    if issuer.kind is not IssuerKind.USER:
        effects = (*effects, Effect.PERMIT, Effect.DEFAULT_DENY)
    chosen = ("*",) if rng.random() < 0.12 else tuple(rng.choices(known, k=rng.choice((1, 1, 2))))
    governed = [b for b in bound if b.action is not None and (chosen == ("*",) or b.action in chosen)]
    object_type = rng.choice((None, *sorted({b.object_type for b in governed if b.object_type is not None})))
    names = _defined([b for b in governed if object_type in {None, b.object_type} or b.object_type is None])
    return Policy(
        **common,
        effect=rng.choice(effects),
        actions=chosen,
        object_type=object_type,
        where=_condition(rng, names, 2) if rng.random() < 0.75 else None,
    )


def _defined(bound: list[ToolBinding]) -> tuple[str, ...]:
    objects = sorted({f"object.{name}" for binding in bound for name, _ in binding.object_attributes})
    actions = sorted({f"action.{name}" for binding in bound for name, _ in binding.action_attributes})
    # The object's own attributes three times, so that most rules are about objects.
    return (*_NAMES, *actions, *objects, *objects, *objects)


def _condition(rng: random.Random, names: tuple[str, ...], depth: int) -> Condition:
    shape = rng.random() if depth else 0.0
    if shape < 0.5:
        return _comparison(rng, names)
    if shape < 0.58:
        return Not(_condition(rng, names, depth - 1))
    parts = tuple(_condition(rng, names, depth - 1) for _ in range(rng.randint(1, 3)))
    return All(parts) if shape < 0.8 else AnyOf(parts)


def _comparison(rng: random.Random, names: tuple[str, ...]) -> Compare:
    name = rng.choice(names)
    sort = _SORTS.get(name, name if name in LITERALS else "text")
    kind = rng.random()
    if kind < 0.04:
        return Compare(name, Operator.EXISTS)
    if kind < 0.08:
        return Compare(name, Operator.EQ, Attribute(rng.choice([other for other in names if other != name])))
    if kind < 0.14:
        sort = rng.choice(("number", "time", "bool", "text"))  # of another sort than the attribute's
    literals = _MET.get(sort, LITERALS[sort]) if rng.random() < 0.7 else LITERALS[sort]
    if kind < 0.34:
        members = tuple(rng.choice(literals) for _ in range(rng.randint(1, 3)))
        return Compare(name, Operator.IN, (*members, Decimal(1)) if rng.random() < 0.2 else members)
    if kind < 0.8 or sort not in {"number", "time", "text"}:
        return Compare(name, rng.choice((Operator.EQ, Operator.EQ, Operator.EQ, Operator.NE)), rng.choice(literals))
    if sort in {"number", "time"}:
        order = (Operator.LT, Operator.LE, Operator.GT, Operator.GE)
        return Compare(name, rng.choice(order), rng.choice(literals))
    operator = rng.choice((Operator.PREFIX, Operator.SUFFIX, Operator.CONTAINS, Operator.GLOB))
    return Compare(name, operator, rng.choice(GLOBS if operator is Operator.GLOB else TEXTS))


def _arguments(rng: random.Random) -> object:
    if rng.random() < 0.02:
        return rng.choice(UNJUDGEABLE)
    names = rng.sample(ARGUMENTS, rng.randint(0, 5))
    return {name: rng.choice(LIKELY if rng.random() < 0.7 else RAW) for name in names}
