# SPDX-License-Identifier: Apache-2.0
"""Goes through a command in the order in which it would run, and keeps track of the folder it is in (DESIGN 3.4).

Every branch counts as taken, every loop as run any number of times. ``cd`` may fail, so behind ``cd x;`` there are two
folders a path may be relative to, and each makes its own action; behind ``cd x &&`` there is one.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final, assert_never

from carriage_core.absent import Absent
from carriage_core.schema import FilePath, Sort, Value, normal
from carriage_core.shell import rules
from carriage_core.shell.commands import QUIET, Place, assignment, judge, path_of, unknown
from carriage_core.shell.effects import ShellAction
from carriage_core.shell.syntax import (
    Apart,
    Branch,
    Cases,
    Choice,
    Loop,
    Negated,
    Node,
    Redirect,
    Redirected,
    Simple,
    Steps,
    Word,
)
from carriage_core.shell.words import Arg, UnclearError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

type Folders = frozenset[FilePath | None]
"""The working directories a command may run in; None is one that cannot be told."""

MAX_FOLDERS: Final = 4
"""Most working directories followed at once; with more, none can be told."""

MAX_ACTIONS: Final = 200
"""Most different actions of one command."""

_ANYWHERE: Final[Folders] = frozenset({None})
_NOWHERE: Final[Folders] = frozenset()
_SOCKET: Final = re.compile(r"/dev/(?:tcp|udp)/([^/]*)/.*")
_NAME: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\+?=")
_OF_FILES: Final = ("object.path", "object.within")
_LINKS: Final = frozenset({"ln", "link"})

_ = rules  # imported for the functions it registers


class Walker:
    """Collects the actions of one command."""

    def __init__(self, words: Mapping[str, str | None]) -> None:
        """Start without actions; `words` are the operator's."""
        self._words = words
        self._actions: dict[tuple[object, ...], ShellAction] = {}
        self._links = 0
        self._linked = 0

    def actions(self, node: Node, cwd: FilePath | None) -> tuple[ShellAction, ...]:
        """List what `node` would do when it starts in `cwd`, each once.

        Raises:
            UnclearError: There are too many actions.
        """
        self._run(node, frozenset({cwd}))
        found = tuple(self._actions.values())
        files = sum(any(name in one.attributes for name in _OF_FILES) for one in found)
        if self._links > 1 or (self._links and files > self._linked):
            # 3.3: links are resolved at execution. One made in this very command can make any path another.
            return tuple(_pathless(one) for one in found)
        return found

    def _add(self, actions: Iterable[ShellAction]) -> None:
        for one in actions:
            self._actions.setdefault((one.action, one.object_type, one.why, frozenset(one.attributes.items())), one)
        if len(self._actions) > MAX_ACTIONS:
            raise UnclearError("the command does too many things")

    def _run(self, node: Node, folders: Folders) -> tuple[Folders, Folders]:
        """Go through a node; return the working directories after success and after failure."""
        if not folders:
            folders = _ANYWHERE  # behind `exit`: nobody should get here, and if they do nothing is known
        elif len(folders) > MAX_FOLDERS:
            folders = _ANYWHERE
        match node:
            case Simple():
                return self._simple(node, folders)
            case Steps(parts):
                outcome: tuple[Folders, Folders] = (folders, _NOWHERE)
                for part in parts:
                    outcome = self._run(part, outcome[0] | outcome[1])
                return outcome
            case Branch(left, right, on_success):
                success, failure = self._run(left, folders)
                after = self._run(right, success if on_success else failure)
                return (after[0], failure | after[1]) if on_success else (success | after[0], after[1])
            case Negated(part):
                success, failure = self._run(part, folders)
                return failure, success
            case Apart(parts, last_here):
                after = folders, folders
                for part in parts:
                    after = self._run(part, folders)
                return (folders | after[0], folders | after[1]) if last_here else (folders, folders)
            case Redirected(body, redirects, words):
                self._before(words, redirects, folders)
                return self._run(body, folders)
            case Choice() | Loop() | Cases():
                return self._compound(node, folders)
            case _ as unreachable:
                assert_never(unreachable)

    def _compound(self, node: Choice | Loop | Cases, folders: Folders) -> tuple[Folders, Folders]:
        match node:
            case Choice(arms, otherwise):
                return self._choice(arms, otherwise, folders)
            case Loop(test, body, name):
                if name is not None:
                    self._assigned(name, exported=False)
                return self._loop(test, body, folders)
            case Cases(bodies):
                after = folders
                for body in bodies:
                    success, failure = self._run(body, after)
                    after = after | success | failure
                return after, after

    def _before(self, words: Iterable[Word], redirects: Iterable[Redirect], folders: Folders) -> None:
        """Go through what runs before a command does."""
        for word in words:
            self._inside(word.inner, folders)
        for redirect in redirects:
            self._redirect(redirect, folders)

    def _choice(
        self, arms: list[tuple[Node, Node]], otherwise: Node | None, folders: Folders
    ) -> tuple[Folders, Folders]:
        success, failure = _NOWHERE, _NOWHERE
        for test, body in arms:
            then, folders = self._run(test, folders)
            after = self._run(body, then)
            success, failure = success | after[0], failure | after[1]
        if otherwise is None:
            return success | folders, failure
        after = self._run(otherwise, folders)
        return success | after[0], failure | after[1]

    def _loop(self, test: Node | None, body: Node, folders: Folders) -> tuple[Folders, Folders]:
        reached = folders
        for _ in range(MAX_FOLDERS):
            success, failure = (reached, reached) if test is None else self._run(test, reached)
            after = self._run(body, success | failure)
            grown = reached | success | failure | after[0] | after[1]
            if grown == reached:
                return reached, reached
            reached = grown
        if test is not None:
            self._run(test, _ANYWHERE)
        self._run(body, _ANYWHERE)
        return _ANYWHERE, _ANYWHERE

    def _inside(self, nodes: Iterable[Node], folders: Folders) -> None:
        """Go through what runs in a process of its own to make a word."""
        for node in nodes:
            self._run(node, folders)

    def _simple(self, command: Simple, folders: Folders) -> tuple[Folders, Folders]:
        self._before((*command.assignments, *command.words), command.redirects, folders)
        for word in command.assignments:
            self._assignment(word, exported=bool(command.words))
        args = [] if command.test else [arg for word in command.words for arg in word.arguments()]
        if not args:
            return folders, folders
        match args[0].text:
            case "cd":
                return self._cd(args[1:], folders)
            case "pushd" | "popd":
                return _ANYWHERE, folders
            case "exit":
                self._judge(args, folders)
                leaves = all(arg.text is not None and arg.text.isdigit() for arg in args[1:2]) and len(args) <= 2  # noqa: PLR2004
                return (_NOWHERE, _NOWHERE) if leaves else (folders, folders)
            case "exec" if len(args) > 1:
                self._judge(args, folders)
                return folders, folders
            case _:
                self._judge(args, folders)
                return folders, folders

    def _judge(self, args: list[Arg], folders: Folders) -> None:
        links = False
        for cwd in _in_order(folders):
            actions = judge(args, Place(cwd=cwd, words=self._words))
            self._add(actions)
            if any(one.attributes.get("action.word") in _LINKS for one in actions):
                links = True
                self._linked += len(actions)
        self._links += links

    def _cd(self, args: list[Arg], folders: Folders) -> tuple[Folders, Folders]:
        names = [arg for arg in args if arg.text not in {"-P", "-L", "-e", "--"}]
        if len(names) != 1 or names[0].text is None or names[0].text.startswith("-"):
            return _ANYWHERE, folders
        reached = {path_of(names[0].text, cwd) for cwd in folders}
        return frozenset(path if isinstance(path, FilePath) else None for path in reached), folders

    def _assignment(self, word: Word, *, exported: bool) -> None:
        text = "".join(unit[0] for unit in word.units if isinstance(unit, tuple))
        match = _NAME.match(text)
        self._assigned(match[1] if match else "", exported=exported)

    def _assigned(self, name: str, *, exported: bool) -> None:
        try:
            assignment(name, exported=exported)
        except UnclearError as unclear:
            self._add([unknown(None, str(unclear))])

    def _redirect(self, redirect: Redirect, folders: Folders) -> None:
        self._inside(redirect.inner, folders)
        if redirect.target is None:
            return
        self._inside(redirect.target.inner, folders)
        if redirect.operator == "<<<":
            return
        args = redirect.target.arguments()
        text = args[0].text if len(args) == 1 else None
        if redirect.operator in {">&", "<&"} and text is not None and re.fullmatch(r"[0-9]*-?", text):
            return
        if text in QUIET:
            return
        socket = None if text is None else _SOCKET.fullmatch(text)
        for cwd in _in_order(folders):
            self._add(_connection(socket[1]) if socket else [_redirected(redirect.operator, text, cwd)])


def _in_order(folders: Folders) -> list[FilePath | None]:
    return sorted(folders, key=lambda folder: "" if folder is None else folder.text)


def _connection(host: str) -> list[ShellAction]:
    """Say that a redirection opens a socket: what goes through it may be any file."""
    why = "a redirection connects to a host"
    attributes: dict[str, Value | Absent] = {"object.host": normal(host, Sort.HOST), "action.word": Absent.MISSING}
    content: dict[str, Value | Absent] = {**attributes, "object.path": Absent.UNKNOWN}
    return [
        ShellAction(action="connect", object_type="host", attributes=attributes, why=why),
        ShellAction(action="upload", object_type="file", attributes=content, why=why),
    ]


def _redirected(operator: str, text: str | None, cwd: FilePath | None) -> ShellAction:
    action = "read" if operator in {"<", "<&"} else "write"
    path = Absent.UNKNOWN if text is None else path_of(text, cwd)
    attributes: dict[str, Value | Absent] = {
        "object.path": path,
        "action.recursive": False,
        "action.word": Absent.MISSING,
    }
    return ShellAction(
        action=action, object_type="file", attributes=attributes, why=f"a redirection would {action} a file"
    )


def _pathless(action: ShellAction) -> ShellAction:
    if "object.path" not in action.attributes:
        return action
    kept = {name: value for name, value in action.attributes.items() if name not in {"object.within", "object.target"}}
    return replace(action, attributes=kept | {"object.path": Absent.UNKNOWN})
