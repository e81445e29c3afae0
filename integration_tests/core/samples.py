"""The release policy, a plane that holds it, and a clock that tests can set."""

from datetime import UTC, datetime, timedelta
from typing import Any

from carriage_core import (
    Assembly,
    Clock,
    ControlPlane,
    PolicyRegistry,
    RuntimeState,
    Settlement,
    ToolCall,
    Utf8UpperBound,
    Verdict,
    monitor,
    parse_policy_text,
)
from carriage_core.counters import CounterLedger
from carriage_core.ruling import Circumstances
from carriage_core.runtime import EvidenceLedger, Moment

RELEASE_POLICY = """\
carriage: 1
default: allow
tools:
  delete_artifact:
    action: delete
    object: {type: release_artifact, id: artifact_id, repository: repo}
  verify_release:
    action: verify
    external: false
    object: {type: release_artifact, id: artifact_id}
    trusted_evidence: true
  list_artifacts: {action: none}
policies:
  - id: verify-before-delete
    issuer: {kind: organization, name: platform-security}
    version: 1
    scope: {tenant: acme}
    action: delete
    object: {type: release_artifact, repository: {glob: "acme/*"}}
    effect: deny
    evidence:
      verification:
        from_tool: verify_release
        key: [artifact]
        fields: {artifact: {argument: artifact_id}, status: {result: status}}
        expires: 1h
        single_use: true
    unless:
      all:
        - {attr: evidence.verification.status, eq: succeeded}
        - {attr: evidence.verification.artifact, eq: {attr: object.id}}
    text: Do not delete release artifacts unless verification Z succeeds.
"""

CONFIRM_POLICY = (
    RELEASE_POLICY
    + """\
  - id: ask-before-verify
    issuer: {kind: developer, name: release-team}
    action: verify
    effect: confirm
    text: Ask before you verify a release.
"""
)

DELETE = {"artifact_id": "a1", "repo": "acme/api"}
VERIFY = {"artifact_id": "a1"}
SUCCESS = {"status": "succeeded"}
START = datetime(2026, 6, 1, 12, tzinfo=UTC)


def judge(
    call: ToolCall, *, registry: PolicyRegistry, runtime: RuntimeState, ledger: EvidenceLedger, moment: Moment
) -> Verdict:
    """Ask the monitor itself, with counters at zero."""
    held = Circumstances(runtime=runtime, moment=moment, ledger=ledger, counters=CounterLedger())
    return monitor.judge(call, registry=registry, circumstances=held)


class Hands:
    """A clock's source whose hands a test moves."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now

    def move(self, **by: float) -> None:
        self.now += timedelta(**by)


def release_plane(text: str = RELEASE_POLICY, **options: Any) -> ControlPlane:
    options.setdefault("actor", "release-bot")
    options.setdefault("tenant", "acme")
    options.setdefault("task", "t1")
    options.setdefault("control_budget", 4_000)
    options.setdefault("counter", Utf8UpperBound())
    source = options.pop("hands", None) or Hands()
    return ControlPlane(parse_policy_text(text), clock=Clock(source), **options)


def verify(plane: ControlPlane, result: object = SUCCESS, **arguments: object) -> None:
    """Run the verification as an adapter would, and let it return `result`."""
    decision = plane.authorize("verify_release", arguments or VERIFY)
    assert decision.allowed, decision.verdict
    plane.settle(decision, Settlement.EXECUTED, result)


def assemble(plane: ControlPlane, tools: tuple[str, ...] | None = None, **sizes: Any) -> None:
    """Make and seal one assembly with nothing but the capsule in it."""
    capsule = plane.capsule(tools)
    sizes = {"data_tokens": 0, "candidate_tokens": 0, "offset": 0, **sizes}
    plane.seal(Assembly(capsule=capsule, message=capsule.text, **sizes))
