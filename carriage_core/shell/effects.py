# SPDX-License-Identifier: Apache-2.0
"""The words policies use for what commands do, and how a row of the table is read (DESIGN 3.4)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import product
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from carriage_core.schema import Sort
from carriage_core.shell.table import ROWS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from carriage_core.absent import Absent
    from carriage_core.schema import Value

_FILE: Final = {"object.path": Sort.PATH, "object.within": Sort.PATH, "action.recursive": Sort.BOOL}
_NAMED: Final = {"object.name": Sort.TEXT, "object.repository": Sort.TEXT, "object.namespace": Sort.TEXT}
_REMOTE: Final = {"object.url": Sort.URL, "object.host": Sort.HOST}
_WORD: Final = {"action.word": Sort.TEXT}

_DEPLOYED: Final = "package image container volume network resource"

_ACTIONS: Final[tuple[tuple[str, dict[str, Sort], str], ...]] = (
    ("read", _FILE, "file"),
    ("write", _FILE | _NAMED, "file ref"),
    ("create", _FILE | _NAMED, "file ref image"),
    (
        "delete",
        _FILE | _NAMED | _REMOTE | {"object.remote": Sort.TEXT},
        f"file ref stash release repository {_DEPLOYED} remote-file object job issue secret",
    ),
    ("move", _FILE | _NAMED | {"object.target": Sort.PATH}, "file ref"),
    ("change-rights", _FILE, "file"),
    ("stage", _FILE, "file"),
    ("commit", _NAMED, "repository"),
    ("push", _NAMED | {"object.remote": Sort.TEXT, "action.force": Sort.BOOL}, "ref"),
    ("publish", _NAMED, "package image release pull-request issue gist"),
    ("upload", _FILE | _REMOTE, "file"),
    ("send", _REMOTE | {"action.method": Sort.TEXT}, "url"),
    ("fetch", _NAMED | _REMOTE, "url repository release"),
    ("connect", {"object.host": Sort.HOST}, "host"),
    ("install", _NAMED, "package image"),
    ("uninstall", _NAMED, "package"),
    ("deploy", _NAMED, "resource workflow"),
    ("configure", _NAMED, "remote repository secret"),
    ("control", _NAMED, "service"),
    ("kill", _NAMED, "process container"),
    ("schedule", _NAMED, "job"),
)

VOCABULARY: Final[Mapping[str, Mapping[str, Sort]]] = MappingProxyType(
    {name: MappingProxyType(attributes | _WORD) for name, attributes, _ in _ACTIONS}
)
"""Every action that a command can be, and the attributes it may have."""

OBJECT_TYPES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {name: tuple(types.split()) for name, _, types in _ACTIONS}
)
"""The object types of each action; a `delete` by an HTTP request has none, since it could delete anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellAction:
    """One thing a command would do.

    Attributes:
        action: The action, None where nobody can say: then anything may happen.
        object_type: Type of the object, None where it could be any.
        attributes: ``object.*`` and ``action.*`` values of `VOCABULARY`.
        why: One short sentence that holds nothing of the command but command words.
    """

    action: str | None
    object_type: str | None
    attributes: Mapping[str, Value | Absent]
    why: str


@dataclass(frozen=True, slots=True)
class Option:
    """Whether an option takes a value (``no``, ``yes``, ``attached``) and what it means."""

    value: str
    mark: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A parsed row; see `table`."""

    options: Mapping[str, Option]
    letters: frozenset[str]
    refused: tuple[str, ...]
    operands: tuple[str, ...]
    always: tuple[str, ...]


@cache
def rows() -> Mapping[str, Row]:
    """Read the table once; keys are command words, or command and subcommands with blanks between."""
    table: dict[str, Row] = {}
    for line in ROWS.strip().replace("\n ", " ").splitlines():
        names, options, operands, *always = (part.strip() for part in f"{line} ".split(" |"))
        row = _row(options.split(), tuple(operands.split()), tuple(" ".join(always).split()))
        for words in product(*(part.split() for part in names.split(" > "))):
            table[" ".join(words)] = row
    return MappingProxyType(table)


@cache
def groups() -> frozenset[str]:
    """What stands in front of a subcommand in the table."""
    parts = (key.split(" ") for key in rows())
    return frozenset(" ".join(words[:count]) for words in parts for count in range(1, len(words)))


def _row(options: list[str], operands: tuple[str, ...], always: tuple[str, ...]) -> Row:
    named: dict[str, Option] = {}
    letters, refused = set[str](), list[str]()
    for token in options:
        if token[0] == "!":
            refused.append(token[1:])
        elif token[0] != "-":
            letters.add(token)
        else:
            spelled, _, mark = token.partition(":")
            value = {"=": "yes", "?": "attached"}.get(spelled[-1], "no")
            named[spelled.rstrip("=?")] = Option(value, mark)
    return Row(
        options=MappingProxyType(named),
        letters=frozenset(letters),
        refused=tuple(refused),
        operands=operands,
        always=always,
    )
