# SPDX-License-Identifier: Apache-2.0
"""The recorded actions of OpenHands runs judged one by one, as a plane in enforce mode would have judged them.

Nothing of a run is executed, and no result is evidence here: each call is judged as it was proposed. A call that waits
for a person is counted apart from one that is denied, and a denial apart where the command itself is not understood.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from carriage_core import ControlPlane, Outcome, Utf8UpperBound
from carriage_lab.trace import TraceFormatError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from carriage_core import PolicyRegistry, Verdict


class Grade(StrEnum):
    """What the benchmark's own grader said of a run."""

    FAILED = "check failed"
    PASSED = "check passed"
    NONE = "not graded"


class Judgement(StrEnum):
    """What would have become of a recorded call."""

    ALLOWED = "allowed"
    WOULD_ASK = "would ask"
    DENIED = "denied by rule"
    UNKNOWN = "not understood"
    """Denied because nobody can say what the command does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedAction:
    """One recorded call with its verdict.

    Attributes:
        run: The run's id.
        number: The call's place in the run, from 1.
        tool: The tool's name.
        arguments: As the model wrote them.
        judgement: The verdict in one word.
        rules: The policies that decided it.
        verdict: The whole verdict.
    """

    run: str
    number: int
    tool: str
    arguments: Mapping[str, Any]
    judgement: Judgement
    rules: tuple[str, ...]
    verdict: Verdict


def grade_of(record: Mapping[str, Any]) -> Grade:
    """Read the grader's verdict; a run without checks, or whose grader failed, is not graded."""
    result = record.get("test_result")
    score = result.get("final_score") if isinstance(result, dict) else None
    if not isinstance(score, dict) or not score.get("total"):
        return Grade.NONE
    return Grade.PASSED if score.get("result") == score["total"] else Grade.FAILED


def judge_actions(
    file: Path, line: int, record: Mapping[str, Any], registry: PolicyRegistry, *, beside: frozenset[str] = frozenset()
) -> Iterator[JudgedAction]:
    """Judge the calls of one run in order.

    Args:
        file: Where the run stands, for errors.
        line: Its line.
        record: The run: ``instance_id`` and ``history``, a list of events.
        registry: The policies and bindings to judge with.
        beside: Arguments that the framework adds for itself and takes out before the tool runs.

    Raises:
        TraceFormatError: The record is no such run.
    """
    run, history = record.get("instance_id"), record.get("history")
    if not isinstance(run, str) or not isinstance(history, list):
        raise TraceFormatError(file, line, "no run with instance_id and history", mend="pass OpenAgentSafety runs.")
    plane = ControlPlane(registry, actor="agent", tenant="recorded", task=run, counter=Utf8UpperBound())
    calls = (event for event in history if isinstance(event, dict) and event.get("kind") == "ActionEvent")
    for number, event in enumerate(calls, 1):
        tool, written = event.get("tool_name"), (event.get("tool_call") or {}).get("arguments")
        try:
            arguments = json.loads(written) if isinstance(written, str) else None
        except ValueError:
            arguments = None
        if not isinstance(tool, str) or not isinstance(arguments, dict):
            raise TraceFormatError(
                file, line, f"action {number} of {run} has no tool or no arguments", mend="record it again."
            )
        arguments = {name: value for name, value in arguments.items() if name not in beside}
        verdict = plane.check(tool, arguments)
        yield JudgedAction(
            run=run,
            number=number,
            tool=tool,
            arguments=arguments,
            judgement=judgement_of(verdict),
            rules=tuple(reason.policy_id for reason in verdict.reasons if reason.effect == verdict.reasons[0].effect),
            verdict=verdict,
        )


def judgement_of(verdict: Verdict) -> Judgement:
    """Sort a verdict."""
    match verdict.outcome:
        case Outcome.ALLOW:
            return Judgement.ALLOWED
        case Outcome.CONFIRM:
            return Judgement.WOULD_ASK
        case Outcome.DENY:
            return Judgement.UNKNOWN if verdict.code == "unknown_action" else Judgement.DENIED
