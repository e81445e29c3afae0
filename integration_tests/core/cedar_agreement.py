"""Counts in what we and Cedar agree, and what either does where Cedar reports an error."""

import dataclasses
import itertools
import random
from collections import Counter
from fractions import Fraction
from typing import Any

from carriage_core.condition import comparisons
from carriage_core.schema import Sort
from integration_tests.core import naive
from integration_tests.core.cedar_cases import CONTEXT, NUMBERS, OBJECT, TENANT, TEXTS, Request, Rules, cases

OPERATORS = ("eq", "ne", "lt", "le", "gt", "ge", "in", "glob", "prefix", "suffix", "contains", "exists")


def agreement(seed: int, *, wanted: int, requests: int = 20) -> Counter[str]:
    """Ask both about at least `wanted` requests for which Cedar reports no error."""
    seen = Counter[str]()
    for rules, proposed in cases(seed, sets=wanted, requests=requests):
        for request in proposed:
            allowed, errors = rules.theirs(request)
            seen["with an error"] += bool(errors)
            if errors:
                continue
            ours = rules.ours(request)
            seen["requests"] += 1
            seen["allow" if allowed else "deny"] += 1
            seen["disagreements"] += ours != allowed
            _count_operators(seen, rules, request)
        if seen["requests"] >= wanted:
            break
    return seen


def _count_operators(seen: Counter[str], rules: Rules, request: Request) -> None:
    """Count each operator once a request where a rule for it reads one, and once for each way it came out."""
    values = plain(request)
    found: set[tuple[str, object]] = set()
    for policy in rules.heads(request):
        for comparison in (*comparisons(policy.where), *comparisons(policy.unless)):
            found |= {(comparison.operator.value, ""), (comparison.operator.value, naive.compares(comparison, values))}
    seen.update(f"{operator} {outcome}".strip() for operator, outcome in found)


def plain(request: Request) -> dict[str, naive.Plain]:
    """The request's attributes in the plain evaluator's terms."""
    values: dict[str, naive.Plain] = {"actor.id": ("text", request.actor), "tenant": ("text", TENANT)}
    for root, names in (("object", OBJECT), ("action", CONTEXT)):
        for name in names:
            if name in request.arguments:
                value = request.arguments[name]
                tag = "bool" if isinstance(value, bool) else "text" if isinstance(value, str) else "number"
                values[f"{root}.{name}"] = (tag, Fraction(value) if tag == "number" else value)
    return values


# More than any rule names, so that a rule that could tell values apart is tried on both sides.
COMPLETIONS: dict[Sort, tuple[Any, ...]] = {
    Sort.TEXT: (*TEXTS, "zz", "acme/other", "*"),
    Sort.INTEGER: tuple(sorted({near for number in NUMBERS for near in (number - 1, number, number + 1)})),
    Sort.BOOL: (True, False),
}


def errors(seed: int, *, wanted: int, requests: int = 20) -> Counter[str]:
    """Ask both about requests of which one or two values are missing or of another type.

    Where we allow, Cedar must allow whatever the real values are: each is put in, one after the other.
    """
    seen = Counter[str]()
    rng = random.Random(seed)  # noqa: S311  # repeatable, not secret
    for rules, proposed in cases(seed, sets=wanted, requests=requests, exists=False):
        for whole in proposed:
            holes = rng.sample(sorted(OBJECT | CONTEXT), rng.choice((1, 1, 2)))
            request = _with_holes(rng, whole, holes)
            absent = [name for name in OBJECT | CONTEXT if name not in request.arguments]
            holes = sorted({*holes, *absent})
            if len(holes) > 2:
                continue
            allowed, reported = rules.theirs(request)
            if not reported:
                continue
            ours = rules.ours(request)
            seen["requests"] += 1
            seen["Cedar allows"] += allowed
            seen["we allow"] += ours
            completed = [rules.theirs(one)[0] for one in _completions(request, holes)] if allowed or ours else []
            if allowed and not all(completed):
                seen["Cedar allows, and denies for some real value"] += 1
            if ours:
                seen["completions tried"] += len(completed)
                seen["we allow, and Cedar denies for some real value"] += not all(completed)
        if seen["requests"] >= wanted:
            break
    return seen


def _with_holes(rng: random.Random, request: Request, holes: list[str]) -> Request:
    arguments = dict(request.arguments)
    for name in holes:
        if rng.random() < 0.5:
            arguments.pop(name, None)
        else:
            arguments[name] = 1 if (OBJECT | CONTEXT)[name] is not Sort.INTEGER else "one"
    return dataclasses.replace(request, arguments=arguments)


def _completions(request: Request, holes: list[str]) -> list[Request]:
    choices = [COMPLETIONS[(OBJECT | CONTEXT)[name]] for name in holes]
    return [
        dataclasses.replace(request, arguments={**request.arguments, **dict(zip(holes, values, strict=True))})
        for values in itertools.product(*choices)
    ]
