"""Admission: who may put what into force, and what comes after it."""

import dataclasses
import gc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carriage_core import (
    ControlNotFoundError,
    ControlPlane,
    Effect,
    EmptyRegistryError,
    Issuer,
    IssuerKind,
    Policy,
    PolicyError,
    PolicyRegistry,
    ProvenanceError,
    Scope,
    ToolBinding,
    ToolBindingError,
    Utf8UpperBound,
    find_plane,
)
from integration_tests.core.samples import DELETE, Hands, release_plane
from integration_tests.core.strategies import DEVELOPER, NOW, ORGANIZATION, USER

BINDINGS = (ToolBinding(tool="delete_artifact", action="delete"),)


def rule(version: int = 1, **more: object) -> Policy:
    fields = {
        "id": "rule",
        "issuer": ORGANIZATION,
        "effect": Effect.DENY,
        "text": "Do not delete.",
        "actions": ("delete",),
        **more,
    }
    return Policy(version=version, **fields)  # type: ignore[arg-type]


def registry(*policies: Policy) -> PolicyRegistry:
    return PolicyRegistry.of(policies or (rule(),), BINDINGS)


@pytest.mark.parametrize(
    "by",
    [
        DEVELOPER,
        USER,
        dataclasses.replace(ORGANIZATION, name="platform-security2"),
        dataclasses.replace(USER, name=ORGANIZATION.name),
    ],
)
def test_nobody_issues_a_policy_in_anothers_name(by: Issuer) -> None:
    """A record that names an issuer is not from that issuer unless it came from it."""
    with pytest.raises(ProvenanceError):
        registry().admit(rule(2), by=by)
    with pytest.raises(ProvenanceError):
        registry().withdraw(rule().identity, by=by)


def test_an_older_version_does_not_come_back() -> None:
    """Versions rise: an older one is refused, also after the newer was withdrawn."""
    later = registry(rule(), rule(id="other")).admit(rule(5), by=ORGANIZATION)
    with pytest.raises(PolicyError, match="older"):
        later.admit(rule(4), by=ORGANIZATION)
    gone = later.withdraw(rule().identity, by=ORGANIZATION)
    for version in (1, 4, 5):
        with pytest.raises(PolicyError):
            gone.admit(rule(version), by=ORGANIZATION)
    assert [policy.version for policy in gone.admit(rule(6), by=ORGANIZATION).policies if policy.id == "rule"] == [6]


def test_one_version_says_one_thing() -> None:
    """The same version with another text is an error; with the same, it changes nothing."""
    first = registry()
    with pytest.raises(PolicyError, match="already says something else"):
        first.admit(rule(text="Delete."), by=ORGANIZATION)
    assert first.admit(rule(), by=ORGANIZATION).digest == first.digest
    with pytest.raises(PolicyError, match="already says something else"):
        PolicyRegistry.of([rule(), rule(text="Delete.")], BINDINGS)


def test_a_newer_version_replaces_the_older() -> None:
    """Only the newest version of an identity is carried and judged."""
    later = registry().admit(rule(2, effect=Effect.CONFIRM), by=ORGANIZATION)
    assert [(policy.version, policy.effect) for policy in later.policies] == [(2, Effect.CONFIRM)]
    assert PolicyRegistry.of([rule(2, effect=Effect.CONFIRM), rule()], BINDINGS).digest == later.digest


@pytest.mark.parametrize(
    "other",
    [
        {"issuer": DEVELOPER},
        {"issuer": USER},
        {"issuer": dataclasses.replace(ORGANIZATION, name="legal")},
        {"scope": Scope(tenant="acme")},
        {"id": "rule-2"},
    ],
    ids=["developer", "user", "other department", "one tenant", "other id"],
)
def test_a_rule_that_looks_alike_replaces_nothing(other: dict[str, object]) -> None:
    """Identity is issuer, tenant and id; anything else stands beside the rule and lifts nothing."""
    twin = rule(99, effect=Effect.CONFIRM, **other)
    both = registry().admit(twin, by=twin.issuer)
    assert len(both.policies) == 2
    plane = ControlPlane(both, tenant="acme", counter=Utf8UpperBound())
    assert plane.check("delete_artifact", DELETE).code == "rule"


def test_a_version_that_lapses_revives_no_older_one() -> None:
    """When the newest version's time is over, the rule is over; what it replaced stays replaced."""
    hands = Hands()
    plane = release_plane(hands=hands)
    old = plane.registry.policies[0]
    plane.admit(dataclasses.replace(old, version=2, valid_until=NOW), by=old.issuer)
    assert hands.now == NOW
    assert plane.check("delete_artifact", DELETE).allowed


def test_an_empty_registry_is_asked_for_by_name() -> None:
    """A registry of nothing protects nothing, so it never comes about by accident."""
    with pytest.raises(EmptyRegistryError):
        PolicyRegistry.of([], BINDINGS)
    with pytest.raises(EmptyRegistryError):
        registry().withdraw(rule().identity, by=ORGANIZATION)
    assert ControlPlane.unsafe_empty(counter=Utf8UpperBound()).capsule().text == ""


def test_what_is_not_there_cannot_be_withdrawn() -> None:
    """A withdrawal names exactly one rule of the issuer."""
    with pytest.raises(PolicyError):
        registry().withdraw(rule(id="another").identity, by=ORGANIZATION)
    with pytest.raises(PolicyError):
        registry().withdraw(rule(scope=Scope(tenant="acme")).identity, by=ORGANIZATION)


@given(
    st.lists(
        st.tuples(st.integers(1, 4), st.sampled_from(("Do not delete.", "Never delete.")), st.booleans()), max_size=6
    )
)
def test_no_order_of_admissions_brings_back_what_was_superseded(steps: list[tuple[int, str, bool]]) -> None:
    """Whatever is admitted and withdrawn in whatever order, the version in force never falls."""
    anchor = rule(id="anchor")
    current = registry(anchor)
    highest = 0
    said: dict[int, str] = {}
    for version, text, leave in steps:
        policy = rule(version, text=text)
        try:
            current = current.admit(policy, by=ORGANIZATION)
        except PolicyError:
            assert (
                version < highest or said.get(version, text) != text or "rule" not in {p.id for p in current.policies}
            )
        else:
            assert version >= highest
            assert said.setdefault(version, text) == text
            highest = max(highest, version)
        in_force = [p for p in current.policies if p.id == "rule"]
        assert [p.version for p in in_force] in ([], [highest])
        if leave and in_force:
            current = current.withdraw(policy.identity, by=ORGANIZATION)


def test_a_rule_about_nothing_is_refused_at_admission() -> None:
    """A policy whose action, object or attribute no binding knows would never bind; it is refused with the mend."""
    from carriage_core import Compare, Operator  # noqa: PLC0415

    for wrong in (
        rule(id="a", actions=("delte",)),
        rule(id="b", where=Compare("object.idd", Operator.EQ, "x")),
    ):
        with pytest.raises(PolicyError):
            registry().admit(wrong, by=ORGANIZATION)


def test_an_adapters_binding_never_replaces_an_operators() -> None:
    """A tool the operator bound keeps that binding when an adapter ships one of its own."""
    plane = release_plane()
    plane.bind([ToolBinding(tool="delete_artifact", action=None), ToolBinding(tool="finish", action=None)])
    assert plane.check("delete_artifact", DELETE).code == "rule"
    assert plane.check("finish", {}).allowed


def test_two_tools_that_can_be_confused_are_not_bound() -> None:
    """Bindings for names that people would mix up are refused."""
    with pytest.raises(ToolBindingError):
        PolicyRegistry.of([rule()], [*BINDINGS, ToolBinding(tool="Delete-Artifact", action="delete")])


def test_several_changes_are_one_snapshot_or_none() -> None:
    """What is admitted and withdrawn together comes together, and one that may not be keeps back the others."""
    anchor, other = rule(id="anchor"), rule(id="other")
    first = registry(anchor, other)
    both = first.revise(admit=[rule(2, id="anchor"), rule(id="new")], withdraw=[other.identity], by=ORGANIZATION)
    assert [(policy.id, policy.version) for policy in both.policies] == [("anchor", 2), ("new", 1)]
    single = first.admit(rule(2, id="anchor"), by=ORGANIZATION).admit(rule(id="new"), by=ORGANIZATION)
    assert both.digest == single.withdraw(other.identity, by=ORGANIZATION).digest
    assert both.versions == single.versions
    wrong: list[dict[str, Any]] = [
        {"admit": [rule(id="new"), rule(2, id="new")]},
        {"admit": [rule(2, id="other")], "withdraw": [other.identity]},
        {"withdraw": [other.identity, other.identity]},
        {"withdraw": [other.identity, rule(id="none").identity]},
        {"admit": [rule(id="new"), rule(id="another", issuer=DEVELOPER)]},
        {"withdraw": [anchor.identity, other.identity]},
    ]
    for change in wrong:
        with pytest.raises(PolicyError):
            first.revise(**change, by=ORGANIZATION)
    swapped = first.revise(admit=[rule(id="new")], withdraw=[anchor.identity, other.identity], by=ORGANIZATION)
    assert [policy.id for policy in swapped.policies] == ["new"]


# -- finding a plane again -----------------------------------------------------------------------


def test_a_saved_agent_finds_its_plane_or_nothing() -> None:
    """A reference leads to the plane with that registry, budget and runtime; an unknown one fails closed."""
    plane = release_plane()
    assert find_plane(plane.reference) is plane
    with pytest.raises(ControlNotFoundError):
        find_plane("sha256:" + "0" * 64)
    with pytest.raises(ControlNotFoundError):
        find_plane("")


def test_a_plane_that_nobody_holds_is_not_found() -> None:
    """A reference does not keep a plane alive; after it is gone, resuming fails closed."""
    plane = release_plane(actor="somebody-else-entirely")
    reference = plane.reference
    del plane
    gc.collect()
    with pytest.raises(ControlNotFoundError):
        find_plane(reference)


def test_planes_that_differ_have_other_references() -> None:
    """Another agent, tenant, task, budget, counter, tier or rule is another reference."""
    plane = release_plane()
    others = [
        plane.as_actor("deputy"),
        release_plane(tenant="globex"),
        release_plane(task="t2"),
        release_plane(control_budget=3_999),
        release_plane(window=100_000),
        release_plane(minimum_tier="full"),
        release_plane(counter=None),
    ]
    changed = release_plane()
    changed.admit(Policy(id="new", issuer=USER, effect=Effect.DENY, text="New."), by=USER)
    references = [other.reference for other in (plane, *others, changed)]
    assert len(set(references)) == len(references)


def test_ranks_order_the_capsule_and_priority_only_within_them() -> None:
    """Organization before developer before user, then priority, then id."""
    policies = [
        Policy(id=name, issuer=issuer, effect=Effect.DENY, text="A rule.", priority=priority)
        for name, issuer, priority in (
            ("u", USER, 9),
            ("d", DEVELOPER, 5),
            ("b", ORGANIZATION, 0),
            ("a", ORGANIZATION, 0),
            ("z", ORGANIZATION, 1),
        )
    ]
    assert [policy.id for policy in PolicyRegistry.of(policies).policies] == ["z", "a", "b", "d", "u"]
    assert [kind.rank for kind in IssuerKind] == [0, 1, 2]


@pytest.mark.parametrize("identifier", ["", "A", "a b", "a/b", "é", "x" * 65, "a\n", "[a]"])
def test_an_id_that_could_not_be_read_back_is_refused(identifier: str) -> None:
    """Ids are of a-z, digits, dot, underscore and hyphen, at most 64."""
    with pytest.raises(PolicyError):
        rule(id=identifier)


@pytest.mark.parametrize(
    "wrong",
    [
        {"text": ""},
        {"text": "   "},
        {"text": " A rule."},
        {"text": "x" * 4_001},
        {"version": 0},
        {"version": -1},
        {"valid_from": NOW.replace(tzinfo=None)},
        {"actions": ("*", "delete")},
        {"actions": (), "object_type": "artifact"},
        {"actions": ("respond",), "object_type": "artifact"},
        {"issuer": None},
    ],
    ids=str,
)
def test_a_policy_that_cannot_be_carried_soundly_is_refused(wrong: dict[str, Any]) -> None:
    """Text is mandatory and bounded, versions start at 1, windows have a zone, rules have an action."""
    if wrong == {"issuer": None}:
        with pytest.raises(PolicyError):
            Issuer(kind=IssuerKind.USER, name="")
        return
    with pytest.raises(PolicyError):
        dataclasses.replace(rule(), **wrong)
