# SPDX-License-Identifier: Apache-2.0
"""The replayed policy: one file of this package, in the registry and, word for word, in the history."""

from __future__ import annotations

from importlib.resources import as_file, files
from typing import TYPE_CHECKING, Final

from carriage_core import ControlPlane
from carriage_core.tokens import WhitespaceCounter

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from carriage_core.tokens import TokenCounter

RESERVED_OUTPUT: Final = 4_096
"""Tokens kept free for the model's answer (paper III-F)."""


def replay_text() -> str:
    """Return the sentence that is placed natively: the text of the only policy in the registry."""
    with _policy_file() as path:
        [policy] = ControlPlane.from_file(path, counter=WhitespaceCounter()).registry.policies
    return policy.text


def control_for(counter: TokenCounter, control_budget: int) -> Callable[[int], ControlPlane]:
    """Return what builds a control plane holding the replay policy, for a model window in tokens."""

    def build(window: int) -> ControlPlane:
        with _policy_file() as path:
            return ControlPlane.from_file(
                path,
                actor="agent",
                tenant=None,
                control_budget=control_budget,
                window=window,
                reserved_output=RESERVED_OUTPUT,
                counter=counter,
            )

    return build


def _policy_file() -> AbstractContextManager[Path]:
    return as_file(files("carriage_lab") / "data" / "replay_policy.yaml")
