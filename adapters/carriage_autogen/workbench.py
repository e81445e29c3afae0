# SPDX-License-Identifier: Apache-2.0
"""A workbench that asks the monitor before every tool call (paper V-B; DESIGN 3.10).

It never raises while a tool is called: AutoGen's agent hangs on an exception there. A denial, a fault and a
cancellation are all results the model can read. `call_tool` and `call_tool_stream` are one path.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, override

from autogen_core import CancellationToken, Component, ComponentModel
from autogen_core.tools import (
    BaseTool,
    FunctionTool,
    StaticStreamWorkbench,
    StaticWorkbench,
    StreamTool,
    ToolResult,
    ToolSchema,
    Workbench,
)
from autogen_core.tools._workbench import StreamWorkbench  # not exported
from pydantic import BaseModel, ValidationError

from carriage_autogen.confirming import Call, Confirm, Confirmation
from carriage_autogen.context import references
from carriage_autogen.results import bound_of, error, for_the_model
from carriage_autogen.settling import Run, leaving_task
from carriage_core import ControlPlane, Outcome, find_plane

if TYPE_CHECKING:
    from typing import Self

type AnyTool = BaseTool[Any, Any] | Callable[..., Any]


class GuardedWorkbenchConfig(BaseModel):
    """Component config: the tools or inner workbenches, and the digest of the control plane."""

    tools: list[ComponentModel] = []
    workbenches: list[ComponentModel] = []
    result_tokens: int | None = None
    control_reference: str
    policy_file: str | None = None


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
        tools_or_workbench: Workbench | Sequence[AnyTool | Workbench],
        *,
        control: ControlPlane,
        confirm: Confirm | None = None,
        result_tokens: int | None = None,
    ) -> None:
        """Make the workbench.

        Args:
            tools_or_workbench: Functions and tools, workbenches to guard, or both. Tools inside another workbench give
                text only, so they provide no evidence.
            control: The control plane, as the actor of the agent that will use it.
            confirm: Asks a person about calls that need an approval: a `UserProxyAgent`, or an async callable. None
                denies them until somebody files one with `ControlPlane.approve`.
            result_tokens: Most tokens of one result; longer ones are cut, and say so. None for a quarter of what the
                plane's window leaves for data, so that no result makes the call after it overflow.

        Raises:
            ToolBindingError: Two tools share a name, or a binding names an argument that its tool lacks.
            TypeError: Something is neither a tool nor a workbench.
        """
        given = [tools_or_workbench] if isinstance(tools_or_workbench, Workbench) else list(tools_or_workbench)
        self._inner: list[Workbench] = [item for item in given if isinstance(item, Workbench)]
        tools = [_as_tool(item) for item in given if not isinstance(item, Workbench)]
        super().__init__(tools)
        self._control = control
        self._confirmation = None if confirm is None else Confirmation(confirm)
        self._result_tokens = result_tokens
        self._bound = bound_of(control) if result_tokens is None else result_tokens
        self._schemas: list[ToolSchema] = [tool.schema for tool in tools]
        self._by_name = {tool.name: tool for tool in tools}
        self._listed: list[ToolSchema] | None = None
        self._owners: dict[str, Workbench] = {}
        self._fault: str | None = None
        if not self._inner:
            self._learn(self._schemas, {})

    @property
    def control(self) -> ControlPlane:
        """The control plane."""
        return self._control

    @property
    def guarded(self) -> tuple[BaseTool[Any, Any] | Workbench, ...]:
        """The tools and workbenches it was made of."""
        return (*self._by_name.values(), *self._inner)

    def known(self) -> tuple[str, ...] | None:
        """Names of the tools as last listed, None before the first listing."""
        return None if self._listed is None else tuple(schema["name"] for schema in self._listed)

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
            schemas = list(self._schemas)
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
        return result or error(name, "The tool gave no result; its outcome is unknown.")

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
            call = Call(tool=name, arguments=judged, call_id=call_id, server=self._server(name))
            if self._confirmation is not None and problem is None:
                verdict = call.check(self._control)
                if verdict.outcome is Outcome.CONFIRM:
                    asked = self._confirmation.event()
                    if asked is not None:
                        yield asked
                    await self._confirmation.approved(self._control, verdict, call, asked, token)
            decision = call.authorize(self._control)
        except asyncio.CancelledError:
            if leaving_task():
                raise
            yield error(name, "The call was cancelled while a person was asked; it was not executed.")
            return
        except Exception as fault:  # noqa: BLE001  # invariant 11: a fault is a denial
            yield error(
                name,
                f"POLICY_DENIED internal_fault: the guard failed ({type(fault).__name__}); not executed.",
            )
            return
        if not decision.allowed:
            yield error(name, decision.refusal)
            return
        run = Run(self._control, decision)
        if problem is not None or self._fault is not None:
            yield run.refuse(problem or f"POLICY_DENIED internal_fault: listing tools failed ({self._fault}).")
            return
        try:
            with run:
                async for event in self._execute(run, token):
                    yield event
        except Exception as fault:  # noqa: BLE001  # the agent would hang; the run settled what happened
            yield error(name, f"{type(fault).__name__} while the tool ran; its outcome is unknown.")
            return
        yield for_the_model(run.result(), self._control, self._bound)

    def _server(self, name: str) -> str | None:
        """Name the MCP server a tool comes from, as bindings name it: its address, or the command that starts it."""
        params = getattr(self._owners.get(name), "server_params", None)
        url, command = getattr(params, "url", None), getattr(params, "command", None)
        if isinstance(url, str):
            return url
        return " ".join((command, *getattr(params, "args", ()))) if isinstance(command, str) else None

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

    async def _execute(self, run: Run, token: CancellationToken) -> AsyncGenerator[Any, None]:
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

    async def _execute_inner(self, run: Run, token: CancellationToken) -> AsyncGenerator[Any, None]:
        call, arguments = run.decision.call, run.decision.arguments
        owner = self._owners.get(call.tool)
        if owner is None:
            run.not_started(f"Tool {call.tool} not found.")
            return
        result: ToolResult | None = None
        # Renamed tools are "not found" in the native stream; AutoGen 0.6.2 has no renaming.
        renamed = isinstance(owner, StaticWorkbench) and bool(getattr(owner, "_tool_overrides", None))
        if isinstance(owner, StreamWorkbench) and not renamed:
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
        return {**await super().save_state(), "workbenches": [await inner.save_state() for inner in self._inner]}

    @override
    async def load_state(self, state: Mapping[str, Any]) -> None:
        await super().load_state(state)
        for inner, saved in zip(self._inner, state.get("workbenches", []), strict=True):
            await inner.load_state(saved)

    @override
    def _to_config(self) -> GuardedWorkbenchConfig:  # type: ignore[override]  # its own schema, by design
        return GuardedWorkbenchConfig(
            tools=[tool.dump_component() for tool in self._by_name.values()],
            workbenches=[inner.dump_component() for inner in self._inner],
            result_tokens=self._result_tokens,
            **references(self._control),
        )

    @classmethod
    @override
    def _from_config(cls, config: GuardedWorkbenchConfig) -> Self:  # type: ignore[override]  # its own schema
        inner = [Workbench.load_component(each) for each in config.workbenches]
        tools: list[BaseTool[Any, Any]] = [BaseTool.load_component(each) for each in config.tools]
        control = find_plane(config.control_reference, source=config.policy_file)
        return cls([*tools, *inner], control=control, result_tokens=config.result_tokens)


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
