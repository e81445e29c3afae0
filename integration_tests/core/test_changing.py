"""Changing the registry while calls are decided: nobody waits, and no change is lost."""

import threading
import time
from typing import Any

import pytest

from carriage_core import Effect, Policy, PolicyRegistry, verify_chain
from carriage_core.pieces import PIECE_NS, giving_way, in_pieces
from integration_tests.core.samples import DELETE, release_plane
from integration_tests.core.strategies import ORGANIZATION


def rule(identifier: str) -> Policy:
    return Policy(id=identifier, issuer=ORGANIZATION, effect=Effect.DENY, text="A rule.", actions=("delete",))


def test_a_decision_does_not_wait_for_a_registry_to_be_built(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a change is worked out the old rules decide; from its end on the new ones do."""
    plane = release_plane(tenant="acme")
    building, go_on = threading.Event(), threading.Event()
    admit = PolicyRegistry.admit

    def slow(*args: Any, **more: Any) -> PolicyRegistry:
        building.set()
        assert go_on.wait(10)
        return admit(*args, **more)

    monkeypatch.setattr(PolicyRegistry, "admit", slow)
    changer = threading.Thread(target=lambda: plane.admit(rule("late"), by=ORGANIZATION))
    changer.start()
    assert building.wait(10)
    decided: list[tuple[str, ...]] = []
    decider = threading.Thread(
        target=lambda: decided.append(plane.authorize("delete_artifact", DELETE).verdict.policies)
    )
    decider.start()
    decider.join(10)
    assert decided == [("verify-before-delete",)]
    go_on.set()
    changer.join(10)
    assert set(plane.check("delete_artifact", DELETE).policies) == {"verify-before-delete", "late"}


def test_no_change_is_lost_when_many_come_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes that were worked out from the same rules all come into force, one after the other, each on the log."""
    plane = release_plane()
    count = 6
    start = threading.Barrier(count)
    admit, seen = PolicyRegistry.admit, threading.local()

    def together(*args: Any, **more: Any) -> PolicyRegistry:
        if not hasattr(seen, "before"):
            seen.before = True
            start.wait(10)  # all of them have read the same snapshot
        return admit(*args, **more)

    monkeypatch.setattr(PolicyRegistry, "admit", together)
    changers = [
        threading.Thread(target=lambda number=number: plane.admit(rule(f"rule-{number}"), by=ORGANIZATION))
        for number in range(count)
    ]
    for changer in changers:
        changer.start()
    for changer in changers:
        changer.join(20)
    wanted = {"verify-before-delete", *(f"rule-{number}" for number in range(count))}
    assert {policy.id for policy in plane.registry.policies} == wanted
    entries: Any = plane.sink
    changes = [entry.body["policy"] for entry in entries.entries if entry.kind == "registry"]
    assert sorted(changes) == sorted(wanted - {"verify-before-delete"})
    assert verify_chain([entry.as_json() for entry in entries.entries], checkpoint=plane.head).intact


def test_long_work_pauses_only_where_decisions_may_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every item once and in order; a pause after each piece of work inside `giving_way`, none outside."""
    now, pauses = [0], [0]
    monkeypatch.setattr(time, "perf_counter_ns", lambda: now[0])
    monkeypatch.setattr(time, "sleep", lambda _: pauses.__setitem__(0, pauses[0] + 1))

    def work() -> list[int]:
        found = []
        for item in in_pieces(range(10)):
            now[0] += PIECE_NS // 2 + 1
            found.append(item)
        return found

    assert work() == list(range(10))
    assert pauses == [0]
    with giving_way():
        assert work() == list(range(10))
    assert pauses == [5]
    assert work() == list(range(10))
    assert pauses == [5]
