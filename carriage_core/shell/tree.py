# SPDX-License-Identifier: Apache-2.0
"""The second reading of a command, by tree-sitter-bash, against which the first is held (DESIGN 3.4).

A clean parse is no proof, and neither is our own grammar. Where both find the same words, command names and
substitutions at the same places, and the tree has no error, the command is taken as read; otherwise it is unknown.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from carriage_core.errors import ToolBindingError
from carriage_core.shell.words import UnclearError

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

    from carriage_core.shell.syntax import Places

_KINDS: Final = frozenset(
    """
    program list pipeline command redirected_statement subshell compound_statement negated_command if_statement
    elif_clause else_clause for_statement while_statement do_group case_statement case_item test_command
    unary_expression binary_expression parenthesized_expression test_operator declaration_command unset_command
    command_name word string string_content raw_string ansi_c_string concatenation number variable_assignment
    variable_assignments variable_name special_variable_name simple_expansion expansion command_substitution
    process_substitution arithmetic_expansion postfix_expression ternary_expression brace_expression
    extglob_pattern regex file_redirect herestring_redirect heredoc_redirect heredoc_start heredoc_body
    heredoc_content heredoc_end file_descriptor comment
    """.split()  # noqa: SIM905  # a paragraph is easier to read than a list
)
"""Every kind of named node that both readings may agree on."""

_SUBSTITUTIONS: Final = frozenset({"command_substitution", "process_substitution"})
_OTHERWISE_NAMED: Final = frozenset(
    {b"[", b"export", b"declare", b"typeset", b"readonly", b"local", b"unset", b"unsetenv"}
)
"""Command words that the tree gives a node of their own kind instead of a command name."""


def ready() -> bool:
    """Whether the parser is installed."""
    try:
        load()
    except ToolBindingError:
        return False
    return True


@cache
def load() -> Parser:
    """Load the parser once.

    Raises:
        ToolBindingError: It is not installed.
    """
    try:
        import tree_sitter_bash  # noqa: PLC0415  # an extra
        from tree_sitter import Language, Parser  # noqa: PLC0415

        return Parser(Language(tree_sitter_bash.language()))
    except (ImportError, TypeError, ValueError):  # absent, or of versions that do not go together
        raise ToolBindingError(
            "a tool runs shell commands, and the parser for them is not installed.",
            mend="pip install 'policy-carriage[shell]'",
        ) from None


def confirm(text: str, places: Places) -> None:
    """Parse `text` again and compare.

    A word of ours may be several nodes there if no blank stands between them: the tree cuts a word where a backslash
    follows a quote, a shell never does. Everything else must be the same.

    Raises:
        UnclearError: The tree has an error or a kind of node we do not know, or it finds something else than `places`.
        ToolBindingError: The parser is not installed.
    """
    source = text.encode()
    root = load().parse(source).root_node
    if root.has_error:
        raise UnclearError("the two readings differ: the tree has an error")
    if not text.isascii():
        places = _in_bytes(text, places)
    owners = _owners(len(source), places)
    ends = {start: end for start, end in places.commands if source[start:end] not in _OTHERWISE_NAMED}
    substitutions = set(places.substitutions)
    begun, ended = set[int](), set[int]()
    stack: list[Node] = [root]
    while stack:
        node = stack.pop()
        kind, start, end = node.type, node.start_byte, node.end_byte
        begun.add(start)
        ended.add(end)
        if node.is_missing or (node.is_named and kind not in _KINDS):
            raise UnclearError("the two readings differ: the tree has a part we do not know")
        if kind == "command_name" and end > ends.pop(start, -1):
            raise UnclearError("the two readings differ: another command")
        if kind in _SUBSTITUTIONS:
            if (start, end) not in substitutions:
                raise UnclearError("the two readings differ: another substitution")
            substitutions.discard((start, end))
        children = node.children
        if children:
            stack.extend(children)
        elif start < end and kind != "\n" and not (owners[start] == owners[end - 1] != _GAP):
            raise UnclearError("the two readings differ: another word")
    if ends or substitutions or not all(start in begun and end in ended for start, end in places.tokens):
        raise UnclearError("the two readings differ: something is missing")


_GAP: Final = -1
_FREE: Final = -2


def _owners(size: int, places: Places) -> list[int]:
    """Say for every byte which token it belongs to, the innermost one; between tokens there is a gap."""
    owners = [_GAP] * size
    regions = [(start, end, start) for start, end in places.tokens]
    regions += [(start, end, _FREE) for start, end in places.free]
    for start, end in places.substitutions:
        # Its marks belong to the word around it.
        regions.append((start + _opening(places, start), end - 1, _GAP))
    for start, end, owner in sorted(regions, key=lambda region: (region[0] - region[1], region[2] != _GAP)):
        owners[start:end] = [owner] * (end - start)
    return owners


def _opening(places: Places, start: int) -> int:
    return 1 if start in places.backquotes else 2


def _in_bytes(text: str, places: Places) -> Places:
    at = [0]
    for character in text:
        at.append(at[-1] + len(character.encode()))
    return places.moved(at)
