# SPDX-License-Identifier: Apache-2.0
"""Handoffs behind the reference monitor.

AutoGen runs a handoff tool outside every workbench, and hands over whenever the model names one, whatever the tool
returned. So two things are put into an agent: tools that judge, and a table of handoffs from which a refused one is
missing until its next allowed call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, override

from autogen_core.tools import BaseTool
from pydantic import BaseModel

from carriage_autogen.bindings import handoff
from carriage_autogen.confirming import Call, Confirm, Confirmation
from carriage_autogen.settling import leaving_task
from carriage_core import ControlPlane, Outcome, Settlement

if TYPE_CHECKING:
    from autogen_agentchat.agents import AssistantAgent
    from autogen_agentchat.base import Handoff
    from autogen_core import CancellationToken


class GuardedHandoffs(dict[str, "Handoff"]):
    """An agent's handoffs by tool name; one whose latest call was refused is not among them."""

    def __init__(self, handoffs: Mapping[str, Handoff], refused: set[str]) -> None:
        """Hold `handoffs`; `refused` is shared with their tools."""
        super().__init__(handoffs)
        self._refused = refused

    @override
    def __contains__(self, name: object) -> bool:
        return name not in self._refused and super().__contains__(name)


class GuardedHandoffTool(BaseTool[BaseModel, BaseModel]):
    """A handoff tool that judges first. It never raises: AutoGen's agent hangs on an exception of a handoff."""

    def __init__(
        self, tool: BaseTool[Any, Any], control: ControlPlane, refused: set[str], confirmation: Confirmation | None
    ) -> None:
        """Guard `tool`; its name is in `refused` while its latest call was not allowed."""
        super().__init__(
            args_type=tool.args_type(),
            return_type=tool.return_type(),
            name=tool.name,
            description=tool.description,
            strict=bool(tool.schema.get("strict", False)),
        )
        self._tool = tool
        self._control = control
        self._refused = refused
        self._confirmation = confirmation

    @property
    def control(self) -> ControlPlane:
        """The control plane."""
        return self._control

    @override
    async def run(self, args: BaseModel, cancellation_token: CancellationToken) -> Any:
        return await self.run_json(args.model_dump(), cancellation_token)

    @override
    async def run_json(
        self, args: Mapping[str, Any], cancellation_token: CancellationToken, call_id: str | None = None
    ) -> Any:
        """Hand over if the monitor allows it; otherwise return why not, and make the agent stay."""
        self._refused.add(self.name)
        try:
            if not isinstance(args, Mapping):
                return "POLICY_DENIED bad_arguments: the arguments are not an object; not executed."
            call = Call(tool=self.name, arguments=args, call_id=call_id)
            if self._confirmation is not None:
                verdict = call.check(self._control)
                if verdict.outcome is Outcome.CONFIRM:
                    await self._confirmation.approved(
                        self._control, verdict, call, self._confirmation.event(), cancellation_token
                    )
            decision = call.authorize(self._control)
            if not decision.allowed:
                return decision.refusal
            value = await self._tool.run_json(decision.arguments, cancellation_token)
            self._control.settle(decision, Settlement.EXECUTED)
        except asyncio.CancelledError:
            if leaving_task():
                raise
            return "The handoff was cancelled; not executed."
        except Exception as fault:  # noqa: BLE001  # invariant 11: a fault is a denial
            return f"POLICY_DENIED internal_fault: the handoff failed ({type(fault).__name__}); not executed."
        self._refused.discard(self.name)
        return value

    @override
    def return_value_as_string(self, value: Any) -> str:
        return str(value)


def guard_handoffs(agent: AssistantAgent, control: ControlPlane, *, confirm: Confirm | None = None) -> None:
    """Put every handoff of `agent` behind the monitor, under the shipped bindings where the operator has none.

    Args:
        agent: The agent.
        control: The control plane, as the actor of the agent.
        confirm: Asks a person about handoffs that need an approval, as for `GuardedWorkbench`.

    Raises:
        ToolBindingError: A handoff has the name of another tool.
    """
    tools: list[BaseTool[Any, Any]] = agent._handoff_tools  # noqa: SLF001  # AutoGen has no other way to them
    if not tools or all(isinstance(tool, GuardedHandoffTool) for tool in tools):
        return
    handoffs: Mapping[str, Handoff] = agent._handoffs  # noqa: SLF001  # the same
    control.bind(handoff(name, each.target) for name, each in handoffs.items())
    refused = set(handoffs)  # until an allowed run: AutoGen hands over on a call it could not even parse
    confirmation = None if confirm is None else Confirmation(confirm)
    agent._handoff_tools = [  # noqa: SLF001
        GuardedHandoffTool(_unguarded(tool), control, refused, confirmation) for tool in tools
    ]
    agent._handoffs = GuardedHandoffs(handoffs, refused)  # noqa: SLF001  # the same
    control.offer(tool.schema for tool in tools)


def _unguarded(tool: BaseTool[Any, Any]) -> BaseTool[Any, Any]:
    return tool._tool if isinstance(tool, GuardedHandoffTool) else tool  # noqa: SLF001  # its own module
