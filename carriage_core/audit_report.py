# SPDX-License-Identifier: Apache-2.0
"""An audit's report, as text for people and as JSON for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from carriage_core.audit_findings import AuditReport, Finding, Stranger, Witness


def as_text(report: AuditReport) -> str:
    """Write one line a policy, its reasons below it, and the tally at the end."""
    return "\n".join(_lines(report))


def _lines(report: AuditReport) -> Iterator[str]:
    width = max(len(finding.policy_id) for finding in report.findings)
    for finding in report.findings:
        bound = f" ({', '.join(finding.bound)})" if finding.bound else ""
        carried = "" if finding.mediated else " [nothing enforces it]"
        yield f"{finding.policy_id:<{width}}  {finding.carriage}{bound}: {_why(finding)}{carried}"
        if finding.witness is not None:
            yield f"{'':<{width}}    permitted too much: {finding.witness.sentence()}"
        if finding.extra is not None:
            yield f"{'':<{width}}    forbidden too much: {finding.extra.sentence()}"
    for stranger in report.strangers:
        trusted = "trusted" if stranger.trusted else "of unknown source"
        what = stranger.clause or "a rule without a clause"
        yield f"not one of the policies, {trusted}, message {stranger.message}: {stranger.id or 'no id'}: {what}"
    if report.imitations:
        yield f"the capsule's marker occurs {report.imitations} times in messages that cannot speak policy"
    counts = ", ".join(f"{count} {kind}" for kind, count in report.tally.items() if count)
    yield f"{report.messages} messages ({report.attested} of known source); {counts}; the set: {report.carriage}"


def _why(finding: Finding) -> str:
    where = ", ".join(str(index) for index in finding.messages[:5]) + (" ..." if len(finding.messages) > 5 else "")  # noqa: PLR2004  # a line's worth
    plural = "s" if len(finding.messages) > 1 else ""
    return f"{finding.why} (message{plural} {where})" if where else finding.why


def as_json(report: AuditReport) -> dict[str, object]:
    """Return plain JSON values. Every kind is in the tally, so that a missing one is never read as none."""
    return {
        "set": report.carriage.value,
        "preserved": report.preserved,
        "tally": {kind.value: count for kind, count in report.tally.items()},
        "messages": report.messages,
        "attested": report.attested,
        "imitations": report.imitations,
        "policies": [_finding(finding) for finding in report.findings],
        "strangers": [_stranger(stranger) for stranger in report.strangers],
    }


def _finding(finding: Finding) -> dict[str, object]:
    return {
        "id": finding.policy_id,
        "digest": finding.digest,
        "carriage": finding.carriage.value,
        "mediated": finding.mediated,
        "messages": list(finding.messages),
        "form": finding.form,
        "bound": list(finding.bound),
        "witness": _witness(finding.witness),
        "extra": _witness(finding.extra),
        "why": finding.why,
    }


def _witness(witness: Witness | None) -> dict[str, object] | None:
    if witness is None:
        return None
    return {
        "action": witness.action,
        "object_type": witness.object_type,
        "values": dict(witness.values),
        "source": witness.source,
        "shown": witness.shown,
        "note": witness.note,
        "sentence": witness.sentence(),
    }


def _stranger(stranger: Stranger) -> dict[str, object]:
    return {
        "id": stranger.id,
        "clause": stranger.clause,
        "message": stranger.message,
        "trusted": stranger.trusted,
    }
