# SPDX-License-Identifier: Apache-2.0
"""What every control-carrying model context does, whatever it shows of its history.

The capsule is rendered at `get_messages` and never stored, so it can be neither evicted nor summarised, nor come
back stale from a saved state (DESIGN 3.7). Preflight runs inside the same call: if the complete set does not
fit, `get_messages` raises and AutoGen makes no model call.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Final, override

from autogen_core.model_context import ChatCompletionContext
from autogen_core.models import LLMMessage, SystemMessage

from carriage_autogen.history import History, NativeSize
from carriage_autogen.overload import OnOverload, Terms, assembled
from carriage_autogen.placement import copy_last_answer, head_message, without_capsule
from carriage_autogen.selection import Frame, Window, select
from carriage_autogen.sizes import MESSAGE_OVERHEAD, size_of
from carriage_core import Assembly, ControlCapsule, ControlError, ControlPlane, Mode, StaleCapsuleError, find_plane

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

REFERENCE: Final = "control_reference"
"""Key of a saved state that names the control plane."""

SOURCE: Final = "policy_file"
"""Key of a saved state that names the file the plane was made from, so that an error can say which to load."""

ATTEMPTS: Final = 3
"""How often an assembly is made anew because a policy changed meanwhile, before the call fails."""


class ControlContext(ChatCompletionContext):
    """A model context that carries a control plane. Subclasses say what of the history is shown.

    Three things differ from the native classes, each because those send a prompt that providers refuse or that
    forgets control: rounds of calls and results are never split, the newest round is never dropped, and system
    messages from the history go to the model as data. System messages given as `initial_messages` stay at the
    head, after the capsule; all of `initial_messages` come back after `clear`.
    """

    def _carry(
        self,
        control: ControlPlane,
        initial_messages: Sequence[LLMMessage] | None,
        *,
        on_overload: OnOverload = None,
        native: NativeSize | None = None,
    ) -> None:
        """Finish construction; the native class has had its own part."""
        self._control = control
        self._on_overload = on_overload
        self._tools: Callable[[], Sequence[str] | None] = _not_known
        self._head_texts = tuple(
            message.content for message in initial_messages or () if isinstance(message, SystemMessage)
        )
        self._head_tokens = control.count("".join(f"\n\n{text}" for text in self._head_texts))
        self._history = History(control, head_texts=self._head_texts, native=native, owned=True)

    @property
    def control(self) -> ControlPlane:
        """The control plane."""
        return self._control

    def offer(self, tools: Callable[[], Sequence[str] | None]) -> None:
        """Learn how to ask for the names of the agent's tools: the rules that can bind none of them are left out.

        Args:
            tools: Returns the names, or None while they are not known; then everything in scope applies.
        """
        self._tools = tools

    # -- what subclasses say ---------------------------------------------------------------------

    @abstractmethod
    def _frame(self) -> Frame:
        """Say what of the history is shown where nothing presses."""

    @abstractmethod
    async def _native_messages(self) -> list[LLMMessage]:
        """Return what the native class would send; only observe mode sends it."""

    async def _source(self) -> Sequence[LLMMessage]:
        """Return the stored messages."""
        return self._messages

    # -- what AutoGen asks -----------------------------------------------------------------------

    @override
    async def add_message(self, message: LLMMessage) -> None:
        """Store a message; of a capsule that another agent's context placed, nothing is stored."""
        stored = storable(message)
        if stored is not None:
            await super().add_message(stored)

    @override
    async def get_messages(self) -> list[LLMMessage]:
        """Assemble the prompt: one system message with the capsule, then the window.

        In observe mode the native messages follow the capsule; where that cannot be sent they go out alone, and the
        log says ``would_fail_closed`` (DESIGN 3.13).

        Returns:
            A new list. Stored messages are handed out as they are, but for the last assistant message, which some
            clients strip in place and which is therefore a copy.

        Raises:
            ControlOverloadError: The complete policy set, or the newest round, does not fit. Make no model call.
            ControlError: Something else kept the assembly from being checked or recorded.
        """
        if self._control.mode is Mode.OBSERVE:
            return await self._observed()
        stored = await self._source()

        def attempt(terms: Terms) -> list[LLMMessage]:
            return self._assembled(stored, terms)

        for _ in range(ATTEMPTS - 1):
            try:
                return await assembled(attempt, self._control, self._tools(), self._on_overload)
            except StaleCapsuleError:
                continue
        return await assembled(attempt, self._control, self._tools(), self._on_overload)

    def _assembled(self, stored: Sequence[LLMMessage], terms: Terms) -> list[LLMMessage]:
        control, history = terms.control, self._history
        capsule = control.capsule(terms.tools)
        history.sync(stored)
        room = control.budget.data(capsule.tokens) - self._head_tokens - MESSAGE_OVERHEAD
        window = select(history, self._frame(), budget=room)
        return self._sealed(control, capsule, window, candidate_tokens=history.tokens())

    async def _observed(self) -> list[LLMMessage]:
        native = list(await self._native_messages())
        try:
            sizes = [size_of(message, self._control) for message in native]
            tokens = sum(size.tokens for size in sizes)
            window = Window(messages=native, tokens=tokens, imitations=sum(size.imitations for size in sizes))
            capsule = self._control.capsule(self._tools())
            return self._sealed(self._control, capsule, window, candidate_tokens=tokens)
        except ControlError as problem:
            if not self._control.would_fail(problem):
                raise
            return native

    def _sealed(
        self, control: ControlPlane, capsule: ControlCapsule, window: Window, *, candidate_tokens: int
    ) -> list[LLMMessage]:
        # In observe mode the initial messages are among the native ones; they are sent once.
        observed = control.mode is Mode.OBSERVE
        head = head_message(capsule, () if observed else self._head_texts)
        fixed = 0 if head is None else MESSAGE_OVERHEAD + (0 if observed else self._head_tokens)
        control.seal(
            Assembly(
                capsule=capsule,
                message="" if head is None else head.content,
                offset=0,
                data_tokens=window.tokens,
                candidate_tokens=candidate_tokens,
                fixed_tokens=fixed,
                imitations=window.imitations,
            )
        )
        data = window.messages
        copy_last_answer(data)
        return data if head is None else [head, *data]

    @override
    async def clear(self) -> None:
        """Forget the conversation; `initial_messages` are back at once, where the native classes lose them."""
        await super().clear()
        self._messages = list(self._initial_messages or ())

    @override
    async def save_state(self) -> Mapping[str, Any]:
        """Save the messages and the digest of the control plane; never the capsule."""
        return {**await super().save_state(), **references(self._control)}

    @override
    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over a saved conversation, ours or native.

        Raises:
            ControlNotFoundError: It was saved under a plane that this process does not hold.
        """
        known_state(state, self._control)
        await super().load_state({"messages": state.get("messages", [])})


def _not_known() -> None:
    """Answer for an agent whose tools nobody told."""


def known_state(state: Mapping[str, Any], control: ControlPlane) -> None:
    """Require that the plane a conversation was saved under is one this process holds; native states name none.

    Raises:
        ControlNotFoundError: It is not.
    """
    reference = state.get(REFERENCE)
    if isinstance(reference, str) and reference != control.reference:
        source = state.get(SOURCE)
        find_plane(reference, source=source if isinstance(source, str) else None)


def references(control: ControlPlane) -> dict[str, str]:
    """What a saved state or config says of the control plane: how to find it again."""
    found = {REFERENCE: control.reference}
    if control.source is not None:
        found[SOURCE] = control.source
    return found


def storable(message: LLMMessage) -> LLMMessage | None:
    """Take a placed capsule off a message that is to be stored; None where nothing else is left of it."""
    if not isinstance(message, SystemMessage):
        return message
    rest = without_capsule(message)
    if rest is None:
        return message
    return SystemMessage(content=rest) if rest else None
