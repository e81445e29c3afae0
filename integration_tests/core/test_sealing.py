"""Invariants 1 and 3: an assembly is sealed only with the complete set, at its place, within the window."""

import dataclasses

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from carriage_core import (
    Assembly,
    CarriageError,
    CarriageIntegrityError,
    ControlOverloadError,
    ControlPlane,
    Effect,
    EntryKind,
    MemorySink,
    Policy,
    PolicyRegistry,
    Scope,
    StaleCapsuleError,
    Tier,
    Utf8UpperBound,
    render,
)
from integration_tests.core import naive, reader
from integration_tests.core.samples import RELEASE_POLICY, assemble, release_plane
from integration_tests.core.strategies import ORGANIZATION, World, candidate_sets, untrusted, worlds


@given(
    worlds(),
    st.sampled_from(((None, None), ("acme", "bot"), ("globex", "deputy"))),
    candidate_sets(),
    st.sampled_from(Tier),
    st.integers(0, 1),
    untrusted,
)
def test_no_model_call_is_made_with_less_than_everything_that_could_apply(
    world: World,
    who: tuple[str | None, str | None],
    candidates: tuple[str, ...],
    tier: Tier,
    known: int,
    system: str,
) -> None:
    """A reader that imports nothing of ours finds every applicable rule in each message that was sealed."""
    tools = candidates if known else None
    roomy = world.plane(tenant=who[0], actor=who[1])
    # Just enough control budget for this tier, so that all tiers are read.
    size = len(render(roomy.capsule(tools).policies, world.registry, tier).text.encode())
    assume(size)
    plane = world.plane(tenant=who[0], actor=who[1], control_budget=size)
    capsule = plane.capsule(tools)
    head, tail = f"{system}\n", f"\n\n{system}"
    manifest = plane.seal(
        Assembly(
            capsule=capsule,
            message=head + capsule.text + tail,
            offset=len(head),
            data_tokens=10,
            candidate_tokens=10,
        )
    )
    sent = (head + capsule.text + tail)[len(head) : len(head) + len(capsule.text)]
    sentences = {policy.id: policy.text for policy in world.policies}
    found = reader.ids_shown(sent, sentences)
    expected = naive.applicable(
        world.policies, world.bindings, ("an unbound tool",) if tools is None else tools, plane.runtime
    )
    # Two rules may say the same sentence; without ids a reader cannot tell which is which.
    assert sorted(sentences[name] for name in found) == sorted(sentences[name] for name in expected)
    assert capsule.tier is Tier.EXACT or set(found) == expected
    assert set(manifest.read_back) == expected
    assert manifest.complete


@given(worlds(), st.data())
def test_an_assembly_whose_capsule_was_touched_is_never_sealed(world: World, data: st.DataObject) -> None:
    """One character cut, changed or put in, or another offset, and nothing is sealed or recorded as assembled."""
    plane = world.plane()
    capsule = plane.capsule()
    text = capsule.text
    at = data.draw(st.integers(0, len(text) - 1))
    kind = data.draw(st.sampled_from(("cut", "change", "insert", "offset", "half")))
    message, offset = text, 0
    if kind == "cut":
        message = text[:at] + text[at + 1 :]
    elif kind == "change":
        message = text[:at] + ("x" if text[at] != "x" else "y") + text[at + 1 :]
    elif kind == "insert":
        message = text[:at] + "\u200b" + text[at:]
    elif kind == "offset":
        offset = data.draw(st.integers(1, len(text)))
    else:
        message = text[:at]
    assume(message[offset : offset + len(text)] != text)
    with pytest.raises(CarriageIntegrityError):
        plane.seal(Assembly(capsule=capsule, message=message, offset=offset, data_tokens=0, candidate_tokens=0))
    assert isinstance(plane.sink, MemorySink)
    assert not [entry for entry in plane.sink.entries if entry.kind is EntryKind.ASSEMBLY]
    assert plane.last_manifest is None


@given(
    worlds(),
    st.integers(4_000, 60_000),
    st.integers(0, 20_000),
    st.integers(0, 20_000),
    st.integers(0, 20_000),
    st.one_of(st.integers(0, 40_000), st.sampled_from(("-2", "-1", "0", "1", "2"))),
    st.none() | st.integers(1_000, 60_000),
)
def test_an_assembly_never_takes_more_than_the_window_leaves(
    world: World, window: int, reserved: int, overhead: int, fixed: int, data: int | str, own: int | None
) -> None:
    """Control, fixed, data and the output reserve fit the smaller window, or the call fails closed and is logged."""
    assume(window - reserved - overhead > 3_000)
    plane = world.plane(window=window, reserved_output=reserved, fixed_overhead=overhead, control_budget=3_000)
    try:
        capsule = plane.capsule()
    except ControlOverloadError:
        return
    if own is not None:
        window = min(window, own)
    if isinstance(data, str):
        # So much more or less than the very limit.
        data = max(0, window - reserved - overhead - fixed - len(capsule.text.encode()) + int(data))
    assembly = Assembly(
        capsule=capsule,
        message=capsule.text,
        offset=0,
        data_tokens=data,
        candidate_tokens=data,
        fixed_tokens=fixed,
        window=own,
    )
    needed = len(capsule.text.encode()) + data + fixed
    fits = needed + reserved + overhead <= window
    assert isinstance(plane.sink, MemorySink)
    if fits:
        assert plane.seal(assembly).complete
    else:
        with pytest.raises(ControlOverloadError) as caught:
            plane.seal(assembly)
        numbers = caught.value.numbers
        assert (numbers.reason, numbers.needed) == ("window", needed)
        assert numbers.available == window - reserved - overhead
        assert plane.last_manifest is None
    last = plane.sink.entries[-1]
    assert (last.kind, last.body["outcome"]) == (EntryKind.ASSEMBLY, "assembled" if fits else "failed_closed")


def _plain(identifier: str, **more: object) -> Policy:
    return Policy(id=identifier, issuer=ORGANIZATION, effect=Effect.DENY, text=f"Rule {identifier}.", **more)  # type: ignore[arg-type]


def test_a_capsule_of_another_agent_is_not_sealed_for_this_one() -> None:
    """What applies to one agent says nothing about another: its capsule in the other's prompt is refused."""
    registry = PolicyRegistry.of([_plain("for-all"), _plain("for-b", scope=Scope(agent="b"))])
    first = ControlPlane(registry, actor="a", counter=Utf8UpperBound())
    second = first.as_actor("b")
    foreign = first.capsule()
    assert "for-b" in second.capsule().ids
    with pytest.raises(CarriageError):
        second.seal(Assembly(capsule=foreign, message=foreign.text, offset=0, data_tokens=0, candidate_tokens=0))


def test_a_capsule_that_holds_less_than_its_registry_is_not_sealed() -> None:
    """A capsule that was cut after it was rendered claims the registry's digest and is refused all the same."""
    registry = PolicyRegistry.of([_plain("one"), _plain("two")])
    plane = ControlPlane(registry, counter=Utf8UpperBound())
    whole = plane.capsule()
    cut = dataclasses.replace(whole, rendering=render(whole.policies[:1], registry, Tier.FULL))
    with pytest.raises(CarriageError):
        plane.seal(Assembly(capsule=cut, message=cut.text, offset=0, data_tokens=0, candidate_tokens=0))


@pytest.mark.parametrize("wrong", [{"data_tokens": -1}, {"fixed_tokens": -1}, {"candidate_tokens": -1}, {"offset": -1}])
def test_a_negative_size_opens_no_room_in_the_window(wrong: dict[str, int]) -> None:
    """A size or position below zero is refused: it would make a prompt look smaller than it is."""
    plane = release_plane()
    with pytest.raises((CarriageError, ValueError)):
        assemble(plane, None, **wrong)


def test_a_policy_admitted_while_a_call_is_assembled_is_not_left_out_of_it() -> None:
    """A capsule rendered before an admission is stale and not sealed; the next one carries the new rule."""
    plane = release_plane()
    old = plane.capsule()
    plane.admit(_plain("new-rule"), by=ORGANIZATION)
    with pytest.raises(StaleCapsuleError):
        plane.seal(Assembly(capsule=old, message=old.text, offset=0, data_tokens=0, candidate_tokens=0))
    assert "new-rule" in plane.capsule().ids


def test_a_manifest_says_what_was_carried() -> None:
    """The manifest of an assembly names the set, the tier and the sizes, and the log holds the same."""
    plane = release_plane()
    assemble(plane, ("delete_artifact",), data_tokens=100, candidate_tokens=400, imitations=2)
    manifest = plane.last_manifest
    assert manifest is not None
    assert [name for name, _ in manifest.a_plus] == ["verify-before-delete"]
    assert manifest.complete
    assert manifest.tier == "full"
    assert manifest.candidates == frozenset({"delete_artifact"})
    assert manifest.control_tokens == len(plane.capsule(("delete_artifact",)).text.encode())
    assert (manifest.data_tokens, manifest.candidate_tokens, manifest.imitations) == (100, 400, 2)
    data_budget = 128_000 - 4_096 - manifest.control_tokens
    assert manifest.rho == round(400 / data_budget, 6)


def test_an_overload_names_its_numbers_and_no_policy() -> None:
    """The error for a set that does not fit says what was needed and what there was, and repeats no rule."""
    plane = release_plane(control_budget=20)
    with pytest.raises(ControlOverloadError) as caught:
        plane.capsule()
    numbers = caught.value.numbers
    sentence = "Do not delete release artifacts unless verification Z succeeds."
    assert (numbers.reason, numbers.available, numbers.needed, numbers.policies) == ("control", 20, len(sentence), 1)
    assert dict(numbers.tier_tokens)["exact"] == len(sentence)
    assert numbers.counter == "utf8-upper-bound"
    said = str(caught.value)
    assert "20" in said
    assert str(len(sentence)) in said
    assert "verification" not in said
    assert "delete" not in said
    assert "platform-security" not in said


def test_a_minimum_tier_is_not_undercut() -> None:
    """An operator who asks for the full tier gets an overload where only the sentence would fit."""
    sentence = "Do not delete release artifacts unless verification Z succeeds."
    assert release_plane(control_budget=len(sentence)).capsule().tier is Tier.EXACT
    with pytest.raises(ControlOverloadError):
        release_plane(control_budget=len(sentence), minimum_tier="compact").capsule()


def test_a_sentence_that_does_not_name_its_constants_is_reported_unbound() -> None:
    """In the exact tier a rule whose text leaves out a constant of its clause is carried, unbound."""
    sentence = "Do not delete release artifacts unless verification Z succeeds."
    plane = release_plane(control_budget=len(sentence))
    assemble(plane)
    assert plane.last_manifest is not None
    assert plane.last_manifest.unbound == ("verify-before-delete",)
    named = RELEASE_POLICY.replace("text: Do not", "text: In acme/* (succeeded) do not")
    plane = release_plane(named, control_budget=len(sentence) + 23)
    assemble(plane)
    assert plane.last_manifest is not None
    assert (plane.last_manifest.tier, plane.last_manifest.unbound) == ("exact", ())
