# SPDX-License-Identifier: Apache-2.0
"""A condensation, checked against the view it is for (the SDK checks none of this; research: openhands, F6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from carriage_core import ControlError
from carriage_openhands.pairing import orphans

if TYPE_CHECKING:
    from carriage_openhands.compat import Condensation, View


class BadCondensationError(ControlError):
    """A condensation that would damage the view. It was not stored."""

    def __init__(self, what: str) -> None:
        """Say `what` is wrong with it."""
        super().__init__(f"a condensation {what}; it was not stored.", mend="report this as a bug of the condenser.")


def check_condensation(view: View, condensation: Condensation) -> None:
    """Require that a condensation forgets a run of whole units and puts its summary exactly there.

    Raises:
        BadCondensationError: It does not.
    """
    ids = [event.id for event in view.events]
    forgotten = condensation.forgotten_event_ids
    if not forgotten:
        raise BadCondensationError("forgets nothing")
    if not forgotten <= set(ids):
        raise BadCondensationError("names events that are not in the view")
    if ids[0] in forgotten:
        raise BadCondensationError("forgets the system prompt")
    start = min(index for index, identity in enumerate(ids) if identity in forgotten)
    end = start + len(forgotten)
    if set(ids[start:end]) != forgotten:
        raise BadCondensationError("forgets events that are not in one run")
    if not {start, end} <= set(view.manipulation_indices):
        raise BadCondensationError("splits a call from its result, or a batch")
    if condensation.summary is None:
        if condensation.summary_offset is not None:
            raise BadCondensationError("has a place for a summary and no summary")
    elif not condensation.summary.strip():
        raise BadCondensationError("has an empty summary")
    elif condensation.summary_offset != start:
        raise BadCondensationError("puts its summary somewhere else than in the place of what it forgets")
    if orphans(condensation.apply(list(view.events))) - orphans(view.events):
        raise BadCondensationError("leaves results without their calls")
