# SPDX-License-Identifier: Apache-2.0
"""Every error a caller can see, each with the place and the mend.

Roots follow whose fault it is: `PolicyError` for what an operator wrote, `ControlError` for a call that must
not be made, `AdapterError` for an installation. All derive from `CarriageError`; ``mend`` is one sentence that
says what to do. Messages never hold tool output or conversation text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, override

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class CarriageError(Exception):
    """Base of all errors of this distribution.

    Attributes:
        mend: One sentence that says how to put it right.
    """

    def __init__(self, message: str, *, mend: str) -> None:
        """Keep `mend` beside the message."""
        super().__init__(message)
        self.mend = mend

    @override
    def __str__(self) -> str:
        return f"{super().__str__()} Mend: {self.mend}"


class PolicyError(CarriageError):
    """A policy, binding or evidence declaration is not one this version can carry soundly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing wrong in an operator's file or policy: where, what, and how to put it right.

    ``line`` is 1-based, 0 where there is none; ``path`` is dotted, such as ``policies[0].unless``; ``word`` is the
    offending word, empty where the place itself is what is wrong.
    """

    path: str
    message: str
    mend: str
    line: int = 0
    word: str = ""


class PolicyFileError(PolicyError):
    """A policy file that cannot be loaded whole. No plane is ever built from part of a file.

    Attributes:
        file: The file's path as given.
        faults: Everything found wrong, in file order; at least one.
    """

    def __init__(self, file: str | Path, faults: Sequence[Fault]) -> None:
        """Render all `faults` of `file`; `mend` is that of the first."""
        self.file = str(file)
        self.faults = tuple(faults)
        lines = [
            f"{self.file}:{fault.line}: {fault.path or 'file'}: {fault.message} ({fault.mend})" for fault in self.faults
        ]
        super().__init__("\n".join(lines), mend=self.faults[0].mend)

    @override
    def __str__(self) -> str:
        return str(self.args[0])


class ProvenanceError(PolicyError):
    """Authority was claimed by something that does not have it (DESIGN 3.1)."""


class AdmissionError(PolicyError):
    """Words from a human channel that cannot become policy as they are; none of their message did (DESIGN 3.12)."""


class EmptyRegistryError(PolicyError):
    """A registry without policies protects nothing, so it is refused unless asked for by name."""


class ToolBindingError(PolicyError):
    """A binding names arguments that the tool's schema does not have, or two tools share a name."""


class EvidenceError(PolicyError):
    """Evidence that may not be recorded: undeclared, untrusted or unstructured (DESIGN 3.5)."""


class CapsuleFormatError(CarriageError):
    """A text claimed to be a capsule and does not parse back."""


class ControlError(CarriageError):
    """The next model call or action must not happen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OverloadNumbers:
    """The figures behind an overload; all sizes in tokens of `counter`."""

    reason: str
    needed: int
    available: int
    policies: int
    tier_tokens: tuple[tuple[str, int], ...]
    control_budget: int
    window: int
    reserved_output: int
    fixed: int
    data: int
    counter: str


class ControlOverloadError(ControlError):
    """The complete applicable set does not fit, so no model call is made (paper V-B, DESIGN 3.8).

    Attributes:
        numbers: What was needed and what there was.
    """

    def __init__(self, numbers: OverloadNumbers) -> None:
        """Say the numbers and the mend; policy text stays out of the message."""
        self.numbers = n = numbers
        if n.reason == "control":
            tiers = ", ".join(f"{tier} {tokens}" for tier, tokens in n.tier_tokens)
            message = (
                f"control overload: {n.policies} applicable policies need {n.needed} tokens in the smallest "
                f"allowed tier, the control budget is {n.control_budget} (tiers: {tiers}; counter {n.counter}). "
                "No model call was made."
            )
            mend = f"raise control_budget to at least {n.needed}, offer fewer tools, or narrow the policies' scope."
        else:
            message = (
                f"window overload: control, fixed and data need {n.needed} tokens, the window leaves "
                f"{n.available} (window {n.window}, reserved output {n.reserved_output}, fixed {n.fixed}, "
                f"data {n.data}, counter {n.counter}). No model call was made."
            )
            mend = "shorten the newest message or tool result, or give the plane the model's true window."
        super().__init__(message, mend=mend)


class ControlNotFoundError(ControlError):
    """A saved agent names a control plane that this process does not hold."""

    def __init__(self, reference: str, source: str | None = None) -> None:
        """Name the digest that was looked for, and the policy file it came from where that is known."""
        self.reference = reference
        self.source = source
        named = f" ({source})" if source else ""
        super().__init__(
            f"no control plane with digest {reference[:23]} is loaded in this process; nothing was sent.",
            mend=f"load the same policy file{named} with ControlPlane.from_file(...) and keep it referenced before "
            "resuming, or pass control= again.",
        )


class CarriageIntegrityError(ControlError):
    """The assembled messages do not hold the capsule at its protected position, byte for byte."""


class StaleCapsuleError(ControlError):
    """The policies changed between rendering and sending; the next assembly carries the new set."""

    def __init__(self) -> None:
        """There is one message."""
        super().__init__("the policies changed while the call was assembled; nothing was sent.", mend="assemble again.")


class SinkError(ControlError):
    """A manifest or decision could not be written, so what it describes must not happen (invariant 11)."""


class AdapterError(CarriageError):
    """An adapter cannot be had."""


class UnknownAdapterError(AdapterError):
    """No distribution declares an adapter of that name."""


class FrameworkMissingError(AdapterError):
    """The adapter is installed, its framework is not."""

    def __init__(self, adapter: str, module: str) -> None:
        """Name the extra that brings the framework."""
        self.adapter = adapter
        self.module = module
        super().__init__(
            f"the {adapter} adapter needs the module {module!r}, which is not installed.",
            mend=f"pip install 'policy-carriage[{adapter}]'",
        )
