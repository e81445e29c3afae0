"""The tau policies over the real tools, and recorded calls judged with them."""

import importlib.util
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from carriage_core import (
    Absent,
    ControlPlane,
    Outcome,
    PolicyRegistry,
    Reason,
    Verdict,
    load_policy_file,
    parse_policy_text,
)
from carriage_lab.judge_recorded import JudgedCall, Judgement, judge_run, judgement_of
from carriage_lab.trace import TraceFormatError
from integration_tests.lab.conftest import tau_message

ROOT = Path(__file__).parents[2]
DOMAINS = {"retail": ("tau2_retail",), "airline": ("tau2_airline", "tau1_airline"), "telecom": ("tau2_telecom",)}
NOW = datetime(2025, 1, 1, tzinfo=UTC)

SHOP = """\
carriage: 1
tools:
  look: {action: look, object: {type: order, id: order}, external: false, trusted_evidence: true}
  find: {action: find, object: {type: person, mail: mail}, external: false, trusted_evidence: true}
  cancel: {action: cancel, object: {type: order, id: order}}
  ship: {action: ship, object: {type: order, id: order, to: to}}
policies:
  - id: look-first
    issuer: {kind: organization, name: shop}
    effect: deny
    action: cancel
    evidence:
      order: {from_tool: look, key: [id], fields: {id: {argument: order}, status: {result: status}}}
    unless:
      all:
        - {attr: evidence.order.id, eq: {attr: object.id}}
        - {attr: evidence.order.status, eq: pending}
    text: Look first; cancel only what is pending.
  - id: ask
    issuer: {kind: organization, name: shop}
    effect: confirm
    action: ship
    text: Ask before shipping.
  - id: known-people
    issuer: {kind: organization, name: shop}
    effect: deny
    action: ship
    evidence:
      person: {from_tool: find, key: [mail], fields: {mail: {argument: mail}, person: {result: result}}}
    unless: {attr: evidence.person.person, eq: {attr: object.to}}
    text: Ship to people who were found.
"""


def registry_of(domain: str) -> PolicyRegistry:
    return load_policy_file(ROOT / "examples" / "policies" / f"tau_{domain}.yaml")


def run_of(*calls: tuple[str, dict[str, Any], str], **more: Any) -> dict[str, Any]:
    """A recorded run: each call in a turn of its own, with its result."""
    messages = [tau_message("user", "Please.")]
    for number, (tool, arguments, content) in enumerate(calls):
        identity = f"call-{number}"
        messages += [
            tau_message("assistant", tool_calls=[{"id": identity, "name": tool, "arguments": arguments}], **more),
            tau_message("tool", content, tool_call_id=identity, name=tool, **more),
        ]
    return {"trace_id": "shop_1", "domain": "shop", "messages": messages}


def judged(record: dict[str, Any], policy: str = SHOP) -> tuple[JudgedCall, ...]:
    return tuple(judge_run(Path("runs.jsonl"), 1, record, parse_policy_text(policy), now=NOW))


def pending(order: str = "a", status: str = "pending") -> tuple[str, dict[str, Any], str]:
    return ("look", {"order": order}, json.dumps({"order": order, "status": status}))


# -- the policy files over the recorded schemas --------------------------------------------------


@pytest.mark.parametrize("domain", DOMAINS)
def test_no_tool_of_a_domain_is_left_unbound(domain: str, recorded_data: Path) -> None:
    """Every real tool is bound, to arguments that its schema has."""
    for name in DOMAINS[domain]:
        tools = json.loads((recorded_data / "tau" / "tools" / f"{name}.json").read_text(encoding="utf-8"))
        plane = ControlPlane(registry_of(domain))
        assert plane.offer(tools) == ()
        assert {tool.get("function", tool)["name"] for tool in tools} <= set(registry_of(domain).bindings)


def test_the_three_domains_are_mediated_and_not_only_carried() -> None:
    """At least twelve rules over the three domains have an action; the rest is carried text."""
    policies = [policy for domain in DOMAINS for policy in registry_of(domain).policies]
    assert sum(policy.mediated for policy in policies) >= 12
    assert any(not policy.mediated for policy in policies)


# -- judging what was recorded -------------------------------------------------------------------


def test_recorded_evidence_lifts_the_rule_it_was_recorded_for() -> None:
    """The result of an earlier call counts for a later one, and for its own object only."""
    calls = judged(run_of(pending(), ("cancel", {"order": "a"}, "{}"), ("cancel", {"order": "b"}, "{}")))
    assert [call.judgement for call in calls] == [Judgement.ALLOWED, Judgement.ALLOWED, Judgement.DENIED]
    assert calls[2].rules == ("look-first",)
    assert [call.number for call in calls] == [1, 2, 3]


@pytest.mark.parametrize("content", ["Error: no such order", '{"status": "processed"}', "pending"])
def test_a_recorded_failure_or_another_answer_proves_nothing(content: str) -> None:
    """An error result, another status and a bare word leave the rule standing."""
    calls = judged(run_of(("look", {"order": "a"}, content), ("cancel", {"order": "a"}, "{}")))
    assert calls[1].judgement is Judgement.DENIED


def test_a_later_failure_takes_recorded_evidence_back() -> None:
    """What was read before is no longer known once the same look-up fails."""
    record = run_of(pending(), ("look", {"order": "a"}, "gone"), ("cancel", {"order": "a"}, "{}"))
    record["messages"][4]["error"] = True
    assert [call.failed for call in judged(record)] == [False, True, False]
    assert judged(record)[2].judgement is Judgement.DENIED


def test_a_bare_result_is_read_as_a_wrapped_one() -> None:
    """A tool that returns a plain word gives the field ``result``, as MCP servers send it."""
    calls = judged(run_of(("find", {"mail": "m"}, "ann"), ("ship", {"order": "a", "to": "ann"}, "{}")))
    assert calls[1].judgement is Judgement.WOULD_ASK
    assert calls[1].rules == ("ask",)
    assert judged(run_of(("ship", {"order": "a", "to": "ann"}, "{}")))[0].judgement is Judgement.DENIED


def test_a_call_id_that_comes_back_does_not_swap_results() -> None:
    """Recorders repeat ids; each call is paired with the result of its own turn."""
    record = run_of(pending(), ("cancel", {"order": "a"}, "Error: try again"), ("cancel", {"order": "a"}, "{}"))
    for index, part in ((3, "tool_calls"), (4, "tool_call_id")):
        message = record["messages"][index]
        message[part] = [{**message[part][0], "id": "call-0"}] if part == "tool_calls" else "call-0"
    calls = judged(record)
    assert [call.failed for call in calls] == [False, True, False]
    assert [call.judgement for call in calls] == [Judgement.ALLOWED] * 3


def test_a_denied_call_leaves_no_evidence() -> None:
    """What the plane did not let run cannot prove anything later, whatever the recording holds."""
    barred = SHOP + (
        "  - id: no-looking\n    issuer: {kind: organization, name: shop}\n    effect: deny\n    action: look\n"
        "    text: Do not look.\n"
    )
    calls = judged(run_of(pending(), ("cancel", {"order": "a"}, "{}")), barred)
    assert [call.judgement for call in calls] == [Judgement.DENIED, Judgement.DENIED]


def test_evidence_of_one_conversation_serves_no_other() -> None:
    """Each run has a plane of its own."""
    assert judged(run_of(pending(), ("cancel", {"order": "a"}, "{}")))[1].judgement is Judgement.ALLOWED
    assert judged(run_of(("cancel", {"order": "a"}, "{}")))[0].judgement is Judgement.DENIED


def test_calls_of_the_users_own_phone_are_not_judged() -> None:
    """The simulated user's tools are not the agent's."""
    assert judged(run_of(pending(), visible_to_agent=False)) == ()


def test_a_call_without_a_recorded_end_proves_nothing() -> None:
    """A conversation that stops inside a call says nothing of its outcome."""
    record = run_of(pending(), ("cancel", {"order": "a"}, "{}"))
    del record["messages"][2]
    assert judged(record)[1].judgement is Judgement.DENIED
    record = run_of(pending(), pending(), ("cancel", {"order": "a"}, "{}"))
    record["messages"][3]["tool_calls"][0]["id"] = "call-0"
    del record["messages"][4]
    assert judged(record)[2].judgement is Judgement.DENIED


@pytest.mark.parametrize("arguments", [{}, {"order": "a", "to": "$WHO"}, {"order": "a", "to": None}, "no object"])
def test_a_call_that_cannot_be_read_is_not_counted_as_a_rules_denial(arguments: Any) -> None:
    """Missing and abnormal arguments, and arguments that are no object, are a column of their own."""
    [call] = judged(run_of(("ship", arguments, "{}")))
    assert call.judgement is Judgement.UNDECIDABLE
    assert call.verdict.outcome is Outcome.DENY


def test_an_unbound_tool_is_not_counted_as_a_rules_denial() -> None:
    """No rule spoke about it."""
    [call] = judged(run_of(("format_disk", {}, "{}")))
    assert (call.judgement, call.rules) == (Judgement.UNDECIDABLE, ())


def test_one_readable_denial_makes_a_rules_denial() -> None:
    """Another rule that could not read the call does not hide the one that could."""

    def reason(value: str) -> Reason:
        return Reason(policy_id="p", effect="deny", clause="", values=(("object.id", value),), lift="")

    both = (reason(Absent.UNKNOWN.value), reason('"a"'))
    verdict = Verdict(outcome=Outcome.DENY, code="rule", tool="t", message="", reasons=both)
    assert judgement_of(verdict) is Judgement.DENIED


def test_what_is_no_run_is_refused_with_its_place() -> None:
    """A line of another kind is not judged as an empty conversation."""
    with pytest.raises(TraceFormatError, match=r"runs.jsonl:7"):
        list(judge_run(Path("runs.jsonl"), 7, {"no": "run"}, parse_policy_text(SHOP), now=NOW))


# -- the published table -------------------------------------------------------------------------


def test_the_published_table_is_what_the_recorded_calls_give(
    recorded_data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every row that the benchmark prints stands in the docs, and no call is undecidable by a fault of ours."""
    spec = importlib.util.spec_from_file_location("judge_tau", ROOT / "benchmarks" / "judge_tau.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.main([str(recorded_data / "tau")]) == 0
    page = (ROOT / "docs" / "tau-policies.md").read_text(encoding="utf-8").splitlines()
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    assert len(rows) > 20
    assert [row for row in rows if row not in page] == []
