# SPDX-License-Identifier: Apache-2.0
"""A workbench that asks the monitor before every tool call (paper V-B; DESIGN 3.10).

It never raises while a tool is called: AutoGen's agent hangs on an exception there. A denial, a fault and a
cancellation are all results the model can read. `call_tool` and `call_tool_stream` are one path.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, override

from autogen_core import CancellationToken, Component, ComponentModel
from autogen_core.tools import (
    BaseTool,
    FunctionTool,
    ImageResultContent,
    StaticStreamWorkbench,
    StaticWorkbench,
    StreamTool,
    TextResultContent,
    ToolResult,
    ToolSchema,
    Workbench,
)
from pydantic import BaseModel, ValidationError

from carriage_core import CarriageError, ControlPlane, Decision, Settlement, find_plane

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

AN_IMAGE: Final = "[an image, which is not shown]"

type AnyTool = BaseTool[Any, Any] | Callable[..., Any]


class GuardedWorkbenchConfig(BaseModel):
    """Component config: the tools or inner workbenches, and the digest of the control plane."""

    tools: list[ComponentModel] = []
    workbenches: list[ComponentModel] = []
    control_reference: str


class GuardedWorkbench(StaticStreamWorkbench, Component[GuardedWorkbenchConfig]):
    """Tools behind the reference monitor.

    A call is judged on validated arguments, and exactly those are executed. Every proposed call has one decision
    record, written before the tool runs. Results of tools declared `trusted_evidence` are filed as evidence before
    they become text. It is a `StaticStreamWorkbench` because that is the only class AssistantAgent streams from.
    """

    component_config_schema = GuardedWorkbenchConfig  # type: ignore[assignment]  # its own schema, by design
    component_provider_override = "carriage_autogen.GuardedWorkbench"

    def __init__(
        self,
        tools_or_workbench: Sequence[AnyTool] | Workbench | Sequence[Workbench],
        *,
        control: ControlPlane,
    ) -> None:
        """Make the workbench.

        Args:
            tools_or_workbench: Functions and tools, or one or several workbenches to guard. Tools inside another
                workbench give text only, so they provide no evidence.
            control: The control plane, as the actor of the agent that will use it.

        Raises:
            ToolBindingError: Two tools share a name, or a binding names an argument that its tool lacks.
            TypeError: Something is neither a tool nor a workbench.
        """
        given = [tools_or_workbench] if isinstance(tools_or_workbench, Workbench) else list(tools_or_workbench)
        self._inner: list[Workbench] = [item for item in given if isinstance(item, Workbench)]
        tools = [_as_tool(item) for item in given if not isinstance(item, Workbench)]
        super().__init__(tools)
        self._control = control
        self._by_name = {tool.name: tool for tool in tools}
        self._listed: list[ToolSchema] | None = None
        self._owners: dict[str, Workbench] = {}
        self._fault: str | None = None
        if not self._inner:
            self._learn([tool.schema for tool in tools], {})
        elif tools:
            raise TypeError("give tools or workbenches, not both; put the tools into a StaticWorkbench.")

    @property
    def control(self) -> ControlPlane:
        """The control plane."""
        return self._control

    def _learn(self, schemas: list[ToolSchema], owners: dict[str, Workbench]) -> None:
        unbound = self._control.offer(schemas)
        if unbound and self._listed is None:
            lines = ", ".join(f"{name}: {{action: none}}" for name in unbound)
            warnings.warn(
                f"tools without a binding, which will be denied: {', '.join(unbound)}. "
                f"Bind each to its action; for a harmless one add under tools: {lines}",
                stacklevel=3,
            )
        self._listed, self._owners = schemas, owners

    @override
    async def list_tools(self) -> list[ToolSchema]:
        """List the tools and keep the plane informed of them.

        Raises:
            ToolBindingError: At first listing only, before any model call; later faults deny the calls instead.
        """
        if not self._inner:
            return list(self._listed or [])
        try:
            schemas: list[ToolSchema] = []
            owners: dict[str, Workbench] = {}
            for inner in self._inner:
                for schema in await inner.list_tools():
                    schemas.append(schema)
                    owners.setdefault(schema["name"], inner)
            if schemas != self._listed:
                self._learn(schemas, owners)
            self._fault = None
        except Exception as fault:
            if self._listed is None:
                raise
            # AutoGen lists again while it executes, where an exception hangs the agent.
            self._fault = type(fault).__name__
        return list(self._listed or [])

    @override
    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        cancellation_token: CancellationToken | None = None,
        call_id: str | None = None,
    ) -> ToolResult:
        """Call a tool if the monitor allows it; never raises but for cancellation of the caller's own task."""
        result: ToolResult | None = None
        async for event in self.call_tool_stream(name, arguments, cancellation_token, call_id):
            if isinstance(event, ToolResult):
                result = event
        return result or _error(name, "The tool gave no result; its outcome is unknown.")

    @override
    async def call_tool_stream(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        cancellation_token: CancellationToken | None = None,
        call_id: str | None = None,
    ) -> AsyncGenerator[Any | ToolResult, None]:
        """Call a tool if the monitor allows it, handing on the events it streams.

        Yields:
            The tool's own events, then one `ToolResult`. A refused call yields only an error result whose text
            starts with ``POLICY_DENIED``.
        """
        token = cancellation_token or CancellationToken()
        try:
            problem, judged = self._validated(name, arguments or {})
            decision = self._control.authorize(name, judged, call_id=call_id)
        except Exception as fault:  # noqa: BLE001  # invariant 11: a fault is a denial
            yield _error(
                name,
                f"POLICY_DENIED internal_fault: the guard failed ({type(fault).__name__}); not executed.",
            )
            return
        if not decision.allowed:
            yield _error(name, decision.refusal)
            return
        run = _Run(self._control, decision)
        if problem is not None or self._fault is not None:
            yield run.refuse(name, problem or f"POLICY_DENIED internal_fault: listing tools failed ({self._fault}).")
            return
        try:
            with run:
                async for event in self._execute(run, token):
                    yield event
        except Exception as fault:  # noqa: BLE001  # the agent would hang; the run settled what happened
            yield _error(name, f"{type(fault).__name__} while the tool ran; its outcome is unknown.")
            return
        yield as_text(run.result(name))

    def _validated(self, name: str, arguments: Mapping[str, Any]) -> tuple[str | None, Mapping[str, Any]]:
        """Coerce as the tool itself will, so that what is judged is what runs."""
        tool = self._by_name.get(name) or _inner_tool(self._owners.get(name), name)
        if tool is None:
            return None, arguments
        kind = tool.args_type()
        try:
            model = kind.model_validate(dict(arguments))
            validated = model.model_dump(mode="json", by_alias=True)
            # The tool validates once more; what it then sees must be what was judged.
            stable = kind.model_validate(validated) == model
        except ValidationError as problem:
            return (
                f"The arguments do not fit the tool's schema: {problem.error_count()} errors; not executed.",
                arguments,
            )
        if not stable:
            return "The tool's arguments change when they are validated again; not executed.", arguments
        # Undeclared keys are for the monitor to see and deny; pydantic would drop them.
        return None, validated if set(arguments) <= set(validated) else arguments

    async def _execute(self, run: _Run, token: CancellationToken) -> AsyncGenerator[Any, None]:
        call, arguments = run.decision.call, run.decision.arguments
        tool = self._by_name.get(call.tool)
        if tool is None:
            async for event in self._execute_inner(run, token):
                yield event
            return
        try:
            if isinstance(tool, StreamTool):
                last: Any = None
                first = True
                async for item in tool.run_json_stream(arguments, token, call_id=call.call_id):
                    if not first:
                        yield last
                    last, first = item, False
                value = last
            else:
                future = asyncio.ensure_future(tool.run_json(arguments, token, call_id=call.call_id))
                token.link_future(future)
                value = await future
        except Exception as problem:  # noqa: BLE001  # as the native workbench does: errors are the model's to read
            run.failed(self._format_errors(problem))
            return
        run.returned(value, tool.return_value_as_string(value))

    async def _execute_inner(self, run: _Run, token: CancellationToken) -> AsyncGenerator[Any, None]:
        call, arguments = run.decision.call, run.decision.arguments
        owner = self._owners.get(call.tool)
        if owner is None:
            run.not_started(f"Tool {call.tool} not found.")
            return
        result: ToolResult | None = None
        # Renamed tools are "not found" in the native stream; AutoGen 0.6.2 has no renaming.
        renamed = bool(getattr(owner, "_tool_overrides", None))
        if isinstance(owner, StaticStreamWorkbench) and not renamed:
            async for event in owner.call_tool_stream(call.tool, arguments, token, call.call_id):
                if isinstance(event, ToolResult):
                    result = event
                else:
                    yield event
        else:
            result = await owner.call_tool(call.tool, arguments, token, call.call_id)
        if result is None:
            run.failed("The tool gave no result; its outcome is unknown.")
        elif result.is_error:
            run.failed(result.to_text(), result)
        else:
            run.returned(None, "", result)

    # -- lifecycle, handed on to what is guarded --------------------------------------------------

    @override
    async def start(self) -> None:
        for inner in self._inner:
            await inner.start()

    @override
    async def stop(self) -> None:
        for inner in self._inner:
            await inner.stop()

    @override
    async def reset(self) -> None:
        for inner in self._inner:
            await inner.reset()

    @override
    async def save_state(self) -> Mapping[str, Any]:
        state = {} if self._inner else await super().save_state()
        return {**state, "workbenches": [await inner.save_state() for inner in self._inner]}

    @override
    async def load_state(self, state: Mapping[str, Any]) -> None:
        if not self._inner:
            await super().load_state(state)
        for inner, saved in zip(self._inner, state.get("workbenches", []), strict=True):
            await inner.load_state(saved)

    @override
    def _to_config(self) -> GuardedWorkbenchConfig:  # type: ignore[override]  # its own schema, by design
        return GuardedWorkbenchConfig(
            tools=[tool.dump_component() for tool in self._by_name.values()],
            workbenches=[inner.dump_component() for inner in self._inner],
            control_reference=self._control.reference,
        )

    @classmethod
    @override
    def _from_config(cls, config: GuardedWorkbenchConfig) -> Self:  # type: ignore[override]  # its own schema
        control = find_plane(config.control_reference)
        if config.workbenches:
            return cls([Workbench.load_component(inner) for inner in config.workbenches], control=control)
        return cls([BaseTool.load_component(tool) for tool in config.tools], control=control)


class _Run:
    """One authorised call: settles it exactly once, however it ends."""

    def __init__(self, control: ControlPlane, decision: Decision) -> None:
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
        task = asyncio.current_task()
        leaving = problem is not None and not (cancelled and task is not None and not task.cancelling())
        try:
            self._control.settle(self.decision, self._settlement, self._value)
        except CarriageError:
            if not leaving:
                raise
        if cancelled and not leaving:
            self._result = _error(self.decision.call.tool, "The call was cancelled; its outcome is unknown.")
        return cancelled and not leaving

    def returned(self, value: object, text: str, result: ToolResult | None = None) -> None:
        name = self.decision.call.tool
        self._settlement, self._value = Settlement.EXECUTED, value
        self._result = result or ToolResult(name=name, result=[TextResultContent(content=text)], is_error=False)

    def failed(self, text: str, result: ToolResult | None = None) -> None:
        self._settlement = Settlement.FAILED
        self._result = result or _error(self.decision.call.tool, text)

    def not_started(self, text: str) -> None:
        self._settlement = Settlement.NOT_STARTED
        self._result = _error(self.decision.call.tool, text)

    def refuse(self, name: str, text: str) -> ToolResult:
        """Settle a call that the guard itself will not start."""
        try:
            self._control.settle(self.decision, Settlement.NOT_STARTED)
        except CarriageError as fault:
            return _error(name, f"{text} The refusal could not be recorded ({type(fault).__name__}).")
        return _error(name, text)

    def result(self, name: str) -> ToolResult:
        return self._result or _error(name, "The tool gave no result; its outcome is unknown.")


def as_text(result: ToolResult) -> ToolResult:
    """Name the images in a result: AutoGen's agents write them out as base64, which floods the prompt unseen."""
    if not any(isinstance(part, ImageResultContent) for part in result.result):
        return result
    parts = [
        TextResultContent(content=AN_IMAGE) if isinstance(part, ImageResultContent) else part for part in result.result
    ]
    return result.model_copy(update={"result": parts})


def _inner_tool(owner: Workbench | None, name: str) -> BaseTool[Any, Any] | None:
    """Find the tool that a static workbench will validate a call of `name` with; others validate on their own side."""
    if not isinstance(owner, StaticWorkbench):
        return None
    renamed: Mapping[str, str] = getattr(owner, "_override_name_to_original", {})
    original = renamed.get(name, name)
    return next((tool for tool in owner._tools if tool.name == original), None)  # noqa: SLF001  # it has no accessor


def _as_tool(item: AnyTool) -> BaseTool[Any, Any]:
    if isinstance(item, BaseTool):
        return item
    if callable(item):
        return FunctionTool(item, description=item.__doc__ or "")
    raise TypeError(f"a {type(item).__name__} is neither a tool nor a workbench.")


def _error(name: str, text: str) -> ToolResult:
    return ToolResult(name=name, result=[TextResultContent(content=text)], is_error=True)
