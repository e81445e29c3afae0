# SPDX-License-Identifier: Apache-2.0
"""What of a tool's result reaches the model: text, within a bound that was set before the tool ran."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from autogen_core.tools import ImageResultContent, TextResultContent, ToolResult

from carriage_autogen.shortening import LEAST_TOKENS, cut_text
from carriage_core import ControlError

if TYPE_CHECKING:
    from carriage_core import ControlPlane

AN_IMAGE: Final = "[an image, which is not shown]"
NOT_MEASURED: Final = "[the result could not be measured, so it is not shown]"
_SHARE: Final = 4


def error(name: str, text: str) -> ToolResult:
    """Make an error result; the text must say that it is one, for no provider sees the flag."""
    return ToolResult(name=name, result=[TextResultContent(content=text)], is_error=True)


def bound_of(control: ControlPlane) -> int:
    """Most tokens of one result: a quarter of the data budget, so that calls side by side leave room as well."""
    budget = control.budget
    return max(LEAST_TOKENS, budget.data(budget.control) // _SHARE)


def for_the_model(result: ToolResult, control: ControlPlane, bound: int) -> ToolResult:
    """Name images, which AutoGen's agents would write out as base64, and cut what is longer than `bound` tokens."""
    texts = [part.content if isinstance(part, TextResultContent) else AN_IMAGE for part in result.result]
    # A token is at least a byte, so most results need no count.
    short = sum(len(text) for text in texts) * 4 <= bound or sum(len(text.encode()) for text in texts) <= bound
    if short and not any(isinstance(part, ImageResultContent) for part in result.result):
        return result
    if not short:
        texts = _cut(texts, control, bound)
    return result.model_copy(update={"result": [TextResultContent(content=text) for text in texts]})


def _cut(texts: list[str], control: ControlPlane, bound: int) -> list[str]:
    out: list[str] = []
    left = bound
    try:
        for text in texts:
            if left <= 0:
                break
            kept = cut_text(text, left, control.count)
            out.append(kept)
            left -= control.count(kept)
    except ControlError:
        return [NOT_MEASURED]
    return out
