# SPDX-License-Identifier: Apache-2.0
"""One audit of corpora from files to counts: what was counted, what was not and why.

A file that cannot be read whole contributes nothing and never costs the others. A run is counted once however often
it is given; given with different labels, the second file is refused.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict, dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from carriage_lab.corpus import Case, rows
from carriage_lab.corpus_readers import agentdojo_case, is_agentdojo, label_cases, parse_document, tau_case
from carriage_lab.lines import read_records, read_text
from carriage_lab.readers_tau import is_tau
from carriage_lab.run import Failure
from carriage_lab.trace import LabError, TraceFormatError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_LINES: Final = (".jsonl", ".jsonl.gz")
_TABLES: Final = (".csv", ".csv.gz")
_DOCUMENTS: Final = (".json", ".json.gz")


def find_corpora(paths: Iterable[Path]) -> tuple[Path, ...]:
    """List the files of `paths`, each once, directories walked and sorted.

    In a directory, JSON lines and CSV tables are taken; where it holds none, JSON files (AgentDojo's own layout).

    Raises:
        LabError: A path does not exist, or a directory holds nothing of the kind.
    """
    found: dict[Path, Path] = {}
    for path in paths:
        if not path.exists():
            raise LabError(f"{path} does not exist.", mend="name a file of runs or a directory of them.")
        inside = [path]
        if path.is_dir():
            every = sorted(each for each in path.rglob("*") if each.is_file())
            inside = [each for each in every if each.name.endswith(_LINES + _TABLES)]
            inside = inside or [each for each in every if each.name.endswith(_DOCUMENTS)]
        if not inside:
            raise LabError(
                f"{path} holds no *.jsonl, *.csv or *.json file, plain or gzipped.", mend="name a directory of runs."
            )
        for file in inside:
            found.setdefault(file.resolve(), file)
    return tuple(found.values())


@dataclass(slots=True, kw_only=True)
class CorpusAudit:
    """An audit in progress. Call `count` for each file; ask for the results at any time.

    Attributes:
        cases: The runs counted, by corpus and id.
        repeated: How many rows repeated a run that was already counted, by file.
        failures: Files that were not counted.
        files: Files that were.
    """

    cases: dict[tuple[str, str], Case] = field(default_factory=dict)
    repeated: dict[Path, int] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)

    def count(self, file: Path) -> None:
        """Count every run of `file`, or note why not."""
        fresh: dict[tuple[str, str], Case] = {}
        repeated = 0
        try:
            for line, case in _cases(file):
                key = case.corpus, case.id
                known = fresh.get(key) or self.cases.get(key)
                repeated += known is not None
                fresh[key] = case if known is None else _merged(file, line, known, case)
        except TraceFormatError as error:
            self.failures.append(Failure.of(file, error))
            return
        self.cases |= fresh
        self.files.append(file)
        if repeated:
            self.repeated[file] = repeated

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of ``table.json``."""
        return rows(self.cases.values())

    def report(self, *, complete: bool) -> dict[str, Any]:
        """Describe the audit for ``run.json``."""
        return {
            "complete": complete,
            "files": [str(file) for file in self.files],
            "rows_given_twice_and_counted_once": {str(file): count for file, count in self.repeated.items()},
            "failed": [asdict(failure) for failure in self.failures],
        }


def _cases(file: Path) -> Iterator[tuple[int, Case]]:
    if file.name.endswith(_TABLES):
        yield from enumerate(label_cases(file, read_text(file)), start=2)
        return
    if file.name.endswith(_DOCUMENTS):
        yield 1, agentdojo_case(file, 1, parse_document(file, read_text(file)))
        return
    with closing(read_records(file)) as records:
        first = next(records, None)
        if first is None:
            raise TraceFormatError(file, 1, "the file is empty", mend="give a file with at least one run.")
        tau = is_tau(first[1])
        if not tau and not is_agentdojo(first[1]):
            raise TraceFormatError(
                file,
                first[0],
                "neither a tau run (trace_id, messages) nor an AgentDojo run (suite_name, user_task_id, security)",
                mend="give tau JSON lines, AgentDojo runs (JSON or JSON lines) or their table of labels.",
            )
        for line, record in chain([first], records):
            yield line, tau_case(file, line, record) if tau else agentdojo_case(file, line, record)


def _merged(file: Path, line: int, known: Case, again: Case) -> Case:
    """Join two records of one run: what only one of them can observe is kept, what both say must be the same."""
    for signal, seen in again.signals.items():
        before = known.signals.get(signal)
        if before is not None and seen is not None and before != seen:
            raise TraceFormatError(
                file,
                line,
                f"run {again.id!r} was already counted, with another {signal}",
                mend="give one version of each run.",
            )
    joined = {
        signal: known.signals.get(signal) if again.signals.get(signal) is None else again.signals[signal]
        for signal in {**known.signals, **again.signals}
    }
    return Case(corpus=known.corpus, id=known.id, source=known.source, task=known.task, signals=joined)
