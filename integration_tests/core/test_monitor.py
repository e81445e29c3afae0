"""What the monitor refuses, by the loss it prevents."""

from collections.abc import Mapping
from typing import Any, override

import pytest

from carriage_core import (
    Clock,
    Compare,
    ControlPlane,
    Effect,
    Issuer,
    IssuerKind,
    Not,
    Operator,
    Outcome,
    Policy,
    PolicyFileError,
    PolicyRegistry,
    RuntimeState,
    Settlement,
    ToolBinding,
    ToolBindingError,
    ToolCall,
    Utf8UpperBound,
    parse_policy_text,
)
from carriage_core.runtime import EvidenceLedger, Moment
from integration_tests.core.samples import (
    DELETE,
    RELEASE_POLICY,
    START,
    VERIFY,
    Hands,
    assemble,
    judge,
    release_plane,
    verify,
)
from integration_tests.core.strategies import ORGANIZATION

SCHEMA = {
    "name": "delete_artifact",
    "parameters": {
        "type": "object",
        "properties": {"artifact_id": {"type": "string"}, "repo": {"type": "string"}},
    },
}


def test_a_deletion_without_its_verification_is_denied_and_one_with_it_allowed() -> None:
    """The rule of the release story holds: no deletion before verification, and it runs after."""
    plane = release_plane()
    before = plane.check("delete_artifact", DELETE)
    assert (before.outcome, before.code, before.policies) == (Outcome.DENY, "rule", ("verify-before-delete",))
    verify(plane)
    after = plane.check("delete_artifact", DELETE)
    assert (after.outcome, after.evidence) == (Outcome.ALLOW, ("evidence-1",))


def test_a_refusal_says_which_rule_which_values_and_what_lifts_it() -> None:
    """An explanation names the policy, what was seen, and the tool that provides the evidence."""
    said = release_plane().check("delete_artifact", DELETE).explain()
    assert "verify-before-delete" in said
    assert 'object.id = "a1"' in said
    assert "verify_release" in said


def test_a_deletion_elsewhere_is_not_this_rules_business() -> None:
    """A repository outside the glob is allowed; one that cannot be read is not."""
    plane = release_plane()
    assert plane.check("delete_artifact", {"artifact_id": "a1", "repo": "other/x"}).allowed
    for repo in ("acme%2Fapi", "other/\u200bx", 5, None, ["other/x", "acme/api"], [], {"name": "other/x"}):
        verdict = plane.check("delete_artifact", {"artifact_id": "a1", "repo": repo})
        assert verdict.outcome is Outcome.DENY, repo


def test_an_attribute_that_is_left_out_keeps_the_deny() -> None:
    """A call that omits the repository could mean any, so the rule stands."""
    assert release_plane().check("delete_artifact", {"artifact_id": "a1"}).outcome is Outcome.DENY


def test_a_list_of_objects_is_as_strict_as_its_strictest_element() -> None:
    """A list-valued argument makes one action per element; one unverified artifact denies the whole call."""
    plane = release_plane()
    verify(plane)
    assert plane.check("delete_artifact", {"artifact_id": ["a1"], "repo": "acme/api"}).allowed
    both = {"artifact_id": ["a1", "a2"], "repo": "acme/api"}
    assert plane.check("delete_artifact", both).outcome is Outcome.DENY
    verify(plane, artifact_id="a2")
    verdict = plane.check("delete_artifact", both)
    assert (verdict.outcome, set(verdict.one_use)) == (Outcome.ALLOW, {"evidence-1", "evidence-2"})


def test_more_objects_than_can_be_judged_are_denied() -> None:
    """A call that names over 256 objects is not judged in part."""
    plane = release_plane()
    assert plane.check("delete_artifact", {"artifact_id": ["a1"] * 257, "repo": "other/x"}).code == "bad_arguments"
    assert plane.check("delete_artifact", {"artifact_id": ["a1"] * 256, "repo": "other/x"}).allowed


# -- tools ---------------------------------------------------------------------------------------


def test_a_tool_bound_to_nothing_is_denied_with_the_line_to_add() -> None:
    """An unbound tool could do anything; its owner is told what to write."""
    verdict = release_plane().check("wipe_disk", {})
    assert (verdict.outcome, verdict.code) == (Outcome.DENY, "unbound_tool")
    assert "wipe_disk: {action: none}" in verdict.message


@pytest.mark.parametrize(
    "name",
    [
        "Delete_Artifact",
        "delete-artifact",
        "deleteartifact",
        "de1ete_artifact",
        "d\u0435lete_artifact",
        "\uff44elete_artifact",
        "delete_artifact ",
    ],
)
def test_a_tool_whose_name_only_looks_bound_is_denied(name: str) -> None:
    """A name that people would take for the bound tool gets its denial, and the denial says so."""
    verdict = release_plane().check(name, DELETE)
    assert verdict.code == "unbound_tool"
    assert "confused with the bound tool 'delete_artifact'" in verdict.message


def test_a_harmless_tool_runs() -> None:
    """A tool declared `action: none` is allowed, whatever its arguments are."""
    assert release_plane().check("list_artifacts", {"anything": [1, None]}).allowed


def test_a_tool_whose_schema_changes_is_denied() -> None:
    """A server that swaps the schema behind a bound name is not the tool that was bound."""
    plane = release_plane()
    assert plane.offer([SCHEMA]) == ()
    plane.offer([{**SCHEMA, "parameters": {**SCHEMA["parameters"], "required": ["artifact_id"]}}])  # type: ignore[dict-item]
    assert plane.check("delete_artifact", {"artifact_id": "a1", "repo": "other/x"}).code == "changed_schema"


def test_two_tools_of_one_name_are_refused_at_start_up() -> None:
    """With two tools of one name a rule could bind the wrong one."""
    with pytest.raises(ToolBindingError):
        release_plane().offer([SCHEMA, "delete_artifact"])


def test_a_binding_to_an_argument_the_tool_lacks_is_refused_at_start_up() -> None:
    """A binding that reads an argument which does not exist would see it missing in every call."""
    wrong = {"name": "delete_artifact", "parameters": {"properties": {"artifact": {}, "repo": {}}}}
    with pytest.raises(ToolBindingError, match="artifact_id") as caught:
        release_plane().offer([wrong])
    assert "'artifact'" in caught.value.mend


def test_unbound_tools_are_listed_at_start_up() -> None:
    """What will be denied is known before the run, not in the middle of it."""
    assert release_plane().offer(["delete_artifact", "finish", "think"]) == ("finish", "think")


def test_a_tool_pinned_to_a_server_or_schema_runs_from_nowhere_else() -> None:
    """The same name from another server, or with another schema, is denied."""
    pinned = RELEASE_POLICY.replace("action: delete\n    object", "action: delete\n    server: prod\n    object", 1)
    plane = release_plane(pinned)
    call = {"artifact_id": "a1", "repo": "other/x"}
    assert plane.check("delete_artifact", call, server="prod").allowed
    assert plane.check("delete_artifact", call, server="evil").code == "changed_schema"
    assert plane.check("delete_artifact", call).code == "changed_schema"
    digest = "sha256:" + "0" * 64
    plane = release_plane(
        RELEASE_POLICY.replace("action: delete\n    object", f"action: delete\n    schema: {digest}\n    object", 1)
    )
    plane.offer([SCHEMA])
    assert plane.check("delete_artifact", call).code == "changed_schema"


def test_a_rule_cannot_be_dodged_by_an_argument_named_like_a_fact() -> None:
    """A binding may not let an argument stand for action.name, action.tool, action.external or object.type."""
    for name in ("name", "tool", "external"):
        text = RELEASE_POLICY.replace(
            "  list_artifacts:", f"  rename: {{action: delete, attributes: {{{name}: x}}}}\n  list_artifacts:"
        )
        with pytest.raises(PolicyFileError, match=name):
            parse_policy_text(text)


def test_every_binding_of_a_tool_counts() -> None:
    """Where several bindings name a tool all apply, and the strictest verdict wins."""
    rule = Policy(id="rule", issuer=ORGANIZATION, effect=Effect.DENY, text="Do not send.", actions=("send",))
    bindings = [ToolBinding(tool="t", action="log"), ToolBinding(tool="t", action="send")]
    for order in (bindings, bindings[::-1]):
        plane = ControlPlane(PolicyRegistry.of([rule], order), counter=Utf8UpperBound())
        assert plane.check("t", {}).outcome is Outcome.DENY


# -- arguments -----------------------------------------------------------------------------------


class Strange(Mapping[str, object]):
    """A mapping that says something else each time."""

    def __init__(self, honest: int) -> None:
        self.honest = honest
        self.reads = 0

    @override
    def __getitem__(self, key: str) -> object:
        if key not in {"artifact_id", "repo"}:
            raise KeyError(key)
        self.reads += 1
        return "a1" if key == "artifact_id" else ("other/x" if self.reads <= self.honest else "acme/api")

    @override
    def __iter__(self) -> Any:
        return iter(("artifact_id", "repo"))

    @override
    def __len__(self) -> int:
        return 2


def deep(levels: int) -> object:
    value: object = "a1"
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "arguments",
    [
        '{"artifact_id": "a1"}',
        ["a1"],
        {"artifact_id": float("nan")},
        {"artifact_id": [1, {"x": float("inf")}]},
        {"artifact_id": -float("inf")},
        {"artifact_id": "a1\ud800"},
        {"\udfff": "a1"},
        {1: "a1"},
        {"artifact_id": {("a",): 1}},
        {"artifact_id": b"a1"},
        {"artifact_id": {"a1"}},
        {"artifact_id": object()},
        {"artifact_id": deep(40)},
        {"artifact_id": "x" * 200_001},
        {"artifact_id": [0] * 200_001},
    ],
    ids=lambda value: f"{type(value).__name__}-{str(value)[:24]}-{len(str(value))}",
)
def test_arguments_that_are_not_plain_json_are_denied(arguments: object) -> None:
    """NaN, infinity, lone surrogates, strange keys, other types, and too deep or large arguments never run."""
    plane = release_plane()
    assert plane.check("list_artifacts", arguments).code == "bad_arguments"
    decision = plane.authorize("list_artifacts", arguments)
    assert not decision.allowed
    assert decision.verdict.code == "bad_arguments"


def test_arguments_that_contain_themselves_are_denied() -> None:
    """A cycle is denied and not followed for ever."""
    loop: dict[str, object] = {}
    loop["artifact_id"] = loop
    assert not release_plane().authorize("list_artifacts", loop).allowed


def test_a_number_too_long_to_write_out_is_denied_not_crashed_on() -> None:
    """An integer of ten thousand digits denies the call."""
    assert not release_plane().authorize("delete_artifact", {"artifact_id": 10**10_000, "repo": "acme/api"}).allowed


def test_a_key_the_tool_does_not_declare_is_denied() -> None:
    """An undeclared argument may reach code that nobody judged."""
    plane = release_plane()
    plane.offer([SCHEMA])
    verdict = plane.check("delete_artifact", {"artifact_id": "a1", "repo": "other/x", "force": True})
    assert verdict.code == "bad_arguments"
    assert "'force'" in verdict.message
    assert plane.check("delete_artifact", {"artifact_id": "a1", "repo": "other/x"}).allowed


def test_the_call_that_was_judged_is_the_call_that_runs() -> None:
    """Changing the arguments after the decision changes nothing of what may be executed."""
    plane = release_plane()
    arguments: dict[str, Any] = {"artifact_id": ["a1"], "repo": "other/x"}
    decision = plane.authorize("delete_artifact", arguments)
    arguments["repo"] = "acme/api"
    arguments["artifact_id"].append("a2")
    assert decision.allowed
    assert decision.arguments == {"artifact_id": ["a1"], "repo": "other/x"}


@pytest.mark.parametrize("honest", range(12))
def test_a_mapping_that_changes_while_it_is_read_never_runs_a_denied_call(honest: int) -> None:
    """What runs is what was judged, even for an object that answers each question differently."""
    decision = release_plane().authorize("delete_artifact", Strange(honest))
    if decision.allowed:
        assert [decision.arguments["repo"] for _ in range(20)] == ["other/x"] * 20


def test_a_call_id_runs_once() -> None:
    """A replayed call is denied, also after it was executed; one that never started may be tried again."""
    plane = release_plane()
    call = {"artifact_id": "a1", "repo": "other/x"}
    first = plane.authorize("delete_artifact", call, call_id="c1")
    assert first.allowed
    assert plane.authorize("delete_artifact", call, call_id="c1").verdict.code == "replayed_call"
    assert plane.check("list_artifacts", {}, call_id="c1").code == "replayed_call"
    plane.settle(first, Settlement.NOT_STARTED)
    again = plane.authorize("delete_artifact", call, call_id="c1")
    assert again.allowed
    plane.settle(again, Settlement.EXECUTED, None)
    assert plane.authorize("delete_artifact", call, call_id="c1").verdict.code == "replayed_call"
    assert plane.as_actor("another").authorize("delete_artifact", call, call_id="c1").allowed


def test_a_denied_call_uses_up_no_call_id() -> None:
    """A call refused for want of evidence runs under its own id once the evidence is there."""
    plane = release_plane()
    assert not plane.authorize("delete_artifact", DELETE, call_id="c1").allowed
    verify(plane)
    assert plane.authorize("delete_artifact", DELETE, call_id="c1").allowed


# -- what the model was shown --------------------------------------------------------------------


def test_a_rule_admitted_after_the_model_was_called_denies_until_it_is_shown() -> None:
    """A policy that governs the call and was not in the prompt denies `control_changed`; the next step carries it."""
    plane = release_plane()
    assemble(plane)
    call = {"artifact_id": "a1", "repo": "other/x"}
    assert plane.check("delete_artifact", call).allowed
    rule = Policy(
        id="new-rule",
        issuer=ORGANIZATION,
        effect=Effect.DENY,
        text="Do not delete b1.",
        actions=("delete",),
        unless=Compare("object.id", Operator.NE, "b1"),
    )
    plane.admit(rule, by=ORGANIZATION)
    verdict = plane.check("delete_artifact", call)
    assert (verdict.outcome, verdict.code) == (Outcome.DENY, "control_changed")
    assemble(plane)
    assert plane.check("delete_artifact", call).allowed


def test_a_rule_withdrawn_after_the_model_was_called_still_holds_for_that_call() -> None:
    """A verdict is the stricter of what was shown and what is in force."""
    developer = Issuer(kind=IssuerKind.DEVELOPER, name="release-team")
    plane = release_plane()
    rule = Policy(id="no-x", issuer=developer, effect=Effect.DENY, text="Do not delete.", actions=("delete",))
    plane.admit(rule, by=developer)
    assemble(plane)
    plane.withdraw(rule.identity, by=developer)
    call = {"artifact_id": "a1", "repo": "other/x"}
    assert plane.check("delete_artifact", call).outcome is Outcome.DENY
    assemble(plane)
    assert plane.check("delete_artifact", call).allowed


def test_a_tool_that_was_not_offered_is_denied() -> None:
    """A call of a tool outside the candidates of its assembly was made without its rules in view."""
    plane = release_plane()
    assemble(plane, ("list_artifacts",))
    assert plane.check("list_artifacts", {}).allowed
    assert plane.check("delete_artifact", {"artifact_id": "a1", "repo": "other/x"}).code == "control_changed"


def test_a_plane_with_no_mediated_rule_says_that_it_mediates_nothing() -> None:
    """With sentences only, every well-formed call runs and the verdict says why."""
    text = (
        "carriage: 1\npolicies:\n  - id: a\n    issuer: {kind: user, name: ana}\n    effect: deny\n    text: Be kind.\n"
    )
    plane = ControlPlane(parse_policy_text(text), counter=Utf8UpperBound(), clock=Clock(Hands()))
    verdict = plane.check("anything", {"a": 1})
    assert verdict.allowed
    assert "not mediated" in verdict.message
    assert plane.check("anything", {"a": float("nan")}).code == "bad_arguments"


def test_a_rule_of_another_tenant_or_agent_does_not_bind_and_an_unknown_one_does() -> None:
    """Scope selects; where the plane was not told who acts, the rule applies."""
    assert release_plane(tenant="globex").check("delete_artifact", DELETE).allowed
    assert release_plane(tenant=None).check("delete_artifact", DELETE).outcome is Outcome.DENY


@pytest.mark.parametrize(
    ("chain", "outcome"),
    [
        (("bot",), Outcome.DENY),
        (("deputy",), Outcome.ALLOW),
        (("bot", "deputy"), Outcome.DENY),
        (("deputy", "bot"), Outcome.DENY),
        (("deputy", "clerk"), Outcome.ALLOW),
        ((), Outcome.DENY),
    ],
    ids=str,
)
@pytest.mark.parametrize("form", ["where", "unless"])
def test_a_rule_is_not_dodged_by_delegating(form: str, chain: tuple[str, ...], outcome: Outcome) -> None:
    """A rule that matches any member of the chain applies, and what lifts it must hold for every member."""
    about_bot = Compare("actor.id", Operator.EQ, "bot")
    rule = Policy(
        id="rule",
        issuer=ORGANIZATION,
        effect=Effect.DENY,
        text="The bot deletes nothing.",
        actions=("delete",),
        where=about_bot if form == "where" else None,
        unless=Not(about_bot) if form == "unless" else None,
    )
    verdict = judge(
        ToolCall(tool="t", arguments={}),
        registry=PolicyRegistry.of([rule], [ToolBinding(tool="t", action="delete")]),
        runtime=RuntimeState(chain=chain),
        ledger=EvidenceLedger(),
        moment=Moment(START, True),
    )
    assert verdict.outcome is outcome


def test_the_verify_tool_itself_is_free() -> None:
    """No rule governs verification, so it needs none."""
    assert release_plane().check("verify_release", VERIFY).allowed
