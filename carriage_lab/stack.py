# SPDX-License-Identifier: Apache-2.0
"""What the engine asks of a framework, and the one place that decides which module answers.

A `Stack` turns traces into `Session`s; a session builds the framework's objects of one trace once, drives the
managers over them, and says what would go to the provider. The engine never sees a framework type.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from carriage_core.errors import FrameworkMissingError
from carriage_lab.trace import LabError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from carriage_core import ControlPlane
    from carriage_lab.placement import Placement
    from carriage_lab.trace import StackName, Trace
    from carriage_lab.wire import ProviderMessage


class FailedClosedError(LabError):
    """A drop-in refused the call before anything was sent. Counted, never an error of the replay."""

    def __init__(self) -> None:
        """Say that this is an outcome."""
        super().__init__("the drop-in stopped the call.", mend="raise the control budget if this was not wanted.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case[N]:
    """The situation before one model call under one placement.

    Attributes:
        fixed: What the agent itself puts before the history, out of the manager's reach.
        history: What the manager is given.
    """

    fixed: tuple[N, ...]
    history: tuple[N, ...]


class Manager[N](Protocol):
    """A context manager under test."""

    @property
    def name(self) -> str:
        """Its name in the tables, after paper Table VI; ``ours`` for the drop-ins of this project."""

    @property
    def ours(self) -> bool:
        """Whether the policy reaches it through a control plane."""

    @property
    def by_rho(self) -> bool:
        """Whether its configuration depends on rho; if not, one assembly is valid for every rho."""

    def assemble(self, case: Case[N], rho: float) -> Sequence[N]:
        """Return all that is sent for this call, `Case.fixed` included.

        Raises:
            FailedClosedError: No call is made.
        """


class Session[N](Protocol):
    """One trace on one stack."""

    @property
    def managers(self) -> Sequence[Manager[N]]:
        """The managers under test, fresh for this trace."""

    def case(self, placement: Placement, length: int, *, ours: bool) -> Case[N]:
        """Return the situation before the call that `length` history items precede.

        `ours` differs only for the protected placement: there the policy is in the registry and nowhere else.
        """

    def provider(self, messages: Sequence[N]) -> tuple[ProviderMessage, ...]:
        """Return `messages` as they go to the provider; equal input objects give the same output objects."""


class Stack[N](Protocol):
    """One framework."""

    @property
    def managers(self) -> tuple[tuple[str, bool], ...]:
        """(name, ours) of every manager, in table order."""

    def open(self, trace: Trace) -> Session[N]:
        """Build the framework's objects of `trace`.

        Raises:
            TraceFormatError: The framework does not accept a record.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What every stack of one replay shares.

    Attributes:
        policy: The text that is placed natively; the same text is in the registry of `control`.
        count: Tokens of a text.
        control: Builds a control plane for a model's window, in tokens.
    """

    policy: str
    count: Callable[[str], int]
    control: Callable[[int], ControlPlane]


WINDOWS: Final[Mapping[StackName, int]] = {"autogen": 128_000, "openhands": 200_000}
"""Context windows of the models that made the recorded runs; a drop-in gets no other bound on data."""

_MODULES: dict[StackName, tuple[str, str]] = {
    "autogen": ("carriage_lab.managers_autogen", "autogen_core"),
    "openhands": ("carriage_lab.managers_openhands", "openhands"),
}


def open_stack(name: StackName, bench: Bench) -> Stack[object]:
    """Load the stack of that name.

    Raises:
        FrameworkMissingError: Its framework is not installed. Any other missing module is a fault and passes.
    """
    module, framework = _MODULES[name]
    try:
        stack: Stack[object] = importlib.import_module(module).open_stack(bench)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != framework:
            raise
        raise FrameworkMissingError(name, error.name or framework) from error
    return stack
