# SPDX-License-Identifier: Apache-2.0
"""Turns a question about two conditions into variables (DESIGN 3.11)."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from carriage_core.analysis_attributes import Domains, kinds_and_absences
from carriage_core.analysis_points import EPOCH, Point
from carriage_core.analysis_search import OPEN
from carriage_core.analysis_situation import Witness
from carriage_core.binding import Action
from carriage_core.condition import Attribute, Truth, attributes, comparisons
from carriage_core.runtime import Moment, RuntimeState
from carriage_core.schema import Absent

if TYPE_CHECKING:
    from collections.abc import Callable

    from carriage_core.analysis_search import Assigned, Goal, Ranges
    from carriage_core.attribute_types import AttributeTypes
    from carriage_core.condition import Condition


class ConditionQuestion:
    """The variables of a question about two conditions, seen by one actor.

    A handle has a record or has none: then all its fields are unknown together. A counter is any number or unknown.
    """

    def __init__(self, first: Condition, second: Condition, types: AttributeTypes | None) -> None:
        """Collect the variables.

        Raises:
            UndecidableError: A limit was met.
        """
        domains = Domains()
        names = sorted(attributes(first) | attributes(second))
        for name in names:
            domains.add(name, *kinds_and_absences(name, types))
        for atom in (*comparisons(first), *comparisons(second)):
            right = [atom.operand.name] if isinstance(atom.operand, Attribute) else []
            domains.compare([atom.attribute], atom, right)
        handles = {_handle(name) for name in names if name.startswith("evidence.")}
        self.domains = domains.listed() | {
            handle: [Point(live, live, 0) for live in (True, False)] for handle in sorted(handles)
        }
        self.linked = domains.linked

    def judge(
        self, first: Condition, second: Condition, goal: Goal, ranges: Ranges
    ) -> Callable[[Assigned], tuple[bool, bool]]:
        """Judge both conditions by `goal` as far as the variables have values."""

        def judged(given: Assigned) -> tuple[bool, bool]:
            def value(name: str) -> Any:  # noqa: ANN401  # a value, an absence or OPEN
                if name.startswith("evidence."):
                    live = given.get(_handle(name), OPEN)
                    if live is OPEN:
                        ranges.open.append(_handle(name))
                        return OPEN
                    if not live:
                        return Absent.UNKNOWN
                found = given.get(name, OPEN)
                if found is OPEN:
                    ranges.open.append(name)
                return found

            return goal(ranges.of(first, value), ranges.of(second, value))

        return judged

    def situation(self, given: Assigned) -> Witness:
        """The situation that some values describe."""
        now = given.get("time", EPOCH)
        trusted = isinstance(now, datetime)
        own, outside = {}, []
        for name, value in given.items():
            if name.startswith(("evidence.", "counter.")):
                if "." in name.removeprefix("evidence.") and (name.startswith("counter.") or given[_handle(name)]):
                    outside.append((name, value))
            elif name not in {"time", "tenant", "task", "actor.id"} and value is not Absent.MISSING:
                own[name] = value
        actor, tenant, task = (given.get(name, Absent.UNKNOWN) for name in ("actor.id", "tenant", "task"))
        kind = given.get("object.type")
        name = given.get("action.name", "act")
        return Witness(
            # An action without a name would make what is missing unknown, and conditions tell the two apart.
            action=Action(
                name=name if isinstance(name, str) else "unknown",
                tool=str(given.get("action.tool", "some_tool")),
                object_type=kind if isinstance(kind, str) else None,
                external=bool(given.get("action.external", True)),
                attributes=own,
            ),
            runtime=RuntimeState(
                tenant=None if tenant is Absent.UNKNOWN else tenant,
                task=None if task is Absent.UNKNOWN else task,
                chain=() if actor is Absent.UNKNOWN else (actor,),
            ),
            moment=Moment(now=now if trusted else EPOCH, trusted=trusted),
            first=Truth.UNKNOWN,
            second=Truth.UNKNOWN,
            values=tuple(outside),
        )


def _handle(name: str) -> str:
    return ".".join(name.split(".")[:2])
