# SPDX-License-Identifier: Apache-2.0
"""The ``carriage`` command."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command; without the extra that brings its libraries, say so and exit with 2."""
    try:
        from carriage_cli.app import app  # noqa: PLC0415  # typer and rich come with an extra
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.split(".")[0] not in {"typer", "rich", "tessera"}:
            raise
        sys.stderr.write(
            f"error: the carriage command needs {missing.name}, which is not installed. "
            "Mend: pip install 'policy-carriage[lab]'\n"
        )
        raise SystemExit(2) from None
    app()
