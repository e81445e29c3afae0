"""A tool that does several things has a binding for each; what a binding leaves out is for another to say."""

import pytest

from carriage_core import AttributeSource, ToolBinding, ToolBindingError
from carriage_core.canonical import digest_of

PATH = (("path", AttributeSource(argument="path")),)
READS = ToolBinding(tool="editor", action="read", object_attributes=PATH, except_when=("command", ("create", "insert")))
WRITES = ToolBinding(tool="editor", action="write", object_attributes=PATH, except_when=("command", ("view",)))


def deeds(arguments):
    return sorted(action.name for binding in (READS, WRITES) for action in binding.actions(arguments))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"command": "view"}, ["read"]),
        ({"command": "create"}, ["write"]),
        ({"command": "undo"}, ["read", "write"]),
        ({}, ["read", "write"]),
        ({"command": ["view"]}, ["read", "write"]),
        ({"command": True}, ["read", "write"]),
    ],
)
def test_a_value_nobody_named_is_judged_by_every_binding(arguments, expected):
    """An unknown, missing or ill-typed value may mean anything, so nothing is left out."""
    assert deeds(arguments) == expected


def test_an_exception_is_part_of_the_binding_s_identity():
    """It changes verdicts, so it changes the digest; its argument is one the tool must have."""
    plain = ToolBinding(tool="editor", action="read", object_attributes=PATH)
    assert digest_of(READS.canonical()) != digest_of(plain.canonical())
    assert "command" in READS.known_arguments
    with pytest.raises(ToolBindingError, match="excepts no value"):
        ToolBinding(tool="editor", action="read", except_when=("command", ()))
