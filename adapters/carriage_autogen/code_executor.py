# SPDX-License-Identifier: Apache-2.0
"""A code executor that asks the monitor about every block before the first one runs.

AutoGen's own approval of a `CodeExecutorAgent` is one answer for all blocks joined, and covers that agent only. This
stands at the executor, so it covers tools that execute code as well.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, override

from autogen_core import CancellationToken, Component, ComponentModel
from autogen_core.code_executor import CodeBlock, CodeExecutor, CodeResult
from pydantic import BaseModel

from carriage_autogen.bindings import SHELL, SHELL_TOOL, code_spec, code_tool
from carriage_autogen.confirming import Call, Confirm, Confirmation
from carriage_autogen.context import references
from carriage_autogen.results import NOT_MEASURED, bound_of
from carriage_autogen.settling import leaving_task
from carriage_autogen.shortening import cut_text
from carriage_core import CarriageError, ControlError, ControlPlane, Decision, Outcome, Settlement, find_plane

if TYPE_CHECKING:
    from typing import Self


class GuardedCodeExecutorConfig(BaseModel):
    """Component config: the inner executor, and the digest that finds the control plane again."""

    executor: ComponentModel
    control_reference: str
    policy_file: str | None = None


class GuardedCodeExecutor(CodeExecutor, Component[GuardedCodeExecutorConfig]):
    """Any code executor behind the reference monitor.

    A block is judged as a call of a tool named after its language, with the argument `code`: `execute_python`,
    `execute_shell` for sh, bash and zsh, and so on. Shell blocks are judged by the commands they would run. All blocks
    are judged before the first one runs; if one may not run, none does.
    """

    component_config_schema = GuardedCodeExecutorConfig
    component_provider_override = "carriage_autogen.GuardedCodeExecutor"

    def __init__(self, executor: CodeExecutor, *, control: ControlPlane, confirm: Confirm | None = None) -> None:
        """Make the executor.

        Args:
            executor: The executor that runs what may run.
            control: The control plane, as the actor of the agent that will use it.
            confirm: Asks a person about blocks that need an approval, as for `GuardedWorkbench`.
        """
        self._executor = executor
        self._control = control
        self._confirmation = None if confirm is None else Confirmation(confirm)
        self._bound = bound_of(control)
        if SHELL_TOOL not in control.registry.bindings:
            control.bind([SHELL])

    @property
    def control(self) -> ControlPlane:
        """The control plane."""
        return self._control

    @property
    def executor(self) -> CodeExecutor:
        """The executor that runs what may run."""
        return self._executor

    @override
    async def execute_code_blocks(
        self, code_blocks: list[CodeBlock], cancellation_token: CancellationToken
    ) -> CodeResult:
        """Run all blocks, if the monitor allows each of them.

        Returns:
            The inner executor's result, or one with exit code 1 whose output starts with ``POLICY_DENIED``.

        Raises:
            Exception: Whatever the inner executor raises; the log then says that the outcome is unknown.
        """
        # What is judged is what runs: the caller may hold on to its blocks.
        blocks = [CodeBlock(code=block.code, language=block.language) for block in code_blocks]
        decisions: list[Decision] = []
        try:
            for block in blocks:
                decision = await self._decided(block, cancellation_token)
                if not decision.allowed:
                    return self._refused(decisions, decision.refusal)
                decisions.append(decision)
        except asyncio.CancelledError:
            refused = self._refused(decisions, "Cancelled while a person was asked; nothing was executed.")
            if leaving_task():
                raise
            return refused
        except Exception as fault:  # noqa: BLE001  # invariant 11: a fault is a denial
            text = f"POLICY_DENIED internal_fault: the guard failed ({type(fault).__name__}); nothing was executed."
            return self._refused(decisions, text)
        return await self._executed(blocks, decisions, cancellation_token)

    async def _decided(self, block: CodeBlock, token: CancellationToken) -> Decision:
        tool = code_tool(block.language)
        self._control.offer([code_spec(tool)])
        call = Call(tool=tool, arguments={"code": block.code}, call_id=None)
        if self._confirmation is not None:
            verdict = call.check(self._control)
            if verdict.outcome is Outcome.CONFIRM:
                await self._confirmation.approved(self._control, verdict, call, self._confirmation.event(), token)
        return call.authorize(self._control)

    def _refused(self, decisions: list[Decision], text: str) -> CodeResult:
        for decision in decisions:
            try:
                self._control.settle(decision, Settlement.NOT_STARTED)
            except CarriageError as fault:
                text = f"{text} The refusal could not be recorded ({type(fault).__name__})."
        return CodeResult(exit_code=1, output=text)

    async def _executed(
        self, blocks: list[CodeBlock], decisions: list[Decision], token: CancellationToken
    ) -> CodeResult:
        settlement = Settlement.UNKNOWN
        try:
            result = await self._executor.execute_code_blocks(blocks, token)
            settlement = Settlement.EXECUTED if result.exit_code == 0 else Settlement.FAILED
        finally:
            for decision in decisions:
                self._control.settle(decision, settlement)
        try:
            result.output = cut_text(result.output, self._bound, self._control.count)
        except ControlError:
            result.output = NOT_MEASURED
        return result

    # -- lifecycle, handed on to what is guarded --------------------------------------------------

    @override
    async def start(self) -> None:
        await self._executor.start()

    @override
    async def stop(self) -> None:
        await self._executor.stop()

    @override
    async def restart(self) -> None:
        await self._executor.restart()

    @override
    def _to_config(self) -> GuardedCodeExecutorConfig:
        return GuardedCodeExecutorConfig(executor=self._executor.dump_component(), **references(self._control))

    @classmethod
    @override
    def _from_config(cls, config: GuardedCodeExecutorConfig) -> Self:
        control = find_plane(config.control_reference, source=config.policy_file)
        return cls(CodeExecutor.load_component(config.executor), control=control)
