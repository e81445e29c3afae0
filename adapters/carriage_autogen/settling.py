# SPDX-License-Identifier: Apache-2.0
"""One authorised call, settled exactly once however it ends (DESIGN 3.5, 3.9)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from autogen_core.tools import TextResultContent, ToolResult

from carriage_autogen.results import error
from carriage_core import CarriageError, ControlPlane, Decision, Settlement

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self


class Run:
    """A call that may run. As a context manager it settles what happened inside it."""

    def __init__(self, control: ControlPlane, decision: Decision) -> None:
        """Start with an outcome that nobody knows."""
        self.decision = decision
        self._control = control
        self._settlement = Settlement.UNKNOWN
        self._value: object = None
        self._result: ToolResult | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> bool:
        cancelled = isinstance(problem, asyncio.CancelledError)
        if problem is not None:
            self._settlement, self._value = Settlement.UNKNOWN, None
        # A cancelled token cancels the tool's future, not this task: that is a result to report. A cancelled
        # task is the caller's own business and goes on, whatever the log can or cannot do.
        leaving = problem is not None and not (cancelled and not leaving_task())
        try:
            self._control.settle(self.decision, self._settlement, self._value)
        except CarriageError:
            if not leaving:
                raise
        if cancelled and not leaving:
            self._result = error(self.decision.call.tool, "The call was cancelled; its outcome is unknown.")
        return cancelled and not leaving

    def returned(self, value: object, text: str, result: ToolResult | None = None) -> None:
        """Note a result that is no error; `value` is what it was before it became text."""
        name = self.decision.call.tool
        self._settlement, self._value = Settlement.EXECUTED, value
        self._result = result or ToolResult(name=name, result=[TextResultContent(content=text)], is_error=False)

    def failed(self, text: str, result: ToolResult | None = None) -> None:
        """Note an error of a tool that ran."""
        self._settlement = Settlement.FAILED
        self._result = result or error(self.decision.call.tool, text)

    def not_started(self, text: str) -> None:
        """Note that nothing ran."""
        self._settlement = Settlement.NOT_STARTED
        self._result = error(self.decision.call.tool, text)

    def refuse(self, text: str) -> ToolResult:
        """Settle a call that the guard itself will not start."""
        name = self.decision.call.tool
        try:
            self._control.settle(self.decision, Settlement.NOT_STARTED)
        except CarriageError as fault:
            return error(name, f"{text} The refusal could not be recorded ({type(fault).__name__}).")
        return error(name, text)

    def result(self) -> ToolResult:
        """What the model is told."""
        return self._result or error(self.decision.call.tool, "The tool gave no result; its outcome is unknown.")


def leaving_task() -> bool:
    """Whether the running task itself is being cancelled, rather than something it waits for."""
    task = asyncio.current_task()
    return task is None or bool(task.cancelling())
