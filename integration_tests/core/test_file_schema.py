"""The JSON Schema that editors use, against the reader: it may know less, never something else."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from carriage_core import PolicyFileError, parse_policy_text, policy_file_schema
from carriage_core.yaml_tree import Node, parse
from integration_tests.core.samples import CONFIRM_POLICY

EXAMPLES = sorted(
    path
    for path in (Path(__file__).parents[2] / "examples" / "policies").glob("*.yaml")
    if not path.name.endswith(".cases.yaml")
)
VALIDATOR = Draft202012Validator(policy_file_schema())


def tree(node: Node) -> Any:
    if node.kind == "mapping":
        return {key: tree(value) for key, value in node.entries.items()}
    return [tree(item) for item in node.items] if node.kind == "list" else _plain(node.value)


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | bool | int) or value is None else float(value)


def test_the_schema_is_one() -> None:
    """An editor can use it at all, and it has something to say about every key of the language."""
    Draft202012Validator.check_schema(policy_file_schema())
    assert len(EXAMPLES) >= 10, os.fspath(Path(__file__).parents[2])


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_no_editor_marks_a_file_that_loads(path: Path) -> None:
    """Every shipped policy file is valid; a schema behind the language would underline what is right."""
    text = path.read_text(encoding="utf-8")
    parse_policy_text(text)
    assert [error.message for error in VALIDATOR.iter_errors(tree(parse(text)))] == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("carriage: 1", "carriage: 2"),
        ("    unless:", "    unles:"),
        ("effect: deny", "effect: denied"),
        ("kind: organization", "kind: organisation"),
        ("expires: 1h", "expires: 1 hour"),
        ("single_use: true", 'single_use: "true"'),
        ("version: 1", "version: 0"),
        ("id: verify-before-delete", "id: Verify"),
        ("repository: {glob:", "repository: {glop:"),
        ("action: none", "actoin: none"),
        ("      all:", "      al:"),
        ("eq: succeeded", "in: []"),
        ("trusted_evidence: true", "trusted_evidence: 1"),
    ],
)
def test_a_mistake_an_editor_marks_is_refused_by_the_reader(old: str, new: str) -> None:
    """What the schema refuses never loads: a writer who trusts the editor is not told another story later."""
    assert old in CONFIRM_POLICY
    text = CONFIRM_POLICY.replace(old, new, 1)
    assert list(VALIDATOR.iter_errors(tree(parse(text))))
    with pytest.raises(PolicyFileError):
        parse_policy_text(text)
