# SPDX-License-Identifier: Apache-2.0
"""A decision: the record that exists before an action runs, and what became of the action (DESIGN 3.9)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from carriage_core.runtime import RuntimeState
    from carriage_core.verdict import ToolCall, Verdict


class Settlement(StrEnum):
    """What became of an authorised action."""

    EXECUTED = "executed"
    """It ran and returned a result that is not an error."""
    FAILED = "failed"
    """It ran and returned an error; it may have had effects."""
    NOT_STARTED = "not_started"
    """Nothing of it ran; what was reserved for it is given back."""
    UNKNOWN = "outcome_unknown"
    """It was started and nobody knows how it ended; what was reserved stays spent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One proposed call, judged once.

    Attributes:
        id: Unique in its plane's chain.
        verdict: What the monitor said; only `verdict.allowed` may run.
        call: The call that was judged, and the only one that may be executed.
        arguments: The judged arguments, empty where they could not be read.
        runtime: Who acts.
        assembly: Sequence of the assembly the call came from, None where there was none.
    """

    id: str
    verdict: Verdict
    call: ToolCall
    arguments: Mapping[str, object]
    runtime: RuntimeState
    assembly: int | None

    @property
    def allowed(self) -> bool:
        """Whether the call may run now."""
        return self.verdict.allowed

    @property
    def refusal(self) -> str:
        """What to tell the model about a refused call: actionable, with no values from the registry's evidence."""
        if self.verdict.outcome == "confirm":
            advice = "It needs an approval by a person; do not retry it unchanged before that."
        else:
            advice = "It was not executed; do not retry it unchanged."
        return f"POLICY_DENIED {self.verdict.code}: {self.verdict.explain()} {advice}"
