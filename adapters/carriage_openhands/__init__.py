# SPDX-License-Identifier: Apache-2.0
"""policy-carriage for OpenHands: a rolling condenser that carries trusted policy, and an agent guarded by it.

Not covered, because the SDK sends it past every condenser: titles (`generate_title`), critics, and prompt or agent
hooks. `ask_agent` is refused. Agents that run in another program (`ACPAgent`) have neither condenser nor tools here.
"""

from typing import Final

from carriage_core import Adapter
from carriage_openhands.agent import GuardedAgent
from carriage_openhands.condenser import ControlNoOpCondenser, ControlRollingCondenser
from carriage_openhands.guard import PolicyDenied
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
    "PolicyDenied",
]
