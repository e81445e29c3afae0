# SPDX-License-Identifier: Apache-2.0
"""The policy file, version 1: YAML 1.2 or JSON to Policy IR, whole or not at all (DESIGN 3.2, 3.14).

Every fault of a file is collected with its line, its path and the mend, and raised as one `PolicyFileError`; a
misspelt key never becomes a rule that matches nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from carriage_core.attribute_types import AttributeTypes
from carriage_core.errors import Fault, PolicyError, PolicyFileError
from carriage_core.file_bindings import BindingReader
from carriage_core.file_defaults import DefaultReader
from carriage_core.file_reader import FileReader
from carriage_core.registry import PolicyRegistry
from carriage_core.yaml_tree import MAX_BYTES, Node, UnclearYamlError, parse

if TYPE_CHECKING:
    import os

VERSION: Final = 1


def load_policy_file(path: str | os.PathLike[str]) -> PolicyRegistry:
    """Load a policy file.

    Raises:
        PolicyFileError: It cannot be read, or anything in it is wrong.
    """
    file = Path(path)
    try:
        if file.stat().st_size > MAX_BYTES:
            raise PolicyFileError(str(path), [_whole(f"larger than {MAX_BYTES} bytes", "split it")])
        text = file.read_text(encoding="utf-8")
    except OSError as problem:
        fault = _whole(f"cannot be read ({problem.strerror})", "check the path and its permissions")
        raise PolicyFileError(str(path), [fault]) from problem
    except UnicodeDecodeError as problem:
        raise PolicyFileError(str(path), [_whole("not UTF-8 text", "save it as UTF-8")]) from problem
    return parse_policy_text(text, source=str(path))


def _whole(message: str, mend: str) -> Fault:
    return Fault(path="", line=1, message=message, mend=mend)


def parse_policy_text(text: str, *, source: str = "<text>") -> PolicyRegistry:
    """Read the text of a policy file.

    Args:
        text: YAML 1.2 or JSON.
        source: Name used in errors.

    Raises:
        PolicyFileError: Anything in it is wrong.
    """
    try:
        root = parse(text)
    except UnclearYamlError as problem:
        raise PolicyFileError(source, problem.faults) from None
    faults: list[Fault] = []
    registry = _read(root, faults)
    if registry is None:
        raise PolicyFileError(source, sorted(faults, key=lambda fault: fault.line))
    return registry


def _read(root: Node, faults: list[Fault]) -> PolicyRegistry | None:
    """Read the top level; None exactly where there is a fault."""
    reader = FileReader(faults)
    entries = reader.mapping(root, "", ("carriage", "default", "types", "tools", "policies"), ("carriage", "policies"))
    version = entries.get("carriage")
    if version is not None and (type(version.value) is not int or version.value != VERSION):
        # 3.14: an unknown version refuses; its rules may mean something else.
        reader.fault(
            version,
            "carriage",
            f"format version {version.value!r} is not known",
            "write carriage: 1, or upgrade policy-carriage",
        )
    binding_reader = BindingReader(faults)
    if "types" in entries:
        binding_reader.object_types(entries["types"])
    bindings = binding_reader.bindings(entries["tools"]) if "tools" in entries else ()
    policy_reader = DefaultReader(faults, AttributeTypes.of(bindings))
    policies = policy_reader.policies(entries["policies"], bindings) if "policies" in entries else ()
    if "default" in entries:
        policies += policy_reader.defaults(entries["default"], bindings)
    if faults:
        return None
    try:
        return PolicyRegistry.of(policies, bindings)
    except PolicyError as problem:
        reader.fault(root, "policies", problem.args[0], problem.mend)
        return None
