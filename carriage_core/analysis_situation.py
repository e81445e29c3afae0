# SPDX-License-Identifier: Apache-2.0
"""A concrete situation, and what the product's own evaluator says about it (DESIGN 3.11).

Analysis reasons about rules in its own way; it may not be believed on its word. So each witness is judged again here,
by the very functions that the monitor uses, before anybody sees it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from carriage_core.binding import Action
    from carriage_core.condition import Truth
    from carriage_core.policy import EvidenceDeclaration
    from carriage_core.runtime import Moment, RuntimeState
    from carriage_core.schema import Absent, Value
    from carriage_core.verdict import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Witness:
    """A situation that shows why an answer is no.

    Attributes:
        action: What would be done, with every attribute that matters, missing and unknown ones included.
        runtime: Who acts: tenant, task and delegation chain.
        moment: When, and whether the clock can be trusted.
        records: The live evidence there is: each declaration with the fields of one record.
        counters: What counters stand at before this call, as ``policy id, counter name``.
        first: What the first side says: an `Outcome`, or for conditions a `Truth`.
        second: What the second side says.
    """

    action: Action
    runtime: RuntimeState
    moment: Moment
    first: Outcome | Truth
    second: Outcome | Truth
    records: tuple[tuple[EvidenceDeclaration, Mapping[str, Value]], ...] = ()
    counters: tuple[tuple[tuple[str, str], Value | Absent], ...] = ()

    def describe(self) -> str:
        """Say the situation on one line, for people."""
        return ""
