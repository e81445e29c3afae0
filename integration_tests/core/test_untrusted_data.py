"""Invariant 2: untrusted data changes no byte of the control plane, no verdict, no admission. And judging is pure."""

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from carriage_core import Assembly, ControlPlane, EntryKind, MemorySink, Settlement, count_imitations
from integration_tests.core.strategies import RAW, TOOLS, World, calls, untrusted, worlds

type Call = tuple[str, dict[str, Any]]


def decided(plane: ControlPlane, proposed: list[Call]) -> list[tuple[object, ...]]:
    verdicts = [plane.check(tool, arguments) for tool, arguments in proposed]
    return [(v.outcome, v.code, v.policies, v.reasons, v.evidence, v.message) for v in verdicts]


def control_of(plane: ControlPlane) -> tuple[object, ...]:
    shown = [plane.capsule(tools) for tools in (None, TOOLS[:1])]
    registry = plane.registry
    return [capsule.text.encode() for capsule in shown], registry.digest, registry.policies, plane.reference


results = st.one_of(
    untrusted,
    st.sampled_from(RAW),
    st.fixed_dictionaries(
        {"status": st.sampled_from(("succeeded", "failed")), "artifact": st.just("a1"), "policy": untrusted}
    ),
)


@given(worlds(), calls(TOOLS, most=2), calls(TOOLS, most=2), untrusted, results)
def test_nothing_that_data_says_changes_a_rule_or_a_verdict(
    world: World, earlier: list[Call], proposed: list[Call], data: str, result: object
) -> None:
    """Conversation text, arguments and results of tools that give no evidence leave capsule, registry and verdicts."""
    quiet, noisy = (world.plane(tenant="acme", task="t1", actor="bot") for _ in range(2))
    for tool, arguments in earlier:
        decision = noisy.authorize(tool, arguments)
        if decision.allowed:
            noisy.settle(decision, Settlement.EXECUTED, result)
    noisy.count(data)
    capsule = noisy.capsule()
    noisy.seal(
        Assembly(
            capsule=capsule,
            message=capsule.text + "\n" + data,
            offset=0,
            data_tokens=len(data),
            candidate_tokens=len(data),
            imitations=count_imitations(data),
        )
    )
    capsule = quiet.capsule()
    quiet.seal(Assembly(capsule=capsule, message=capsule.text, offset=0, data_tokens=0, candidate_tokens=0))
    assert control_of(noisy) == control_of(quiet)
    assert decided(noisy, proposed) == decided(quiet, proposed)
    assert isinstance(noisy.sink, MemorySink)
    changed = {EntryKind.REGISTRY, EntryKind.EVIDENCE, EntryKind.APPROVAL}
    assert not [entry for entry in noisy.sink.entries if entry.kind in changed]


@given(
    worlds(),
    calls(),
    st.sampled_from(({"status": "succeeded", "report": {"state": "succeeded"}}, {"status": "failed"})),
)
def test_checking_a_call_takes_nothing_and_records_nothing(
    world: World, proposed: list[Call], result: dict[str, Any]
) -> None:
    """`check` leaves log, evidence, approvals and its arguments as they are, and says the same again."""
    plane = world.plane(tenant="acme", task="t1", actor="bot")
    for tool in ("verify_release", "check_owner"):
        decision = plane.authorize(tool, {"artifact_id": "a1"})
        if decision.allowed:
            plane.settle(decision, Settlement.EXECUTED, result)
    ledger = plane._state.ledger
    before = copy.deepcopy((ledger._records, ledger._approvals, ledger._taken, ledger._count))
    state = (plane.head, plane._state.sequence, plane.registry, set(plane._state.executed), dict(plane._state.open))
    given_arguments = copy.deepcopy(proposed)
    first = [plane.check(tool, arguments, call_id="c1") for tool, arguments in proposed]
    second = [plane.check(tool, arguments, call_id="c1") for tool, arguments in proposed]
    assert first == second
    assert proposed == given_arguments
    assert (ledger._records, ledger._approvals, ledger._taken, ledger._count) == before
    assert state == (
        plane.head,
        plane._state.sequence,
        plane.registry,
        set(plane._state.executed),
        dict(plane._state.open),
    )
