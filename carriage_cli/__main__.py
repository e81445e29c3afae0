# SPDX-License-Identifier: Apache-2.0
"""``python -m carriage_cli`` is ``carriage``."""

from carriage_cli import main

main()
