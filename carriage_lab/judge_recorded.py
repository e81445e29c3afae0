# SPDX-License-Identifier: Apache-2.0
"""Recorded tool calls judged in order, as a plane in enforce mode would have judged them (DESIGN 3.5, 3.10).

One plane a conversation, with a clock that stands still. A call that is allowed is settled with its recorded result, so
that later calls find the evidence; one that waits for a confirmation is taken to get it; one that is denied did not run
under this plane, whatever the recording says, and its result proves nothing. Calls of the simulated user's own phone
(``visible_to_agent: false``) are not the agent's and are not judged.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from carriage_core import Absent, Clock, ControlPlane, Outcome, Settlement, Utf8UpperBound
from carriage_lab.readers_tau import read_run

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime
    from pathlib import Path

    from carriage_core import PolicyRegistry, Verdict

ACTOR: Final = "agent"
PERSON: Final = "recorded user"
_ABSENT: Final = frozenset(absent.value for absent in Absent)


class Judgement(StrEnum):
    """What became of a recorded call."""

    ALLOWED = "allowed"
    WOULD_ASK = "would ask"
    DENIED = "denied by rule"
    UNDECIDABLE = "undecidable"
    """Denied because the call itself could not be read: an argument a rule needs is absent or not normal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedCall:
    """One recorded call with its verdict.

    Attributes:
        run: The conversation's id.
        number: The call's place among the agent's calls of that conversation, from 1.
        tool: The tool's name.
        arguments: As recorded.
        failed: Whether the recorded result is an error.
        judgement: The verdict in one word.
        rules: The policies that decided it, strictest first; empty where none bound.
        verdict: The whole verdict, before any approval.
    """

    run: str
    number: int
    tool: str
    arguments: object
    failed: bool
    judgement: Judgement
    rules: tuple[str, ...]
    verdict: Verdict


def judge_run(
    file: Path, line: int, record: dict[str, Any], registry: PolicyRegistry, *, now: datetime
) -> Iterator[JudgedCall]:
    """Judge the agent's calls of one tau run, in the order they were made.

    Args:
        file: Where the run stands, for errors.
        line: Its line.
        record: The run.
        registry: The policies and bindings to judge with.
        now: What the clock shows throughout.

    Raises:
        TraceFormatError: The record is no tau run.
    """
    run = read_run(file, line, record).id
    plane = ControlPlane(
        registry, actor=ACTOR, tenant="recorded", task=run, counter=Utf8UpperBound(), clock=Clock(lambda: now)
    )
    for number, (call, message) in enumerate(_calls(record), 1):
        settlement, result = _outcome(message)
        verdict = _judge(plane, f"{run}/{number}", call, settlement, result)
        yield JudgedCall(
            run=run,
            number=number,
            tool=call["name"],
            arguments=call["arguments"],
            failed=settlement is Settlement.FAILED,
            judgement=judgement_of(verdict),
            rules=tuple(reason.policy_id for reason in verdict.reasons if reason.effect == verdict.reasons[0].effect),
            verdict=verdict,
        )


def _calls(record: dict[str, Any]) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any] | None]]:
    """Yield the agent's calls with their results, if any; an id may come back in a later turn for another call."""
    open_calls: list[Mapping[str, Any]] = []
    results: dict[str, Mapping[str, Any]] = {}
    for message in (message for message in record["messages"] if message["visible_to_agent"]):
        if message["role"] == "tool":
            results[message["tool_call_id"]] = message
        elif message["role"] == "assistant":
            yield from ((call, results.get(call["id"])) for call in open_calls)
            open_calls, results = list(message.get("tool_calls") or ()), {}
    yield from ((call, results.get(call["id"])) for call in open_calls)


def _judge(
    plane: ControlPlane, call_id: str, call: Mapping[str, Any], settlement: Settlement, result: object
) -> Verdict:
    tool, arguments = call["name"], call["arguments"]
    verdict = plane.check(tool, arguments, call_id=call_id)
    if verdict.outcome is Outcome.CONFIRM:
        plane.approve(tool, arguments, by=PERSON, call_id=call_id)
    decision = plane.authorize(tool, arguments, call_id=call_id)
    if decision.allowed:
        plane.settle(decision, settlement, result)
    return verdict


def _outcome(message: Mapping[str, Any] | None) -> tuple[Settlement, object]:
    """Read how a call ended; not every recorder marks errors, but all of them begin with the same word."""
    if message is None:
        return Settlement.UNKNOWN, None
    content = message.get("content") or ""
    if message.get("error") or content.startswith("Error"):
        return Settlement.FAILED, None
    try:
        result = json.loads(content)
    except ValueError:
        result = content
    # A result that is no object is wrapped, as MCP servers do for structured content.
    return Settlement.EXECUTED, result if isinstance(result, dict) else {"result": result}


def judgement_of(verdict: Verdict) -> Judgement:
    """Sort a verdict: a denial is a rule's only where the rule could read what it asks of the call."""
    match verdict.outcome:
        case Outcome.ALLOW:
            return Judgement.ALLOWED
        case Outcome.CONFIRM:
            return Judgement.WOULD_ASK
        case Outcome.DENY:
            pass
    denials = [reason for reason in verdict.reasons if reason.effect != "confirm"]
    unread = [reason for reason in denials if any(value in _ABSENT for _, value in reason.values)]
    if not denials or len(unread) == len(denials):
        return Judgement.UNDECIDABLE
    return Judgement.DENIED
