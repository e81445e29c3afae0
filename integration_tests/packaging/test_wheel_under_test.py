"""Whether the tests test what users install."""

import importlib.util
import os
import sysconfig
import zipfile
from pathlib import Path

import pytest

import carriage_core

SITE = Path(sysconfig.get_path("purelib")).resolve()
PACKAGES = ["carriage_core", "carriage_lab", "carriage_cli", "carriage_autogen", "carriage_openhands"]


def test_core_from_the_source_tree_hides_a_broken_wheel():
    """The core under test is the installed one."""
    assert Path(carriage_core.__file__).resolve().is_relative_to(SITE)


@pytest.mark.parametrize("package", PACKAGES)
def test_package_missing_from_the_wheel_is_found_elsewhere(package):
    """Each package is found in site-packages, and nowhere else."""
    spec = importlib.util.find_spec(package)
    assert spec is not None, f"{package} is not installed"
    assert spec.origin is not None, f"{package} has no __init__.py"
    assert Path(spec.origin).resolve().is_relative_to(SITE)


def test_wheel_of_an_earlier_run_hides_a_change():
    """Every installed file is that of the wheel of this run: `nox -r` installs it, `nox -R` does not."""
    folder = os.environ.get("CARRIAGE_DIST")
    if not folder:
        pytest.skip("no built files: CARRIAGE_DIST does not name their folder; nox sets it")
    (path,) = Path(folder).glob("*.whl")
    with zipfile.ZipFile(path) as wheel:
        names = [name for name in wheel.namelist() if name.partition("/")[0] in PACKAGES]
        stale = [
            name for name in names if not (SITE / name).is_file() or (SITE / name).read_bytes() != wheel.read(name)
        ]
    assert names
    assert stale == []


@pytest.mark.parametrize("name", ["adapters", "noxfile"])
def test_project_folders_leak_into_the_path(name):
    """The project's root is not importable: no module is loaded under two names."""
    assert importlib.util.find_spec(name) is None
