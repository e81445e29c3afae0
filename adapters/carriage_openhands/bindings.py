# SPDX-License-Identifier: Apache-2.0
"""The bindings of the SDK's own tools, shipped at developer rank (DESIGN 3.4).

Without them, the first rule with an action would deny `finish`, and no run could end. A tool that the operator has
bound keeps the operator's binding.

The terminal is bound by its parsed command: a relative path is unknown, for the shell remembers where it is between
calls, and so is everything typed into a running program. The editor reads or writes, by its command.
"""

from __future__ import annotations

from typing import Final

from carriage_core import AttributeSource, ControlPlane, Issuer, IssuerKind, ShellSource, Sort, ToolBinding
from carriage_openhands.compat import HARMLESS_TOOLS

_OURS: Final = Issuer(kind=IssuerKind.DEVELOPER, name="carriage-openhands")
_PATH: Final = (("path", AttributeSource(argument="path", sort=Sort.PATH)),)
_WRITING: Final = ("create", "str_replace", "insert", "undo_edit")

SHIPPED: Final = (
    *(ToolBinding(tool=name, action=None, issuer=_OURS, shipped=True) for name in (*HARMLESS_TOOLS, "task_tracker")),
    ToolBinding(
        tool="terminal",
        action=None,
        shell=ShellSource(argument="command", stdin="is_input"),
        issuer=_OURS,
        shipped=True,
    ),
    ToolBinding(
        tool="file_editor",
        action="read",
        object_type="file",
        object_attributes=_PATH,
        except_when=("command", _WRITING),
        issuer=_OURS,
        shipped=True,
    ),
    ToolBinding(
        tool="file_editor",
        action="write",
        object_type="file",
        object_attributes=_PATH,
        except_when=("command", ("view",)),
        issuer=_OURS,
        shipped=True,
    ),
)


def bound(plane: ControlPlane) -> ControlPlane:
    """Give a plane the shipped bindings, unless it has them, and return it."""
    if any(binding.tool not in plane.registry.bindings for binding in SHIPPED):
        plane.bind(SHIPPED)
    return plane
