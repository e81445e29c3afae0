"""Values: one normal form for each, globs as a plain matcher has them, digests that keep different things apart."""

import dataclasses
import enum
import unicodedata
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, override

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from carriage_core import (
    Absent,
    All,
    AnyOf,
    Attribute,
    AttributeSource,
    Clock,
    Compare,
    Effect,
    Not,
    Operator,
    Policy,
    PolicyError,
    PolicyRegistry,
    Sort,
    ToolBinding,
    ToolSpec,
    Truth,
    evaluate,
)
from carriage_core.arguments import argument_digest
from carriage_core.canonical import digest_of, digest_of_built
from carriage_core.compiled import compiled
from carriage_core.condition import Condition, matches
from carriage_core.schema import FilePath, Url, Value, canonical_value, normal, parse_time
from integration_tests.core import naive
from integration_tests.core.strategies import IGNORABLE, ORGANIZATION, RAW, comparison, conditions, visible, worlds

# -- globs ---------------------------------------------------------------------------------------

_pieces = st.sampled_from(("a", "b", "ab", "*", "*", "**", "\\*", "\\", "é", "?", "[a]"))


@given(st.lists(_pieces, max_size=6).map("".join), st.lists(_pieces, max_size=5).map("".join), st.integers(0, 9))
def test_a_glob_matches_what_trying_every_split_matches(pattern: str, text: str, cut: int) -> None:
    """A star is any sequence and a backslash with a star a literal star; nothing else is special."""
    assert matches(pattern, text) is naive.glob(pattern, text)
    # And the texts that only just match, or only just do not: nothing for the stars, less one character.
    least = pattern.replace("\\*", "\0").replace("*", "").replace("\0", "*")
    for near in (least, least[:cut] + least[cut + 1 :], least + text, text + least):
        assert matches(pattern, near) is naive.glob(pattern, near)


@given(st.lists(_pieces, max_size=6).map("".join), st.text("ab*\\é", max_size=4))
def test_a_glob_that_is_filled_in_matches(pattern: str, filling: str) -> None:
    """Every text made by putting something for the stars is matched."""
    literal = pattern.replace("\\*", "\0")
    assert matches(pattern, literal.replace("*", filling).replace("\0", "*"))


def test_a_glob_of_many_stars_is_no_trap() -> None:
    """A pattern made to backtrack takes no time worth the name."""
    assert not matches("a*" * 100 + "b", "a" * 4_000)


# -- truth ---------------------------------------------------------------------------------------

_names = ("object.id", "object.size", "object.flag", "object.when", "tenant")
_values: st.SearchStrategy[Value | Absent] = st.sampled_from(
    (
        *(value for raw in RAW for value in [normal(raw)] if not isinstance(value, Absent)),
        datetime(2026, 6, 1, 12, tzinfo=UTC),
        *Absent,
    )
)


def _tagged(value: Value | Absent) -> naive.Plain:
    if isinstance(value, Absent):
        return naive.MISSING if value is Absent.MISSING else naive.UNKNOWN
    return naive.literal(value)


_places = (FilePath("/a/b"), FilePath("/a"), Url("https://a.b/c"), "/a/b", Decimal(1))


@given(conditions(_names), st.fixed_dictionaries(dict.fromkeys(_names, _values)))
def test_a_condition_has_the_truth_that_strong_kleene_logic_gives_it(
    condition: Condition, values: dict[str, Value | Absent]
) -> None:
    """True, false or unknown as a plain evaluator says, whatever is missing, unknown or ill-typed."""
    said = evaluate(condition, lambda name: values.get(name, Absent.MISSING))
    assert compiled(condition)(values) is said
    expected = naive.holds(condition, {name: _tagged(value) for name, value in values.items()})
    assert {True: Truth.TRUE, False: Truth.FALSE, None: Truth.UNKNOWN}[expected] is said


@given(st.composite(comparison)(_names))
def test_a_value_nobody_can_read_decides_nothing(compare: Compare) -> None:
    """On unknown every comparison is unknown; on missing, every one but `exists`, which is false."""
    assert evaluate(compare, lambda _: Absent.UNKNOWN) is Truth.UNKNOWN
    assert compiled(compare)(dict.fromkeys(_names, Absent.UNKNOWN)) is Truth.UNKNOWN
    missing = Truth.FALSE if compare.operator is Operator.EXISTS else Truth.UNKNOWN
    assert evaluate(compare, lambda _: Absent.MISSING) is missing
    assert compiled(compare)(dict.fromkeys(_names, Absent.MISSING)) is missing


@given(st.sampled_from(Operator), st.sampled_from(_places), st.sampled_from((*_places, "b", "*b*", "/a*")))
def test_a_path_is_compared_alike_by_both_evaluators(operator: Operator, value: Value, literal: Value) -> None:
    """What is worked out beforehand decides as the definition does, on paths, URLs and the patterns over them."""
    try:
        one = Compare("object.path", operator, None if operator is Operator.EXISTS else literal)
    except PolicyError:
        one = Compare("object.path", Operator.IN, (literal, "b"))
    values = {"object.path": value}
    assert compiled(one)(values) is evaluate(one, values.__getitem__)


@pytest.mark.parametrize(
    ("operator", "operand"),
    [
        (Operator.EQ, None),
        (Operator.EQ, ("a",)),
        (Operator.IN, ()),
        (Operator.IN, "abc"),
        (Operator.IN, Attribute("tenant")),
        (Operator.EXISTS, "a"),
        (Operator.LT, "a"),
        (Operator.GE, True),
        (Operator.GLOB, Attribute("tenant")),
        (Operator.GLOB, Decimal(1)),
        (Operator.GLOB, "x" * 513),
        (Operator.PREFIX, True),
        (Operator.CONTAINS, datetime(2026, 1, 1, tzinfo=UTC)),
    ],
)
def test_a_comparison_that_could_never_be_decided_is_refused(operator: Operator, operand: Any) -> None:
    """An operand that does not go with its operator fails at load, not at the call."""
    with pytest.raises(PolicyError):
        Compare("object.id", operator, operand)


@pytest.mark.parametrize("empty", [All(()), AnyOf(()), Not(All(()))])
def test_an_empty_list_of_conditions_is_refused(empty: Condition) -> None:
    """An empty all would always hold and an empty any never; neither becomes a policy."""
    with pytest.raises(PolicyError):
        Policy(id="rule", issuer=ORGANIZATION, effect=Effect.DENY, text="A rule.", actions=("delete",), where=empty)


def test_a_condition_nested_without_end_is_refused() -> None:
    """Seventeen levels of `not` are over the limit."""
    condition: Condition = Compare("object.id", Operator.EQ, "a")
    for _ in range(17):
        condition = Not(condition)
    with pytest.raises(PolicyError):
        Policy(id="rule", issuer=ORGANIZATION, effect=Effect.DENY, text="A rule.", actions=("delete",), where=condition)


@pytest.mark.parametrize("number", ["NaN", "sNaN", "Infinity", "-Infinity"])
def test_a_literal_that_is_no_number_is_refused(number: str) -> None:
    """NaN and infinity as a literal fail at load instead of failing every call."""
    with pytest.raises(PolicyError):
        Policy(
            id="rule",
            issuer=ORGANIZATION,
            effect=Effect.DENY,
            text="A rule.",
            actions=("delete",),
            where=Compare("object.size", Operator.GT, Decimal(number)),
        )


# -- normal forms --------------------------------------------------------------------------------


@given(st.one_of(st.sampled_from(RAW), st.text(max_size=8), st.integers(), st.floats()), st.sampled_from(Sort))
def test_a_raw_value_gets_the_normal_form_that_a_plain_reader_gives_it(raw: object, sort: Sort) -> None:
    """Sort by sort, a value is what it says or unknown; it is never coerced into another sort."""
    value = normal(raw, sort)
    assert _tagged(value) == naive.plain(raw, sort.value)
    if not isinstance(value, Absent):
        assert normal(value, sort if sort is not Sort.TIME or isinstance(value, datetime) else Sort.ANY) == value


@given(st.text(visible, max_size=10))
def test_two_spellings_of_one_text_are_one_value(text: str) -> None:
    """Composed and decomposed text have the same normal form, so neither slips past a rule about the other."""
    composed, decomposed = unicodedata.normalize("NFC", text), unicodedata.normalize("NFD", text)
    assert normal(composed, Sort.TEXT) == normal(decomposed, Sort.TEXT)


@pytest.mark.parametrize(
    "character", ["\x00", "\x7f", "\u200b", "\u200f", "\u202e", "\u2066", "\ufeff", "\u00ad", "\ue000", *IGNORABLE]
)
@pytest.mark.parametrize("sort", [Sort.ANY, Sort.ID, Sort.TEXT])
def test_a_value_with_an_invisible_character_is_unknown(character: str, sort: Sort) -> None:
    """What people cannot see in a value could make it another object to the tool; a deny stands."""
    assert normal(f"acme{character}/api", sort) is Absent.UNKNOWN


@pytest.mark.parametrize("raw", ["%61cme/api", "acme%2Fapi", "$HOME/x", "${HOME}", "a$(id)", "~/x", "~root"])
def test_an_identifier_the_tool_could_resolve_to_something_else_is_unknown(raw: str) -> None:
    """Percent-encoding and unresolved variables make an identifier unknown; prose may hold them."""
    assert normal(raw) is Absent.UNKNOWN
    assert normal(raw, Sort.ID) is Absent.UNKNOWN
    assert normal(raw, Sort.TEXT) == raw


@pytest.mark.parametrize(
    ("raw", "instant"),
    [
        ("2026-12-01T16:00:00Z", datetime(2026, 12, 1, 16, tzinfo=UTC)),
        ("2026-12-01t16:00z", datetime(2026, 12, 1, 16, tzinfo=UTC)),
        ("2026-12-01T18:00:00.5+02:00", datetime(2026, 12, 1, 16, 0, 0, 500_000, tzinfo=UTC)),
        ("2026-12-01T16:00:00", Absent.UNKNOWN),
        ("2026-12-01", Absent.UNKNOWN),
        ("2026-13-01T16:00:00Z", Absent.UNKNOWN),
        ("2026-12-01T25:00:00Z", Absent.UNKNOWN),
        ("0001-01-01T00:00:00+05:00", Absent.UNKNOWN),
        ("2026-12-01T16:00:00Z\n", Absent.UNKNOWN),
        ("٢٠٢٦-12-01T16:00:00Z", Absent.UNKNOWN),
    ],
)
def test_an_instant_without_a_zone_is_unknown(raw: str, instant: datetime | Absent) -> None:
    """A local time means another instant on another machine, so it is no time at all."""
    assert parse_time(raw) == instant


class Colour(enum.StrEnum):
    RED = "red"


class Mixed(str, enum.Enum):  # noqa: UP042  # the older spelling is what is tested
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 1


class Wide(float):
    @override
    def __repr__(self) -> str:
        return f"Wide({float(self)})"


@pytest.mark.parametrize(
    ("raw", "value"),
    [(Colour.RED, "red"), (Mixed.RED, "red"), (Level.HIGH, Decimal(1)), (Wide(1.5), Decimal("1.5"))],
    ids=["str enum", "mixed enum", "int enum", "float"],
)
def test_a_value_of_a_subclass_is_the_plain_value(raw: object, value: Value) -> None:
    """Enum members and number subclasses, as pydantic hands them over, compare like what they stand for."""
    found = normal(raw)
    assert found == value
    assert type(found) is type(value)


def test_a_digest_of_arguments_does_not_depend_on_the_class_of_a_value() -> None:
    """The same call with an enum member in place of its value keeps its approval."""
    assert argument_digest({"a": Colour.RED, "b": Level.HIGH}) == argument_digest({"a": "red", "b": 1})


# -- digests -------------------------------------------------------------------------------------

_json: st.SearchStrategy[Any] = st.recursive(
    st.one_of(
        st.sampled_from(
            (None, True, False, 0, 1, 1.0, -0.0, 0.0, "1", "1.0", "true", "", 2**53, 2**53 + 1, float(2**53))
        ),
        st.integers(),
        st.text(max_size=3),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2),
        st.dictionaries(st.sampled_from(("number", "repr", "object", "a", "1")), inner, max_size=2),
    ),
    max_leaves=3,
)


def _typed(value: Any) -> object:
    """Tell apart everything JSON text tells apart."""
    if isinstance(value, dict):
        return ("object", frozenset((key, _typed(item)) for key, item in value.items()))
    if isinstance(value, list):
        return ("list", tuple(_typed(item) for item in value))
    return (type(value).__name__, repr(value))


@given(_json, _json)
def test_two_calls_share_an_approval_only_if_their_arguments_are_the_same(first: Any, second: Any) -> None:
    """Digests of arguments are equal exactly where the JSON values are, type by type."""
    same = argument_digest({"a": first}) == argument_digest({"a": second})
    assert same is (_typed(first) == _typed(second))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (2**53, 2**53 + 1),
        (1, 1.0),
        (1, True),
        (1.0, True),
        (0, False),
        (0, None),
        (1, "1"),
        (1, {"number": "1"}),
        (None, {}),
        ({"repr": "set"}, {"repr": "list"}),
        (["a"], "a"),
        ([["a"], "b"], ["a", ["b"]]),
        ("é", "e\u0301"),
    ],
)
def test_arguments_that_differ_have_other_digests(first: object, second: object) -> None:
    """What a tool could take differently is never the same call."""
    assert argument_digest({"a": first}) != argument_digest({"a": second})


def test_two_schemas_that_differ_have_other_digests() -> None:
    """A schema cannot be changed to one that only looks different inside the digest."""
    numbers = ToolSpec.of({"name": "t", "parameters": {"properties": {"a": {"const": 1}}}})
    nested = ToolSpec.of({"name": "t", "parameters": {"properties": {"a": {"const": {"number": "1"}}}}})
    assert numbers.digest != nested.digest


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Decimal(2**53), Decimal(2**53 + 1)),
        (Decimal("0.1"), Decimal("0.10000000000000000000000000001")),
        (Decimal(1), True),
        (Decimal(1), "1"),
        (True, "true"),
        ("2026-12-01T16:00:00Z", datetime(2026, 12, 1, 16, tzinfo=UTC)),
    ],
)
def test_literals_that_differ_have_other_digests(first: Value, second: Value) -> None:
    """Numbers beyond 2^53, and values of other sorts that look alike, stay apart in a policy's digest."""
    one, two = (
        Policy(
            id="rule",
            issuer=ORGANIZATION,
            effect=Effect.DENY,
            text="A rule.",
            actions=("delete",),
            where=Compare("object.id", Operator.EQ, value),
        )
        for value in (first, second)
    )
    assert one.digest != two.digest


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Decimal(1), Decimal("1.0")),
        (Decimal("1E+2"), Decimal(100)),
        (Decimal("-0.0"), Decimal(0)),
        (datetime(2026, 12, 1, 16, tzinfo=UTC), datetime(2026, 12, 1, 18, tzinfo=timezone(timedelta(hours=2)))),
    ],
)
def test_literals_that_mean_the_same_have_one_digest(first: Value, second: Value) -> None:
    """A number or an instant has one canonical spelling."""
    assert digest_of(canonical_value(first)) == digest_of(canonical_value(second))


@pytest.mark.parametrize(("first", "second"), [(Decimal(1), "1"), (True, "True")])
def test_registries_that_judge_differently_have_other_digests(first: Value, second: Value) -> None:
    """A binding's constant 1 and "1" make different verdicts, so they are different registries."""
    one, two = (
        PolicyRegistry.of(
            [Policy(id="rule", issuer=ORGANIZATION, effect=Effect.DENY, text="A rule.", actions=("delete",))],
            [ToolBinding(tool="t", action="delete", object_attributes=(("size", AttributeSource(constant=value)),))],
        )
        for value in (first, second)
    )
    assert one.digest != two.digest


@given(worlds(most=1), st.data())
def test_a_policy_that_says_something_else_has_another_digest(world: Any, data: st.DataObject) -> None:
    """Changing any one field that is carried or judged changes the digest of the policy."""
    (policy,) = world.policies
    change: dict[str, Any] = data.draw(
        st.sampled_from(
            (
                {"id": "other"},
                {"text": policy.text + "x"},
                {"version": policy.version + 1},
                {"priority": policy.priority + 1},
                {"effect": next(effect for effect in Effect if effect is not policy.effect)},
                {"issuer": dataclasses.replace(policy.issuer, name="someone else")},
                {"scope": dataclasses.replace(policy.scope, task="another task")},
                {"valid_until": datetime(2031, 1, 1, tzinfo=UTC)},
                *([{"object_type": "else"}, {"actions": ("else",)}] if policy.mediated else []),
            )
        )
    )
    assert dataclasses.replace(policy, **change).digest != policy.digest


# -- time ----------------------------------------------------------------------------------------


@given(st.lists(st.integers(-100, 100), min_size=1, max_size=8))
def test_time_never_runs_backwards_and_a_jump_is_remembered(seconds: list[int]) -> None:
    """Samples never decrease; after the source did once, the clock is not trusted again."""
    start = datetime(2026, 6, 1, tzinfo=UTC)
    readings = iter([start + timedelta(seconds=second) for second in seconds])
    clock = Clock(lambda: next(readings))
    samples = [clock.sample() for _ in seconds]
    for index, sample in enumerate(samples):
        seen = seconds[: index + 1]
        assert sample.now == start + timedelta(seconds=max(seen))
        assert sample.trusted is (seen == sorted(seen))


_leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**53) + 1, 2**53 - 1),
    st.text(),
    st.sampled_from(("\x7f\x1f", "\u2028", '"\\/', (1, "é"), Sort.ID)),
)
_trees = st.recursive(
    _leaves, lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(), inner)), max_leaves=9
)


@given(st.dictionaries(st.text(), _trees))
def test_the_short_way_to_a_digest_gives_the_same_digest(tree: dict[str, object]) -> None:
    """A tree of strings, truth values and small integers that our own code built has the digest of RFC 8785."""
    assert digest_of_built(tree) == digest_of(tree)


@pytest.mark.parametrize("leaf", [b"a", {1}, object()])
def test_what_is_no_json_has_no_digest(leaf: object) -> None:
    """Neither way makes something up."""
    with pytest.raises(rfc8785.CanonicalizationError):
        digest_of({"a": [leaf]})
    with pytest.raises(rfc8785.CanonicalizationError):
        digest_of_built({"a": [leaf]})
