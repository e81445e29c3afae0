# SPDX-License-Identifier: Apache-2.0
"""Is what goes to the provider a valid transcript? Judged by a peer, `tessera-transcript`, not by us.

`tessera` reads the text of a message only where its content is a string; block lists are given to it joined.
Recorded histories are not all clean (one data set reuses call ids), so a transcript is *invalid* if it has a
defect that the same history, sent whole, does not have: findings are compared as a multiset of (defect, call
id).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from carriage_core.errors import FrameworkMissingError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from carriage_lab.wire import ProviderMessage

type Defects = Counter[tuple[str, str | None]]


def require_judge() -> None:
    """Fail now, not in the middle of a replay.

    Raises:
        FrameworkMissingError: `tessera-transcript` is not installed.
    """
    try:
        import tessera  # noqa: F401, PLC0415
    except ModuleNotFoundError as error:
        if error.name != "tessera":
            raise
        raise FrameworkMissingError("lab", "tessera") from error


def defects(messages: Sequence[ProviderMessage]) -> Defects:
    """Return every finding of `tessera` over `messages`, fatal or wasteful."""
    from tessera import inspect  # noqa: PLC0415  # only a replay needs it

    report = inspect([message.plain for message in messages], adapter="openai")
    return Counter((finding.defect.value, finding.call_id) for finding in report.findings)
