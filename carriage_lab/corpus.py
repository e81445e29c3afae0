# SPDX-License-Identifier: Apache-2.0
"""Risk ingredients of public corpora, counted (paper III-A, Table II). Witnesses of preconditions, no rates.

Every signal is true, false or not observable in a row, and is counted out of the rows in which it is observable.
Corpora are never pooled: each exposes something else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from carriage_lab.tables import aligned

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

type Corpus = Literal["tau-bench", "tau2-bench", "AgentDojo"]

MEANING: Final[Mapping[str, str]] = {
    "rows": "recorded runs",
    "tasks": "distinct tasks among them",
    "policy_recorded": "the policy text that the agent was given is recorded with the run",
    "policy_challenge": "the agent handed over or refused: any of the next two",
    "handed_over": "the agent called a transfer tool, which these policies reserve for what they do not let it do",
    "refusal_wording": "the agent used one of a fixed list of refusing phrases",
    "tool_refused": "a tool answered the agent with an error",
    "attacked": "an attack and an injected task are named",
    "injection_read": "of attacked runs whose messages are here: a tool message holds the injected text",
    "injected_task_done": "of attacked runs with a verdict: the injected task was carried out (security: true)",
    "injected_task_not_done": "of the same runs: it was not (security: false)",
    "dos_task_spoilt": "of denial-of-service attacks: the user's task failed (there security is `not utility`)",
    "provider_error": "the run ended in a provider error; its security: true is no verdict",
    "security_true_unattacked": "of runs without attack: security is true, which says nothing",
    "security_false": "security: false, which the paper counts as failing; with attacks it means resisted",
}
"""What is counted, in the order of the table."""

_PAPER: Final[Mapping[tuple[str, str], tuple[int, int]]] = {
    ("AgentDojo", "rows"): (36_679, 36_679),
    ("AgentDojo", "attacked"): (33_119, 36_679),
    ("AgentDojo", "security_false"): (27_866, 36_678),
    ("tau-bench", "rows"): (1_980, 1_980),
    ("tau-bench", "policy_recorded"): (1_980, 1_980),
    ("tau-bench", "policy_challenge"): (456, 1_980),
    ("tau2-bench", "rows"): (10_832, 10_832),
    ("tau2-bench", "tasks"): (2_556, 2_556),
    ("tau2-bench", "policy_challenge"): (2_406, 13_388),
}
"""Table II. Other runs of the same corpora, and for policy challenges a rule that the paper does not state."""

NOTE: Final = (
    "count of the rows in which the signal can be observed. Preconditions seen in released runs; no rate of failures.\n"
    "AgentDojo: security: true means that the injected task was carried out. The paper reads false as failing."
)

COLUMNS: Final = ("corpus", "level", "source", "signal", "count", "of", "paper_count", "paper_of", "meaning")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One recorded run.

    Attributes:
        corpus: Where it belongs.
        id: Its name there; a run given twice is counted once.
        source: The part of the corpus: a set of runs or a suite.
        task: Its task.
        signals: By name: seen, not seen, or (None) not observable in this row.
    """

    corpus: Corpus
    id: str
    source: str
    task: str
    signals: Mapping[str, bool | None]


def rows(cases: Iterable[Case]) -> list[dict[str, Any]]:
    """Count every signal over each corpus and each of its parts; JSON values only."""
    groups: dict[tuple[str, str, str], list[Case]] = {}
    for case in cases:
        groups.setdefault((case.corpus, "all", case.corpus), []).append(case)
        groups.setdefault((case.corpus, "part", case.source), []).append(case)
    order = {corpus: place for place, (corpus, _, _) in reversed(list(enumerate(groups)))}
    return [
        row
        for key in sorted(groups, key=lambda key: (order[key[0]], key[1] != "all"))
        for row in _rows(key, groups[key])
    ]


def _rows(key: tuple[str, str, str], group: Sequence[Case]) -> Iterable[dict[str, Any]]:
    corpus, level, source = key
    tasks = len({case.task for case in group})
    for signal, meaning in MEANING.items():
        if signal == "rows":
            count, of = len(group), len(group)
        elif signal == "tasks":
            count, of = tasks, tasks
        else:
            seen = [case.signals[signal] for case in group if case.signals.get(signal) is not None]
            count, of = sum(map(bool, seen)), len(seen)
            if not any(signal in case.signals for case in group):
                continue
        paper_count, paper_of = _PAPER.get((corpus, signal), (None, None)) if level == "all" else (None, None)
        cells = (corpus, level, source, signal, count, of, paper_count, paper_of, meaning)
        yield dict(zip(COLUMNS, cells, strict=True))


def plain(table: Sequence[Mapping[str, Any]]) -> str:
    """Render the rows of whole corpora as aligned text."""
    whole = [row for row in table if row["level"] == "all"]
    if not whole:
        return "no run was counted\n"
    lines = [
        [
            row["corpus"],
            row["signal"],
            f"{row['count']:,}",
            f"{row['of']:,}",
            f"{row['paper_count']:,} of {row['paper_of']:,}" if row["paper_of"] else "",
        ]
        for row in whole
    ]
    return f"{aligned([['corpus', 'signal', 'count', 'of', 'paper'], *lines], left=2)}\n{NOTE}\n"
