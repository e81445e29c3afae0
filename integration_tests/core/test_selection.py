"""Invariant 4, and the verdict: what is selected and said, against a plain evaluator that looks at everything."""

import dataclasses
from collections import Counter
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from carriage_core import (
    AttributeSource,
    Compare,
    Effect,
    Operator,
    Policy,
    PolicyRegistry,
    RuntimeState,
    Scope,
    ToolBinding,
    ToolCall,
    a_plus,
)
from carriage_core.runtime import EvidenceLedger, Moment
from integration_tests.core import naive
from integration_tests.core.samples import judge
from integration_tests.core.strategies import (
    NOW,
    ORGANIZATION,
    TOOLS,
    UNBOUND,
    WITNESSES,
    World,
    calls,
    candidate_sets,
    histories,
    ledger_of,
    moments,
    proposals,
    runtimes,
    specs,
    worlds,
)


def test_no_policy_that_governs_a_call_is_missing_from_what_the_model_was_shown() -> None:
    """A+ of the candidate tools contains A* of every call of them, and at least 30 % of the calls have an A*."""
    seen = Counter[str]()

    @given(worlds(4), runtimes, moments, candidate_sets(), st.data())
    def holds(
        world: World, runtime: RuntimeState, moment: Moment, candidates: tuple[str, ...], data: st.DataObject
    ) -> None:
        registry = world.registry
        shown = {policy.digest for policy in a_plus(registry, runtime, specs(candidates))}
        assert shown <= {policy.digest for policy in a_plus(registry, runtime, None)}
        now = NOW if moment.trusted else None
        bound = [tool for tool in candidates if tool != UNBOUND] or TOOLS
        for tool, arguments in data.draw(calls(bound)):
            seen["calls"] += 1
            governing = {
                policy.digest
                for action in naive.every_action(world.bindings, tool, arguments)
                for policy in world.policies
                if naive.governs(policy, action, runtime, now)
            }
            seen["with A*"] += bool(governing)
            assert governing <= shown
        if UNBOUND in candidates:
            event("an unbound candidate")

    holds()
    # A share of a few calls says nothing; every session draws far more.
    assert seen["calls"] < 200 or seen["with A*"] >= 0.3 * seen["calls"], seen


@given(worlds(), runtimes, candidate_sets())
def test_rules_that_no_tool_triggers_are_shown_with_every_set_of_tools(
    world: World, runtime: RuntimeState, candidates: tuple[str, ...]
) -> None:
    """Carried rules in scope belong to A+ whatever the candidates are, in capsule order and never twice."""
    found = a_plus(world.registry, runtime, specs(candidates))
    carried = {p.digest for p in world.policies if not naive.mediated(p) and naive.scoped(p, runtime)}
    assert carried <= {policy.digest for policy in found}
    assert all(naive.scoped(policy, runtime) for policy in found)
    ranks = {"organization": 0, "developer": 1, "user": 2}
    keys = [(ranks[p.issuer.kind.value], -p.priority, p.id) for p in found]
    assert keys == sorted(set(keys))


@pytest.mark.parametrize("spread", ["action", "type", "value"])
def test_a_decision_looks_at_no_rule_that_cannot_match(spread: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The work of a decision is the same with ten policies and with a thousand of which only one can match."""
    source = (("id", AttributeSource(argument="id")),)

    def looked_at(size: int) -> int:
        rules: list[Policy] = []
        bound: list[ToolBinding] = []
        for index in range(size):
            action = f"act-{index}" if spread == "action" else "delete"
            kind = f"kind-{index}" if spread == "type" else "artifact"
            value = f"item-{index}" if spread == "value" else "item-0"
            rules.append(
                Policy(
                    id=f"rule-{index}",
                    issuer=ORGANIZATION,
                    effect=Effect.DENY,
                    text="A rule.",
                    actions=(action,),
                    object_type=kind,
                    where=Compare("object.id", Operator.EQ, value),
                )
            )
            # Hyphens and underscores fold away, letters and digits that look alike too: count in "a" and "z".
            name = f"{index:b}".replace("0", "a").replace("1", "z")
            if index == 0 or spread != "value":
                bound.append(ToolBinding(tool=f"tool{name}", action=action, object_type=kind, object_attributes=source))
        registry = PolicyRegistry.of(rules, bound)
        seen = Counter[str]()
        covers = Scope.covers

        def counted(*args: Any, **more: Any) -> bool:
            seen["looked at"] += 1
            return covers(*args, **more)

        monkeypatch.setattr(Scope, "covers", counted)
        verdict = judge(
            ToolCall(tool="toola", arguments={"id": "item-0"}),
            registry=registry,
            runtime=RuntimeState(),
            ledger=EvidenceLedger(),
            moment=Moment(NOW, True),
        )
        monkeypatch.undo()
        assert verdict.policies == ("rule-0",)
        return seen["looked at"]

    assert looked_at(10) == looked_at(1_000) == 1


@st.composite
def situations(draw: st.DrawFn) -> tuple[World, RuntimeState, list[naive.Seen]]:
    runtime = draw(runtimes)
    return draw(worlds(4)), runtime, draw(histories(runtime))


def test_no_call_gets_a_milder_verdict_than_the_rules_say() -> None:
    """Verdict and governing rules are those of a plain evaluator that scans everything, and each verdict occurs."""
    seen = Counter[str]()

    @given(situations(), moments, proposals((*TOOLS, *TOOLS, *TOOLS, *WITNESSES, UNBOUND)))
    def holds(
        situation: tuple[World, RuntimeState, list[naive.Seen]],
        moment: Moment,
        proposed: list[tuple[str, object]],
    ) -> None:
        world, runtime, events = situation
        registry = world.registry
        ledger = ledger_of(registry, events)
        now = NOW if moment.trusted else None
        for tool, arguments in proposed:
            verdict = judge(
                ToolCall(tool=tool, arguments=arguments),
                registry=registry,
                runtime=runtime,
                ledger=ledger,
                moment=moment,
            )
            assert verdict.code != "internal_fault"
            expected = naive.verdict(world.policies, world.bindings, tool, arguments, runtime, now, events)
            seen[expected] += 1
            seen["lifted by evidence"] += bool(verdict.evidence)
            assert verdict.outcome.value == expected
            if verdict.code in {"allowed", "rule", "needs_approval"}:
                assert isinstance(arguments, dict | None)
                assert verdict.governing == {
                    policy.digest
                    for action in naive.every_action(world.bindings, tool, arguments or {})
                    for policy in world.policies
                    if naive.governs(policy, action, runtime, now)
                }

    holds()
    total = seen["allow"] + seen["confirm"] + seen["deny"]
    assert min(seen["allow"], seen["confirm"], seen["deny"]) >= total // 200, seen
    assert seen["lifted by evidence"] >= total // 1_000, seen


@given(situations(), calls(TOOLS), st.lists(st.integers(-9, 9), min_size=4, max_size=4))
def test_a_priority_never_decides_what_is_allowed(
    situation: tuple[World, RuntimeState, list[naive.Seen]],
    proposed: list[tuple[str, dict[str, object]]],
    priorities: list[int],
) -> None:
    """Permuting and changing priorities changes no verdict and no governing rule."""
    world, runtime, events = situation
    changed = [
        dataclasses.replace(policy, priority=priority)
        for policy, priority in zip(world.policies, priorities, strict=False)
    ]

    def outcomes(registry: PolicyRegistry) -> list[tuple[object, ...]]:
        ledger = ledger_of(registry, events)
        found: list[tuple[object, ...]] = []
        for tool, arguments in proposed:
            call = ToolCall(tool=tool, arguments=arguments)
            said = judge(call, registry=registry, runtime=runtime, ledger=ledger, moment=Moment(NOW, True))
            reasons = [(reason.policy_id, reason.effect) for reason in said.reasons]
            found.append((said.outcome, said.code, sorted(said.policies), reasons, sorted(said.evidence)))
        return found

    assert outcomes(world.registry) == outcomes(PolicyRegistry.of(reversed(changed), world.bindings))
