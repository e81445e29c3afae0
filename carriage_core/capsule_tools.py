# SPDX-License-Identifier: Apache-2.0
"""The lines of the full tier that say what calls of a tool mean (DESIGN 3.4, 3.7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from carriage_core.binding import AttributeSource, ShellSource, ToolBinding
from carriage_core.capsule_sources import take_sort
from carriage_core.clause import Tokens, quote, render_literal, take_literal
from carriage_core.schema import FilePath, Sort

if TYPE_CHECKING:
    from carriage_core.schema import Value

_NOTHING = "nothing"
"""What a harmless command word does; no action may be called so."""


def tool_line(binding: ToolBinding) -> str:
    """Write one binding on one line."""
    parts = [f"tool {quote(binding.tool)}: {_deed(binding)}"]
    for prefix, sources in (("object", binding.object_attributes), ("action", binding.action_attributes)):
        parts += [f"{prefix}.{name} = {_source(source)}" for name, source in sources]
    if binding.shell is not None:
        parts += [f"word {quote(word)} = {action or _NOTHING}" for word, action in binding.shell.words]
    if binding.except_when is not None:
        argument, values = binding.except_when
        parts.append(f"except {quote(argument)} " + " ".join(quote(value) for value in sorted(values)))
    if binding.server is not None:
        parts.append(f"server {quote(binding.server)}")
    if binding.schema_digest is not None:
        parts.append(f"schema {quote(binding.schema_digest)}")
    if not binding.external:
        parts.append("local")
    if binding.trusted_evidence:
        parts.append("evidence")
    return "; ".join(parts)


def _deed(binding: ToolBinding) -> str:
    if binding.shell is not None:
        shell = binding.shell
        stdin = "" if shell.stdin is None else f" stdin {quote(shell.stdin)}"
        return f"shell {quote(shell.argument)}{_cwd(shell.cwd)}{stdin}"
    kind = "" if binding.object_type is None else f" on {binding.object_type}"
    return f"{binding.action}{kind}"


def _cwd(cwd: FilePath | None) -> str:
    return "" if cwd is None else f" cwd {quote(cwd.text)}"


def _source(source: AttributeSource) -> str:
    if source.constant is not None:
        text = f"constant {render_literal(source.constant)}"
    else:
        text = f"argument {quote(source.argument or '')}"
    if source.sort is not Sort.ANY:
        text += f" as {source.sort}"
    if source.default is not None:
        text += f" default {render_literal(source.default)}"
    return text + _cwd(source.cwd) + (" secret" if source.secret else "")


def parse_tool(tokens: Tokens) -> ToolBinding:
    """Read the line back.

    Raises:
        CapsuleFormatError: It is not such a line.
        ToolBindingError: It says what no binding may.
    """
    tokens.take("tool")
    tool = tokens.string()
    tokens.take(":")
    action: str | None = tokens.word()
    command = tokens.string() if action == "shell" and tokens.peek_string() else None
    cwd = _take_cwd(tokens) if command is not None else None
    stdin = tokens.string() if command is not None and tokens.skip("stdin") else None
    object_type = tokens.word() if tokens.skip("on") else None
    sources: dict[str, list[tuple[str, AttributeSource]]] = {"object": [], "action": []}
    words: list[tuple[str, str | None]] = []
    excepted: tuple[str, tuple[str, ...]] | None = None
    pins: dict[str, str] = {}
    flags: set[str] = set()
    while tokens.skip(";"):
        word = tokens.word()
        if word == "word" and tokens.peek_string():
            name = tokens.string()
            tokens.take("=")
            deed = tokens.word()
            words.append((name, None if deed == _NOTHING else deed))
        elif tokens.skip("="):
            prefix, _, name = word.partition(".")
            if prefix not in sources:
                raise tokens.error()
            sources[prefix].append((name, _take_source(tokens)))
        elif word == "except":
            argument, values = tokens.string(), [tokens.string()]
            while tokens.peek_string():
                values.append(tokens.string())
            excepted = (argument, tuple(values))
        elif word in {"server", "schema"}:
            pins[word] = tokens.string()
        elif word in {"local", "evidence"}:
            flags.add(word)
        else:
            raise tokens.error()
    tokens.end()
    shell = None if command is None else ShellSource(argument=command, cwd=cwd, words=tuple(words), stdin=stdin)
    return ToolBinding(
        tool=tool,
        action=None if shell is not None else action,
        server=pins.get("server"),
        schema_digest=pins.get("schema"),
        external="local" not in flags,
        object_type=object_type,
        object_attributes=tuple(sources["object"]),
        action_attributes=tuple(sources["action"]),
        trusted_evidence="evidence" in flags,
        shell=shell,
        except_when=excepted,
    )


def _take_cwd(tokens: Tokens) -> FilePath | None:
    if not tokens.skip("cwd"):
        return None
    path = FilePath.of(tokens.string())
    if not isinstance(path, FilePath):
        raise tokens.error()
    return path


def _take_source(tokens: Tokens) -> AttributeSource:
    argument: str | None = None
    constant: Value | None = None
    if tokens.take("argument", "constant") == "constant":
        constant = take_literal(tokens)
    else:
        argument = tokens.string()
    return AttributeSource(
        argument=argument,
        constant=constant,
        sort=take_sort(tokens),
        default=take_literal(tokens) if tokens.skip("default") else None,
        cwd=_take_cwd(tokens),
        secret=tokens.skip("secret"),
    )
