# SPDX-License-Identifier: Apache-2.0
"""A shell command as the abstract actions it would do; what cannot be understood is an unknown action (DESIGN 3.4).

The command is read twice, by the grammar in `syntax` and by tree-sitter-bash, and taken as read only where both find
the same words, commands and substitutions. Words are unquoted here, wrappers unwrapped, and every simple command looked
up in the table of `effects`. Rules over these actions guard against mistakes; containment needs a sandbox.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from carriage_core.characters import hidden_character
from carriage_core.shell.commands import unknown
from carriage_core.shell.effects import OBJECT_TYPES, VOCABULARY, ShellAction
from carriage_core.shell.syntax import Reader, joined
from carriage_core.shell.tree import confirm, load, ready
from carriage_core.shell.walk import Walker
from carriage_core.shell.words import UnclearError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from carriage_core.schema import FilePath
    from carriage_core.shell.syntax import Node

__all__ = ["MAX_COMMAND", "OBJECT_TYPES", "VOCABULARY", "ShellAction", "ready", "shell_actions"]

MAX_COMMAND: Final = 8_192
"""Longest command that is read, in characters; a longer one is an unknown action."""

_NONE: Final[Mapping[str, str | None]] = MappingProxyType({})


def shell_actions(
    command: str, *, cwd: FilePath | None, words: Mapping[str, str | None] = _NONE
) -> tuple[ShellAction, ...]:
    """Say what a shell command would do, without running any of it.

    Args:
        command: The text a shell would get.
        cwd: Where the shell starts; None makes every relative path unknown.
        words: Further command words, each with its action or None for a harmless one. A word may have up to two more
            behind it (``make test``) and then stands for all commands that begin so. The table's own words prevail.

    Returns:
        Every action once, in no order that matters; none for a harmless command. A command that cannot be read
        is one unknown action.

    Raises:
        ToolBindingError: The parser is not installed.
    """
    load()
    try:
        return Walker(words).actions(_read(command), cwd)
    except UnclearError as unclear:
        return (unknown(None, str(unclear)),)


def _read(command: str) -> Node:
    if len(command) > MAX_COMMAND:
        raise UnclearError("the command is too long")
    if hidden_character(command, allowed="\n\t") is not None:
        raise UnclearError("the command holds hidden characters")
    text = joined(command)
    reader = Reader(text)
    tree = reader.read()
    confirm(text, reader.places)
    return tree
