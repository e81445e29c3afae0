# SPDX-License-Identifier: Apache-2.0
"""policy-carriage for OpenHands: condensers that carry trusted policy, and an agent guarded by it.

Start with ``attach(agent, control=plane)``, or build a `GuardedAgent` with one of the condensers here.
`inspect_conversation` says which paths are guarded. Agents that run in another program (`ACPAgent`) are refused: they
have neither condenser nor tools here.
"""

from typing import Final

from carriage_core import Adapter
from carriage_openhands.agent import GuardedAgent
from carriage_openhands.attach import (
    apply_to_settings,
    approve,
    attach,
    guard_subagents,
    guard_tools,
    guarded_factory,
    held,
    with_suffix,
)
from carriage_openhands.checkpoint import checked
from carriage_openhands.condenser import ControlNoOpCondenser, ControlRollingCondenser
from carriage_openhands.guard import PolicyDenied
from carriage_openhands.holding import HeldCall
from carriage_openhands.inspection import Report, inspect_conversation
from carriage_openhands.summarizing import ControlSummarizingCondenser

ADAPTER: Final = Adapter(
    name="openhands",
    drop_ins={
        "rolling": ControlRollingCondenser,
        "noop": ControlNoOpCondenser,
        "summarizing": ControlSummarizingCondenser,
    },
    guards={"agent": GuardedAgent},
)

__all__ = [
    "ADAPTER",
    "ControlNoOpCondenser",
    "ControlRollingCondenser",
    "ControlSummarizingCondenser",
    "GuardedAgent",
    "HeldCall",
    "PolicyDenied",
    "Report",
    "apply_to_settings",
    "approve",
    "attach",
    "checked",
    "guard_subagents",
    "guard_tools",
    "guarded_factory",
    "held",
    "inspect_conversation",
    "with_suffix",
]
