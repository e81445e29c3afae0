"""A clause is one line that reads back to exactly the rule it was written from."""

import string
import unicodedata
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carriage_core import (
    All,
    AnyOf,
    Attribute,
    CapsuleFormatError,
    Compare,
    Effect,
    Not,
    Operator,
    Policy,
    PolicyError,
    clause_of,
    parse_clause,
    render_clause,
)
from carriage_core.condition import Condition
from carriage_core.schema import hidden_character
from integration_tests.core.strategies import ORGANIZATION, visible

_PUNCTUATION = st.sampled_from(
    ('"', "\\", "]", "[", ",", ";", ":", "*", "=", "and", "or", ") unless", "\\u0041", "time")
)
_free = st.text(st.one_of(st.sampled_from(string.printable[:95]), visible), max_size=8)
strings = st.one_of(_free, st.lists(_PUNCTUATION, max_size=4).map("".join)).map(
    lambda t: unicodedata.normalize("NFC", t)
)
strings = strings.filter(lambda text: not set(text) & set("%$~") and hidden_character(text) is None)
numbers = st.one_of(
    st.integers(-(10**40), 10**40).map(Decimal),
    st.decimals(allow_nan=False, allow_infinity=False, places=8, min_value=-(10**9), max_value=10**9),
    st.sampled_from((Decimal("-0.0"), Decimal("1E+5"), Decimal("1E-20"), Decimal("10.00"), Decimal(2**53 + 1))),
)
_zones = st.sampled_from((UTC, timezone(timedelta(hours=-5, minutes=30))))
instants = st.builds(
    lambda microseconds, zone: (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)).astimezone(
        zone
    ),
    st.integers(0, 7 * 10**15),
    _zones,
)
literals: st.SearchStrategy[Any] = st.one_of(strings, numbers, st.booleans(), instants)
_word = st.sampled_from(
    (
        "object.id",
        "object.a-b",
        "action.name",
        "actor.id",
        "tenant",
        "time",
        "x.y.z.w",
        "object.and",
        "anything",
        "Object.In",
        "time.zone",
    )
)


def _comparisons() -> st.SearchStrategy[Compare]:
    pairs = st.tuples(_word, _word).filter(lambda pair: pair[0] != pair[1])
    order = st.sampled_from((Operator.LT, Operator.LE, Operator.GT, Operator.GE))
    equal = st.sampled_from((Operator.EQ, Operator.NE))
    text = st.sampled_from((Operator.PREFIX, Operator.SUFFIX, Operator.CONTAINS, Operator.GLOB))
    return st.one_of(
        st.builds(Compare, _word, equal, literals),
        st.builds(Compare, _word, order, st.one_of(numbers, instants)),
        st.builds(Compare, _word, text, strings),
        st.builds(Compare, _word, st.just(Operator.IN), st.lists(literals, min_size=1, max_size=3).map(tuple)),
        st.builds(lambda pair, op: Compare(pair[0], op, Attribute(pair[1])), pairs, st.one_of(equal, order)),
        st.builds(Compare, _word, st.just(Operator.EXISTS)),
    )


trees: st.SearchStrategy[Condition] = st.recursive(
    _comparisons(),
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.builds(All, st.lists(inner, min_size=1, max_size=3).map(tuple)),
        st.builds(AnyOf, st.lists(inner, min_size=1, max_size=3).map(tuple)),
    ),
    max_leaves=6,
)
_actions = st.sampled_from((("delete",), ("delete", "send-mail"), ("*",), ("Any", "_x1")))
_types = st.sampled_from((None, "artifact", "on-call"))


@given(trees, st.one_of(st.none(), trees), _actions, _types, st.sampled_from(Effect))
def test_a_clause_reads_back_to_the_rule_it_was_written_from(
    where: Condition, unless: Condition | None, actions: tuple[str, ...], kind: str | None, effect: Effect
) -> None:
    """Writing and reading are exact inverses, for every condition and every literal, on one line."""
    policy = Policy(
        id="rule",
        issuer=ORGANIZATION,
        effect=effect,
        text="A rule.",
        actions=actions,
        object_type=kind,
        where=where,
        unless=unless,
    )
    clause = clause_of(policy)
    assert clause is not None
    line = render_clause(clause)
    assert len(line.splitlines()) == 1
    again = parse_clause(line)
    assert again == clause
    assert render_clause(again) == line
    # The same digest, so nothing a verdict depends on was lost between the two.
    twin = Policy(
        id="rule",
        issuer=ORGANIZATION,
        effect=again.effect,
        text="A rule.",
        actions=again.actions,
        object_type=again.object_type,
        where=again.where,
        unless=again.unless,
    )
    assert twin.digest == policy.digest


@given(st.text(max_size=60))
def test_a_line_that_is_no_clause_is_refused_with_one_kind_of_error(line: str) -> None:
    """Reading arbitrary text never fails in any other way than saying that it is no clause."""
    try:
        parse_clause(line)
    except CapsuleFormatError:
        return
    assert line.split(maxsplit=1)[0] in {"deny", "confirm", "permit", "deny-by-default"}


@pytest.mark.parametrize(
    "line",
    [
        "",
        "deny",
        "allow delete",
        "deny delete where",
        "deny delete on",
        "deny delete where object.id == ",
        'deny delete where object.id == "a" extra',
        'deny delete where object.id in ["a"',
        'deny delete where object.id == "a',
        "deny delete where object.id in []",
        "deny delete where not",
        "deny delete where object.id like 5",
        'deny delete where object.id < "a"',
        'deny delete where object.when == time "2026-13-01T00:00:00Z"',
        'deny delete where object.when == time "2026-01-01T00:00:00"',
        "deny delete where object.size == 1.2.3",
        "deny delete where (object.flag == true",
        "deny delete or",
        "deny delete or where object.flag == true",
        "deny any or delete",
    ],
)
def test_half_a_clause_is_not_read_as_a_whole_one(line: str) -> None:
    """Truncated and malformed clauses are refused rather than read as a rule that says less."""
    with pytest.raises(CapsuleFormatError):
        parse_clause(line)


@pytest.mark.parametrize("word", ["and", "not", "any", "true", "in", "unless", "a b", "1st", "", "x" * 65])
def test_a_word_of_the_grammar_names_no_action(word: str) -> None:
    """An action, a type or an attribute that the grammar would read as its own word is refused at load."""
    for rule in (
        {"actions": (word,)},
        {"actions": ("delete",), "object_type": word},
        {"actions": ("delete",), "where": Compare(word, Operator.EXISTS)},
    ):
        if rule == {"actions": ("",)}:
            continue
        with pytest.raises(PolicyError):
            Policy(id="rule", issuer=ORGANIZATION, effect=Effect.DENY, text="A rule.", **rule)
