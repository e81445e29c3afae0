"""Recorded actions of OpenHands runs judged by a policy file: counted as they are, and none left out."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from carriage_core import load_policy_file
from carriage_lab.judge_openhands import Grade, JudgedAction, Judgement, grade_of, judge_actions
from carriage_lab.lines import read_records
from carriage_lab.trace import TraceFormatError

ROOT = Path(__file__).parents[2]
POLICIES = ROOT / "examples" / "policies" / "office_agent.yaml"


def event(tool: str, **arguments: Any) -> dict[str, Any]:
    return {"kind": "ActionEvent", "tool_name": tool, "tool_call": {"arguments": json.dumps(arguments)}}


def judged(*history: Any, run: Any = "r") -> list[JudgedAction]:
    record = {"instance_id": run, "history": list(history)}
    registry = load_policy_file(POLICIES)
    return list(judge_actions(Path("f"), 3, record, registry, beside=frozenset({"security_risk"})))


def test_a_denied_an_asked_and_an_unknown_action_are_told_apart() -> None:
    """Each verdict is counted under its own word; what the framework adds for itself hides nothing."""
    found = judged(
        {"kind": "MessageEvent"},
        event("execute_bash", command="ls", security_risk="LOW"),
        event("execute_bash", command="pip install x"),
        event("execute_bash", command="mail -A f x"),
        event("execute_bash", command="./started"),
        event("never_heard_of"),
    )
    assert [one.judgement for one in found] == [
        Judgement.ALLOWED,
        Judgement.WOULD_ASK,
        Judgement.DENIED,
        Judgement.UNKNOWN,
        Judgement.DENIED,
    ]
    assert [one.number for one in found] == [1, 2, 3, 4, 5]
    assert found[2].rules == ("no-files-by-mail",)


@pytest.mark.parametrize(
    "history",
    [
        [{"kind": "ActionEvent", "tool_name": "t"}],
        [event("t") | {"tool_call": {"arguments": "{"}}],
        [event("t") | {"tool_name": 1}],
    ],
)
def test_an_action_that_cannot_be_read_is_not_passed_over(history: list[Any]) -> None:
    """A log that is not what it claims to be stops with its line, instead of counting one action less."""
    with pytest.raises(TraceFormatError, match="f:3"):
        judged(*history)
    with pytest.raises(TraceFormatError, match="f:3"):
        judged(run=None)


@pytest.mark.parametrize(
    ("result", "grade"),
    [
        ({"final_score": {"total": 1, "result": 0}}, Grade.FAILED),
        ({"final_score": {"total": 2, "result": 1}}, Grade.FAILED),
        ({"final_score": {"total": 1, "result": 1}}, Grade.PASSED),
        ({"final_score": {"total": 0, "result": 0}}, Grade.NONE),
        ({"error": "no evaluator"}, Grade.NONE),
        (None, Grade.NONE),
    ],
)
def test_a_run_without_checks_is_not_called_safe(result: Any, grade: Grade) -> None:
    """A grader that failed, or that checks nothing, says nothing."""
    assert grade_of({"test_result": result}) is grade


def test_the_published_table_is_what_the_recorded_runs_give(recorded_data: Path) -> None:
    """Every number of the document's table, from the 329 recorded actions."""
    file = recorded_data / "openhands_safety" / "runs.jsonl.gz"
    registry = load_policy_file(POLICIES)
    counts = {grade: Counter[str]() for grade in Grade}
    for line, record in read_records(file):
        kinds = [
            one.judgement
            for one in judge_actions(file, line, record, registry, beside=frozenset({"security_risk", "summary"}))
        ]
        tally = counts[grade_of(record)]
        tally.update(kinds)
        tally["runs"] += 1
        stopped = bool({Judgement.DENIED, Judgement.UNKNOWN} & set(kinds))
        tally["stopped"] += stopped
        tally["asked"] += not stopped and Judgement.WOULD_ASK in kinds
    rows = {
        cells[0]: list(map(int, cells[1:]))
        for text in (ROOT / "docs" / "openagentsafety.md").read_text(encoding="utf-8").splitlines()
        if len(cells := [cell.strip() for cell in text.strip("|").split("|")]) == 9 and cells[1].isdigit()
    }
    for grade, tally in counts.items():
        kinds_in_order = [tally[kind] for kind in Judgement]
        expected = [tally["runs"], tally["stopped"], tally["asked"], sum(kinds_in_order), *kinds_in_order]
        assert rows[grade.value] == expected, grade
