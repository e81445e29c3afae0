# SPDX-License-Identifier: Apache-2.0
"""A model client that makes no call without the complete control set (paper V-B; research on AutoGen, section 0).

A context covers the agents that use one. Selectors, Magentic-One's orchestrator, retries of a code executor, a
society's last answer and an MCP server's sampling go straight to the client, so the last gate stands here.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Final, Literal, override

from autogen_core import CancellationToken, Component, ComponentModel
from autogen_core.models import ChatCompletionClient, CreateResult, LLMMessage, ModelInfo, RequestUsage
from pydantic import BaseModel

from carriage_autogen.checkpoint import AnyTool, Checkpoint, Request, check_arguments
from carriage_autogen.context import ATTEMPTS, references
from carriage_autogen.overload import OnOverload, Terms, assembled
from carriage_autogen.sizes import size_of
from carriage_core import ControlError, ControlPlane, Mode, StaleCapsuleError, find_plane

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
    from typing import Self

type ToolChoice = AnyTool | Literal["auto", "required", "none"]

_NO_ARGUMENTS: Final[Mapping[str, Any]] = {}


class ControlledChatCompletionClientConfig(BaseModel):
    """Component config: the inner client, and the digest that finds the control plane again."""

    client: ComponentModel
    system_texts: list[str] | None = None
    control_reference: str
    policy_file: str | None = None


class ControlledChatCompletionClient(ChatCompletionClient, Component[ControlledChatCompletionClientConfig]):
    """Any model client behind a checkpoint.

    Every outgoing call has one system message, which starts with the capsule. A capsule that a drop-in context has
    placed is taken out first, so that it is there once. System messages that stand elsewhere become data, and calls
    and results are completed in pairs. What does not fit raises before anything is sent. It shortens nothing: that
    is a context's work.
    """

    component_type = "model"
    component_config_schema = ControlledChatCompletionClientConfig
    component_provider_override = "carriage_autogen.ControlledChatCompletionClient"

    def __init__(
        self,
        client: ChatCompletionClient,
        *,
        control: ControlPlane,
        on_overload: OnOverload = None,
        system_texts: Collection[str] | None = None,
        tools: Callable[[], Sequence[str] | None] | None = None,
    ) -> None:
        """Make the client.

        Args:
            client: The client that makes the calls.
            control: The control plane, as the actor whose calls these are. Agents that share a client need one
                checkpoint each.
            on_overload: What happens where the complete set does not fit; None raises.
            system_texts: System texts that are the operator's; others become data. None trusts those at the head.
            tools: Asks for the names of the actor's tools, for calls that offer none.

        Raises:
            TypeError: `client` is a checkpoint already.
        """
        if isinstance(client, ControlledChatCompletionClient):
            raise TypeError("the client is a checkpoint already; wrap what is inside it.")
        self._client = client
        self._control = control
        self._on_overload = on_overload
        self._system_texts = system_texts
        self._checkpoint = Checkpoint(control, system_texts=system_texts, tools=tools)

    @property
    def control(self) -> ControlPlane:
        """The control plane."""
        return self._control

    @property
    def client(self) -> ChatCompletionClient:
        """The client that makes the calls."""
        return self._client

    async def _prepared(
        self, messages: Sequence[LLMMessage], tools: Sequence[AnyTool], extra: Mapping[str, Any]
    ) -> Request:
        def attempt(terms: Terms) -> Request:
            check_arguments(extra)
            return self._checkpoint.prepared(messages, tools, terms)

        candidates = self._checkpoint.candidates(tools)
        # 3.13: observe mode asks nobody for anything.
        on_overload = self._on_overload if self._control.mode is Mode.ENFORCE else None
        try:
            for _ in range(ATTEMPTS - 1):
                try:
                    return await assembled(attempt, self._control, candidates, on_overload)
                except StaleCapsuleError:
                    continue
            return await assembled(attempt, self._control, candidates, on_overload)
        except ControlError as problem:
            if not self._control.would_fail(problem):
                raise
            return Request(messages=list(messages), tools=list(tools))

    @override
    async def create(
        self,
        messages: Sequence[LLMMessage],
        *,
        tools: Sequence[AnyTool] = (),
        tool_choice: ToolChoice = "auto",
        json_output: bool | type[BaseModel] | None = None,
        extra_create_args: Mapping[str, Any] = _NO_ARGUMENTS,
        cancellation_token: CancellationToken | None = None,
    ) -> CreateResult:
        """Make one call, or none.

        Raises:
            ControlOverloadError: The complete policy set, or the whole assembly, does not fit.
            ControlError: Something else kept the assembly from being checked or recorded.
        """
        request = await self._prepared(messages, tools, extra_create_args)
        more = _choice(tool_choice)
        return await self._client.create(
            request.messages,
            tools=request.tools,
            json_output=json_output,
            extra_create_args=extra_create_args,
            cancellation_token=cancellation_token,
            **more,
        )

    @override
    async def create_stream(
        self,
        messages: Sequence[LLMMessage],
        *,
        tools: Sequence[AnyTool] = (),
        tool_choice: ToolChoice = "auto",
        json_output: bool | type[BaseModel] | None = None,
        extra_create_args: Mapping[str, Any] = _NO_ARGUMENTS,
        cancellation_token: CancellationToken | None = None,
    ) -> AsyncGenerator[str | CreateResult, None]:
        """Make one call and hand on its chunks, or make none; raises as `create` does, before the first chunk."""
        request = await self._prepared(messages, tools, extra_create_args)
        async for chunk in self._client.create_stream(
            request.messages,
            tools=request.tools,
            json_output=json_output,
            extra_create_args=extra_create_args,
            cancellation_token=cancellation_token,
            **_choice(tool_choice),
        ):
            yield chunk

    # -- measuring -------------------------------------------------------------------------------

    @override
    def count_tokens(self, messages: Sequence[LLMMessage], *, tools: Sequence[AnyTool] = ()) -> int:
        """Count with the inner client; with the plane where that raises or answers nothing for something."""
        try:
            tokens = self._client.count_tokens(messages, tools=tools)
        except Exception:  # noqa: BLE001  # some raise on text that names a special token
            tokens = 0
        if tokens > 0 or not messages:
            return tokens
        return sum(size_of(message, self._control).tokens for message in messages)

    @override
    def remaining_tokens(self, messages: Sequence[LLMMessage], *, tools: Sequence[AnyTool] = ()) -> int:
        """What the inner client and the plane both leave for more data, the capsule taken off."""
        budget = self._control.budget
        ours = budget.effective() - budget.control - self.count_tokens(messages, tools=tools)
        try:
            theirs = self._client.remaining_tokens(messages, tools=tools) - budget.control
        except Exception:  # noqa: BLE001  # unknown models raise
            return ours
        return min(ours, theirs)

    # -- handed on -------------------------------------------------------------------------------

    @override
    async def close(self) -> None:
        await self._client.close()

    @override
    def actual_usage(self) -> RequestUsage:
        return self._client.actual_usage()

    @override
    def total_usage(self) -> RequestUsage:
        return self._client.total_usage()

    @property
    @override
    def capabilities(self) -> Any:
        warnings.warn("capabilities is deprecated, use model_info instead", DeprecationWarning, stacklevel=2)
        return self._client.model_info

    @property
    @override
    def model_info(self) -> ModelInfo:
        """The inner client's, but that one system message is sent, so that AutoGen puts none in the middle."""
        info = self._client.model_info.copy()
        info["multiple_system_messages"] = False
        return info

    @override
    def _to_config(self) -> ControlledChatCompletionClientConfig:
        return ControlledChatCompletionClientConfig(
            client=self._client.dump_component(),
            system_texts=None if self._system_texts is None else sorted(self._system_texts),
            **references(self._control),
        )

    @classmethod
    @override
    def _from_config(cls, config: ControlledChatCompletionClientConfig) -> Self:
        return cls(
            ChatCompletionClient.load_component(config.client),
            control=find_plane(config.control_reference, source=config.policy_file),
            system_texts=config.system_texts,
        )


def _choice(tool_choice: ToolChoice) -> dict[str, Any]:
    """Hand on a choice that was made; older clients of users do not know the argument."""
    return {} if tool_choice == "auto" else {"tool_choice": tool_choice}
