# SPDX-License-Identifier: Apache-2.0
"""Asking a person about one call, in AutoGen's own ways (DESIGN 3.5).

A yes is an approval of this very call: tool, arguments, agent, tenant, task, policies and call id. The core binds it
to a digest of all of these; it is good once, and for nothing else.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from autogen_agentchat.agents import UserProxyAgent
from autogen_agentchat.messages import UserInputRequestedEvent

from carriage_core import CarriageError, ControlPlane, Outcome

if TYPE_CHECKING:
    from autogen_core import CancellationToken

    from carriage_core import Decision, Verdict

YES: Final = frozenset({"approve", "approved", "y", "yes"})
"""The answers of a `UserProxyAgent` that approve; every other answer does not."""

NAMELESS: Final = "operator"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call as the guard puts it to the plane, the same each time.

    Attributes:
        tool: The tool's name.
        arguments: The arguments as they would be executed.
        call_id: The framework's id of the call, if it has one.
        server: The MCP server the tool comes from, if it has one.
    """

    tool: str
    arguments: Mapping[str, Any]
    call_id: str | None
    server: str | None = None

    def check(self, control: ControlPlane) -> Verdict:
        """Judge it, taking nothing."""
        return control.check(self.tool, self.arguments, call_id=self.call_id, server=self.server)

    def authorize(self, control: ControlPlane) -> Decision:
        """Decide it, before it runs."""
        return control.authorize(self.tool, self.arguments, call_id=self.call_id, server=self.server)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A call that needs an approval.

    Attributes:
        actor: The agent that wants to make it.
        tool: The tool's name.
        arguments: The judged arguments, which are the ones that would be executed.
        policies: Ids of the policies that ask for approval.
        why: What the monitor says, in one or two sentences.
        digest: What the approval is bound to.
        call_id: The framework's id of the call, if it has one.
    """

    actor: str | None
    tool: str
    arguments: Mapping[str, object]
    policies: tuple[str, ...]
    why: str
    digest: str
    call_id: str | None

    @property
    def text(self) -> str:
        """The question as a person is shown it; the arguments are written so that none can imitate a line of it."""
        shown = json.dumps(self.arguments, ensure_ascii=True, sort_keys=True, default=str)
        return (
            f"{self.actor or 'An agent'} wants to call {self.tool} with {shown}. {self.why} "
            f"Call {self.digest[:16]}. Type yes to approve this one call: "
        )


type Answer = str | bool | None
"""The authenticated name of who approves; True where there is no name; anything else does not approve."""

type Confirm = UserProxyAgent | Callable[[Question], Awaitable[Answer]]


class Confirmation:
    """Asks one question after the other, even where calls are made side by side."""

    def __init__(self, confirm: Confirm) -> None:
        """Ask `confirm`: a `UserProxyAgent`, or an async callable or object of one."""
        self._confirm = confirm
        self._locks: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()

    def event(self) -> UserInputRequestedEvent | None:
        """Make the event that tells a user interface of the request, where AutoGen has one."""
        if not isinstance(self._confirm, UserProxyAgent):
            return None
        return UserInputRequestedEvent(request_id=str(uuid.uuid4()), source=self._confirm.name)

    async def approved(
        self,
        control: ControlPlane,
        verdict: Verdict,
        call: Call,
        event: UserInputRequestedEvent | None,
        token: CancellationToken,
    ) -> bool:
        """Ask about a call judged `confirm`, and file the approval where it is given.

        Args:
            control: The plane of the agent that would act.
            verdict: The verdict.
            call: The call.
            event: The event that was sent.
            token: Cancelling it withdraws the question.
        """
        if verdict.outcome is not Outcome.CONFIRM or verdict.call_digest is None:
            return False
        question = Question(
            actor=control.runtime.actor,
            tool=call.tool,
            arguments=call.arguments,
            policies=tuple(reason.policy_id for reason in verdict.reasons if not reason.observed),
            why=verdict.explain(),
            digest=verdict.call_digest,
            call_id=call.call_id,
        )
        lock = self._locks.setdefault(asyncio.get_running_loop(), asyncio.Lock())
        async with lock:
            asking = asyncio.ensure_future(self._ask(question, event, token))
            token.link_future(asking)
            answer = await asking
        if answer is not True and not (isinstance(answer, str) and answer):
            return False
        try:
            name = NAMELESS if answer is True else answer
            control.approve(
                call.tool,
                call.arguments,
                by=name,
                call_id=call.call_id,
                server=call.server,
                call_digest=question.digest,
            )
        except CarriageError:
            return False  # it changed while the person was asked
        return True

    async def _ask(self, question: Question, event: UserInputRequestedEvent | None, token: CancellationToken) -> Answer:
        confirm = self._confirm
        if not isinstance(confirm, UserProxyAgent):
            return await confirm(question)
        with UserProxyAgent.InputRequestContext.populate_context("" if event is None else event.request_id):
            typed = await confirm._get_input(question.text, token)  # noqa: SLF001  # its public way drops the question
        return confirm.name if typed.strip().casefold() in YES else None
