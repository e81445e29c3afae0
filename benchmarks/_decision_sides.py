"""One question put to every engine: N rules forbid deleting from one repository each, unless it was verified.

The call concerns the repository of the last rule, and what was verified is another artifact: each engine has to find
the one rule that matches, look at the evidence, and deny.
"""

import itertools
import json
from collections.abc import Callable, Iterator

import casbin
import cedarpy
from casbin.model import FastModel, Model
from casbin.persist import Adapter, load_policy_line

from carriage_core import (
    All,
    Attribute,
    AttributeSource,
    Compare,
    ControlPlane,
    Effect,
    EvidenceDeclaration,
    FieldOrigin,
    FieldSource,
    Issuer,
    IssuerKind,
    Operator,
    Policy,
    PolicyRegistry,
    Settlement,
    ToolBinding,
    Utf8UpperBound,
)

type Decide = Callable[[], object]

OWNER = Issuer(kind=IssuerKind.ORGANIZATION, name="platform-security")
VERIFIED = EvidenceDeclaration(
    from_tool="verify_release",
    key=("artifact",),
    fields=(
        ("artifact", FieldSource(origin=FieldOrigin.ARGUMENT, path="artifact_id")),
        ("status", FieldSource(origin=FieldOrigin.RESULT, path="status")),
    ),
    expires_seconds=3_600,
)
UNLESS = All(
    (
        Compare("evidence.verification.status", Operator.EQ, "succeeded"),
        Compare("evidence.verification.artifact", Operator.EQ, Attribute("object.id")),
    )
)
SPREADS = ("value", "type", "action", "nothing")
"""What tells the rules apart: the required repository, the type of object, the action, or nothing an index can use."""
KINDS = 50


def repository(number: int) -> str:
    """The repository that a rule is about."""
    return f"acme/service-{number}"


def pattern(number: int) -> str:
    """A pattern that only that repository matches."""
    return f"*/service-{number}"


# -- ours ----------------------------------------------------------------------------------------


def rule(number: int, last: int, spread: str) -> Policy:
    """One rule; of the types and actions only the last rule has the call's."""
    apart = f"-{number % KINDS}" if number != last else ""
    action = ("*" if spread == "nothing" else f"delete{apart}" if spread == "action" else "delete",)
    name = repository(number)
    return Policy(
        id=f"rule-{number}",
        issuer=OWNER,
        effect=Effect.DENY,
        text=f"Do not delete artifacts of {name} unless they were verified.",
        actions=action,
        object_type=None if spread == "nothing" else f"artifact{apart}" if spread == "type" else "artifact",
        # A pattern, which no index helps with, for rules that nothing tells apart.
        where=Compare(
            "object.repository", *((Operator.GLOB, pattern(number)) if spread == "nothing" else (Operator.EQ, name))
        ),
        unless=UNLESS,
        evidence=(("verification", VERIFIED),),
    )


def binding(tool: str, action: str, kind: str, *, trusted: bool = False) -> ToolBinding:
    """A tool with an object."""
    named = tuple((name, AttributeSource(argument=argument)) for name, argument in OBJECT)
    return ToolBinding(tool=tool, action=action, object_type=kind, object_attributes=named, trusted_evidence=trusted)


OBJECT = (("id", "artifact_id"), ("repository", "repository"))


def bindings(spread: str) -> Iterator[ToolBinding]:
    """The tool that is called, the one that verifies, and `KINDS` others."""
    yield binding("delete_artifact", "delete", "artifact")
    yield binding("verify_release", "verify", "artifact", trusted=True)
    # Letters that nobody takes for one another.
    for number, letters in zip(range(KINDS), itertools.product("bcdfghkmnp", repeat=2), strict=False):
        action, kind = ("delete", f"artifact-{number}") if spread == "type" else (f"delete-{number}", "artifact")
        yield binding(f"tool_{''.join(letters)}", action, kind)


def rules(size: int, spread: str = "value") -> list[Policy]:
    """`size` rules; the last one matches the call."""
    return [rule(number, size - 1, spread) for number in range(size)]


def plane_of(size: int, spread: str = "value") -> ControlPlane:
    """A plane with `size` rules and a verification of another artifact."""
    registry = PolicyRegistry.of(rules(size, spread), bindings(spread))
    plane = ControlPlane(registry, actor="bot", tenant="acme", task="t1", counter=Utf8UpperBound())
    decision = plane.authorize("verify_release", {"artifact_id": "a2", "repository": "acme/other"})
    plane.settle(decision, Settlement.EXECUTED, {"status": "succeeded"})
    return plane


def call_of(size: int) -> dict[str, str]:
    """The arguments of the call that the last rule matches."""
    return {"artifact_id": "a1", "repository": repository(size - 1)}


def ours_check(size: int, spread: str = "value") -> Decide:
    """The verdict, with the digest of the arguments and every reason."""
    plane, call = plane_of(size, spread), call_of(size)
    verdict = plane.check("delete_artifact", call)
    assert verdict.code == "rule", verdict
    assert verdict.policies == (f"rule-{size - 1}",), verdict
    return lambda: plane.check("delete_artifact", call)


def ours_authorize(size: int) -> Decide:
    """The same, and the decision written to the hash chain."""
    plane, call = plane_of(size), call_of(size)
    assert plane.authorize("delete_artifact", call).verdict.code == "rule"
    return lambda: plane.authorize("delete_artifact", call)


# -- peers ---------------------------------------------------------------------------------------

CEDAR_SCHEMA = """
entity User;
entity Artifact { repository: String };
action "delete" appliesTo { principal: User, resource: Artifact, context: { status: String, artifact: String } };
"""


def cedar(size: int, spread: str = "value") -> Decide:
    """Cedar with parsed policies, entities and schema; the evidence is in the context."""
    head = "principal, action, resource" if spread == "nothing" else 'principal, action == Action::"delete", resource'
    test = "like" if spread == "nothing" else "=="
    names = pattern if spread == "nothing" else repository
    text = "permit(principal, action, resource);\n" + "\n".join(
        f'@id("rule-{number}") forbid({head}) when {{ resource.repository {test} "{names(number)}" }} '
        'unless { context.status == "succeeded" && context.artifact == "a1" };'
        for number in range(size)
    )
    schema = cedarpy.Schema.from_str(CEDAR_SCHEMA)
    policies = cedarpy.PolicySet.from_str(text)
    things = [
        {"uid": {"type": "User", "id": "bot"}, "attrs": {}, "parents": []},
        {"uid": {"type": "Artifact", "id": "a1"}, "attrs": {"repository": repository(size - 1)}, "parents": []},
    ]
    entities = cedarpy.Entities.from_json_str(json.dumps(things), schema)
    request = {
        "principal": 'User::"bot"',
        "action": 'Action::"delete"',
        "resource": 'Artifact::"a1"',
        "context": {"status": "succeeded", "artifact": "a2"},
    }
    result = cedarpy.is_authorized(request, policies, entities, schema)
    assert not result.allowed
    assert not result.diagnostics.errors
    assert len(result.diagnostics.reasons) == 1
    return lambda: cedarpy.is_authorized(request, policies, entities, schema)


CASBIN_MODEL = """
[request_definition]
r = sub, repo, act, proof
[policy_definition]
p = sub, repo, act, proof, eft
[policy_effect]
e = !some(where (p.eft == deny))
[matchers]
m = r.repo == p.repo && r.act == p.act && r.sub == p.sub && r.proof != p.proof
"""


class _Rows(Adapter):  # type: ignore[misc]  # casbin has no types
    def __init__(self, size: int) -> None:
        self._size = size

    def load_policy(self, model: object) -> None:
        for number in range(self._size):
            load_policy_line(f"p, bot, {repository(number)}, delete, succeeded a1, deny", model)


def casbin_enforcer(size: int) -> Decide:
    """Casbin's Enforcer, which tries every rule."""
    return _casbin(casbin.Enforcer, Model(), size)


def casbin_fast(size: int) -> Decide:
    """Casbin's FastEnforcer, with the rules filed by repository and action."""
    return _casbin(casbin.FastEnforcer, FastModel([1, 2]), size, cache_key_order=[1, 2])


def _casbin(kind: Callable[..., casbin.Enforcer], model: Model, size: int, **options: object) -> Decide:
    model.load_model_from_text(CASBIN_MODEL)
    enforcer = kind(model, _Rows(size), **options)
    request = ("bot", repository(size - 1), "delete")
    assert enforcer.enforce(*request, "succeeded a1")
    assert not enforcer.enforce(*request, "succeeded a2")
    return lambda: enforcer.enforce(*request, "succeeded a2")


def floor(size: int) -> Decide:
    """A dictionary and a comparison: no decision can cost less."""
    known = {("delete", repository(number)): ("succeeded", "a1") for number in range(size)}
    key, proof = ("delete", repository(size - 1)), ("succeeded", "a2")
    return lambda: known[key] == proof
