"""The same questions decided by trying situations, judged by the evaluators of `naive`, which were written apart.

A difference that is found disproves a yes. And every witness is judged once more: as a real call of a bound tool, with
evidence that a tool has given.
"""

from __future__ import annotations

import itertools
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from carriage_core.condition import comparisons
from carriage_core.runtime import RuntimeState
from carriage_core.schema import Absent, FilePath, Sort, Url
from integration_tests.core import naive
from integration_tests.core.analysis_samples import BINDINGS, NOW, SORTS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

    from carriage_core.analysis_situation import Witness
    from carriage_core.condition import Condition
    from carriage_core.policy import Policy

RANK = {"allow": 0, "confirm": 1, "deny": 2}
_VALUES: dict[Sort, tuple[object, ...]] = {
    Sort.ID: ("a", "ab", "b", "acme/x", "", "q", "aqb", "bq", "%61"),
    Sort.TEXT: ("a", "ab", "b", "acme/x", "", "q", "aqb", "%61", "a\nb"),
    Sort.MONEY: (4, 5, 5.01, 5.25, 5.5, 6, 7, 5.001),
    Sort.INTEGER: (-1, 0, 1, 2, 3, 1.5),
    Sort.NUMBER: (0, 1, 1.2, 1.5, 1.7, 2, 3),
    Sort.BOOL: (True, False, "true"),
    Sort.TIME: tuple((NOW + timedelta(microseconds=step)).isoformat() for step in (-1, 0, 1, 2, 3, 4)),
    Sort.PATH: ("/", "/a", "/a/b", "/ab", "/a/q", "/q", "/a/b/q", "/../q", "q"),
    Sort.ANY: ("a", "ab", "q", 1, 1.5, 2, True, False),
}
_LEFT_OUT = object()


def _tags(name: str) -> list[naive.Plain]:
    sort = SORTS.get(name, Sort.ID)
    return list(dict.fromkeys([*(naive.plain(raw, sort.value) for raw in _VALUES[sort]), naive.MISSING, naive.UNKNOWN]))


def conditions_differ(kind: str, first: Condition, second: Condition, rng: Random, most: int = 3_000) -> bool:
    """Whether some point shows that the answer is no."""
    names = sorted({name for one in (first, second) for atom in comparisons(one) for name in _named(atom)})
    domains = [_tags(name) for name in names]
    for values in _some(domains, rng, most):
        point = dict(zip(names, values, strict=True))
        one, other = (_level(naive.holds(condition, point)) for condition in (first, second))
        if _differs(kind, one, other, 2):
            return True
    return False


def witness_of_conditions(kind: str, first: Condition, second: Condition, witness: Witness) -> bool:
    """Whether `naive` confirms a witness."""
    names = {name for one in (first, second) for atom in comparisons(one) for name in _named(atom)}
    point = {name: _tagged(witness.action.attributes.get(name, Absent.MISSING)) for name in names}
    one, other = (_level(naive.holds(condition, point)) for condition in (first, second))
    return _differs(kind, one, other, 2)


def rules_differ(
    kind: str, first: tuple[Policy, ...], second: tuple[Policy, ...], rng: Random, most: int = 150
) -> bool:
    """Whether some call, by somebody, with some evidence, shows that the answer is no."""
    names = sorted(
        {
            name.removeprefix("object.")
            for policy in (*first, *second)
            for condition in (policy.where, policy.unless)
            for atom in comparisons(condition)
            for name in _named(atom)
            if name.startswith("object.")
        }
    )
    raw = [(*_VALUES[SORTS[f"object.{name}"]], None, _LEFT_OUT) for name in names]
    tools = [binding.tool for binding in BINDINGS]
    for _ in range(most):
        arguments = {
            name: value
            for name, options in zip(names, raw, strict=True)
            if (value := rng.choice(options)) is not _LEFT_OUT
        }
        runtime = RuntimeState(
            tenant=rng.choice(("acme", "other", None)),
            chain=rng.choice(((), ("bot",), ("a",), ("a", "bot"), ("ab", "b"), ("q",))),
        )
        now = rng.choice((NOW, NOW - timedelta(seconds=1), None))
        events = [
            naive.Seen(
                tool="verify",
                arguments={"artifact": rng.choice(("a", "ab", "q", ""))},
                result={"status": rng.choice(("ok", "bad"))},
                succeeded=True,
                runtime=runtime,
                at=NOW - timedelta(seconds=rng.choice((10, 4_000))),
            )
            for _ in range(rng.choice((0, 0, 1, 2)))
        ]
        one, other = (
            RANK[naive.verdict(_enforced(side), BINDINGS, tool, arguments, runtime, now, events)]
            for tool in [rng.choice(tools)]
            for side in (first, second)
        )
        if _differs(kind, one, other, 1):
            return True
    return False


def witness_of_rules(kind: str, first: tuple[Policy, ...], second: tuple[Policy, ...], witness: Witness) -> bool | None:
    """Whether `naive` confirms a witness as a call; None where no bound tool does it."""
    action = witness.action
    tools = [b.tool for b in BINDINGS if b.action == action.name and b.object_type == action.object_type]
    if not tools:
        if action.name is None:
            return None
        # The action or the type has a name that no tool here has: any such name does as well.
        known = {b.action for b in BINDINGS}
        name = action.name if action.name in known else "look"
        kinds = {b.object_type for b in BINDINGS if b.action == name}
        kind_of = action.object_type if action.object_type in kinds else None
        if action.object_type is not None and kind_of is None:
            return None
        tools = [b.tool for b in BINDINGS if b.action == name and b.object_type == kind_of]
    arguments = {
        name.removeprefix("object."): _raw(value)
        for name, value in action.attributes.items()
        if name.startswith("object.") and name != "object.type" and value is not Absent.MISSING
    }
    now = witness.moment.now if witness.moment.trusted else None
    events = _events(witness)
    one, other = (
        RANK[naive.verdict(_enforced(side), BINDINGS, tools[0], arguments, witness.runtime, now, events)]
        for side in (first, second)
    )
    return _differs(kind, one, other, 1)


def _events(witness: Witness) -> list[naive.Seen]:
    """What the tool has shown: a record that is not live for a short-lived declaration is an old one."""
    lives: dict[tuple[object, object], list[int | None]] = {}
    for declaration, fields in witness.records:
        lives.setdefault((fields["artifact"], fields["status"]), []).append(declaration.expires_seconds)
    return [
        naive.Seen(
            tool="verify",
            arguments={"artifact": artifact},
            result={"status": status},
            succeeded=True,
            runtime=witness.runtime,
            at=witness.moment.now - timedelta(seconds=10 if 3600 in live else 4_000),
        )
        for (artifact, status), live in lives.items()
    ]


def _enforced(side: tuple[Policy, ...]) -> list[Policy]:
    return [policy for policy in side if policy.mode.value == "enforce"]


def _named(atom: Any) -> Iterator[str]:
    yield atom.attribute
    if hasattr(atom.operand, "name"):
        yield atom.operand.name


def _some(domains: list[list[naive.Plain]], rng: Random, most: int) -> Iterator[tuple[naive.Plain, ...]]:
    size = 1
    for domain in domains:
        size *= len(domain)
    if size <= most:
        yield from itertools.product(*domains)
    else:
        for _ in range(most):
            yield tuple(rng.choice(domain) for domain in domains)


def _level(truth: bool | None) -> int:
    return 1 if truth is None else 2 if truth else 0


def _differs(kind: str, one: int, other: int, least: int) -> bool:
    match kind:
        case "implies" | "complete":
            return one > other
        case "sound":
            return other > one
        case "equivalent":
            return one != other
        case _:
            return min(one, other) >= least


def _tagged(value: object) -> naive.Plain:
    if value is Absent.MISSING:
        return naive.MISSING
    return naive.UNKNOWN if value is Absent.UNKNOWN else naive.literal(value)


def _raw(value: object) -> object:
    """What an argument must hold so that the attribute has this value."""
    if isinstance(value, Decimal):
        return int(value) if value == int(value) else float(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, FilePath | Url):
        return value.text
    return None if value is Absent.UNKNOWN else value
