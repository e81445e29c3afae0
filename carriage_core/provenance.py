# SPDX-License-Identifier: Apache-2.0
"""Where a part of a transcript came from. Authority follows from this, never from what a text says (DESIGN 3.1)."""

from __future__ import annotations

from enum import StrEnum


class Provenance(StrEnum):
    """Who put a message there. A source that nobody recorded is None, not a member."""

    TRUSTED_POLICY = "trusted policy"
    """Placed by the operator's own infrastructure to say what the rules are."""
    TRUSTED_RUNTIME_STATE = "trusted runtime state"
    """Written by the runtime itself: tenant, task, a summary that the operator vouches for."""
    TRUSTED_TOOL_EVIDENCE = "trusted tool evidence"
    """The structured result of a tool declared ``trusted_evidence``. It proves facts and says no rules."""
    UNTRUSTED_DOCUMENT = "untrusted document"
    UNTRUSTED_TOOL_CONTENT = "untrusted tool content"
    FINAL_REQUEST = "final request"
    """What is asked for now. Rules that are said in it are admitted by a channel, never read off it (DESIGN 3.12)."""

    @property
    def speaks_policy(self) -> bool:
        """Whether a rule that stands in such a message is carried."""
        return self in {Provenance.TRUSTED_POLICY, Provenance.TRUSTED_RUNTIME_STATE}
