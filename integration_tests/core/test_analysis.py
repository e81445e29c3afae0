"""Answers about rules: a wrong one lets a weakened rule pass, or refuses a whole one."""

from __future__ import annotations

import pytest

from carriage_core.analysis import Decided, complete, equivalent, sound
from carriage_core.attribute_types import AttributeTypes
from carriage_core.clause import parse_clause
from carriage_core.condition import attributes
from carriage_core.policy import (
    CounterDeclaration,
    EvidenceDeclaration,
    FieldOrigin,
    FieldSource,
    Issuer,
    IssuerKind,
    Policy,
)
from carriage_core.schema import Sort

YES, NO, UNDECIDED = Decided.YES, Decided.NO, Decided.UNDECIDED
TYPES = AttributeTypes(
    {
        "object.id": frozenset({Sort.ID}),
        "object.repository": frozenset({Sort.TEXT}),
        "object.amount": frozenset({Sort.MONEY}),
        "object.count": frozenset({Sort.INTEGER}),
        "object.path": frozenset({Sort.PATH}),
        "object.host": frozenset({Sort.HOST}),
        "object.url": frozenset({Sort.URL}),
    }
)


def declared(**changes: object) -> EvidenceDeclaration:
    values: dict[str, object] = {
        "from_tool": "verify_release",
        "key": ("artifact",),
        "fields": (
            ("artifact", FieldSource(origin=FieldOrigin.ARGUMENT, path="artifact_id", sort=Sort.ID)),
            ("status", FieldSource(origin=FieldOrigin.RESULT, path="status", sort=Sort.ID)),
        ),
    }
    return EvidenceDeclaration(**(values | changes))  # type: ignore[arg-type]


def rule(line: str, name: str = "rule", kind: IssuerKind = IssuerKind.DEVELOPER, **more: object) -> Policy:
    clause = parse_clause(line)
    handles = {one.split(".")[1] for one in attributes(clause.unless) if one.startswith("evidence.")}
    more.setdefault("evidence", tuple((handle, declared()) for handle in sorted(handles)))
    return Policy(
        id=name,
        issuer=Issuer(kind=kind, name="team"),
        effect=clause.effect,
        actions=clause.actions,
        object_type=clause.object_type,
        where=clause.where,
        unless=clause.unless,
        text="The rule says so.",
        **more,  # type: ignore[arg-type]
    )


VERIFIED = 'unless evidence.v.status == "succeeded" and evidence.v.artifact == object.id'


@pytest.mark.parametrize(
    ("source", "visible", "is_complete", "is_sound"),
    [
        ("deny refund where object.amount > 500", "deny refund where object.amount >= 500.01", YES, YES),
        ("deny refund where object.amount > 500", "deny refund where object.amount > 501", NO, YES),
        ("deny refund where object.amount > 500", "deny refund where object.amount >= 500", YES, NO),
        ("deny refund where object.amount > 500", "deny refund where object.amount < 500", NO, NO),
        ("deny refund where object.count > 500", "deny refund where object.count >= 501", YES, YES),
        ("deny refund where object.other > 500", "deny refund where object.other >= 500.01", NO, YES),
        ("deny refund where object.amount > 500", "deny refund where not object.amount <= 500", YES, YES),
        ("deny delete", "confirm delete", NO, YES),
        ("deny delete", "deny delete or send", YES, NO),
        ("deny delete on artifact", "deny delete", YES, NO),
        ("deny any", "deny delete", NO, YES),
        (f"deny delete {VERIFIED}", f"deny delete {VERIFIED}", YES, YES),
        (f"deny delete {VERIFIED}", 'deny delete unless evidence.v.status == "succeeded"', NO, YES),
        (f"deny delete {VERIFIED}", "deny delete", YES, NO),
        (f"deny delete {VERIFIED}", f"deny delete {VERIFIED.replace('succeeded', 'failed')}", NO, NO),
        (
            'deny push where object.repository like "acme/*"',
            'deny push where object.repository startswith "acme/"',
            YES,
            YES,
        ),
        ('deny push where object.repository like "a*b*c"', 'deny push where object.repository like "a*c"', YES, NO),
        ('deny write where object.path startswith path "/etc"', "deny write where exists object.path", NO, NO),
        (
            'deny write where object.path startswith path "/etc/ssh"',
            'deny write where object.path startswith path "/etc"',
            YES,
            NO,
        ),
        (
            'deny call where object.host == "a.example"',
            'deny call where object.host endswith ".example"',
            YES,
            NO,
        ),
        (
            'deny call where object.url startswith url "https://a.example/x"',
            'deny call where object.url startswith url "https://a.example/"',
            YES,
            NO,
        ),
        ('deny send where actor.id == "bot"', 'deny send where actor.id != "bot"', NO, NO),
        # A chain of two: one member is the bot, another is not.
        ('deny send unless actor.id == "bot"', 'deny send where actor.id != "bot"', YES, YES),
    ],
)
def test_a_weaker_rule_passes_for_the_whole_one(
    source: str, visible: str, is_complete: Decided, is_sound: Decided
) -> None:
    """Whether everything the first stops is stopped by the second, and the other way round."""
    first, second = rule(source), rule(visible)
    forth, back = complete(first, second, types=TYPES), sound(first, second, types=TYPES)
    assert (forth.verdict, back.verdict) == (is_complete, is_sound), (forth, back)
    both = equivalent(first, second, types=TYPES)
    assert both.yes == (forth.yes and back.yes)


def test_counters_of_each_agents_own_are_not_taken_for_one() -> None:
    """Along a chain each member has a sum of its own; where rules also tell members apart, there is no yes."""
    own = CounterDeclaration(key=("actor.id",), window_seconds=60)
    shared = CounterDeclaration(key=(), window_seconds=60)
    first = 'deny delete where actor.id == "a" unless counter.calls <= 1'
    second = 'deny delete where actor.id == "a" unless counter.calls <= 1 or actor.id == "b"'
    assert (
        complete(rule(first, counters=(("calls", own),)), rule(second, counters=(("calls", own),))).verdict is not YES
    )
    plain = "deny delete unless counter.calls <= 1"
    for counter in (own, shared):
        one = rule(plain, counters=(("calls", counter),))
        two = rule("deny delete unless not counter.calls > 1", counters=(("calls", counter),))
        assert (complete(one, two).verdict, sound(one, two).verdict) == (YES, YES)
