# SPDX-License-Identifier: Apache-2.0
"""``carriage schema``: the JSON Schema of policy files, for editors."""

from __future__ import annotations

import json
import sys

from carriage_core import policy_file_schema


def schema() -> None:
    """Print the JSON Schema of policy files; point your editor at it to complete and check while you type."""
    sys.stdout.write(json.dumps(policy_file_schema(), indent=2) + "\n")
