"""What all tests share: how many examples a property gets, and where the recorded runs are."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "carriage",
    max_examples=int(os.environ.get("CARRIAGE_EXAMPLES", "200")),
    deadline=None,
    # The same examples in every run of CI: a change that breaks nothing never fails there.
    derandomize="CI" in os.environ,
    print_blob=True,
    # A busy machine is slow, which says nothing about the code.
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("carriage")


@pytest.fixture(scope="session")
def recorded_data() -> Path:
    """The folder of recorded agent runs; tests that need it are skipped where it is not."""
    folder = os.environ.get("CARRIAGE_DATA")
    if not folder:
        pytest.skip("no recorded runs: CARRIAGE_DATA does not name their folder")
    path = Path(folder)
    if not path.is_dir():
        # Named but absent is a mistake, not a choice.
        pytest.fail(f"CARRIAGE_DATA is {folder!r}, which is not a folder")
    return path
