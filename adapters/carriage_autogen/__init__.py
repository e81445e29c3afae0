# SPDX-License-Identifier: Apache-2.0
"""policy-carriage for AutoGen: contexts that carry the capsule, and a workbench that asks the monitor first.

::

    plane = ControlPlane.from_file("policies.yaml", actor="release-bot", tenant="acme", control_budget=800)
    agent = AssistantAgent(
        "maintainer",
        model_client=client,
        model_context=ControlBufferedChatCompletionContext(buffer_size=6, control=plane),
        workbench=GuardedWorkbench([delete_artifact, verify_release], control=plane),
    )
"""

from carriage_autogen.attaching import attach
from carriage_autogen.client import ControlledChatCompletionClient
from carriage_autogen.code_executor import GuardedCodeExecutor
from carriage_autogen.confirming import Question
from carriage_autogen.controlled import ControlledContext
from carriage_autogen.drop_ins import (
    ControlBufferedChatCompletionContext,
    ControlHeadAndTailChatCompletionContext,
    ControlUnboundedChatCompletionContext,
)
from carriage_autogen.handoffs import GuardedHandoffTool, guard_handoffs
from carriage_autogen.inspecting import Inspection, Path, Status, UnguardedPathError, inspect_agent
from carriage_autogen.overload import LOCKDOWN, Lockdown, Overload, Relief
from carriage_autogen.token_limited import ControlTokenLimitedChatCompletionContext
from carriage_autogen.workbench import GuardedWorkbench
from carriage_core import Adapter

ADAPTER = Adapter(
    name="autogen",
    drop_ins={
        "buffered": ControlBufferedChatCompletionContext,
        "token_limited": ControlTokenLimitedChatCompletionContext,
        "head_and_tail": ControlHeadAndTailChatCompletionContext,
        "unbounded": ControlUnboundedChatCompletionContext,
        "controlled": ControlledContext,
    },
    guards={
        "client": ControlledChatCompletionClient,
        "code_executor": GuardedCodeExecutor,
        "handoffs": guard_handoffs,
        "attach": attach,
        "workbench": GuardedWorkbench,
    },
)

__all__ = [
    "ADAPTER",
    "LOCKDOWN",
    "ControlBufferedChatCompletionContext",
    "ControlHeadAndTailChatCompletionContext",
    "ControlTokenLimitedChatCompletionContext",
    "ControlUnboundedChatCompletionContext",
    "ControlledChatCompletionClient",
    "ControlledContext",
    "GuardedCodeExecutor",
    "GuardedHandoffTool",
    "GuardedWorkbench",
    "Inspection",
    "Lockdown",
    "Overload",
    "Path",
    "Question",
    "Relief",
    "Status",
    "UnguardedPathError",
    "attach",
    "guard_handoffs",
    "inspect_agent",
]
