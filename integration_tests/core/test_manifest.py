"""The log: what was changed, removed or moved in it is found."""

import copy
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from carriage_core import (
    CarriageError,
    EntryKind,
    JsonlSink,
    MemorySink,
    Settlement,
    SinkError,
    verify_chain,
)
from integration_tests.core.samples import DELETE, assemble, release_plane, verify


@cache
def chain() -> tuple[str, str]:
    """A log of an ordinary run as JSON, and the hash of its last entry."""
    plane = release_plane()
    assemble(plane)
    plane.authorize("delete_artifact", DELETE, call_id="c1")
    verify(plane)
    plane.settle(plane.authorize("delete_artifact", DELETE, call_id="c2"), Settlement.EXECUTED)
    assemble(plane, ("list_artifacts",))
    plane.authorize("wipe_disk", {})
    assert isinstance(plane.sink, MemorySink)
    return json.dumps([entry.as_json() for entry in plane.sink.entries]), plane.head


def entries() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(chain()[0])
    return found


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths of all values in a JSON tree, containers included."""
    here = [path] if path else []
    if isinstance(value, dict):
        return here + [leaf for key, item in value.items() for leaf in leaves(item, (*path, key))]
    if isinstance(value, list):
        return here + [leaf for index, item in enumerate(value) for leaf in leaves(item, (*path, index))]
    return here


def test_an_untouched_log_verifies() -> None:
    """An intact chain says how much it proves: little without a checkpoint, the whole log with one."""
    text, head = chain()
    plain = verify_chain(json.loads(text))
    assert (plain.intact, plain.broken_at) == (True, None)
    assert plain.assurance == "accidental damage only; tail unverified"
    kept = verify_chain(json.loads(text), checkpoint=head)
    assert (kept.intact, kept.entries, kept.assurance) == (True, len(json.loads(text)), "matches the checkpoint")


_other = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 2**70),
    st.floats(),
    st.text(max_size=3),
    st.just([]),
    st.just({}),
    st.just({"policies": []}),
)


@given(st.data(), _other)
def test_a_changed_entry_is_found(data: st.DataObject, value: Any) -> None:
    """Any value of any entry replaced by any other breaks the chain there, and never crashes the verifier."""
    log = entries()
    index = data.draw(st.integers(0, len(log) - 1))
    path = data.draw(st.sampled_from(leaves(log[index])))
    target: Any = log[index]
    for step in path[:-1]:
        target = target[step]
    # JSON knows one kind of number: 1 and 1.0 are the same value, true is not.
    same_kind = isinstance(value, bool) is isinstance(target[path[-1]], bool)
    assume(
        not (same_kind and target[path[-1]] == value and path != ("sequence",))
        and repr(target[path[-1]]) != repr(value)
    )
    target[path[-1]] = value
    report = verify_chain(log)
    assert not report.intact
    assert report.broken_at == index


@given(st.data())
def test_a_removed_repeated_or_moved_entry_is_found(data: st.DataObject) -> None:
    """An entry taken out, put in twice, or swapped with another breaks the chain; the tail needs the checkpoint."""
    log = entries()
    kind = data.draw(st.sampled_from(("remove", "repeat", "swap", "truncate", "add")))
    index = data.draw(st.integers(0, len(log) - 2))
    if kind == "remove":
        del log[index]
    elif kind == "repeat":
        log.insert(index, copy.deepcopy(log[index]))
    elif kind == "swap":
        other = data.draw(st.integers(index + 1, len(log) - 1))
        log[index], log[other] = log[other], log[index]
    elif kind == "truncate":
        log = log[: index + 1]
        assert verify_chain(log).intact
        report = verify_chain(log, checkpoint=chain()[1])
        assert (report.intact, report.broken_at) == (False, index + 1)
        return
    else:
        log[index]["note"] = "verdict: allow"
    report = verify_chain(log)
    assert not report.intact
    assert report.broken_at in {index, index + 1}


def test_an_empty_log_proves_nothing() -> None:
    """No entries is an error, never an intact chain."""
    with pytest.raises(CarriageError):
        verify_chain([])


@pytest.mark.parametrize("entry", [None, 5, "x", [], {}, {"sequence": 0}], ids=str)
def test_what_is_no_entry_breaks_the_chain(entry: Any) -> None:
    """A line that is not an entry is a break and not a crash."""
    assert not verify_chain([entry]).intact
    assert not verify_chain([*entries(), entry]).intact


def test_a_file_is_never_continued(tmp_path: Path) -> None:
    """A log file holds one chain: an existing file, a missing folder or a folder is refused."""
    path = tmp_path / "log.jsonl"
    sink = JsonlSink(path)
    plane = release_plane(sink=sink)
    assemble(plane)
    plane.authorize("delete_artifact", DELETE)
    sink.close()
    before = path.read_bytes()
    for wrong in (path, tmp_path, tmp_path / "missing" / "log.jsonl"):
        with pytest.raises(SinkError):
            JsonlSink(wrong)
    assert path.read_bytes() == before


@pytest.mark.parametrize("sync", [False, True])
def test_a_file_holds_what_memory_holds(tmp_path: Path, sync: bool) -> None:
    """Every entry is on disk, a JSON object a line, before the action it describes may run; and it verifies."""
    path = tmp_path / "log.jsonl"
    sink = JsonlSink(path, sync=sync)
    plane = release_plane(sink=sink)
    assemble(plane)
    for index in range(3):
        plane.authorize("delete_artifact", {**DELETE, "artifact_id": f"é{index}\u2028"})
        assert len(path.read_text(encoding="utf-8").split("\n")) == index + 4
    sink.close()
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
    assert verify_chain(lines, checkpoint=plane.head).intact
    assert [line["kind"] for line in lines] == ["capsule", "assembly", *["decision"] * 3]


def test_memory_forgets_the_oldest() -> None:
    """The default sink keeps the newest entries, in order."""
    sink = MemorySink(kept=3)
    plane = release_plane(sink=sink)
    for _ in range(5):
        plane.authorize("list_artifacts", {})
    assert [entry.sequence for entry in sink.entries] == [2, 3, 4]


def test_every_proposed_call_is_recorded_before_it_runs() -> None:
    """One decision a call, blocked ones included; its outcome comes after and refers to it."""
    plane = release_plane()
    blocked = plane.authorize("delete_artifact", DELETE)
    verify(plane)
    done = plane.authorize("delete_artifact", DELETE)
    plane.settle(done, Settlement.EXECUTED)
    assert isinstance(plane.sink, MemorySink)
    log = list(plane.sink.entries)
    decisions = [entry for entry in log if entry.kind is EntryKind.DECISION]
    outcomes = [entry for entry in log if entry.kind is EntryKind.OUTCOME]
    assert [entry.body["verdict"] for entry in decisions] == ["deny", "allow", "allow"]
    assert len({entry.body["decision"] for entry in decisions}) == 3
    assert blocked.id not in {entry.body["decision"] for entry in outcomes}
    (last,) = (entry for entry in outcomes if entry.body["decision"] == done.id)
    assert last.sequence > next(entry.sequence for entry in decisions if entry.body["decision"] == done.id)


def test_the_log_says_once_what_a_capsule_holds() -> None:
    """Assemblies with the same capsule refer to one entry, so the log grows with what is new."""
    plane = release_plane()
    for _ in range(3):
        assemble(plane)
    assemble(plane, ("list_artifacts",))
    assert isinstance(plane.sink, MemorySink)
    kinds = [entry.kind.value for entry in plane.sink.entries]
    assert kinds == ["capsule", "assembly", "assembly", "assembly", "capsule", "assembly"]
    first, *others = (entry.body["capsule"] for entry in plane.sink.entries if entry.kind is EntryKind.ASSEMBLY)
    assert others[:2] == [first, first]
    assert others[2] != first
