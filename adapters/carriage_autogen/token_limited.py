# SPDX-License-Identifier: Apache-2.0
"""The token-limited drop-in: the native limit for data, counted once per message instead of anew for every cut."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, override

from autogen_core import Component, ComponentModel
from autogen_core.model_context import TokenLimitedChatCompletionContext
from autogen_core.models import ChatCompletionClient, LLMMessage, UserMessage
from autogen_core.tools import ToolSchema
from pydantic import BaseModel

from carriage_autogen.context import ControlContext, references
from carriage_autogen.selection import Frame
from carriage_core import ControlPlane, find_plane

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

    from carriage_autogen.overload import OnOverload

_PROBE: Final = UserMessage(content="one two three four", source="probe")


class ClientCount:
    """Counts with the user's client where that can be trusted, with the plane where not.

    Some clients answer 0 for everything, and some raise on text that names a special token. `token_limit` is a wish,
    the window is the bound: it is always counted by the plane.
    """

    def __init__(self, client: ChatCompletionClient, tools: Sequence[ToolSchema]) -> None:
        """Ask `client` once whether it counts at all, and what the tools of every call cost."""
        self._client = client
        # Some clients add a constant to every count; it belongs to the call, not to each message.
        self.base = max(0, self._asked([], tools) or 0)
        self._each = max(0, self._asked([], ()) or 0)
        self._counts = (self._asked([_PROBE], ()) or 0) > self._each

    def _asked(self, messages: Sequence[LLMMessage], tools: Sequence[ToolSchema]) -> int | None:
        try:
            return self._client.count_tokens(messages, tools=tools)
        except Exception:  # noqa: BLE001  # whatever a client's counter raises, the plane's counts instead
            return None

    def __call__(self, message: LLMMessage, plane_tokens: int) -> int:
        """Count one message; `plane_tokens` is what it is where the client cannot say."""
        if not self._counts:
            return plane_tokens
        tokens = self._asked([message], ())
        return plane_tokens if tokens is None or tokens <= self._each else tokens - self._each

    def remaining(self, tools: Sequence[ToolSchema]) -> int | None:
        """The client's window for an empty prompt, None where it does not know one."""
        try:
            left = self._client.remaining_tokens([], tools=tools)
        except Exception:  # noqa: BLE001  # unknown models raise
            return None
        return left if left > 0 else None


class ControlTokenLimitedChatCompletionContextConfig(BaseModel):
    """Component config: the native fields, and the digest that finds the control plane again."""

    model_client: ComponentModel
    token_limit: int | None = None
    tool_schema: list[ToolSchema] | None = None
    initial_messages: list[LLMMessage] | None = None
    control_reference: str
    policy_file: str | None = None


class ControlTokenLimitedChatCompletionContext(
    ControlContext, TokenLimitedChatCompletionContext, Component[ControlTokenLimitedChatCompletionContextConfig]
):
    """AutoGen's `TokenLimitedChatCompletionContext`: within `token_limit`, messages go from the middle first.

    `token_limit` bounds the data alone, in the client's own count; the capsule counts against the plane's control
    budget, and all of it together against the plane's window.
    """

    component_config_schema = ControlTokenLimitedChatCompletionContextConfig  # type: ignore[assignment]  # by design
    component_provider_override = "carriage_autogen.ControlTokenLimitedChatCompletionContext"

    def __init__(
        self,
        model_client: ChatCompletionClient,
        *,
        token_limit: int | None = None,
        tool_schema: list[ToolSchema] | None = None,
        initial_messages: list[LLMMessage] | None = None,
        control: ControlPlane,
        on_overload: OnOverload = None,
    ) -> None:
        """Make the context.

        Args:
            model_client: Counts the data.
            token_limit: Most tokens of data; None for what the client's own window leaves.
            tool_schema: Tools that count against the limit.
            initial_messages: Messages the context starts with.
            control: The control plane, as the actor of the agent that will use this context.
            on_overload: What happens where the complete set does not fit; None raises.

        Raises:
            ValueError: `token_limit` is not positive.
        """
        super().__init__(
            model_client, token_limit=token_limit, tool_schema=tool_schema, initial_messages=initial_messages
        )
        count = ClientCount(model_client, self._tool_schema)
        self._limit = count.remaining(self._tool_schema) if token_limit is None else max(0, token_limit - count.base)
        self._carry(control, initial_messages, on_overload=on_overload, native=count)

    @override
    def _frame(self) -> Frame:
        return Frame(head=None, tail=None, limit=self._limit)

    @override
    async def _native_messages(self) -> list[LLMMessage]:
        return await TokenLimitedChatCompletionContext.get_messages(self)

    @override
    def _to_config(self) -> ControlTokenLimitedChatCompletionContextConfig:  # type: ignore[override]  # its own schema
        return ControlTokenLimitedChatCompletionContextConfig(
            model_client=self._model_client.dump_component(),
            token_limit=self._token_limit,
            tool_schema=self._tool_schema,
            initial_messages=self._initial_messages,
            **references(self._control),
        )

    @classmethod
    @override
    def _from_config(cls, config: ControlTokenLimitedChatCompletionContextConfig) -> Self:  # type: ignore[override]
        return cls(
            ChatCompletionClient.load_component(config.model_client),
            token_limit=config.token_limit,
            tool_schema=config.tool_schema,
            initial_messages=config.initial_messages,
            control=find_plane(config.control_reference, source=config.policy_file),
        )
