# SPDX-License-Identifier: Apache-2.0
"""A history as it may be sent: read once, message by message, however often it is asked for (invariant 12).

The stored messages stay as they are. Beside them stands the same history without what providers refuse or what
must not be the system's: every call has its results right after it, a result without a call is left out, and a
system message is data. What a message measures is counted when it arrives, never again.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from typing import TYPE_CHECKING

from autogen_core.models import (
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    LLMMessage,
    SystemMessage,
    UserMessage,
)

from carriage_autogen.pairing import OpenRound, last_round, unknown
from carriage_autogen.placement import demoted, without_capsule
from carriage_autogen.sizes import Size, size_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from carriage_core import ControlPlane

type NativeSize = Callable[[LLMMessage, int], int]
"""What the user's own client counts for a message, given what the plane counts for it."""


class History:
    """The sendable form of a list of messages that mostly grows at its end.

    Attributes:
        messages: The sendable messages: stored objects, but for demoted ones and answers that nobody recorded.
        newest_user: Index of the newest user message among them, or -1.
        stored: How many messages the list held.
    """

    def __init__(
        self,
        control: ControlPlane,
        *,
        head_texts: Sequence[str] = (),
        native: NativeSize | None = None,
        owned: bool = False,
    ) -> None:
        """Read histories in the tokens of `control`.

        Args:
            control: The plane that counts.
            head_texts: System texts that stand in the head already; stored copies of them are left out.
            native: A second measure, kept beside the plane's.
            owned: Whether nobody else holds the lists that are read, so that the same list has only grown.
        """
        self._control = control
        self._head_texts = frozenset(head_texts)
        self._native = native
        self._owned = owned
        self._source: Sequence[LLMMessage] | None = None
        self._reset()

    def _reset(self) -> None:
        self.messages: list[LLMMessage] = []
        self.newest_user = -1
        self.stored = 0
        # Arrays: a long history must not cost a tenth of itself beside itself.
        self._at = array("q")
        self._totals = array("q", [0])
        self._natives = array("q", [0])
        self._imitations = array("q", [0])
        self._open = OpenRound()
        self._unknown: dict[str, list[tuple[int, int]]] = {}
        self._last: LLMMessage | None = None
        self._seen: list[tuple[LLMMessage, object]] = []

    def sync(self, messages: Sequence[LLMMessage]) -> None:
        """Take in what is new in `messages`; anything but growth at the end starts anew.

        Raises:
            ControlError: The token counter failed; no call may be made on a guess.
        """
        if not self._grew(messages):
            self._reset()
        self._source = messages
        for message in messages[self.stored :]:
            self._take(message)

    def _grew(self, messages: Sequence[LLMMessage]) -> bool:
        known = self.stored
        if known > len(messages):
            return False
        if not known:
            return True
        if self._owned:
            # `clear` and `load_state` put another list in place; the same list only grows.
            return messages is self._source and messages[known - 1] is self._last
        return all(
            mine is theirs and content is theirs.content
            for (mine, content), theirs in zip(self._seen, messages, strict=False)
        )

    def _take(self, message: LLMMessage) -> None:
        if isinstance(message, FunctionExecutionResultMessage):
            self._take_results(message)
        else:
            self._close()
            self._open = OpenRound(message)
            if isinstance(message, SystemMessage):
                rest = without_capsule(message)
                if rest is None and message.content not in self._head_texts:
                    self._put(demoted(message))
                elif rest:
                    self._put(demoted(SystemMessage(content=rest)))
            else:
                self._put(message)
                if isinstance(message, UserMessage):
                    self.newest_user = len(self.messages) - 1
        self._last = message
        if not self._owned:
            self._seen.append((message, message.content))
        self.stored += 1

    def _take_results(self, message: FunctionExecutionResultMessage) -> None:
        fitting = self._open.take(message)
        if fitting:
            whole = len(fitting) == len(message.content)
            self._put(message if whole else FunctionExecutionResultMessage(content=fitting))
        claimed = {id(result) for result in fitting}
        for result in message.content:
            # A late result goes back to its call; one that no call waits for answers nothing.
            if id(result) not in claimed and result.call_id:
                self._answer_late(result)

    def _answer_late(self, result: FunctionExecutionResult) -> None:
        places = self._unknown.get(result.call_id, [])
        for position in range(len(places) - 1, -1, -1):
            index, place = places[position]
            answer = self.messages[index]
            if not isinstance(answer, FunctionExecutionResultMessage):
                continue
            if result.name in {"", answer.content[place].name}:
                del places[position]
                content = [*answer.content]
                content[place] = result
                self._replace(index, FunctionExecutionResultMessage(content=content))
                return

    def _close(self) -> None:
        """End the open round: what was not answered by now gets an answer that says so."""
        missing = self._open.missing()
        if not missing:
            return
        self._put(FunctionExecutionResultMessage(content=[unknown(call) for call in missing]), at=self.stored - 1)
        index = len(self.messages) - 1
        for place, call in enumerate(missing):
            if call.id:
                self._unknown.setdefault(call.id, []).append((index, place))

    def _measure(self, message: LLMMessage) -> tuple[Size, int]:
        size = size_of(message, self._control)
        return size, 0 if self._native is None else self._native(message, size.tokens)

    def _put(self, message: LLMMessage, *, at: int | None = None) -> None:
        size, native = self._measure(message)
        self.messages.append(message)
        self._at.append(self.stored if at is None else at)
        self._totals.append(self._totals[-1] + size.tokens)
        self._natives.append(self._natives[-1] + native)
        self._imitations.append(self._imitations[-1] + size.imitations)

    def _replace(self, index: int, message: LLMMessage) -> None:
        size, native = self._measure(message)
        self.messages[index] = message
        measured = (self._totals, size.tokens), (self._natives, native), (self._imitations, size.imitations)
        for totals, new in measured:
            change = new - (totals[index + 1] - totals[index])
            for later in range(index + 1, len(totals)):
                totals[later] += change

    # -- what is asked ---------------------------------------------------------------------------

    def unanswered(self) -> FunctionExecutionResultMessage | None:
        """The answers that the last round lacks, where it has others: half a round is refused by providers."""
        if not self._open.answered:
            return None
        missing = self._open.missing()
        return FunctionExecutionResultMessage(content=[unknown(call) for call in missing]) if missing else None

    def position(self, stored: int) -> int:
        """Find the first sendable message at or after a place in the stored list."""
        return bisect_left(self._at, stored)

    def newest_round(self) -> int:
        """Find where the newest round starts."""
        return last_round(self.messages)

    def tokens(self, start: int = 0, end: int | None = None) -> int:
        """Tokens of the sendable messages from `start` up to `end`."""
        return self._totals[-1 if end is None else end] - self._totals[start]

    def native(self, start: int = 0, end: int | None = None) -> int:
        """The same in the native measure, 0 where there is none."""
        return self._natives[-1 if end is None else end] - self._natives[start]

    def imitations(self, start: int = 0, end: int | None = None) -> int:
        """Marker look-alikes in the sendable messages from `start` up to `end`."""
        return self._imitations[-1 if end is None else end] - self._imitations[start]

    def count(self, text: str) -> int:
        """Count a text in the plane's tokens."""
        return self._control.count(text)

    def size(self, message: LLMMessage) -> Size:
        """Measure a message that is not part of the history."""
        return size_of(message, self._control)
