"""Modes: who may set one, and whether what was only marked can be counted by its cause (DESIGN 3.13)."""

import dataclasses
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carriage_core import (
    ControlPlane,
    Effect,
    EntryKind,
    Issuer,
    IssuerKind,
    MemorySink,
    Mode,
    Outcome,
    Policy,
    PolicyError,
    PolicyRegistry,
    ProvenanceError,
    ToolBinding,
    Utf8UpperBound,
    parse_policy_text,
)
from integration_tests.core.samples import CONFIRM_POLICY, DELETE, VERIFY, release_plane
from integration_tests.core.strategies import DEVELOPER, ORGANIZATION, USER

BINDINGS = (ToolBinding(tool="delete_artifact", action="delete", arguments=frozenset({"artifact_id", "repo"})),)
LEGAL = Issuer(kind=IssuerKind.ORGANIZATION, name="legal")
ISSUERS = (ORGANIZATION, LEGAL, DEVELOPER, Issuer(kind=IssuerKind.DEVELOPER, name="other"), USER)


def rule(issuer: Issuer = DEVELOPER, version: int = 1, **more: Any) -> Policy:
    fields: dict[str, Any] = {"id": "rule", "effect": Effect.DENY, "text": "Do not delete.", "actions": ("delete",)}
    return Policy(**{**fields, "issuer": issuer, "version": version, **more})


def registry(*policies: Policy) -> PolicyRegistry:
    return PolicyRegistry.of(policies, BINDINGS)


def outcome(held: PolicyRegistry) -> Outcome:
    return ControlPlane(held, counter=Utf8UpperBound()).check("delete_artifact", DELETE).outcome


# -- who sets a mode -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("issuer", "by"), [*product(ISSUERS, ISSUERS)], ids=lambda issuer: f"{issuer.kind}-{issuer.name}"
)
def test_nobody_of_the_same_or_a_lower_rank_takes_a_rule_out_of_force(issuer: Issuer, by: Issuer) -> None:
    """Only the issuer of a policy, or an issuer of a higher rank, sets its mode."""
    policy = rule(issuer)
    held = registry(policy)
    if by == issuer or by.kind.rank < issuer.kind.rank:
        assert outcome(held.set_mode(policy.identity, Mode.OBSERVE, by=by)) is Outcome.ALLOW
    else:
        with pytest.raises(ProvenanceError):
            held.set_mode(policy.identity, Mode.OBSERVE, by=by)


def test_a_lower_issuer_never_undoes_what_a_higher_one_set() -> None:
    """A rule that its organization wants enforced stays so, whatever its developer sets or publishes."""
    trial = rule(mode=Mode.OBSERVE)
    held = registry(trial)
    assert outcome(held) is Outcome.ALLOW
    held = held.set_mode(trial.identity, Mode.ENFORCE, by=ORGANIZATION)
    assert outcome(held) is Outcome.DENY
    with pytest.raises(ProvenanceError):
        held.set_mode(trial.identity, Mode.OBSERVE, by=DEVELOPER)
    with pytest.raises(ProvenanceError):
        held.set_mode(trial.identity, Mode.OBSERVE, by=LEGAL)
    later = held.admit(rule(version=2, mode=Mode.OBSERVE), by=DEVELOPER)
    assert outcome(later) is Outcome.DENY
    gone = later.admit(rule(id="stays"), by=DEVELOPER).withdraw(trial.identity, by=DEVELOPER)
    back = gone.admit(rule(version=3, mode=Mode.OBSERVE), by=DEVELOPER)
    assert next(policy for policy in back.policies if policy.id == "rule").mode is Mode.ENFORCE
    freed = back.set_mode(trial.identity, Mode.OBSERVE, by=ORGANIZATION)
    assert next(policy for policy in freed.policies if policy.id == "rule").mode is Mode.OBSERVE


def test_a_mode_set_by_the_issuer_ends_with_its_next_version() -> None:
    """The issuer's next version says itself whether it is enforced."""
    held = registry(rule()).set_mode(rule().identity, Mode.OBSERVE, by=DEVELOPER)
    assert outcome(held) is Outcome.ALLOW
    assert outcome(held.admit(rule(version=2), by=DEVELOPER)) is Outcome.DENY


def test_setting_a_mode_loses_no_version_and_no_binding() -> None:
    """A set mode changes no version: the same version still says one thing, and later bindings keep the mode."""
    held = registry(rule()).set_mode(rule().identity, Mode.OBSERVE, by=ORGANIZATION)
    assert held.digest != registry(rule()).digest
    assert held.admit(rule(), by=DEVELOPER).digest == held.digest
    with pytest.raises(PolicyError):
        held.admit(rule(text="Delete."), by=DEVELOPER)
    more = held.with_bindings([ToolBinding(tool="finish", action=None)])
    assert outcome(more) is Outcome.ALLOW
    with pytest.raises(PolicyError):
        held.set_mode(rule(id="other").identity, Mode.OBSERVE, by=ORGANIZATION)


def test_a_mode_is_not_set_without_a_trace() -> None:
    """A change of mode is in force at the next decision and on the log before that."""
    held = ControlPlane(registry(rule()), counter=Utf8UpperBound())
    assert held.check("delete_artifact", DELETE).outcome is Outcome.DENY
    with pytest.raises(ProvenanceError):
        held.set_mode(rule().identity, "observe", by=USER)
    held.set_mode(rule().identity, "observe", by=DEVELOPER)
    assert held.check("delete_artifact", DELETE).would is Outcome.DENY
    assert isinstance(held.sink, MemorySink)
    changes = [entry.body["change"] for entry in held.sink.entries if entry.kind is EntryKind.REGISTRY]
    assert changes == ["mode observe"]


@given(
    st.sampled_from(ISSUERS),
    st.lists(st.tuples(st.sampled_from(ISSUERS), st.sampled_from(Mode), st.booleans()), max_size=8),
)
def test_no_order_of_settings_lets_a_lower_issuer_prevail(
    issuer: Issuer, steps: list[tuple[Issuer, Mode, bool]]
) -> None:
    """Against a model of one line: the last setting by the issuer or a higher one holds, the higher over the lower."""
    held = registry(rule(issuer))
    holder, mode, version = issuer, Mode.ENFORCE, 1
    for by, wanted, publishes in steps:
        if publishes and by == issuer:
            version += 1
            held = held.admit(rule(issuer, version, mode=wanted), by=by)
            mode = wanted if holder == issuer else mode
            continue
        try:
            held = held.set_mode(rule(issuer).identity, wanted, by=by)
        except ProvenanceError:
            assert by != holder
            assert by.kind.rank >= holder.kind.rank
        else:
            holder, mode = by, wanted
        assert held.policies[0].mode is mode
        assert held.policies[0].version == version


# -- what a record keeps ---------------------------------------------------------------------------

CALLS: tuple[tuple[str, Any, str, str], ...] = (
    ("delete_artifact", DELETE, "deny", "rule"),
    ("verify_release", VERIFY, "confirm", "needs_approval"),
    ("wipe_disk", {}, "deny", "unbound_tool"),
    ("delete_artifact", {"artifact_id": float("nan")}, "deny", "bad_arguments"),
    ("list_artifacts", {}, "", ""),
)


@pytest.mark.parametrize(("tool", "arguments", "would", "code"), CALLS, ids=[row[3] or "allowed" for row in CALLS])
def test_an_observed_record_keeps_why_it_would_have_been_blocked(
    tool: str, arguments: Any, would: str, code: str
) -> None:
    """In observe mode nothing is blocked, and the record keeps the code that enforcement would have given."""
    observed = release_plane(CONFIRM_POLICY, mode="observe")
    enforced = release_plane(CONFIRM_POLICY)
    decision = observed.authorize(tool, arguments)
    real = enforced.authorize(tool, arguments).verdict
    assert decision.allowed
    assert isinstance(observed.sink, MemorySink)
    body = observed.sink.entries[-1].body
    if not would:
        assert (body["would"], body["would_code"], body["code"]) == (None, None, "allowed")
        return
    assert (body["would"], body["would_code"], body["code"]) == (would, code, "observed")
    assert (real.outcome.value, real.code) == (would, code)


def test_a_rule_on_trial_does_not_hide_behind_the_code_of_another() -> None:
    """Under an enforced confirm, a deny on trial is marked with its own code, not with the confirm's."""
    both = registry(rule(id="trial", mode=Mode.OBSERVE), rule(id="real", effect=Effect.CONFIRM))
    for mode, code in (("enforce", "needs_approval"), ("observe", "observed")):
        verdict = ControlPlane(both, counter=Utf8UpperBound(), mode=mode).check("delete_artifact", DELETE)
        assert (verdict.code, verdict.would, verdict.would_code) == (code, Outcome.DENY, "rule")


def test_a_stale_assembly_is_not_blamed_on_the_rule_on_trial() -> None:
    """What is denied for a change of the rules is denied in every mode of a rule, and marks nothing."""
    held = ControlPlane(registry(rule(mode=Mode.OBSERVE)), counter=Utf8UpperBound(), control_budget=4_000)
    capsule = held.capsule(["list_artifacts"])
    from carriage_core import Assembly  # noqa: PLC0415

    held.seal(Assembly(capsule=capsule, message=capsule.text, offset=0, data_tokens=0, candidate_tokens=0))
    verdict = held.check("delete_artifact", DELETE)
    assert (verdict.outcome, verdict.code) == (Outcome.DENY, "control_changed")
    assert (verdict.would, verdict.would_code, verdict.observed) == (None, None, False)


def test_a_mark_always_comes_with_its_code() -> None:
    """A mark without an outcome, or an outcome without its code, could not be counted."""
    for verdict in (
        release_plane(CONFIRM_POLICY, mode=mode).check(tool, arguments)
        for mode in Mode
        for tool, arguments, _, _ in CALLS
    ):
        assert (verdict.would is None) == (verdict.would_code is None)
        assert dataclasses.replace(verdict).observed == (verdict.would is not None)


COUNTED = """\
carriage: 1
tools:
  refund: {action: refund, object: {type: order, amount: amount}}
policies:
  - id: cap
    issuer: {kind: organization, name: shop}
    action: refund
    effect: deny
    counters: {day: {window: 1d, amount: object.amount}}
    unless: {attr: counter.day, le: 500}
    text: Refund at most 500 a day.
"""


def test_counters_in_observe_mode_add_up_what_really_ran() -> None:
    """Money that went out counts, marked or not: after 300 and 300, another 100 is over 500 as well."""
    plane = ControlPlane(parse_policy_text(COUNTED), mode="observe", counter=Utf8UpperBound())
    marks = [plane.authorize("refund", {"amount": amount}).verdict.would for amount in (300, 300, 100)]
    assert marks == [None, Outcome.DENY, Outcome.DENY]
