"""Answers about rules: a wrong one lets a weakened rule pass, or refuses a whole one."""

from __future__ import annotations

import contextlib
import io
import itertools
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from carriage_core import analysis_rules, analysis_situation, analysis_strings
from carriage_core.analysis import Decided, complete, disjoint, equivalent, implies, sound
from carriage_core.analysis_languages import LANGUAGES
from carriage_core.analysis_strings import value_of
from carriage_core.attribute_types import AttributeTypes
from carriage_core.clause import parse_clause
from carriage_core.condition import Compare, Condition, Not, Operator, attributes
from carriage_core.policy import (
    CounterDeclaration,
    EvidenceDeclaration,
    FieldOrigin,
    FieldSource,
    Issuer,
    IssuerKind,
    Policy,
)
from carriage_core.schema import Sort
from carriage_core.verdict import Outcome
from integration_tests.core.analysis_samples import TYPES as SAMPLE_TYPES
from integration_tests.core.analysis_samples import drawn, rule_pair

if TYPE_CHECKING:
    from carriage_core.analysis_languages import Automaton

YES, NO, UNDECIDED = Decided.YES, Decided.NO, Decided.UNDECIDED
TYPES = AttributeTypes(
    {
        "object.id": frozenset({Sort.ID}),
        "object.repository": frozenset({Sort.TEXT}),
        "object.amount": frozenset({Sort.MONEY}),
        "object.count": frozenset({Sort.INTEGER}),
        "object.path": frozenset({Sort.PATH}),
        "object.host": frozenset({Sort.HOST}),
        "object.url": frozenset({Sort.URL}),
    }
)


def declared(**changes: object) -> EvidenceDeclaration:
    values: dict[str, object] = {
        "from_tool": "verify_release",
        "key": ("artifact",),
        "fields": (
            ("artifact", FieldSource(origin=FieldOrigin.ARGUMENT, path="artifact_id", sort=Sort.ID)),
            ("status", FieldSource(origin=FieldOrigin.RESULT, path="status", sort=Sort.ID)),
        ),
    }
    return EvidenceDeclaration(**(values | changes))  # type: ignore[arg-type]


def rule(line: str, name: str = "rule", kind: IssuerKind = IssuerKind.DEVELOPER, **more: object) -> Policy:
    clause = parse_clause(line)
    handles = {one.split(".")[1] for one in attributes(clause.unless) if one.startswith("evidence.")}
    more.setdefault("evidence", tuple((handle, declared()) for handle in sorted(handles)))
    return Policy(
        id=name,
        issuer=Issuer(kind=kind, name="team"),
        effect=clause.effect,
        actions=clause.actions,
        object_type=clause.object_type,
        where=clause.where,
        unless=clause.unless,
        text="The rule says so.",
        **more,  # type: ignore[arg-type]
    )


VERIFIED = 'unless evidence.v.status == "succeeded" and evidence.v.artifact == object.id'


@pytest.mark.parametrize(
    ("source", "visible", "is_complete", "is_sound"),
    [
        ("deny refund where object.amount > 500", "deny refund where object.amount >= 500.01", YES, YES),
        ("deny refund where object.amount > 500", "deny refund where object.amount > 501", NO, YES),
        ("deny refund where object.amount > 500", "deny refund where object.amount >= 500", YES, NO),
        ("deny refund where object.amount > 500", "deny refund where object.amount < 500", NO, NO),
        ("deny refund where object.count > 500", "deny refund where object.count >= 501", YES, YES),
        ("deny refund where object.other > 500", "deny refund where object.other >= 500.01", NO, YES),
        ("deny refund where object.amount > 500", "deny refund where not object.amount <= 500", YES, YES),
        ("deny delete", "confirm delete", NO, YES),
        ("deny delete", "deny delete or send", YES, NO),
        ("deny delete on artifact", "deny delete", YES, NO),
        ("deny any", "deny delete", NO, YES),
        (f"deny delete {VERIFIED}", f"deny delete {VERIFIED}", YES, YES),
        (f"deny delete {VERIFIED}", 'deny delete unless evidence.v.status == "succeeded"', NO, YES),
        (f"deny delete {VERIFIED}", "deny delete", YES, NO),
        (f"deny delete {VERIFIED}", f"deny delete {VERIFIED.replace('succeeded', 'failed')}", NO, NO),
        (
            'deny push where object.repository like "acme/*"',
            'deny push where object.repository startswith "acme/"',
            YES,
            YES,
        ),
        ('deny push where object.repository like "a*b*c"', 'deny push where object.repository like "a*c"', YES, NO),
        ('deny write where object.path startswith path "/etc"', "deny write where exists object.path", NO, NO),
        (
            'deny write where object.path startswith path "/etc/ssh"',
            'deny write where object.path startswith path "/etc"',
            YES,
            NO,
        ),
        (
            'deny call where object.host == "a.example"',
            'deny call where object.host endswith ".example"',
            YES,
            NO,
        ),
        (
            'deny call where object.url startswith url "https://a.example/x"',
            'deny call where object.url startswith url "https://a.example/"',
            YES,
            NO,
        ),
        ('deny send where actor.id == "bot"', 'deny send where actor.id != "bot"', NO, NO),
        # A chain of two: one member is the bot, another is not.
        ('deny send unless actor.id == "bot"', 'deny send where actor.id != "bot"', YES, YES),
    ],
)
def test_a_weaker_rule_passes_for_the_whole_one(
    source: str, visible: str, is_complete: Decided, is_sound: Decided
) -> None:
    """Whether everything the first stops is stopped by the second, and the other way round."""
    first, second = rule(source), rule(visible)
    forth, back = complete(first, second, types=TYPES), sound(first, second, types=TYPES)
    assert (forth.verdict, back.verdict) == (is_complete, is_sound), (forth, back)
    both = equivalent(first, second, types=TYPES)
    assert both.yes == (forth.yes and back.yes)


def test_counters_of_each_agents_own_are_not_taken_for_one() -> None:
    """Along a chain each member has a sum of its own; where rules also tell members apart, there is no yes."""
    own = CounterDeclaration(key=("actor.id",), window_seconds=60)
    shared = CounterDeclaration(key=(), window_seconds=60)
    first = 'deny delete where actor.id == "a" unless counter.calls <= 1'
    second = 'deny delete where actor.id == "a" unless counter.calls <= 1 or actor.id == "b"'
    assert (
        complete(rule(first, counters=(("calls", own),)), rule(second, counters=(("calls", own),))).verdict is not YES
    )
    plain = "deny delete unless counter.calls <= 1"
    for counter in (own, shared):
        one = rule(plain, counters=(("calls", counter),))
        two = rule("deny delete unless not counter.calls > 1", counters=(("calls", counter),))
        assert (complete(one, two).verdict, sound(one, two).verdict) == (YES, YES)


def test_sets_are_judged_rule_by_rule() -> None:
    """Two rules may stop together what one stopped alone, and a permit may undo a default that is still there."""
    whole = rule("deny pay where object.amount > 5")
    halves = [
        rule("deny pay where object.amount > 5 and object.count > 0", "one"),
        rule("deny pay where object.amount > 5 and not object.count > 0", "two"),
    ]
    assert complete(whole, halves, types=TYPES).yes
    assert complete(halves, whole, types=TYPES).yes
    assert complete(whole, halves[0], types=TYPES).verdict is NO
    default = rule("deny-by-default pay", "default")
    small = rule("permit pay where object.amount < 5", "small")
    answer = complete([default], [default, small], types=TYPES)
    assert answer.verdict is NO
    assert answer.witness is not None
    assert (answer.witness.first, answer.witness.second) == (Outcome.DENY, Outcome.ALLOW)
    # 3.1: a permit of a lower rank lifts nothing.
    higher = rule("deny-by-default pay", "default", IssuerKind.ORGANIZATION)
    assert complete([higher], [higher, small], types=TYPES).yes
    # A rule beside it does not weaken a deny.
    assert complete([whole], [whole, small], types=TYPES).yes


def test_a_confirmation_that_lifts_a_default_counts_as_less_than_a_denial() -> None:
    """A default denies; with a confirm beside it the call is held, and lifting the confirm denies again."""
    default = rule("deny-by-default pay", "default")
    held = rule('confirm pay unless evidence.v.status == "ok"', "held")
    answer = complete([default], [default, held], types=TYPES)
    assert answer.witness is not None
    assert answer.witness.second is Outcome.CONFIRM
    lifted = complete([default, held], [rule("confirm pay", "held"), default], types=TYPES)
    assert lifted.verdict is NO, "with evidence the confirm is lifted and the default denies"
    assert lifted.witness is not None
    assert lifted.witness.records


def test_a_longer_life_of_evidence_passes_for_a_shorter_one() -> None:
    """A record that has lapsed for the source may still lift what is shown; never the other way round."""
    hour, day = ({"evidence": (("v", declared(expires_seconds=life)),)} for life in (3_600, 86_400))
    line = 'deny delete unless evidence.v.status == "succeeded"'
    short, long = rule(line, **hour), rule(line, **day)
    assert complete(short, long, types=TYPES).verdict is NO
    assert complete(long, short, types=TYPES).yes


def test_records_of_other_keys_and_tools_pass_for_one_another() -> None:
    """Evidence of another tool, or for whom it is shared, is other evidence."""
    line = 'deny delete unless evidence.v.status == "succeeded"'
    own = rule(line)
    for changes in ({"from_tool": "check_owner"}, {"shared": True}):
        other = rule(line, evidence=(("v", declared(**changes)),))
        assert complete(own, other, types=TYPES).verdict is NO
    used_up = rule(line, evidence=(("v", declared(single_use=True)),))
    assert complete(own, used_up, types=TYPES).yes
    assert complete(used_up, own, types=TYPES).verdict is NO


def test_a_large_set_that_stands_as_it_is_gets_no_yes() -> None:
    """What is kept as it is needs no search, however much evidence it reads; what lifts a default beside it does."""
    lines = [f'deny act{number} unless evidence.v.status == "s{number}"' for number in range(20)]
    rules = [rule(line, f"rule-{number}") for number, line in enumerate(lines)]
    assert complete(rules, [*rules, rule("deny other", "more")], types=TYPES).yes
    assert complete(rules, rules[1:], types=TYPES).verdict is not YES
    default, permit = rule("deny-by-default pay", "default"), rule("permit pay", "permit")
    assert equivalent([default, permit], [permit, default], types=TYPES).yes
    assert complete([default], [default, permit], types=TYPES).verdict is NO


def test_two_records_that_no_ledger_holds_at_once_are_no_witness() -> None:
    """Per key only the latest record is live, so one artifact cannot have failed and succeeded."""
    both = 'evidence.v.artifact == object.id and evidence.v.status == "ok"'
    first = rule(f'deny delete unless {both} and evidence.w.artifact == object.id and evidence.w.status == "bad"')
    assert equivalent(first, rule("deny delete"), types=TYPES).yes
    second = rule(f'deny delete unless {both} and evidence.w.status == "bad"')
    assert equivalent(second, rule("deny delete"), types=TYPES).verdict is NO


def test_counters_of_one_policy_are_one_sum() -> None:
    """A higher bound on the same counter is weaker; the counter of another policy is another one."""
    day = CounterDeclaration(key=("object.id",), window_seconds=86_400, amount="object.amount")
    counted = {"counters": (("total", day),)}
    low = rule("deny refund unless counter.total <= 500", **counted)
    high = rule("deny refund unless counter.total <= 600", **counted)
    answer = complete(low, high, types=TYPES)
    assert answer.verdict is NO
    assert answer.witness is not None
    assert answer.witness.counters
    assert complete(high, low, types=TYPES).yes
    elsewhere = rule("deny refund unless counter.total <= 500", "elsewhere", **counted)
    assert complete(low, elsewhere, types=TYPES).verdict is NO
    # A sum is at least what this call adds, and nothing negative is added.
    capped = rule("deny refund unless counter.total <= 500 and object.amount <= 500", **counted)
    assert equivalent(low, capped, types=TYPES).yes


def test_a_chain_is_taken_for_one_actor() -> None:
    """A rule that any member sets off, and that all members must lift, is no rule about one actor."""
    either = rule('deny send where actor.id == "a" unless actor.id == "b"')
    never_lifted = rule('deny send where actor.id == "a"')
    assert equivalent(either, never_lifted, types=TYPES).yes
    # One member starts with "a" and another is not "ab": the first rule binds, and no single actor shows it.
    lifted = rule('deny send where actor.id startswith "a" unless actor.id == "ab"')
    answer = complete(lifted, rule('deny send where actor.id startswith "a" and actor.id != "ab"'), types=TYPES)
    assert answer.verdict is NO
    assert answer.witness is not None
    assert len(answer.witness.runtime.chain) == 2
    apart = [rule('deny send where actor.id == "a"', "one"), rule('deny send where actor.id == "b"', "two")]
    shared = disjoint(apart[0], apart[1], types=TYPES)
    assert shared.verdict is NO
    assert shared.witness is not None
    assert set(shared.witness.runtime.chain) in ({"a", "b"}, set())


def test_a_folder_is_taken_for_its_paths() -> None:
    """What lifts must hold for all paths below a folder, so no single path shows the difference: no yes then."""
    ok = 'path "/a/ok"'
    first = rule(f'deny delete where object.path startswith path "/a" unless object.path == {ok}')
    second = rule(f'deny delete where object.path startswith path "/a" and not object.path == {ok}')
    shell = TYPES.extended({"object.within": Sort.PATH})
    assert complete(first, second, types=shell).verdict is UNDECIDED
    assert complete(first, second, types=TYPES).yes


def test_ipv6_addresses_pass_for_host_names() -> None:
    """A literal address is a point of its own; a pattern that could tell addresses apart is undecided."""
    local = 'object.host in ["localhost", "[::1]"]'
    assert implies(parse(local), parse('object.host in ["[::1]", "localhost", "a"]'), types=TYPES).yes
    answer = implies(parse(local), parse('object.host == "localhost"'), types=TYPES)
    assert answer.verdict is NO
    assert answer.witness is not None
    assert answer.witness.action.attributes["object.host"] == "[::1]"
    assert implies(parse(local), parse('object.host contains ":"'), types=TYPES).verdict is UNDECIDED


def parse(text: str) -> Condition:
    found = parse_clause(f"deny act where {text}").where
    assert found is not None
    return found


def test_unknown_counts_as_false_in_a_condition() -> None:
    """A condition is compared in all three values: what is unknown binds a deny and lifts nothing."""
    there, equal = Compare("object.id", Operator.EXISTS), Compare("object.id", Operator.EQ, "a")
    assert implies(equal, there, types=TYPES).verdict is NO, "missing: unknown against false"
    assert equivalent(equal, Not(Compare("object.id", Operator.NE, "a"))).yes
    assert disjoint(equal, Compare("object.id", Operator.EQ, "b")).yes
    assert disjoint(there, equal).verdict is NO
    with pytest.raises(TypeError, match="condition"):
        implies(equal, rule("deny send"))


# -- limits ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1, 3, 10, 40])
def test_a_question_past_the_limit_gets_a_yes(limit: int) -> None:
    """With few points the answer is that of many, or undecided with a reason."""
    kept = 0
    for seed in range(25):
        first, second = rule_pair(drawn("limits", seed))
        full, cut = (
            complete(first, second, types=SAMPLE_TYPES),
            complete(first, second, types=SAMPLE_TYPES, limit=limit),
        )
        if cut.verdict is UNDECIDED and full.verdict is not UNDECIDED:
            assert str(limit) in cut.why
            assert cut.witness is None
            kept += 1
        else:
            assert cut == full
    assert kept or limit == 40


def test_too_many_states_records_or_members_get_a_yes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each stated limit ends in undecided and names itself."""
    line = 'deny send where object.id like "*a*b*c*" unless actor.id == "a"'
    evidence = " and ".join(f'evidence.h{number}.status == "ok"' for number in range(9))
    many = complete(rule("deny send"), rule(f"deny send unless {evidence}"), types=TYPES)
    assert (many.verdict, "records" in many.why) == (UNDECIDED, True)
    monkeypatch.setattr(analysis_rules, "MAX_CHAIN", 0)
    said = line.replace("where", "where not not")
    assert complete(rule(line), rule(said), types=TYPES).verdict is UNDECIDED
    monkeypatch.setattr(analysis_strings, "MAX_STATES", 3)
    cut = complete(rule(line), rule(line.replace("*c*", "*")), types=TYPES)
    assert (cut.verdict, "states" in cut.why) == (UNDECIDED, True)


def test_a_witness_that_the_evaluator_judges_otherwise_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the analysis is wrong somewhere, and decides nothing."""
    monkeypatch.setattr(analysis_situation, "outcome_in", lambda policies, witness: Outcome.DENY)
    answer = complete(rule("deny send"), rule("confirm send"), types=TYPES)
    assert answer.verdict is UNDECIDED
    assert "does not confirm" in answer.why


# -- normal forms ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "alphabet", "longest"),
    [
        (Sort.ID, "a%4$(~/", 5),
        (Sort.ID, "ae\u0301\u0323\u00e9\uac00\u11a8", 5),
        (Sort.CASELESS, "aA\u00df\u00e9\u00c9", 4),
        (Sort.TEXT, "a\n\t\u200b%4", 4),
        (Sort.PATH, "/.a*~$", 6),
        (Sort.HOST, "a0x.-F", 5),
        (Sort.HOST, "25.", 9),
        (Sort.HOST, "106.", 7),
    ],
)
def test_an_automaton_reads_other_strings_than_the_schema(kind: Sort, alphabet: str, longest: int) -> None:
    """A string missing from an automaton is a case that no answer looks at."""
    automaton = LANGUAGES[kind].over(alphabet)
    for length in range(longest + 1):
        for letters in itertools.product(alphabet, repeat=length):
            text = "".join(letters)
            assert reads(automaton, text) == (value_of(text, kind) is not None), text


@pytest.mark.parametrize(
    ("head", "alphabet", "longest"),
    [
        ("", "a:/.", 8),
        ("http://a", ":/08.?", 5),
        ("https://a:44", "3/02", 4),
        ("x://a:655", "3564/", 4),
        ("ws://1.2.3", ".4/:8", 6),
        ("x://a/", "/.?a#%$ ", 5),
    ],
)
def test_an_automaton_reads_other_urls_than_the_schema(head: str, alphabet: str, longest: int) -> None:
    """The same for URLs, from the part on that each row is about."""
    automaton = LANGUAGES[Sort.URL].over(head + alphabet)
    for length in range(longest + 1):
        for letters in itertools.product(alphabet, repeat=length):
            text = head + "".join(letters)
            assert reads(automaton, text) == (value_of(text, Sort.URL) is not None), text


def reads(automaton: Automaton, text: str) -> bool:
    state = automaton.start
    for character in text:
        state = automaton.step(state, character)
        if state is None:
            return False
    return automaton.ends(state)


def test_the_page_shows_what_no_program_prints() -> None:
    """The example of docs/analysis.md runs, and prints what stands below it."""
    page = Path(__file__).parents[2] / "docs" / "analysis.md"
    program, shown = re.findall(r"```(?:python|text)\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(program, str(page), "exec"), {})  # noqa: S102  # our own page
    assert [line.rstrip() for line in printed.getvalue().splitlines()] == [line.rstrip() for line in shown.splitlines()]
