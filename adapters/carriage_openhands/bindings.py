# SPDX-License-Identifier: Apache-2.0
"""The bindings of the SDK's own harmless tools, shipped at developer rank (DESIGN 3.4).

Without them, the first rule with an action would deny `finish`, and no run could end. A tool that the operator
has bound keeps the operator's binding.
"""

from __future__ import annotations

from typing import Final

from carriage_core import ControlPlane, Issuer, IssuerKind, ToolBinding
from carriage_openhands.compat import HARMLESS_TOOLS

SHIPPED: Final = tuple(
    ToolBinding(
        tool=name,
        action=None,
        issuer=Issuer(kind=IssuerKind.DEVELOPER, name="carriage-openhands"),
        shipped=True,
    )
    for name in HARMLESS_TOOLS
)


def bound(plane: ControlPlane) -> ControlPlane:
    """Give a plane the shipped bindings, unless it has them, and return it."""
    if any(binding.tool not in plane.registry.bindings for binding in SHIPPED):
        plane.bind(SHIPPED)
    return plane
