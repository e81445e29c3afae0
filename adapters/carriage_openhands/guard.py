# SPDX-License-Identifier: Apache-2.0
"""The guard around a tool's executor: no call runs without a decision made before it (DESIGN 3.10, invariant 10).

Every path of the SDK ends in an executor: the loop, parallel and async batches, actions pending after a crash,
`execute_tool` and `rerun_actions`. A refusal is a `ValueError`, which the SDK shows to the model as the call's
result, so calls stay paired and the run goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, override

from carriage_core import Decision, Settlement
from carriage_openhands.compat import (
    Action,
    Observation,
    ToolDefinition,
    ToolExecutor,
    arguments_of,
    call_id_of,
    executed_form,
    masked,
    result_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from openhands.sdk.conversation import LocalConversation

    from carriage_core import ControlPlane


class PolicyDenied(ValueError):  # noqa: N818  # a verdict, not a fault
    """A call was denied and did not run. Its text is what the model is told.

    Attributes:
        decision: The recorded decision.
    """

    def __init__(self, decision: Decision, refusal: str) -> None:
        """Say `refusal`, which holds no secret."""
        super().__init__(refusal)
        self.decision = decision


class GuardedExecutor(ToolExecutor[Action, Observation]):
    """Runs a tool's own executor for calls that the plane authorises, and for no other."""

    def __init__(self, tool: ToolDefinition[Any, Any], control: Callable[[], ControlPlane]) -> None:
        """Guard `tool`; `control` finds the plane at each call, and raises where there is none.

        Raises:
            NotImplementedError: The tool has no executor.
        """
        self.guarded_tool = tool
        self._inner = tool.as_executable().executor
        self._name = tool.name
        self._observation_type = tool.observation_type
        self._control = control

    @override
    def __call__(self, action: Action, conversation: LocalConversation | None = None) -> Any:
        """Judge, run, report back.

        Raises:
            PolicyDenied: The call is not allowed; nothing ran.
            ControlNotFoundError: There is no plane to ask; nothing ran.
        """
        plane = self._control()
        call_id = call_id_of(action, conversation)
        judged = executed_form(action, conversation)
        decision = plane.authorize(self._name, arguments_of(judged), call_id=call_id)
        if not decision.allowed:
            raise PolicyDenied(decision, masked(decision.refusal, conversation))
        try:
            result = self._inner(judged, conversation)
            observation = self._observed(result)
        except Exception:
            plane.settle(decision, Settlement.FAILED)
            raise
        except BaseException:
            # An interrupt or a cancellation: nobody knows how far the tool came.
            plane.settle(decision, Settlement.UNKNOWN)
            raise
        if observation.is_error:
            plane.settle(decision, Settlement.FAILED)
        else:
            plane.settle(decision, Settlement.EXECUTED, result_of(observation))
        return result

    def _observed(self, result: object) -> Observation:
        """Validate what the executor returned as the SDK will; evidence is read from nothing else (DESIGN 3.5)."""
        if isinstance(result, Observation):
            return result
        return (self._observation_type or Observation).model_validate(result)

    def __getattr__(self, name: str) -> object:
        """Pass on what a tool or a caller asks its executor for; only calling it is guarded."""
        if name.startswith("_"):
            raise AttributeError(name)
        found: object = getattr(self._inner, name)
        return found

    @override
    def close(self) -> None:
        self._inner.close()

    @override
    def interrupt(self) -> None:
        self._inner.interrupt()


def guard(tool: ToolDefinition[Any, Any], control: Callable[[], ControlPlane]) -> ToolDefinition[Any, Any]:
    """Return a copy of a tool that is guarded once, by the plane that `control` finds.

    A tool that another guard was put around is taken out of it: its call would be judged twice, and the second time be
    taken for a replay.
    """
    inner = tool.executor.guarded_tool if isinstance(tool.executor, GuardedExecutor) else tool
    return inner if inner.executor is None else inner.set_executor(GuardedExecutor(inner, control))
