"""Run autogen-core's own tests of its model contexts with the four names patched to the drop-ins.

Usage: python run_upstream.py path/to/tests/test_model_context.py

The drop-ins carry the plane that is empty by name, so that what is compared is the contexts alone.
"""

import os
import sys
from pathlib import Path

import autogen_core.model_context as native
import pytest

import carriage_autogen
from carriage_core import ControlPlane

EMPTY = ControlPlane.unsafe_empty()
NAMES = ["Buffered", "HeadAndTail", "TokenLimited", "Unbounded"]


def patched(kind):
    """The drop-in, with the empty plane where the test gives none."""

    class Patched(kind):
        def __init__(self, *args, **more):
            super().__init__(*args, **more, control=EMPTY)

    return Patched


def main(path):
    for name in NAMES:
        full = f"{name}ChatCompletionContext"
        setattr(native, full, patched(getattr(carriage_autogen, f"Control{full}")))
    return pytest.main([path, "-c", os.devnull, "--rootdir", str(Path(path).parent), "-q", "-p", "no:cacheprovider"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
