# SPDX-License-Identifier: Apache-2.0
"""Which ways to the model and to the tools are guarded, and which are not: said before a run, not found out in one."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, override

from carriage_core import ControlError
from carriage_openhands.agent import GuardedAgent
from carriage_openhands.checkpoint import is_checked
from carriage_openhands.compat import (
    CONFIRMS,
    ACPAgent,
    Agent,
    LLMSummarizingCondenser,
    LocalConversation,
    model_hooks,
    subagent_factories,
)
from carriage_openhands.control import ControlCondenser

if TYPE_CHECKING:
    from collections.abc import Iterator

    from carriage_core import ControlPlane
    from carriage_openhands.compat import AgentBase


class State(StrEnum):
    """Whether rules hold on a path."""

    GUARDED = "guarded"
    REFUSED = "refused"
    """The path is closed: it raises instead of going on without the rules."""
    UNGUARDED = "unguarded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """One way to the model or to a tool.

    Attributes:
        name: What goes that way.
        state: Whether rules hold on it.
        why: One sentence, and for an unguarded path what would guard it.
    """

    name: str
    state: State
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What `inspect_conversation` found; ``str()`` prints a line for each path.

    Attributes:
        paths: Every path that is known of.
        unbound_tools: Tools bound to no action: calls of them are denied in enforce mode.
    """

    paths: tuple[Path, ...]
    unbound_tools: tuple[str, ...]

    @property
    def unguarded(self) -> tuple[str, ...]:
        """Names of the paths on which no rule holds."""
        return tuple(path.name for path in self.paths if path.state is State.UNGUARDED)

    @override
    def __str__(self) -> str:
        lines = [f"{path.state:<10} {path.name}: {path.why}" for path in self.paths]
        if self.unbound_tools:
            lines.append(f"unbound    {', '.join(self.unbound_tools)}: no action, so calls are denied; bind them.")
        return "\n".join(lines)


def inspect_conversation(target: LocalConversation | AgentBase) -> Report:
    """Say of every known path of a conversation or an agent whether it is guarded."""
    conversation = target if isinstance(target, LocalConversation) else None
    agent = target.agent if isinstance(target, LocalConversation) else target
    if isinstance(agent, ACPAgent):
        why = "an ACP agent runs in another program: no capsule reaches it and it approves its own calls."
        return Report(paths=(Path(name="everything", state=State.UNGUARDED, why=why),), unbound_tools=())
    return Report(paths=tuple(_paths(agent, conversation)), unbound_tools=_unbound(agent, conversation))


def _plane(agent: AgentBase) -> ControlPlane | None:
    try:
        return agent.condenser.control if isinstance(agent.condenser, ControlCondenser) else None
    except ControlError:
        return None


def _paths(agent: AgentBase, conversation: LocalConversation | None) -> Iterator[Path]:
    plane, guarded = _plane(agent), isinstance(agent, GuardedAgent)
    yield _steps(agent, plane)
    yield from _tools(agent, plane, guarded=guarded)
    checkpoint = is_checked(agent.llm)
    asking = State.GUARDED if checkpoint else State.REFUSED if guarded else State.UNGUARDED
    why = {
        State.GUARDED: "the model's checkpoint carries the capsule.",
        State.REFUSED: "the SDK would skip the condenser; use checkpoint=True to have it answered.",
        State.UNGUARDED: "the SDK skips the condenser; attach(...) guards it.",
    }
    yield Path(name="ask_agent", state=asking, why=why[asking])
    title = State.GUARDED if checkpoint else State.UNGUARDED
    own = " A model given to generate_title itself is not covered."
    yield Path(
        name="generate_title",
        state=title,
        why=why[State.GUARDED] + own if checkpoint else "the SDK skips the condenser; checkpoint=True guards it." + own,
    )
    if isinstance(agent.condenser, LLMSummarizingCondenser):
        what = "checked, audited and marked as data" if plane is not None else "taken as it is"
        yield Path(
            name="summarizer",
            state=State.UNGUARDED,
            why=f"its calls carry no capsule, and have no tools; what it writes is {what}.",
        )
    if getattr(agent, "critic", None) is not None:
        yield Path(name="critic", state=State.UNGUARDED, why="a critic asks its own model; the SDK offers no place.")
    if conversation is not None and model_hooks(conversation):
        yield Path(
            name="prompt and agent hooks",
            state=State.UNGUARDED,
            why="hooks ask models of their own, and fail open; use policies instead.",
        )
    for name, factory in subagent_factories().items():
        actor = getattr(factory, "carriage_actor", None)
        yield Path(
            name=f"sub-agent {name}",
            state=State.UNGUARDED if actor is None else State.GUARDED,
            why="guard_subagents(plane) guards it." if actor is None else "made by a guarded factory.",
        )


def _steps(agent: AgentBase, plane: ControlPlane | None) -> Path:
    name = "model calls of the loop"
    if plane is None:
        condenser = type(agent.condenser).__name__
        if isinstance(agent.condenser, ControlCondenser):
            return Path(
                name=name, state=State.REFUSED, why="this process does not hold the plane; load its policy file."
            )
        return Path(name=name, state=State.UNGUARDED, why=f"the condenser is {condenser}; attach(...) replaces it.")
    if not isinstance(agent, Agent):
        return Path(name=name, state=State.UNGUARDED, why=f"{type(agent).__name__} may not ask its condenser.")
    return Path(name=name, state=State.GUARDED, why=f"{type(agent.condenser).__name__} carries the capsule.")


def _tools(agent: AgentBase, plane: ControlPlane | None, *, guarded: bool) -> Iterator[Path]:
    name = "tools, built-in tools, MCP tools, execute_tool, rerun_actions"
    if not guarded:
        yield Path(name=name, state=State.UNGUARDED, why=f"{type(agent).__name__} guards no tool; attach(...) does.")
        return
    why = "every executor is guarded." if plane is not None else "this process does not hold the plane."
    yield Path(name=name, state=State.GUARDED if plane is not None else State.REFUSED, why=why)
    state = State.GUARDED if CONFIRMS else State.REFUSED
    why = "a held call runs only after approve(...)." if CONFIRMS else "this SDK cannot hold a call; it is denied."
    yield Path(name="calls that need a person", state=state, why=why)


def _unbound(agent: AgentBase, conversation: LocalConversation | None) -> tuple[str, ...]:
    plane = _plane(agent)
    if plane is None or conversation is None or not plane.registry.mediates:
        return ()
    names = [tool.name for event in conversation.state.view.events[:1] for tool in getattr(event, "tools", ())]
    return tuple(name for name in names if name not in plane.registry.bindings)
