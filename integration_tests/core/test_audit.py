"""What may be called preserved, and everything that may not."""

from __future__ import annotations

import json

import pytest

from carriage_core import ControlPlane, EmptyRegistryError, Tier, Utf8UpperBound, parse_policy_text, render
from carriage_core.audit import CarriageAudit
from carriage_core.audit_decide import Decision
from carriage_core.audit_findings import Carriage, Witness
from carriage_core.audit_messages import AuditError
from carriage_core.audit_report import as_json, as_text

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
