# SPDX-License-Identifier: Apache-2.0
"""What may happen where the complete set does not fit: stop, ask for relief, or lock down (DESIGN 3.8).

Whatever it is, the assembly is made anew and checked again; nothing here sends less than the complete set.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from carriage_core import ControlOverloadError, ControlPlane

if TYPE_CHECKING:
    from collections.abc import Sequence

    from carriage_core import OverloadNumbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Overload:
    """An assembly that does not fit.

    Attributes:
        actor: The agent that would have been asked to act.
        numbers: What was needed and what there was.
        tools: The candidate tools, None where they are not known.
    """

    actor: str | None
    numbers: OverloadNumbers
    tools: tuple[str, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Relief:
    """What an operator grants for one assembly. It is checked again, and only once.

    Attributes:
        control_budget: A larger control budget.
        window: A larger window, where the model has one.
        tools: Names of the candidate tools that stay; the others are withdrawn, and calls of them denied.
    """

    control_budget: int | None = None
    window: int | None = None
    tools: tuple[str, ...] | None = None


type OverloadCallback = Callable[[Overload], Awaitable[Relief | None]]
"""Asks a person, splits the task, escalates; None means that the call is not made."""


class Lockdown:
    """Withdraw external tools, and make the call only if the rules for the rest fit."""


LOCKDOWN: Final = Lockdown()

type OnOverload = OverloadCallback | Lockdown | None
"""None raises `ControlOverloadError`."""


@dataclass(frozen=True, slots=True)
class Terms:
    """Under what an assembly is made.

    Attributes:
        control: The plane, with the sizes that hold for this assembly.
        tools: Names of the candidate tools, None where they are not known.
    """

    control: ControlPlane
    tools: tuple[str, ...] | None


async def assembled[T](
    attempt: Callable[[Terms], T], control: ControlPlane, tools: Sequence[str] | None, on_overload: OnOverload
) -> T:
    """Make an assembly; where it is an overload, once more under the relief that is granted.

    Raises:
        ControlOverloadError: It does not fit, and no relief was granted or the relief is not enough.
    """
    terms = Terms(control, None if tools is None else tuple(tools))
    try:
        return attempt(terms)
    except ControlOverloadError as overload:
        relief = await _relief(terms, overload, on_overload)
        if relief is None:
            raise
    return attempt(_under(terms, relief))


async def _relief(terms: Terms, overload: ControlOverloadError, on_overload: OnOverload) -> Relief | None:
    if on_overload is None:
        return None
    if isinstance(on_overload, Lockdown):
        if terms.tools is None:
            return None
        return Relief(tools=tuple(name for name in terms.tools if not _external(terms.control, name)))
    runtime = terms.control.runtime
    return await on_overload(Overload(actor=runtime.actor, numbers=overload.numbers, tools=terms.tools))


def _under(terms: Terms, relief: Relief) -> Terms:
    control, tools = terms.control, terms.tools
    if relief.control_budget is not None or relief.window is not None:
        control = control.with_budget(control_budget=relief.control_budget, window=relief.window)
    if relief.tools is not None:
        # Fewer tools, never others.
        tools = relief.tools if tools is None else tuple(name for name in tools if name in relief.tools)
    return Terms(control, tools)


def _external(control: ControlPlane, tool: str) -> bool:
    """Whether a call of the tool may reach outside; one that nobody bound may."""
    bindings = control.registry.bindings.get(tool, ())
    acting = [binding for binding in bindings if binding.action is not None or binding.shell is not None]
    return not bindings or any(binding.external for binding in acting)
