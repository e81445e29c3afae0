# SPDX-License-Identifier: Apache-2.0
"""The bindings of the SDK's own harmless tools, shipped at developer rank (DESIGN 3.4).

Without them, the first rule with an action would deny `finish`, and no run could end. A tool that the operator
has bound keeps the operator's binding.
"""

from __future__ import annotations

from typing import Final
from weakref import WeakKeyDictionary

from carriage_core import ControlPlane, Issuer, IssuerKind, ToolBinding
from carriage_openhands.compat import HARMLESS_TOOLS

SHIPPED: Final = tuple(
    ToolBinding(tool=name, action=None, issuer=Issuer(kind=IssuerKind.DEVELOPER, name="carriage-openhands"))
    for name in HARMLESS_TOOLS
)

_references: WeakKeyDictionary[ControlPlane, str] = WeakKeyDictionary()


def bound(plane: ControlPlane) -> ControlPlane:
    """Give a plane the shipped bindings, once, and return it."""
    if plane not in _references:
        _references[plane] = plane.reference
        plane.bind(SHIPPED)
    return plane


def reference_of(plane: ControlPlane) -> str:
    """Return the reference under which the next process, which loads the same file, finds the plane.

    It is the one from before the shipped bindings: those are in no file.
    """
    bound(plane)
    return _references[plane]
