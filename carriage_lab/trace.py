# SPDX-License-Identifier: Apache-2.0
"""A recorded run as neutral values: what lay in the history, and before which model calls.

Readers produce these values without importing a framework; a stack module turns them into the objects of its
framework. A history only grows, so one tuple of items and a list of prefix lengths describe every snapshot of
a run (paper III-B: the decision state immediately before an action).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, override

from carriage_core.errors import CarriageError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

type StackName = Literal["autogen", "openhands"]
"""Which framework a run can be replayed on."""

type Role = Literal["system", "user", "agent", "tool"]
"""Who a history item speaks for; the placement rules of `carriage_lab.placement` need no more."""


class LabError(CarriageError):
    """A measurement cannot be made."""


class TraceFormatError(LabError):
    """A file that is not the trace it claims to be. Nothing of such a file is replayed.

    Attributes:
        file: The file's path as given.
        line: The 1-based line the fault is on.
        problem: What is wrong, in one clause; quotes of the conversation nothing but names and kinds.
    """

    def __init__(self, file: Path, line: int, problem: str, *, mend: str) -> None:
        """Keep the place apart from the words, so that reports can be sorted and counted."""
        self.file = file
        self.line = line
        self.problem = problem
        super().__init__(f"{file}:{line}: {problem}.", mend=mend)

    @override
    def __str__(self) -> str:
        return super().__str__()


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryItem:
    """One entry of the framework's own history: an AutoGen message or an OpenHands event, not yet built.

    Attributes:
        role: Who speaks.
        line: The line of the file it was read from.
        record: The neutral record the stack module builds its object from.
        turn: Agent items of one model response share it; empty for all others.
        calls: Ids of the tool calls it makes.
        answers: Ids of the tool calls it answers.
    """

    role: Role
    line: int
    record: Mapping[str, Any]
    turn: str = ""
    calls: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """One recorded run.

    Attributes:
        stack: The framework it is replayed on.
        id: The run's name in its data set.
        file: Where it was read from.
        line: The line it starts on.
        items: The whole history, in order, whatever the run's own context manager once did to it.
        calls: For every recorded model call, how many leading items lay in the history before it.
    """

    stack: StackName
    id: str
    file: Path
    line: int
    items: tuple[HistoryItem, ...]
    calls: tuple[int, ...]
