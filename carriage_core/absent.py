# SPDX-License-Identifier: Apache-2.0
"""Why an attribute has no value (DESIGN 3.3)."""

from __future__ import annotations

from enum import Enum


class Absent(Enum):
    """Why an attribute has no value: not there at all, or there and not trustworthy."""

    MISSING = "missing"
    UNKNOWN = "unknown"
