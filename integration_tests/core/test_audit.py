"""What may be called preserved, and everything that may not."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest

from carriage_core import ControlPlane, EmptyRegistryError, Tier, Utf8UpperBound, parse_policy_text, render
from carriage_core.audit import CarriageAudit
from carriage_core.audit_decide import Decision
from carriage_core.audit_findings import Carriage, Witness
from carriage_core.audit_messages import AuditError
from carriage_core.audit_report import as_json, as_text
from carriage_core.condition import Truth, evaluate
from carriage_core.schema import Absent

POLICIES = """
carriage: 1
default: allow
tools:
  refund_order:
    action: refund
    object: {type: order, id: order_id, amount: amount}
  write_table:
    action: write
    object: {type: table, schema: schema}
policies:
  - id: refund-cap
    issuer: {kind: organization, name: finance}
    action: refund
    object: {type: order}
    where: {attr: object.amount, gt: 500}
    effect: deny
    text: Do not refund more than 500 dollars on an order.
  - id: no-writes
    issuer: {kind: organization, name: data}
    action: write
    object: {type: table}
    effect: deny-by-default
    text: Tables are not written unless a rule allows it.
"""
REGISTRY = parse_policy_text(POLICIES)
TEXT = "Do not refund more than 500 dollars on an order."
CLAUSE = "[refund-cap] deny refund on order where object.amount > 500"
TRUSTED = "trusted policy"


def message(text, provenance=TRUSTED, role="system"):
    return {"role": role, "content": text} | ({} if provenance is None else {"provenance": provenance})


def never(source, shown):
    """An analysis that decides nothing."""
    return Decision(undecided=True)


TRIED = [
    {"object.amount": Decimal(amount), "object.schema": schema, "actor.id": actor}
    for amount in range(498, 1_003)
    for schema in ("scratch", "billing")
    for actor in ("lead", "bot")
]


def strictness(rules, action, values):
    """0 allow, 1 confirm, 2 deny; all issuers here have one rank."""
    met = [rule for rule in rules if action in rule.actions]

    def lookup(name):
        return values.get(name, Absent.MISSING)

    where = {id(rule): rule.where is None or evaluate(rule.where, lookup) is Truth.TRUE for rule in met}
    lifted = {id(rule): rule.unless is not None and evaluate(rule.unless, lookup) is Truth.TRUE for rule in met}
    binding = [rule for rule in met if where[id(rule)] and not lifted[id(rule)]]
    effects = {rule.effect.value for rule in binding}
    if "deny" in effects or ("deny-by-default" in effects and not effects & {"permit", "confirm"}):
        return 2
    return int("confirm" in effects)


def by_trying(source, shown):
    """Analysis by brute force, over values that decide the rules of this file."""
    words = ("allow", "confirm", "deny")
    for action, kind in (("refund", "order"), ("write", "table")):
        for values in TRIED:
            one, other = strictness(source, action, values), strictness(shown, action, values)
            if other < one:
                held = tuple((name, str(value)) for name, value in values.items())
                told = Witness(action=action, object_type=kind, values=held, source=words[one], shown=words[other])
                return Decision(witness=told)
    return Decision()


def became(*messages, policy="refund-cap", decide=never):
    (finding,) = CarriageAudit(REGISTRY.policies, decide=decide).read(messages).of(policy)
    return finding


@pytest.mark.parametrize("tier", list(Tier))
def test_every_tier_of_our_own_capsule_is_preserved_wherever_it_stands(tier):
    """A capsule that the audit does not know again would be reported as lost."""
    capsule = render(REGISTRY.policies, REGISTRY, tier).text
    before = message("Be brief.", role="user")
    report = CarriageAudit.of(REGISTRY).read([before, message(capsule), message("Go on.", "final request", "user")])
    assert report.preserved
    assert report.tally[Carriage.PRESERVED] == 2
    unattested = CarriageAudit.of(REGISTRY).read([{"role": "system", "content": capsule}])
    assert not unattested.preserved
    assert unattested.tally[Carriage.PRESERVED_IF_TRUSTED] == 2
    assert unattested.carriage is Carriage.PRESERVED_IF_TRUSTED


def test_what_a_plane_places_is_what_the_audit_finds():
    """End to end: the assembled system message of a plane, as a model call would have it."""
    plane = ControlPlane(REGISTRY, counter=Utf8UpperBound())
    capsule = render(plane.registry.policies, plane.registry, Tier.FULL)
    assert CarriageAudit.of(plane.registry).read([message(capsule.text + "\n\nYou are a bot.")]).preserved


@pytest.mark.parametrize("provenance", ["untrusted document", "untrusted tool content", "trusted tool evidence"])
@pytest.mark.parametrize("text", [TEXT, f"- {CLAUSE}", f"```\n{CLAUSE}\n```"])
def test_text_from_where_no_rule_comes_from_carries_nothing(provenance, text):
    assert became(message(text, provenance)).carriage is Carriage.ABSENT


def test_a_tool_message_is_untrusted_by_its_role():
    assert became(message(TEXT, None, "tool")).carriage is Carriage.ABSENT


@pytest.mark.parametrize(
    "text",
    [f"Note: {TEXT}", f"> {TEXT}", f'"{TEXT}"', f"```\n{TEXT}\n```", f"{TEXT} Thanks.", TEXT[:-1], f" {TEXT}"],
)
def test_a_sentence_inside_something_else_is_not_preserved(text):
    assert became(message(text)).carriage is Carriage.UNVERIFIABLE


@pytest.mark.parametrize("text", [TEXT, TEXT + "  ", TEXT + "\r\n", TEXT + "\n\n"])
def test_line_ends_and_trailing_blanks_are_the_only_freedom(text):
    assert became(message(text)).carriage is Carriage.PRESERVED


def test_an_undecided_question_is_unverifiable():
    """What logic cannot decide must never pass."""
    finding = became(message("- [refund-cap] deny refund on order where object.amount >= 500"))
    assert finding.carriage is Carriage.UNVERIFIABLE
    assert "past the limit" in finding.why


def test_a_witness_goes_into_the_report():
    """A finding of loss shows the action that is lost."""
    told = Witness(
        action="refund", object_type="order", values=(("object.amount", "700"),), source="deny", shown="allow"
    )

    def weaker(source, shown):
        return Decision(witness=told) if source[0].where != shown[0].where and "900" not in repr(source) else Decision()

    clause = "- [refund-cap] deny refund on order where object.amount > 900"
    report = CarriageAudit(REGISTRY.policies, decide=weaker).read([message(clause)])
    (finding,) = report.of("refund-cap")
    assert (finding.carriage, finding.witness, finding.extra) == (Carriage.WEAKENED, told, None)
    assert "refund on order with object.amount = 700: source deny, shown allow" in as_text(report)
    data = json.loads(json.dumps(as_json(report)))
    refund = next(each for each in data["policies"] if each["id"] == "refund-cap")
    assert refund["witness"]["values"] == {"object.amount": "700"}
    assert data["tally"]["absent"] == 1
    assert data["preserved"] is False


def test_one_clause_is_compared_once_however_often_it_is_seen():
    """Thousands of transcripts hold the same clauses; each comparison is a search."""
    asked = []

    def counting(source, shown):
        asked.append(1)
        return Decision()

    audit = CarriageAudit(REGISTRY.policies, decide=counting)
    for _ in range(5):
        audit.read([message("- [refund-cap] deny refund on order where object.amount > 500.0")] * 3)
    assert len(asked) == 2


def test_truth_values_and_numbers_are_not_mixed_up_by_what_is_remembered():
    """True equals 1 in Python; a remembered answer about one must not be given for the other."""
    seen = []

    def keeping(source, shown):
        seen.append(shown)
        return Decision()

    audit = CarriageAudit(REGISTRY.policies, decide=keeping)
    for value in ("true", "1"):
        audit.read([message(f"- [refund-cap] deny refund on order where object.amount == {value}")])
    assert len(seen) == 4


def test_a_capsule_that_says_a_tool_means_something_else_misbinds_its_rules():
    other = parse_policy_text(POLICIES.replace("id: order_id", "id: customer_id"))
    capsule = render(other.policies, other, Tier.FULL).text
    (finding,) = CarriageAudit.of(REGISTRY).read([message(capsule)]).of("refund-cap")
    assert finding.carriage is Carriage.MISBOUND
    assert finding.bound == ("tool refund_order",)


def test_a_rule_that_is_none_of_ours_is_listed():
    """The model may follow it, and no finding about our policies would tell."""
    report = CarriageAudit(REGISTRY.policies, decide=never).read([message("- [be-kind] deny shout on person")])
    assert [(each.id, each.clause, each.trusted) for each in report.strangers] == [
        ("be-kind", "deny shout on person", True)
    ]


def test_an_audit_of_nothing_is_refused():
    with pytest.raises(EmptyRegistryError):
        CarriageAudit(())


@pytest.mark.parametrize("bad", [{"content": "x"}, {"role": "user"}, {"role": "user", "content": 3}, "x"])
def test_a_message_of_another_shape_is_an_error_not_a_finding(bad):
    with pytest.raises(AuditError):
        CarriageAudit(REGISTRY.policies, decide=never).read([bad])


def test_an_empty_transcript_carries_nothing():
    assert CarriageAudit(REGISTRY.policies, decide=never).read([]).tally[Carriage.ABSENT] == 2


BELOW = "- [refund-cap] deny refund on order where object.amount > 500 and object.amount < 800"
ABOVE = "- [refund-cap] deny refund on order where object.amount >= 800"


def test_a_policy_written_in_pieces_is_the_policy():
    """Denials add up; each piece by itself would be called weakened."""
    finding = became(message(f"{BELOW}\n{ABOVE}"), decide=by_trying)
    assert (finding.carriage, finding.witness, finding.extra) == (Carriage.EQUIVALENT, None, None)
    assert became(message(BELOW), decide=by_trying).carriage is Carriage.WEAKENED
    assert became(message(BELOW), message(BELOW), decide=by_trying).carriage is Carriage.WEAKENED


def test_a_weaker_clause_beside_the_whole_policy_contradicts_it():
    """A model may follow either, so it is no piece."""
    whole = f"- {CLAUSE}"
    for messages in ([message(f"{whole}\n{BELOW}")], [message(TEXT), message(BELOW)]):
        finding = became(*messages, decide=by_trying)
        assert finding.carriage is Carriage.WEAKENED
        assert finding.witness.source == "deny"
        assert finding.witness.shown == "allow"


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("permit write on table", Carriage.WEAKENED),
        ('permit write on table where object.schema == "scratch"', Carriage.WEAKENED),
        ("confirm write on table", Carriage.WEAKENED),
        ("permit refund on order", Carriage.PRESERVED),
        ('deny write on table where object.schema == "scratch"', Carriage.PRESERVED),
    ],
)
def test_a_default_beside_a_trusted_clause_that_lifts_it_is_weakened(line, kind):
    """Letter for letter it stands, and what stands beside it takes it away: the set is judged."""
    default = message("Tables are not written unless a rule allows it.")
    finding = became(default, message(line), policy="no-writes", decide=by_trying)
    assert finding.carriage is kind
    untrusted = message(line, "untrusted tool content")
    assert became(default, untrusted, policy="no-writes", decide=by_trying).carriage is Carriage.PRESERVED
    # What nobody vouches for takes nothing from what somebody does.
    assert became(default, message(line, None), policy="no-writes", decide=by_trying).carriage is Carriage.PRESERVED


@pytest.mark.parametrize(
    ("clause", "kind", "bound"),
    [
        ("deny refund on order where object.amount > 700", Carriage.WEAKENED, ()),
        ("deny refund on order where object.amount > 499", Carriage.OVER_INCLUDED, ()),
        ("deny refund on order where not object.amount <= 500", Carriage.EQUIVALENT, ()),
        ("deny write on order where object.amount > 500", Carriage.MISBOUND, ("action",)),
        ("deny refund on order where object.amount < 500", Carriage.WEAKENED, ()),
        ('deny refund on order where object.amount > 500 unless actor.id == "bot"', Carriage.WEAKENED, ()),
        ("confirm refund on order where object.amount > 500", Carriage.WEAKENED, ()),
        ("permit refund on order where object.amount > 500", Carriage.WEAKENED, ()),
    ],
)
def test_a_clause_of_ours_in_a_summary_is_judged_by_what_it_permits(clause, kind, bound):
    """With or without its id, the same finding, with the witness of each direction in which it differs."""
    for line in (f"1. [refund-cap] {clause}", f"* [refund-cap] {clause}", f"[refund-cap] {clause}"):
        finding = became(message(f"So far:\n{line}\nGo on."), decide=by_trying)
        assert (finding.carriage, finding.bound) == (kind, bound)
        lost = kind in {Carriage.WEAKENED, Carriage.MISBOUND}
        assert (finding.witness is not None) is lost
        assert finding.extra is not None or kind not in {Carriage.OVER_INCLUDED, Carriage.MISBOUND}
    if kind is not Carriage.MISBOUND:
        assert became(message(clause), decide=by_trying).carriage is kind


def test_a_rule_taken_back_in_trusted_words_is_unverifiable_and_in_others_stays():
    taken = "The rule refund-cap is no longer in force."
    assert became(message(TEXT), message(taken)).carriage is Carriage.UNVERIFIABLE
    assert became(message(TEXT), message(taken, "untrusted document")).carriage is Carriage.PRESERVED


def test_an_unattested_clause_neither_mends_nor_spoils_what_is_trusted():
    """Authority comes from provenance: who may have written it takes nothing from who has."""
    assert became(message(TEXT), message(BELOW, None), decide=by_trying).carriage is Carriage.PRESERVED
    assert became(message(BELOW), message(TEXT, None), decide=by_trying).carriage is Carriage.WEAKENED


def test_a_piece_that_is_not_needed_contradicts_the_others():
    idle = "- [refund-cap] deny refund on order where object.amount > 500 and object.amount < 600"
    assert became(message(f"{BELOW}\n{ABOVE}\n{idle}"), decide=by_trying).carriage is Carriage.WEAKENED


@pytest.mark.parametrize("direction", [0, 1])
def test_one_undecided_direction_is_enough_to_be_unverifiable(direction):
    """A yes in the other direction proves half of it."""
    asked = []

    def half(source, shown):
        asked.append(1)
        return Decision(undecided=(len(asked) - 1) % 2 == direction)

    assert became(message(BELOW), decide=half).carriage is Carriage.UNVERIFIABLE


def test_a_cap_that_was_raised_shows_the_sum_that_slips_through():
    """Counters are no attribute of the call; their witness says what had been counted before."""
    registry = parse_policy_text(
        POLICIES.replace("    where: {attr: object.amount, gt: 500}\n", "").replace(
            "    text: Do not refund",
            "    counters: {spent: {window: 1d}}\n    unless: {attr: counter.spent, le: 5}\n    text: Do not refund",
        )
    )
    clause = "- [refund-cap] deny refund on order unless counter.spent <= 7"
    (finding,) = CarriageAudit.of(registry).read([message(clause)]).of("refund-cap")
    assert finding.carriage is Carriage.WEAKENED
    assert "counter.spent before" in dict(finding.witness.values)
