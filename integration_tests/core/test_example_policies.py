"""The policy files under ``examples/policies``: each loads, and its cases come out as written beside it.

A case is a call with what happened before it; the neighbouring ``NAME.cases.yaml`` lists them. Every mediated policy of
a file decides at least one case, and stands aside in at least one other that it governs: the boundary from both sides.
"""

from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from carriage_core import (
    Clock,
    ControlPlane,
    Outcome,
    PolicyRegistry,
    Settlement,
    Utf8UpperBound,
    Verdict,
    load_policy_file,
    names_every_constant,
)

FOLDER = Path(__file__).parents[2] / "examples" / "policies"
FILES = sorted(path.name.removesuffix(".yaml") for path in FOLDER.glob("*.yaml") if ".cases." not in path.name)
KEYS = {"why", "actor", "tenant", "task", "time", "evidence", "approved_by", "call", "expect", "by"}
STEP_KEYS = {"tool", "arguments", "result", "actor", "time", "failed"}
NOON = "2026-06-01T12:00:00Z"


@dataclass
class Hands:
    """A clock's source that each step sets."""

    now: datetime = field(default_factory=lambda: datetime.fromisoformat(NOON))

    def __call__(self) -> datetime:
        return self.now


def cases_of(name: str) -> list[dict[str, Any]]:
    return list(YAML(typ="safe", pure=True).load((FOLDER / f"{name}.cases.yaml").read_text(encoding="utf-8")))


def judge(registry: PolicyRegistry, case: dict[str, Any]) -> Verdict:
    """Execute what a case says happened before, then judge its call as it would be authorised."""
    assert set(case) <= KEYS, case
    hands = Hands()
    plane = ControlPlane(
        registry,
        actor=case.get("actor", "agent"),
        tenant=case.get("tenant", "acme"),
        task=case.get("task", "t1"),
        clock=Clock(hands),
        counter=Utf8UpperBound(),
    )
    hands.now = datetime.fromisoformat(case.get("evidence", [{}])[0].get("time", case.get("time", NOON)))
    for step in case.get("evidence", ()):
        assert set(step) <= STEP_KEYS, step
        hands.now = datetime.fromisoformat(step.get("time", hands.now.isoformat()))
        view = plane if "actor" not in step else plane.as_actor(step["actor"])
        if view.check(step["tool"], step["arguments"]).outcome is Outcome.CONFIRM:
            view.approve(step["tool"], step["arguments"], by="alice")
        decision = view.authorize(step["tool"], step["arguments"])
        assert decision.allowed, (case["why"], step, decision.verdict.explain())
        failed = step.get("failed", False)
        view.settle(decision, Settlement.FAILED if failed else Settlement.EXECUTED, step.get("result"))
    hands.now = datetime.fromisoformat(case.get("time", hands.now.isoformat()))
    call = case["call"]
    if "approved_by" in case:
        plane.approve(call["tool"], call["arguments"], by=case["approved_by"])
    verdict = plane.check(call["tool"], call["arguments"])
    assert plane.authorize(call["tool"], call["arguments"]).verdict.outcome is verdict.outcome
    return verdict


def deciding(verdict: Verdict) -> set[str]:
    """The policies that made a verdict what it is."""
    return {reason.policy_id for reason in verdict.reasons if reason.effect == verdict.reasons[0].effect}


def lifts(registry: PolicyRegistry, case: dict[str, Any], policy_id: str, verdict: Verdict) -> bool:
    """Whether the call is judged more strictly without a policy: what a permit does for it."""
    [policy] = [policy for policy in registry.policies if policy.id == policy_id]
    without = registry.withdraw(policy.identity, by=policy.issuer)
    return verdict.outcome is not Outcome.DENY and judge(without, case).outcome is Outcome.DENY


def test_the_seven_workflows_are_there() -> None:
    """The paper names seven workflow families; a user looking for one finds a file of it."""
    seven = {
        "document_export",
        "refund",
        "repository_maintenance",
        "cloud_administration",
        "procurement",
        "soc_quarantine",
        "hr_export",
    }
    assert seven <= set(FILES)


@pytest.mark.parametrize("name", FILES)
def test_an_example_case_is_not_judged_otherwise_than_written(name: str) -> None:
    """Outcome and deciding rules of every case, through a real plane."""
    registry = load_policy_file(FOLDER / f"{name}.yaml")
    for case in cases_of(name):
        verdict = judge(registry, case)
        got = (verdict.outcome.value, deciding(verdict) if case["expect"] != "allow" else set())
        assert got == (case["expect"], set(case.get("by", ()))), (case["why"], verdict.explain())
        assert verdict.code in {"allowed", "approved", "rule", "needs_approval"}, (case["why"], verdict)


@pytest.mark.parametrize("name", FILES)
def test_no_example_rule_is_without_a_case_on_both_of_its_sides(name: str) -> None:
    """A rule that decides nothing, or that nothing gets past, is not shown to mean what it says."""
    registry = load_policy_file(FOLDER / f"{name}.yaml")
    judged = [(case, judge(registry, case)) for case in cases_of(name)]
    permits = {policy.id for policy in registry.policies if policy.effect.value == "permit"}
    for policy in registry.policies:
        if not policy.mediated:
            continue
        decides, aside = False, False
        for case, verdict in judged:
            call = case["call"]
            bound = registry.bindings[call["tool"]]
            actions = {action.name for binding in bound for action in binding.actions(call["arguments"])}
            governs = "*" in policy.actions or not actions.isdisjoint(policy.actions)
            if policy.id in permits:
                lifted = governs and lifts(registry, case, policy.id, verdict)
                decides, aside = decides or lifted, aside or (governs and not lifted)
            else:
                # An approved verdict still names the rule that asked.
                binds = set() if verdict.allowed else {reason.policy_id for reason in verdict.reasons}
                decides = decides or (not verdict.allowed and policy.id in deciding(verdict))
                aside = aside or (governs and policy.id not in binds)
        assert decides, f"{policy.id} decides no case"
        assert aside, f"{policy.id} binds in every case that it governs"


@pytest.mark.parametrize("name", FILES)
def test_no_example_sentence_hides_a_constant_of_its_rule(name: str) -> None:
    """What the model reads names every value that the monitor compares with."""
    registry = load_policy_file(FOLDER / f"{name}.yaml")
    assert [policy.id for policy in registry.policies if policy.mediated and not names_every_constant(policy)] == []
