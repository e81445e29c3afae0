# SPDX-License-Identifier: Apache-2.0
"""The control state that all views of one plane share, and the log's only writer."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from carriage_core.counters import CounterLedger
from carriage_core.errors import SinkError
from carriage_core.manifest import GENESIS, EntryKind, link
from carriage_core.runtime import EvidenceLedger

if TYPE_CHECKING:
    from collections.abc import Mapping

    from carriage_core.binding import ToolSpec
    from carriage_core.budget import Budget
    from carriage_core.capsule import ControlCapsule, Tier
    from carriage_core.decision import Decision
    from carriage_core.manifest import Entry, Manifest
    from carriage_core.registry import PolicyRegistry
    from carriage_core.runtime import Clock, RuntimeState
    from carriage_core.sinks import Sink
    from carriage_core.tokens import TokenCounter


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """The latest assembly of one runtime: what its model has been shown."""

    manifest: Manifest
    capsule: ControlCapsule
    registry: PolicyRegistry


class ControlState:
    """What changes while a plane lives. Every change happens under `lock`, which the owner of a method takes."""

    def __init__(
        self,
        registry: PolicyRegistry,
        *,
        budget: Budget,
        counter: TokenCounter,
        sink: Sink,
        clock: Clock,
        minimum: Tier,
    ) -> None:
        """Start with one snapshot, no evidence, and an empty chain."""
        self.lock = threading.RLock()
        self.registry = registry
        self.budget = budget
        self.counter = counter
        self.sink = sink
        self.clock = clock
        self.minimum = minimum
        self.source: str | None = None
        self.ledger = EvidenceLedger()
        self.counters = CounterLedger()
        self.capsules: OrderedDict[tuple[object, ...], ControlCapsule] = OrderedDict()
        self.logged_capsules: dict[tuple[str, Tier], int] = {}
        self.tools: dict[str, ToolSpec] = {}
        self.changed_tools: set[str] = set()
        self.placed: dict[RuntimeState, Placed] = {}
        self.executed: set[tuple[RuntimeState, str]] = set()
        self.open: dict[str, Decision] = {}
        self.sequence = 0
        self.head = GENESIS

    def replace_registry(self, registry: PolicyRegistry, body: Mapping[str, object]) -> None:
        """Put the next snapshot in force, once the log says so."""
        self.append(EntryKind.REGISTRY, {**body, "registry": registry.digest})
        self.registry = registry
        self.capsules.clear()

    def exchange_registry(self, before: PolicyRegistry, after: PolicyRegistry, body: Mapping[str, object]) -> bool:
        """Put `after` in force if `before` still is; False, and nothing happened, if another change came first."""
        with self.lock:
            if self.registry is not before:
                return False
            self.replace_registry(after, body)
            return True

    def append(self, kind: EntryKind, body: Mapping[str, object]) -> Entry:
        """Write the next entry.

        Raises:
            SinkError: It could not be written, so what it describes must not happen.
        """
        entry = link(self.sequence, kind, body, self.head)
        try:
            self.sink.write(entry)
        except Exception as fault:
            raise SinkError(
                f"the log could not be written ({type(fault).__name__}); nothing was done.",
                mend="mend the sink and try again.",
            ) from fault
        self.sequence += 1
        self.head = entry.hash
        return entry
