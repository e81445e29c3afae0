# SPDX-License-Identifier: Apache-2.0
"""The placement replay: every recorded model call, every manager, placement and rho (paper III-B, Table VI).

For each call the data budget is *history tokens / rho*: the tokens of the history as the framework holds it,
the placed message included, the system prompt not. A manager that is not configured by rho assembles once,
and that one assembly is held against the budget of every rho; that is what it would do, not a shortcut.

Judged is only what would go to the provider: carriage by `carriage_lab.oracle`, validity by
`carriage_lab.validity`. For our drop-ins the placed message lies in the history as for the native class, but
what counts is the capsule at the protected position.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from carriage_lab import oracle
from carriage_lab.placement import Placement
from carriage_lab.rows import Key, Tally
from carriage_lab.stack import Case, FailedClosedError
from carriage_lab.validity import Defects, defects
from carriage_lab.wire import ProviderMessage, head_length, tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from carriage_lab.stack import Manager, Session
    from carriage_lab.trace import Trace

RHOS: Final = (0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0)
"""The pressures of paper Table VI."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one assembly came to; None in place of it means that the call was refused."""

    preserved: bool
    data_tokens: int
    control_tokens: int
    invalid: bool


def work(traces: Sequence[Trace], managers: int, rhos: Sequence[float] = RHOS) -> int:
    """Count the outcomes a replay of `traces` over so many managers tallies; the length of a progress bar."""
    return sum(len(trace.calls) for trace in traces) * managers * len(Placement) * len(rhos)


def replay_trace[N](
    trace: Trace,
    session: Session[N],
    policy: str,
    *,
    rhos: Sequence[float] = RHOS,
    advance: Callable[[int], None] = lambda _: None,
) -> Mapping[Key, Tally]:
    """Replay one run under every manager, placement and rho.

    `advance` is called with the number of outcomes tallied since the last time.
    """
    tallies = {
        Key(trace.stack, manager.name, manager.ours, placement, rho): Tally()
        for manager in session.managers
        for placement in Placement
        for rho in rhos
    }
    for placement in Placement:
        for length in trace.calls:
            calls = {ours: _call(session, placement, length, policy, ours=ours) for ours in (False, True)}
            for manager in session.managers:
                call = calls[manager.ours]
                for rho, outcome in _outcomes(manager, call, rhos):
                    key = Key(trace.stack, manager.name, manager.ours, placement, rho)
                    _tally(tallies[key], outcome, call.history_tokens / rho)
                advance(len(rhos))
    return tallies


@dataclass(slots=True, kw_only=True)
class _Call[N]:
    """One model call under one placement: the unreduced messages, and what was already judged of it."""

    session: Session[N]
    case: Case[N]
    policy: str
    control: bool
    protected: bool
    whole: tuple[ProviderMessage, ...]
    own_tokens: int
    history_tokens: int
    judged: dict[tuple[int, ...], Outcome] = field(default_factory=dict)
    recorded: Defects | None = None

    def judge(self, messages: Sequence[N]) -> Outcome:
        sent = self.session.provider(messages)
        key = tuple(map(id, sent))
        if key not in self.judged:
            self.judged[key] = self._judge(sent)
        return self.judged[key]

    def _judge(self, sent: tuple[ProviderMessage, ...]) -> Outcome:
        raws = [message.raw for message in sent]
        read = oracle.visible_protected if self.protected else oracle.visible_placed
        head = head_length(sent)
        return Outcome(
            preserved=read(raws, self.policy),
            data_tokens=tokens(sent[head:]),
            control_tokens=tokens(sent[:head]) - self.own_tokens if self.control else 0,
            invalid=self._invalid(sent),
        )

    def _invalid(self, sent: tuple[ProviderMessage, ...]) -> bool:
        found = defects(sent)
        if not found:
            return False
        if self.recorded is None:
            self.recorded = defects(self.whole)
        return bool(found - self.recorded)


def _call[N](session: Session[N], placement: Placement, length: int, policy: str, *, ours: bool) -> _Call[N]:
    case = session.case(placement, length, ours=ours)
    whole = session.provider([*case.fixed, *case.history])
    head = head_length(whole)
    return _Call(
        session=session,
        case=case,
        policy=policy,
        control=ours,
        protected=ours or placement is Placement.PROTECTED,
        whole=whole,
        own_tokens=tokens(whole[:head]),
        history_tokens=tokens(whole[head:]),
    )


def _outcomes[N](manager: Manager[N], call: _Call[N], rhos: Sequence[float]) -> list[tuple[float, Outcome | None]]:
    if manager.by_rho:
        return [(rho, _outcome(manager, call, rho)) for rho in rhos]
    once = _outcome(manager, call, rhos[0])
    return [(rho, once) for rho in rhos]


def _outcome[N](manager: Manager[N], call: _Call[N], rho: float) -> Outcome | None:
    try:
        return call.judge(manager.assemble(call.case, rho))
    except FailedClosedError:
        return None


def _tally(tally: Tally, outcome: Outcome | None, budget: float) -> None:
    tally.calls += 1
    if outcome is None:
        tally.failed_closed += 1
        return
    tally.preserved += outcome.preserved
    tally.absent += not outcome.preserved
    tally.silent_incomplete += not outcome.preserved
    tally.over_budget += outcome.data_tokens > budget
    tally.invalid_transcripts += outcome.invalid
    tally.control_tokens = max(tally.control_tokens, outcome.control_tokens)
