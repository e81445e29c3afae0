# SPDX-License-Identifier: Apache-2.0
"""Preflight: does the complete set fit, before any byte leaves (paper V-B step 3; DESIGN 3.8).

Either the whole of A+ fits the control budget and the whole assembly fits the window, or `ControlOverloadError`.
There is no third way out: nothing here shortens, ranks or drops a policy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from carriage_core.capsule import TIERS, ControlCapsule, Tier, render
from carriage_core.errors import ControlError, ControlOverloadError, OverloadNumbers
from carriage_core.tokens import counted

if TYPE_CHECKING:
    from carriage_core.budget import Budget
    from carriage_core.policy import Policy
    from carriage_core.registry import PolicyRegistry
    from carriage_core.tokens import TokenCounter


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembly:
    """What an adapter is about to send, measured.

    Attributes:
        capsule: The capsule it placed.
        message: Content of the message at the protected position.
        offset: Where the capsule starts in it, in characters.
        data_tokens: Everything else the model will see of the context, in the plane's counter.
        candidate_tokens: The data before it was cut, for rho.
        fixed_tokens: System text, tool schemas and request beside `Budget.fixed`.
        imitations: Marker look-alikes in the data.
        window: The model's own window where the adapter knows it; the smaller of it and the plane's counts.
    """

    capsule: ControlCapsule
    message: str
    offset: int
    data_tokens: int
    candidate_tokens: int
    fixed_tokens: int = 0
    imitations: int = 0
    window: int | None = None

    def __post_init__(self) -> None:
        """Refuse sizes that cannot be true: a negative one would make room that is not there.

        Raises:
            ControlError: A size or the offset is negative or not an integer.
        """
        for name in ("offset", "data_tokens", "candidate_tokens", "fixed_tokens", "imitations"):
            value = getattr(self, name)
            if type(value) is not int or value < 0:
                raise ControlError(f"{name} is {value!r}, not a size.", mend="measure the assembly again.")


def fit_capsule(
    policies: tuple[Policy, ...],
    registry: PolicyRegistry,
    *,
    budget: Budget,
    counter: TokenCounter,
    minimum: Tier,
    candidates: frozenset[str] | None,
) -> ControlCapsule:
    """Render A+ in the richest tier that fits the control budget.

    Args:
        policies: The complete A+.
        registry: The snapshot it came from.
        budget: The control budget and the window.
        counter: Counts the capsule as a whole.
        minimum: The poorest tier the operator allows.
        candidates: Names of the candidate tools, recorded in the capsule.

    Raises:
        ControlOverloadError: No allowed tier fits.
    """
    sizes: list[tuple[str, int]] = []
    for tier in TIERS[: TIERS.index(minimum) + 1]:
        rendering = render(policies, registry, tier)
        tokens = counted(counter, rendering.text)
        if tokens <= budget.control:
            return ControlCapsule(
                rendering=rendering,
                tokens=tokens,
                counter=counter.name,
                control_budget=budget.control,
                registry_digest=registry.digest,
                candidates=candidates,
            )
        sizes.append((tier.value, tokens))
    raise ControlOverloadError(
        OverloadNumbers(
            reason="control",
            needed=min(tokens for _, tokens in sizes),
            available=budget.control,
            policies=len(policies),
            tier_tokens=tuple(sizes),
            control_budget=budget.control,
            window=budget.window,
            reserved_output=budget.reserved_output,
            fixed=budget.fixed,
            data=0,
            counter=counter.name,
        )
    )


def check_window(assembly: Assembly, capsule: ControlCapsule, budget: Budget) -> None:
    """Require that control, fixed and data fit the window with the output reserve.

    Raises:
        ControlOverloadError: They do not; `numbers.reason` is ``window``.
    """
    needed = capsule.tokens + assembly.fixed_tokens + assembly.data_tokens
    available = budget.effective(assembly.window)
    if needed <= available:
        return
    raise ControlOverloadError(
        OverloadNumbers(
            reason="window",
            needed=needed,
            available=available,
            policies=len(capsule.policies),
            tier_tokens=((capsule.tier.value, capsule.tokens),),
            control_budget=budget.control,
            window=budget.window_within(assembly.window),
            reserved_output=budget.reserved_output,
            fixed=budget.fixed + assembly.fixed_tokens,
            data=assembly.data_tokens,
            counter=capsule.counter,
        )
    )
