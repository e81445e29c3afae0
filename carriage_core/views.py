# SPDX-License-Identifier: Apache-2.0
"""What a rule sees of an action: its attributes, once for each way the rule has to look (DESIGN 3.3, 3.4).

A delegated call is looked at as each member of its chain, and a command that touches everything below a folder as
each kind of path a rule could tell apart there. A rule that could apply in one view applies; what lifts it must hold
in all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from carriage_core.condition import Attribute, Operator, comparisons
from carriage_core.schema import Absent, FilePath, Value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from carriage_core.binding import Action
    from carriage_core.policy import Policy
    from carriage_core.runtime import Moment, RuntimeState

_OUTSIDE: Final = ("evidence.", "counter.")


class View(dict[str, Value | Absent]):
    """Attributes by name; any other is missing, or unknown where nobody can say what the action is."""

    __slots__ = ("opaque",)

    def __init__(self, values: Mapping[str, Value | Absent], *, opaque: bool = False) -> None:
        """Hold `values`; `opaque` says that what is not among them is unknown."""
        super().__init__(values)
        self.opaque = opaque

    def __missing__(self, name: str) -> Absent:
        """Evidence without a record, and a counter that nobody worked out, are unknown (DESIGN 3.3)."""
        return Absent.UNKNOWN if self.opaque or name.startswith(_OUTSIDE) else Absent.MISSING

    def extended(self, values: Mapping[str, Value | Absent]) -> View:
        """Copy the view with further values."""
        view = View.__new__(View)  # past the constructor, which would copy once more
        view.update(self)
        view.update(values)
        view.opaque = self.opaque
        return view


def views(action: Action, runtime: RuntimeState, moment: Moment) -> tuple[View, ...]:
    """Build one view for each member of the delegation chain."""
    first = View(action.attributes, opaque=action.name is None)
    first["actor.id"] = Absent.UNKNOWN if not runtime.chain else runtime.chain[0]
    first["tenant"] = Absent.UNKNOWN if runtime.tenant is None else runtime.tenant
    first["task"] = Absent.UNKNOWN if runtime.task is None else runtime.task
    first["time"] = moment.now if moment.trusted else Absent.UNKNOWN
    if len(runtime.chain) <= 1:
        return (first,)
    return (first, *[first.extended({"actor.id": actor}) for actor in runtime.chain[1:]])


def views_of(policy: Policy, action: Action, members: tuple[View, ...]) -> tuple[View, ...]:
    """Split the views of a command that touches everything below a folder, as far as a policy can tell paths apart.

    Left as they are, and the path unknown, where the policy compares paths by pattern or with another attribute.
    """
    if not action.why:
        return members
    within = action.attributes.get("object.within")
    if not isinstance(within, FilePath) or not isinstance(action.attributes.get("object.path"), Absent):
        return members
    found: list[FilePath] = []
    for comparison in (*comparisons(policy.where), *comparisons(policy.unless)):
        if isinstance(comparison.operand, Attribute) and comparison.operand.name == "object.path":
            return members
        if comparison.attribute != "object.path" or comparison.operator is Operator.EXISTS:
            continue
        operands = comparison.operand if isinstance(comparison.operand, tuple) else (comparison.operand,)
        if not all(isinstance(operand, FilePath) for operand in operands):
            return members
        found += [operand for operand in operands if isinstance(operand, FilePath)]
    inside = {path.text: path for path in (within, *found) if within.covers(path)}
    # Below each of them lies something that no rule names; no path in normal form holds U+0000.
    paths = [path for known in inside.values() for path in (known, FilePath(known.text.rstrip("/") + "/\0"))]
    return tuple(member.extended({"object.path": path}) for member in members for path in paths)
