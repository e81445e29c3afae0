"""Whether importing costs what it should: no framework until one is used."""

import ast
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

import carriage_core

FRAMEWORKS = ["autogen_agentchat", "autogen_core", "autogen_ext", "litellm", "mcp", "openhands"]
TERMINAL = ["rich", "tessera", "typer"]
ADAPTERS = ["carriage_autogen", "carriage_openhands"]
PUBLIC_MODULES = ["carriage_core.adapter", "carriage_core.testing", "carriage_core.tokens"]


def loaded_by(package, names):
    """Which of these top-level modules are loaded after one import in a new process."""
    code = (
        f"import {package}, sys; tops = {{name.partition('.')[0] for name in sys.modules}}; "
        f"print(sorted(tops & set({names!r})))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_core_import_pulls_in_a_framework():
    """Importing the core loads no framework and no terminal library, installed or not."""
    assert loaded_by("carriage_core", [*FRAMEWORKS, *TERMINAL, *ADAPTERS]) == "[]"


def test_command_waits_for_a_framework_to_start():
    """Importing the command loads no framework: adapters are loaded when one is asked for."""
    if importlib.util.find_spec("typer") is None:
        pytest.skip("the command needs the extra 'lab', which is not installed here")
    assert loaded_by("carriage_cli", [*FRAMEWORKS, *ADAPTERS]) == "[]"


def from_core(module):
    """Whether a dotted name lies in the core."""
    return (module or "").partition(".")[0] == "carriage_core"


def adapter_imports(package):
    """Every import from the core in the installed files of an adapter: place, module, name."""
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.submodule_search_locations
    for folder in spec.submodule_search_locations:
        for path in sorted(Path(folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), path.name)):
                place = f"{package}/{path.relative_to(folder)}:{getattr(node, 'lineno', 0)}"
                if isinstance(node, ast.Import):
                    yield from ((place, alias.name, None) for alias in node.names if from_core(alias.name))
                elif isinstance(node, ast.ImportFrom) and from_core(node.module):
                    yield from ((place, node.module, alias.name) for alias in node.names)


@pytest.mark.parametrize("package", ADAPTERS)
def test_adapter_breaks_when_the_core_moves_a_private_name(package):
    """An adapter uses `from carriage_core import Name`, with a public name, or a public module."""
    public = set(carriage_core.__all__) | {module.partition(".")[2] for module in PUBLIC_MODULES}
    private = [
        f"{place} imports {name or 'the module'} from {module}"
        for place, module, name in adapter_imports(package)
        if not (
            (module == "carriage_core" and (name is None or name in public))
            or (module in PUBLIC_MODULES and not (name or "").startswith("_"))
        )
    ]
    assert private == []
