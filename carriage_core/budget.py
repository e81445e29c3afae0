# SPDX-License-Identifier: Apache-2.0
"""The effective budget: what the window leaves after output, overhead and control (paper III-B; DESIGN 3.8)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from carriage_core.errors import PolicyError

DEFAULT_WINDOW: Final = 128_000
DEFAULT_RESERVED_OUTPUT: Final = 4_096
DEFAULT_CONTROL_BUDGET: Final = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Sizes in tokens of one counter. Control is reserved first; data gets what is left.

    Attributes:
        control: Most tokens the capsule may take.
        window: The model's whole context window.
        reserved_output: Tokens kept free for the answer.
        fixed: Overhead outside the context: system text, tool schemas, final request.

    Raises:
        PolicyError: A size is negative, or output, overhead and control leave nothing of the window.
    """

    control: int = DEFAULT_CONTROL_BUDGET
    window: int = DEFAULT_WINDOW
    reserved_output: int = DEFAULT_RESERVED_OUTPUT
    fixed: int = 0

    def __post_init__(self) -> None:
        """Refuse a budget no assembly could meet."""
        for name in ("control", "window", "reserved_output", "fixed"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise PolicyError(f"{name} must be a number of tokens, not {value!r}.", mend="give an integer >= 0.")
        if self.control == 0:
            raise PolicyError(
                "a control budget of 0 can carry nothing.",
                mend="give control_budget at least a few hundred tokens.",
            )
        if self.effective() <= self.control:
            raise PolicyError(
                f"window {self.window} - reserved output {self.reserved_output} - fixed {self.fixed} does not exceed "
                f"the control budget {self.control}.",
                mend="raise the window, or lower reserved_output or control_budget.",
            )

    def window_within(self, window: int | None) -> int:
        """The smaller of this window and the model's own, where that is known."""
        return self.window if window is None else min(self.window, window)

    def effective(self, window: int | None = None) -> int:
        """Window less reserved output and fixed overhead: what control and data share."""
        return self.window_within(window) - self.reserved_output - self.fixed

    def data(self, control_tokens: int, window: int | None = None) -> int:
        """Tokens left for data once a capsule of `control_tokens` is placed."""
        return max(0, self.effective(window) - control_tokens)

    def pressure(self, candidate_data_tokens: int, control_tokens: int, window: int | None = None) -> float:
        """Normalised pressure rho: candidate data tokens over the data budget (paper III-B)."""
        return candidate_data_tokens / max(1, self.data(control_tokens, window))
