"""Whether the distribution declares what it promises, and carries nothing else."""

import importlib.metadata
import importlib.util
import os
import tarfile
import zipfile
from pathlib import Path

import pytest

PACKAGES = ["carriage_core", "carriage_lab", "carriage_cli", "carriage_autogen", "carriage_openhands"]
NAME = "policy-carriage"


@pytest.fixture
def dist():
    """The folder with the built sdist and wheel."""
    folder = os.environ.get("CARRIAGE_DIST")
    if not folder:
        pytest.skip("no built files: CARRIAGE_DIST does not name their folder; nox sets it")
    return Path(folder)


def test_adapters_are_lost_to_whoever_looks_them_up():
    """Both adapters are declared, whether or not their framework is installed."""
    found = importlib.metadata.entry_points(group="carriage.adapters")
    assert {(point.name, point.value) for point in found} == {
        ("autogen", "carriage_autogen:ADAPTER"),
        ("openhands", "carriage_openhands:ADAPTER"),
    }


def test_command_is_not_on_the_path():
    """The command `carriage` is declared."""
    (script,) = importlib.metadata.entry_points(group="console_scripts", name="carriage")
    assert script.value == "carriage_cli:main"


@pytest.mark.parametrize("package", PACKAGES)
def test_users_lose_the_types(package):
    """Each installed package says that it is typed."""
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    assert Path(spec.origin).with_name("py.typed").is_file()


def test_small_core_grows_dependencies():
    """Without an extra, three libraries are required and no more."""
    required = importlib.metadata.requires(NAME) or []
    plain = [line for line in required if "extra ==" not in line]
    names = {line.partition("<")[0].partition(">")[0].partition("=")[0].strip() for line in plain}
    assert names == {"rfc8785", "ruamel-yaml", "tiktoken"}


def test_extras_disappear():
    """The five extras exist."""
    assert set(importlib.metadata.metadata(NAME).get_all("Provides-Extra") or []) == {
        "all",
        "autogen",
        "lab",
        "openhands",
        "shell",
    }


def test_licence_is_not_shipped(dist):
    """The wheel names its licence and contains the text."""
    assert importlib.metadata.metadata(NAME)["License-Expression"] == "Apache-2.0"
    (wheel,) = dist.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert [name for name in names if name.endswith(".dist-info/licenses/LICENSE")]


def test_stray_files_land_in_site_packages(dist):
    """The wheel holds the five packages and its metadata; no tests, no caches, no `adapters` folder."""
    (wheel,) = dist.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.partition("/")[0] for name in names}
    info = {top for top in tops if top.endswith(".dist-info")}
    assert len(info) == 1
    assert tops - info == set(PACKAGES)
    assert [name for name in names if "__pycache__" in name or name.endswith((".pyc", ".orig", ".rej"))] == []


def test_sdist_cannot_be_built_or_tested(dist):
    """The sdist holds what it takes to build, read and test it, and no environment or cache."""
    (sdist,) = dist.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"LICENSE", "README.md", "noxfile.py", "pyproject.toml", "integration_tests/conftest.py"} <= names
    tops = {name.partition("/")[0] for name in names}
    assert not tops & {".ci", ".git", ".hypothesis", ".mypy_cache", ".nox", ".ruff_cache", ".venv"}
