# SPDX-License-Identifier: Apache-2.0
"""The second reading of a command, by tree-sitter-bash, against which the first is held (DESIGN 3.4).

A clean parse is no proof, and neither is our own grammar. Where both find the same words, command names and
substitutions at the same places, and the tree has no error, the command is taken as read; otherwise it is unknown.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
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

_UNTOLD: Final = frozenset({"heredoc_content", "heredoc_end", "heredoc_body", "comment", "\n"})


def ready() -> bool:
    """Whether the parser is installed."""
    return find_spec("tree_sitter") is not None and find_spec("tree_sitter_bash") is not None


@cache
def load() -> Parser:
    """Load the parser once.

    Raises:
        ToolBindingError: It is not installed.
    """
    try:
        import tree_sitter_bash  # noqa: PLC0415  # an extra
        from tree_sitter import Language, Parser  # noqa: PLC0415
    except ImportError:
        raise ToolBindingError(
            "a tool runs shell commands, and the parser for them is not installed.",
            mend="pip install 'policy-carriage[shell]'",
        ) from None
    return Parser(Language(tree_sitter_bash.language()))


def confirm(text: str, places: Places) -> None:
    """Parse `text` again and compare.

    Raises:
        UnclearError: The tree has an error or a kind of node we do not know, or it finds something else than `places`.
        ToolBindingError: The parser is not installed.
    """
    source = text.encode()
    root = load().parse(source).root_node
    if root.has_error:
        raise UnclearError("the two readings differ: the tree has an error")
    tokens, commands, substitutions, free = (
        _in_bytes(text, places.tokens),
        _in_bytes(text, places.commands),
        _in_bytes(text, places.substitutions),
        _in_bytes(text, places.free),
    )
    named = {span for span in commands if source[span[0] : span[1]] not in _OTHERWISE_NAMED}
    found: set[tuple[int, int]] = set()
    stack: list[tuple[Node, bool]] = [(root, False)]
    while stack:
        node, inside = stack.pop()
        kind, span = node.type, (node.start_byte, node.end_byte)
        if node.is_missing or (node.is_named and kind not in _KINDS):
            raise UnclearError("the two readings differ: the tree has a part we do not know")
        if kind == "command_name":
            if span not in named:
                raise UnclearError("the two readings differ: another command")
            named.discard(span)
        if kind in _SUBSTITUTIONS:
            if span not in substitutions:
                raise UnclearError("the two readings differ: another substitution")
            substitutions.discard(span)
            inside = False
        if span in tokens:
            found.add(span)
            inside = kind not in _SUBSTITUTIONS
        elif kind in {"$(", "`", "<(", ">(", ")"}:
            inside = True  # a mark of a substitution, whose place was compared
        children = node.children
        if not children and not inside and not (kind in _UNTOLD or span[0] == span[1] or _within(span, free)):
            raise UnclearError("the two readings differ: another word")
        stack.extend((child, inside) for child in children)
    if named or substitutions or found != tokens:
        raise UnclearError("the two readings differ: something is missing")


def _within(span: tuple[int, int], free: set[tuple[int, int]]) -> bool:
    return any(start <= span[0] and span[1] <= end for start, end in free)


def _in_bytes(text: str, spans: set[tuple[int, int]]) -> set[tuple[int, int]]:
    if text.isascii():
        return set(spans)
    at = [0]
    for character in text:
        at.append(at[-1] + len(character.encode()))
    return {(at[start], at[end]) for start, end in spans}
