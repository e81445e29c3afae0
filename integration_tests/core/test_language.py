"""What each part of the policy language decides, from the file to the verdict, by the loss it prevents."""

from __future__ import annotations

from typing import Any

import pytest

from carriage_core import (
    ControlPlane,
    Mode,
    Outcome,
    PolicyFileError,
    Settlement,
    ToolBindingError,
    parse_policy_text,
)
from integration_tests.core.samples import Hands, release_plane

HEAD = """\
carriage: 1
{top}
tools:
  refund_order:
    action: refund
    object:
      type: order
      id: {{argument: order, type: id}}
      customer: {{argument: customer, type: id}}
      amount: {{argument: amount, type: money}}
  delete_order: {{action: delete, object: {{type: order, id: {{argument: order, type: id}}}}}}
  look: {{action: read, object: {{type: order, id: {{argument: order, type: id}}}}}}
policies:
"""

RULE = """\
  - id: {id}
    issuer: {{kind: {kind}, name: {kind}-team}}
    effect: {effect}
    action: {action}
    {more}
    text: {id} says so.
"""


def rule(identifier: str, effect: str, action: str = "refund", kind: str = "developer", more: str = "") -> str:
    return RULE.format(id=identifier, effect=effect, action=action, kind=kind, more=more)


def plane(*rules: str, top: str = "default: allow", **options: Any) -> ControlPlane:
    return release_plane(HEAD.format(top=top) + "".join(rules), **options)


def refund(amount: object = 10, customer: str = "c1", order: str = "o1") -> dict[str, object]:
    return {"order": order, "customer": customer, "amount": amount}


def outcome(held: ControlPlane, tool: str = "refund_order", **arguments: object) -> Outcome:
    return held.check(tool, arguments or refund()).outcome


# -- permits and defaults --------------------------------------------------------------------------

ORGANIZATION_DEFAULT = "default: {refund: {outcome: deny, issuer: {kind: organization, name: acme}}}"
FILE_DEFAULT = "default: {refund: deny}"


@pytest.mark.parametrize(
    ("top", "kind", "expected"),
    [
        (FILE_DEFAULT, "developer", Outcome.ALLOW),
        (FILE_DEFAULT, "organization", Outcome.ALLOW),
        (ORGANIZATION_DEFAULT, "organization", Outcome.ALLOW),
        (ORGANIZATION_DEFAULT, "developer", Outcome.DENY),
    ],
)
def test_no_permit_lifts_the_default_of_a_higher_rank(top: str, kind: str, expected: Outcome) -> None:
    """A developer's permit under an organization's default would be the developer lifting it."""
    assert outcome(plane(rule("may", "permit", kind=kind), top=top)) is expected


def test_what_no_permit_speaks_for_is_denied_by_default() -> None:
    """Under `default: deny` an action that no rule mentions is denied, and the refusal names the default."""
    held = plane(rule("may", "permit"), top="default: deny")
    assert held.check("refund_order", refund()).allowed
    verdict = held.check("delete_order", {"order": "o1"})
    assert (verdict.outcome, verdict.reasons[0].policy_id) == (Outcome.DENY, "default.any")


def test_a_default_of_one_action_leaves_the_others() -> None:
    """`default: {refund: deny}` says nothing about deletions."""
    held = plane(rule("may", "permit", more="where: {attr: object.customer, eq: c1}"), top=FILE_DEFAULT)
    assert outcome(held, "delete_order", order="o1") is Outcome.ALLOW
    assert outcome(held, **refund(customer="c2")) is Outcome.DENY


@pytest.mark.parametrize(
    "arguments",
    [
        {"order": "o1", "amount": 10},
        {"order": "o1", "amount": 10, "customer": "c%31"},
        {"order": "o1", "amount": 10, "customer": 1},
        {"order": "o1", "amount": 10, "customer": ["c1", "c2"]},
    ],
    ids=["missing", "encoded", "ill-typed", "one-of-two"],
)
def test_a_permit_whose_condition_is_not_surely_true_lifts_nothing(arguments: dict[str, object]) -> None:
    """A permit counts only where `where` is true; unknown is not enough."""
    held = plane(rule("may", "permit", more="where: {attr: object.customer, eq: c1}"), top=FILE_DEFAULT)
    assert held.check("refund_order", refund()).allowed
    assert held.check("refund_order", arguments).outcome is Outcome.DENY


def test_a_permit_with_an_exception_that_may_hold_lifts_nothing() -> None:
    """The `unless` of a permit must be surely false."""
    held = plane(rule("may", "permit", more="unless: {attr: object.amount, gt: 100}"), top=FILE_DEFAULT)
    assert outcome(held, **refund(10)) is Outcome.ALLOW
    assert outcome(held, **refund(101)) is Outcome.DENY
    assert held.check("refund_order", {"order": "o1", "customer": "c1"}).outcome is Outcome.DENY


def test_deny_prevails_over_confirm_and_permit() -> None:
    """Whatever permits and approvals there are, one deny denies."""
    held = plane(rule("never", "deny"), rule("ask", "confirm"), rule("may", "permit", kind="organization"))
    verdict = held.check("refund_order", refund())
    assert (verdict.outcome, verdict.reasons[0].policy_id) == (Outcome.DENY, "never")


def test_an_approved_confirm_speaks_for_its_action() -> None:
    """Under `default: deny`, a call that a person must approve runs once they do, and not before."""
    held = plane(rule("ask", "confirm"), top=FILE_DEFAULT)
    assert outcome(held) is Outcome.CONFIRM
    held.approve("refund_order", refund(), by="ann")
    assert held.authorize("refund_order", refund()).allowed
    assert outcome(held) is Outcome.CONFIRM


def test_a_users_rule_only_ever_restricts() -> None:
    """A user who writes a permit or a default is refused when the rule is read."""
    for effect in ("permit", "deny-by-default"):
        with pytest.raises(PolicyFileError, match="user"):
            plane(rule("mine", effect, kind="user"))


# -- counters ------------------------------------------------------------------------------------

DAILY = (
    "counters: {spent: {key: [object.customer], amount: object.amount, window: 1d}}\n"
    "    unless: {attr: counter.spent, le: 500}"
)


def spend(held: ControlPlane, amount: object = 200, customer: str = "c1", settlement: Settlement | None = None) -> bool:
    decision = held.authorize("refund_order", refund(amount, customer))
    if decision.allowed:
        held.settle(decision, settlement or Settlement.EXECUTED, None)
    return decision.allowed


def test_small_refunds_do_not_add_up_past_the_limit() -> None:
    """At most 500 a customer and day: the third 200 is denied, a last 100 is not, another customer has their own."""
    held = plane(rule("daily", "deny", more=DAILY))
    assert [spend(held), spend(held), spend(held), spend(held, 100), spend(held, "1")] == [
        True,
        True,
        False,
        True,
        False,
    ]
    assert spend(held, 500, "c2")
    assert not spend(held, "0.01", "c2")


def test_a_denied_or_checked_refund_is_not_counted() -> None:
    """Only what was authorised counts; asking does not use up the budget."""
    held = plane(rule("daily", "deny", more=DAILY))
    for _ in range(5):
        assert not spend(held, 501)
        assert held.check("refund_order", refund(500)).allowed
    assert spend(held, 500)


@pytest.mark.parametrize(
    ("settlement", "again"),
    [
        (Settlement.NOT_STARTED, True),
        (Settlement.EXECUTED, False),
        (Settlement.FAILED, False),
        (Settlement.UNKNOWN, False),
    ],
)
def test_a_refund_whose_outcome_is_unknown_stays_counted(settlement: Settlement, again: bool) -> None:
    """Only an action that never started gives its amount back."""
    held = plane(rule("daily", "deny", more=DAILY))
    assert spend(held, 400, settlement=settlement)
    assert spend(held, 400) is again


def test_a_refund_counts_before_it_has_run() -> None:
    """Two refunds in flight at once cannot both use what is left."""
    held = plane(rule("daily", "deny", more=DAILY))
    first = held.authorize("refund_order", refund(400))
    assert first.allowed
    assert not held.authorize("refund_order", refund(400)).allowed


def test_a_counter_forgets_what_left_its_window() -> None:
    """A day later the customer's budget is whole again; a second before, it is not."""
    hands = Hands()
    held = plane(rule("daily", "deny", more=DAILY), hands=hands)
    assert spend(held, 500)
    hands.move(hours=23, minutes=59, seconds=59)
    assert not spend(held, 1)
    hands.move(seconds=1)
    assert spend(held, 500)


def test_a_clock_set_back_forgets_nothing_that_was_spent() -> None:
    """With time running backwards nobody can say what left the window, so the rule stands."""
    hands = Hands()
    held = plane(rule("daily", "deny", more=DAILY), hands=hands)
    assert spend(held, 100)
    hands.move(hours=-1)
    assert not spend(held, 1)


@pytest.mark.parametrize("amount", [-400, "400", None, "NaN", 1.005, True])
def test_a_negative_or_unreadable_amount_wins_no_budget_back(amount: object) -> None:
    """What does not add up is denied, and the budget stays as it was."""
    held = plane(rule("daily", "deny", more=DAILY))
    assert spend(held, 400)
    assert not spend(held, amount)
    assert not spend(held, 101)
    assert spend(held, 100)


def test_an_unknown_customer_counts_against_every_customer() -> None:
    """A refund that another rule lets pass without a customer could have been anybody's."""
    held = plane(rule("daily", "confirm", more=DAILY))
    unknown = {"order": "o1", "amount": 450}
    assert held.check("refund_order", unknown).outcome is Outcome.CONFIRM
    held.approve("refund_order", unknown, by="ann")
    assert held.authorize("refund_order", unknown).allowed
    assert outcome(held, **refund(50, "c1")) is Outcome.ALLOW
    assert outcome(held, **refund(51, "c9")) is Outcome.CONFIRM


def test_a_counter_outlives_a_new_version_of_its_rule() -> None:
    """Raising the version of a rule must not hand out the budget anew."""
    text = HEAD.format(top="") + rule("daily", "deny", more=DAILY)
    held = release_plane(text)
    assert spend(held, 500)
    newer = parse_policy_text(text.replace("    effect: deny", "    version: 2\n    effect: deny")).policies[0]
    held.admit(newer, by=newer.issuer)
    assert not spend(held, 1)


def test_a_list_of_refunds_is_added_up_within_the_call() -> None:
    """One call with many orders is as many refunds."""
    counted = "counters: {calls: {window: 1d}}\n    unless: {attr: counter.calls, le: 3}"
    held = plane(rule("few", "deny", more=counted))
    many = {"order": ["o1", "o2", "o3", "o4"], "customer": "c1", "amount": 1}
    assert held.check("refund_order", many).outcome is Outcome.DENY
    assert held.authorize("refund_order", {**many, "order": ["o1", "o2"]}).allowed
    assert not held.authorize("refund_order", {**many, "order": ["o3", "o4"]}).allowed


def test_agents_share_a_counter_unless_it_is_keyed_by_the_actor() -> None:
    """A limit per day is not multiplied by the number of agents."""
    shared = plane(rule("daily", "deny", more=DAILY))
    assert spend(shared, 500)
    assert not spend(shared.as_actor("other"), 1)
    own = "counters: {calls: {key: [actor.id], window: 1d}}\n    unless: {attr: counter.calls, le: 1}"
    each = plane(rule("one", "deny", more=own))
    assert spend(each)
    assert spend(each.as_actor("other"))
    assert not spend(each)


def test_no_agents_own_limit_is_dodged_by_delegating() -> None:
    """A helper's call counts for everyone in the chain, and once where they share a counter."""
    own = "counters: {calls: {key: [actor.id], window: 1d}}\n    unless: {attr: counter.calls, le: 1}"
    held = plane(rule("one", "deny", more=own))
    assert spend(held.delegate("first"))
    assert not spend(held)
    assert not spend(held.delegate("second"))
    assert not spend(held.as_actor("first"))
    assert spend(held.as_actor("second"))
    shared = plane(rule("daily", "deny", more=DAILY))
    assert spend(shared.delegate("first"), 250)
    assert spend(shared.delegate("first"), 250)
    assert not spend(shared, 1)


# -- modes -----------------------------------------------------------------------------------------


def test_an_observing_plane_blocks_nothing_and_says_what_it_would_have() -> None:
    """Observe mode is for trying a policy out: every verdict is computed and marked, the action runs."""
    held = plane(rule("never", "deny"), mode="observe")
    decision = held.authorize("refund_order", refund())
    assert decision.allowed
    assert (decision.verdict.code, decision.verdict.would) == ("observed", Outcome.DENY)
    assert held.check("delete_order", {"order": "o1"}).would is None
    assert held.check("wipe", {}).would is Outcome.DENY


def test_an_observing_plane_asks_no_approval_and_spends_no_evidence() -> None:
    """What is only tried out must not use up what enforcement needs."""
    from integration_tests.core.samples import DELETE, verify  # noqa: PLC0415

    held = release_plane(mode="observe")
    verify(held)
    assert [held.authorize("delete_artifact", DELETE).verdict.would for _ in range(2)] == [None, None]


def test_one_actor_may_be_observed_beside_enforced_ones() -> None:
    """The mode is the actor's; its neighbours on the same plane stay enforced."""
    held = plane(rule("never", "deny"))
    trial = held.as_actor("trial", mode=Mode.OBSERVE)
    assert outcome(held) is Outcome.DENY
    assert outcome(trial) is Outcome.ALLOW
    assert outcome(trial.as_actor("next")) is Outcome.ALLOW
    assert outcome(held.as_actor("next")) is Outcome.DENY


def test_a_delegated_call_is_observed_only_if_everyone_in_the_chain_is() -> None:
    """An enforced agent does not get past its rules by calling an observed one, nor the other way round."""
    held = plane(rule("never", "deny"))
    trial = held.as_actor("trial", mode="observe")
    assert outcome(held.delegate("helper", mode="observe")) is Outcome.DENY
    assert outcome(trial.delegate("helper", mode="enforce")) is Outcome.DENY
    assert outcome(trial.delegate("helper")) is Outcome.ALLOW


def test_an_observed_rule_marks_and_an_enforced_one_beside_it_still_denies() -> None:
    """A rule on trial changes no verdict of the others."""
    held = plane(rule("trial", "deny", more="mode: observe"))
    verdict = held.check("refund_order", refund())
    assert (verdict.outcome, verdict.code, verdict.would) == (Outcome.ALLOW, "observed", Outcome.DENY)
    assert [(reason.policy_id, reason.observed) for reason in verdict.reasons] == [("trial", True)]
    both = plane(rule("trial", "deny", more="mode: observe"), rule("real", "confirm"))
    verdict = both.check("refund_order", refund())
    assert (verdict.outcome, verdict.would) == (Outcome.CONFIRM, Outcome.DENY)


def test_an_observed_permit_lifts_no_default() -> None:
    """A permit on trial must not open what is closed."""
    held = plane(rule("may", "permit", more="mode: observe"), top=FILE_DEFAULT)
    assert outcome(held) is Outcome.DENY


# -- secrets -----------------------------------------------------------------------------------


def test_a_secret_value_stands_in_no_verdict_and_no_log() -> None:
    """A secret attribute still decides, but nothing that leaves the monitor holds its value."""
    text = """\
carriage: 1
tools:
  login: {action: sign_in, object: {type: account, token: {argument: token, type: id, secret: true}}}
policies:
  - id: only-the-test-token
    issuer: {kind: developer, name: team}
    effect: deny
    action: sign_in
    unless: {attr: object.token, eq: test-token}
    text: Sign in with the test token only.
"""
    held = release_plane(text)
    decision = held.authorize("login", {"token": "hunter2-secret"})
    assert not decision.allowed
    assert "(secret)" in decision.verdict.explain()
    seen = repr(decision.verdict) + decision.verdict.explain() + repr(held.sink.entries)  # type: ignore[attr-defined]
    assert "hunter2" not in seen
    assert held.check("login", {"token": "test-token"}).allowed


# -- paths, hosts, case and types --------------------------------------------------------------------

PLACES = """\
carriage: 1
types:
  file: {path: {type: path, cwd: /repo}}
tools:
  write: {action: write, object: {type: file, path: path}}
  fetch: {action: fetch, object: {type: page, host: {argument: url, type: host}, url: {argument: url, type: url}}}
  tag: {action: tag, object: {type: label, name: {argument: name, type: caseless}}}
policies:
  - id: below-build
    issuer: {kind: developer, name: team}
    effect: deny
    action: write
    unless: {attr: object.path, prefix: /repo/build}
    text: Write below /repo/build only.
  - id: own-host
    issuer: {kind: developer, name: team}
    effect: deny
    action: fetch
    unless: {attr: object.host, in: [docs.acme.example, "127.0.0.1"]}
    text: Fetch from docs.acme.example and 127.0.0.1 only.
  - id: no-release-tag
    issuer: {kind: developer, name: team}
    effect: deny
    action: tag
    where: {attr: object.name, eq: Release}
    text: Do not tag anything Release.
"""


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/repo/build", True),
        ("/repo/build/x", True),
        ("build/x", True),
        ("./build//x/../y", True),
        ("/repo/building", False),
        ("/repo/build/../src", False),
        ("../repo/buildx", False),
        ("~/build", False),
        ("$HOME/build", False),
        ("/repo/build/%2e%2e/src", False),
        ("/repo/build\\x", False),
        ("file:///repo/build", False),
    ],
)
def test_a_path_is_below_a_folder_by_segments(path: str, allowed: bool) -> None:
    """`building` is not below `build`, `..` leads out, and what may be elsewhere is denied."""
    assert release_plane(PLACES).check("write", {"path": path}).allowed is allowed


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("https://docs.acme.example/a", True),
        ("HTTPS://DOCS.ACME.EXAMPLE.:443/a", True),
        ("http://[::ffff:127.0.0.1]/", True),
        ("https://docs.acme.example.evil.test/", False),
        ("https://docs.acme.example@evil.test/", False),
        ("https://evil.test/docs.acme.example", False),
        ("https://evil.test#docs.acme.example", False),
        ("http://127.1/", False),
        ("http://2130706433/", False),
        ("http://0x7f.1/", False),
        ("https://docs.acme.e\u0445ample/", False),
        ("docs.acme.example", False),
    ],
)
def test_a_host_is_the_host_a_client_would_reach(url: str, allowed: bool) -> None:
    """A name in the user part, the path or a longer host is not the host."""
    verdict = release_plane(
        PLACES.replace("host: {argument: url, type: host}, url", "host: {argument: url, type: host}, u")
    )
    found = verdict.check("fetch", {"url": url})
    # A bare name is a host, but not a URL; the rule reads the host alone.
    assert found.allowed is (allowed or url == "docs.acme.example")


@pytest.mark.parametrize("name", ["Release", "release", "RELEASE", "\uff32elease", "relea\u017fe"])
def test_case_means_nothing_where_it_is_declared_so(name: str) -> None:
    """A caseless name cannot be dodged by its case."""
    verdict = release_plane(PLACES).check("tag", {"name": name})
    assert verdict.allowed is (name == "\uff32elease"), name


@pytest.mark.parametrize(
    ("raw", "allowed"),
    [
        (100, True),
        (100.0, True),
        ("100", False),
        (100.001, False),
        (True, False),
        (None, False),
        ([100], True),
        ([], False),
    ],
)
def test_an_amount_of_another_type_is_unknown(raw: object, allowed: bool) -> None:
    """Money is a number of at most two decimals; text, truth and null are not coerced into one."""
    held = plane(rule("cap", "deny", more="unless: {attr: object.amount, le: 100}"))
    assert held.check("refund_order", refund(raw)).allowed is allowed


def test_an_omitted_argument_has_the_value_its_tool_gives_it_only_if_that_is_declared() -> None:
    """A default that nobody declared is unknown; one that is declared decides."""
    text = PLACES.replace(
        "name: {argument: name, type: caseless}", "name: {argument: name, type: caseless, default: x}"
    )
    assert not release_plane(PLACES).check("tag", {}).allowed
    assert release_plane(text).check("tag", {}).allowed


# -- evidence across agents --------------------------------------------------------------------


def test_evidence_crosses_agents_only_where_it_is_declared_shared() -> None:
    """One agent's verification lifts another's rule only if the rule says so, and never across tenants."""
    from integration_tests.core.samples import DELETE, RELEASE_POLICY, verify  # noqa: PLC0415

    for text, crosses in (
        (RELEASE_POLICY, False),
        (RELEASE_POLICY.replace("expires: 1h", "expires: 1h\n        shared: true"), True),
    ):
        held = release_plane(text)
        verify(held.as_actor("verifier"))
        assert held.check("delete_artifact", DELETE).allowed is crosses


# -- the shell -------------------------------------------------------------------------------------

SHELL = """\
carriage: 1
tools:
  bash: {shell: {argument: command, cwd: /repo, words: {ship: publish, greet: none}, stdin: is_input}}
policies:
  - id: keep-releases
    issuer: {kind: developer, name: team}
    effect: deny
    action: delete
    where: {attr: object.path, prefix: /repo/releases}
    text: Delete nothing below /repo/releases.
  - id: no-publishing
    issuer: {kind: developer, name: team}
    effect: deny
    action: publish
    text: Publish nothing.
"""


@pytest.mark.parametrize(
    ("command", "allowed"),
    [
        ("ls releases", True),
        ("rm -rf build", True),
        ("rm -rf releases", False),
        ("cd releases && rm x", False),
        ("find releases -name x -delete", False),
        ("sudo nice rm -r ./releases/1.0", False),
        ("echo rm -rf releases", True),
        ("ship --now", False),
        ("greet", True),
        ("unheard-of releases", False),
        ("$(cat x)", False),
    ],
)
def test_a_shell_tool_is_judged_by_what_its_command_does(command: str, allowed: bool) -> None:
    """A binding in the file is enough: words, paths and wrappers are read, what is unknown is denied."""
    pytest.importorskip("tree_sitter_bash", reason="the shell extra is not installed")
    held = release_plane(SHELL)
    assert held.check("bash", {"command": command}).allowed is allowed
    assert not held.check("bash", {"command": command, "is_input": True}).allowed


# -- the tool's own schema -----------------------------------------------------------------------


def offered(amount: object) -> dict[str, object]:
    properties = {"order": {"type": "string"}, "customer": {"type": ["string", "null"]}, "amount": amount}
    return {"name": "refund_order", "parameters": {"type": "object", "properties": properties}}


@pytest.mark.parametrize(
    "amount", [{"type": "string"}, {"type": "array", "items": {"type": "boolean"}}, {"anyOf": [{"type": "null"}]}]
)
def test_a_binding_that_contradicts_the_tools_schema_is_refused_at_start_up(amount: object) -> None:
    """An amount declared money that is always a string would be unknown in every call, and nobody would know why."""
    with pytest.raises(ToolBindingError, match=r"'amount' as money.*schema as") as caught:
        plane(rule("never", "deny")).offer([offered(amount)])
    assert "policy file line" in str(caught.value)


@pytest.mark.parametrize(
    "amount",
    [
        {"type": "number"},
        {"type": ["integer", "null"]},
        {"anyOf": [{"type": "string"}, {"type": "number"}]},
        {"anyOf": [{"type": "string"}, {"$ref": "#/x"}]},
        {"type": "array", "items": {"type": "integer"}},
        {"type": "array"},
        {},
        True,
    ],
)
def test_a_schema_that_may_hold_the_declared_type_is_taken(amount: object) -> None:
    """Only what the schema rules out is refused."""
    assert plane(rule("never", "deny")).offer([offered(amount)]) == ()


def test_a_refusal_of_an_unknown_command_says_that_it_is_unknown() -> None:
    """Naming a rule the command has nothing to do with would send its reader to mend the wrong thing."""
    pytest.importorskip("tree_sitter_bash", reason="the shell extra is not installed")
    held = release_plane(SHELL)
    verdict = held.check("bash", {"command": "unheard-of releases"})
    assert verdict.code == "unknown_action"
    assert "unheard-of: not a command whose effects are known" in verdict.explain()
    assert "keep-releases and 1 more could govern it" in verdict.explain()
    both = held.check("bash", {"command": "unheard-of; rm -r releases"})
    assert (both.code, both.reasons[0].policy_id) == ("rule", "keep-releases")
