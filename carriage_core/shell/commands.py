# SPDX-License-Identifier: Apache-2.0
"""From the words of one simple command to what it does: options, operands, wrappers (DESIGN 3.4).

`judge` looks the command up in the table of `effects`, reads its options as the program would, and gives every operand
its role. What cannot be read that way raises `UnclearError`, and the caller makes it an unknown action.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from carriage_core.absent import Absent
from carriage_core.schema import FilePath, Sort, Value, normal
from carriage_core.shell.effects import VOCABULARY, Option, Row, ShellAction, groups, rows
from carriage_core.shell.table import HARMLESS
from carriage_core.shell.words import Arg, UnclearError, literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

MAX_WRAPPERS: Final = 12
"""Deepest nesting of commands that run commands."""

_STANDARD: Final = re.compile(r"/(?:usr/(?:local/)?)?s?bin/([A-Za-z0-9_.+\[-]+)")
"""Folders whose programs are those of the plain word."""

_COMMAND: Final = re.compile(r"[A-Za-z0-9_.:+\[-]+")
_ALIASED: Final = re.compile(r"/(?:proc|dev/fd)(?:/|$)")
"""Paths that lead to other paths."""

QUIET: Final = frozenset(
    {"/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/tty", "/dev/zero", "/dev/urandom"}
)
"""Devices that keep nothing."""

_HARMLESS_NAMES: Final = re.compile(
    r"(?:LANG|LANGUAGE|LC_[A-Z]+|TZ|TERM|NO_COLOR|FORCE_COLOR|CLICOLOR|COLUMNS|LINES|CI|DEBUG|VERBOSE|FOO|BAR|"
    r"DEBIAN_FRONTEND|NODE_ENV|RUST_LOG|RUST_BACKTRACE|PYTHONUNBUFFERED|PYTHONDONTWRITEBYTECODE|POSIXLY_CORRECT_)"
)
"""Variables that change only how a program words its output."""

_OWN_NAMES: Final = re.compile(r"[a-z][a-z0-9_]*")
_READ_BY_PROGRAMS: Final = re.compile(
    r"(?:https?|ftp|all|no)_proxy|npm_.*|(?:cd|f|man|module_)?path|pnpm_.*|(?:cd|f|man|module_)?path|cargo_.*|git_.*|ld_.*"
)


type Attributes = Mapping[str, Value | Absent]

_NONE: Final[Attributes] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a command runs and what an operator declared.

    Attributes:
        cwd: The working directory, None where it is not known.
        words: Further command words.
        wrapped: How many commands stand around it.
        origin: The working directory before an option of the command itself changed it.
    """

    cwd: FilePath | None
    words: Mapping[str, str | None]
    wrapped: int = 0
    origin: FilePath | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A command with its row, its options by meaning, and its operands."""

    word: str
    key: str
    row: Row
    found: tuple[tuple[str, Arg | None], ...]
    operands: tuple[Arg, ...]
    place: Place

    def has(self, *marks: str) -> bool:
        """Whether an option of one of these meanings was given."""
        return any(mark in marks for mark, _ in self.found)

    def values(self, *marks: str) -> list[Arg]:
        """The values of options of these meanings, in order."""
        return [value for mark, value in self.found if mark in marks and value is not None]

    @property
    def loose(self) -> bool:
        """Whether nobody can count the operands."""
        return any(operand.loose for operand in self.operands)

    def at(self, cwd: FilePath | None) -> Call:
        """Move to another working directory."""
        return replace(self, place=replace(self.place, cwd=cwd))

    def action(self, action: str, kind: str | None, why: str, attributes: Attributes) -> ShellAction:
        """Build an action."""
        return ShellAction(
            action=action,
            object_type=kind,
            attributes={**attributes, "action.word": self.word},
            why=f"{self.word} {why}",
        )

    def file(
        self,
        action: str,
        path: FilePath | Absent,
        within: FilePath | Absent | None = None,
        *,
        recursive: bool = False,
        more: Attributes = _NONE,
    ) -> ShellAction:
        """Build an action on a file; `within` says where an unknown one lies."""
        attributes: dict[str, Value | Absent] = {"object.path": path, "action.recursive": recursive, **more}
        why = f"would {'change the rights of' if action == 'change-rights' else action} a file"
        if isinstance(within, FilePath):
            attributes["object.within"] = within
            why += " below a folder"
        elif isinstance(path, Absent):
            why += " that cannot be told"
        return self.action(action, "file", why, attributes)

    def files(
        self, action: str, operand: Arg, *, recursive: bool = False, more: Attributes = _NONE
    ) -> list[ShellAction]:
        """Build the actions on what an operand names; a recursive one is on all that lies below, too."""
        cwd = self.place.cwd
        if operand.text is None:
            within = path_of(operand.folder or ".", cwd) if operand.folder is not None else None
            return [self.file(action, Absent.UNKNOWN, within, recursive=recursive, more=more)]
        if action in {"read", "write"} and (operand.text == "-" or operand.text in QUIET):
            return []
        path = path_of(operand.text, cwd)
        found = [self.file(action, path, recursive=recursive, more=more)]
        if recursive and isinstance(path, FilePath):
            found.append(self.file(action, Absent.UNKNOWN, path, recursive=recursive, more=more))
        return found

    def named(self, effect: str, operand: Arg | None) -> ShellAction:
        """Build an action ``ACTION/TYPE`` on something with a name, or on what nobody can name."""
        action, _, kind = effect.partition("/")
        known = Absent.UNKNOWN if operand is None or operand.text is None else operand.text
        if action == "connect":
            return self.action(action, "host", "connects to a host", {"object.host": normal(known, Sort.HOST)})
        if kind == "anywhere":
            return self.file(action, Absent.UNKNOWN)
        if kind == "resource" and isinstance(known, str):
            known = known.rpartition("/")[2]  # pod/NAME is NAME
        attributes: dict[str, Value | Absent] = {"object.name": normal(known, Sort.TEXT)}
        for option in self.row.options.values():
            if option.mark.startswith("object."):
                values = self.values(option.mark)
                attributes[option.mark] = normal(values[-1].text if values else None, Sort.TEXT)
        return self.action(action, kind, f"would {action} a {kind}", attributes)


def path_of(text: str, cwd: FilePath | None) -> FilePath | Absent:
    """Read a path as a program would get it; what leads elsewhere is unknown."""
    path = FilePath.of(text, cwd)
    return Absent.UNKNOWN if isinstance(path, FilePath) and _ALIASED.match(path.text) else path


def unknown(word: str | None, why: str) -> ShellAction:
    """Say that anything may happen."""
    attributes: dict[str, Value | Absent] = {"action.word": Absent.UNKNOWN if word is None else normal(word, Sort.ID)}
    return ShellAction(action=None, object_type=None, attributes=attributes, why=why)


def judge(args: list[Arg], place: Place) -> list[ShellAction]:
    """Say what a command does.

    Returns:
        Its actions; none for a harmless command, a single unknown one where it cannot be read.
    """
    word = _word(args[0])
    if place.wrapped > MAX_WRAPPERS:
        return [unknown(word, "too many commands run each other")]
    try:
        return _judge(word, args, place)
    except UnclearError as unclear:
        return [unknown(word, f"{word or 'a command'}: {unclear}")]


def _word(arg: Arg) -> str | None:
    if arg.text is None:
        return None
    standard = _STANDARD.fullmatch(arg.text)
    text = standard[1] if standard else arg.text
    return text if _COMMAND.fullmatch(text) else None


def _judge(word: str | None, args: list[Arg], place: Place) -> list[ShellAction]:
    if word is not None and word not in {".", ".."}:
        if word in {"test", "["}:
            return _test(args[1:])
        if word in HARMLESS:
            return []
        call = resolve(word, args[1:], place)
        if call is not None:
            return act(call)
    return _declared(word, args, place)


def _declared(word: str | None, args: list[Arg], place: Place) -> list[ShellAction]:
    """Look a command up among those an operator declared, with up to two words behind it."""
    texts = [args[0].text if word is None else word, *(arg.text for arg in args[1:3])]
    for count in range(len(texts), 0, -1):
        known = [text for text in texts[:count] if text is not None]
        key = " ".join(known)
        if len(known) == count and key in place.words:
            action = place.words[key]
            if action is None:
                return []
            attributes: dict[str, Value | Absent] = {"action.word": normal(key, Sort.ID)}
            return [
                ShellAction(
                    action=action, object_type=None, attributes=attributes, why=f"{key} is declared as {action}"
                )
            ]
    raise UnclearError("not a command whose effects are known")


def _test(args: list[Arg]) -> list[ShellAction]:
    """Judge ``test``: it looks only, but ``-v`` and ``-R`` evaluate subscripts, which can run commands."""
    for index, arg in enumerate(args):
        following = args[index + 1] if index + 1 < len(args) else literal("")
        evaluates = arg.text in {"-v", "-R"} and not (following.text or "").isidentifier()
        if arg.loose or evaluates or (arg.text is None and following.text is None):
            raise UnclearError("a test that may evaluate what it compares")
    return []


def resolve(word: str, args: list[Arg], place: Place) -> Call | None:
    """Find the row of a command or subcommand and read its options; None where there is no row."""
    key, table = word, rows()
    while True:
        row = table.get(key)
        nested = key in groups()
        if row is not None and (not nested or not row.operands[0].startswith("@sub")):
            found, operands = parse(row, args)
            return Call(word=word, key=key, row=row, found=found, operands=operands, place=place)
        if not nested:
            return None
        if row is not None:
            found, operands = parse(row, args)
            for mark, value in found:
                if mark == "cwd" and value is not None:
                    place = replace(place, cwd=_folder(value, place.cwd))
                elif mark == "harmless":
                    return Call(word=word, key=key, row=row, found=found, operands=(), place=place)
            args = list(operands)
            if not args and row.operands[0] != "@sub":
                return Call(word=word, key=key, row=row, found=found, operands=(), place=place)
        elif len(args) == 1 and args[0].text in {"--version", "--help", "-h"}:
            return Call(word=word, key=key, row=_NOTHING, found=(), operands=(), place=place)
        if not args or args[0].text is None:
            raise UnclearError("which subcommand cannot be told")
        key = f"{key} {args[0].text}"
        if key not in table and key not in groups():
            return None
        args = args[1:]


_NOTHING: Final = Row(options={}, letters=frozenset(), refused=(), operands=("text*",), always=())


def _folder(value: Arg, cwd: FilePath | None) -> FilePath | None:
    path = Absent.UNKNOWN if value.text is None else path_of(value.text, cwd)
    return path if isinstance(path, FilePath) else None


# Options


def parse(row: Row, args: list[Arg]) -> tuple[tuple[tuple[str, Arg | None], ...], tuple[Arg, ...]]:
    """Split arguments into options by meaning and operands.

    Raises:
        UnclearError: An option has no entry, lacks its value, is refused, or could be one nobody can read.
    """
    if row.operands[:1] and row.operands[0] in _RAW:
        return (), tuple(args)
    if row.operands == ("@tar",):
        args = _old_style(row, args)
    found: list[tuple[str, Arg | None]] = []
    operands: list[Arg] = []
    rest = list(reversed(args))
    tolerant = "~" in row.letters or ("*" in row.letters and not row.refused)
    while rest:
        arg = rest.pop()
        text = arg.text
        if text is None and arg.head.startswith("--") and "=" in arg.head and not arg.loose:
            name, _, head = arg.head.partition("=")
            _long(row, name, Arg(text=None, head=head), rest, found)
        elif text is None and arg.maybe_option and not tolerant:
            raise UnclearError("an argument that could be any option")
        elif text is None or text == "-" or not text.startswith("-"):
            operands.append(arg)
            if "+" in row.letters:
                break
        elif text == "--":
            break
        elif text in row.options or (text.partition("=")[0] in row.options and not text.startswith("--")):
            _exact(row, text, rest, found)
        elif text.startswith("--"):
            name, equals, value = text.partition("=")
            _long(row, name, literal(value) if equals else None, rest, found)
        else:
            _short(row, text, rest, found)
    operands.extend(reversed(rest))
    if any(mark == "refuse" for mark, _ in found):
        raise UnclearError("an option that runs or reads what is not seen here")
    return tuple(found), tuple(operands)


def _old_style(row: Row, args: list[Arg]) -> list[Arg]:
    """Rewrite ``tar xzf FILE`` as ``tar -x -z -f FILE``: values follow in the order of their letters."""
    if not args or args[0].text is None or args[0].text.startswith("-"):
        return args
    rest = args[1:]
    options: list[Arg] = []
    for letter in args[0].text:
        option = row.options.get(f"-{letter}")
        if option is None or (option.value == "yes" and not rest):
            raise UnclearError("an option whose effect is not known")
        options.append(literal(f"-{letter}"))
        if option.value == "yes":
            options.append(rest.pop(0))
    return [*options, *rest]


def _exact(row: Row, text: str, rest: list[Arg], found: list[tuple[str, Arg | None]]) -> None:
    name, equals, value = text.partition("=")
    option = row.options[text if text in row.options else name]
    if len(name) == 2 and equals:  # noqa: PLR2004  # -x=y: to most programs the value begins with =
        _short(row, text, rest, found)
    elif option.value == "yes":
        found.append((option.mark, literal(value) if equals else _value(rest)))
    else:
        found.append((option.mark, None))


def _long(row: Row, name: str, value: Arg | None, rest: list[Arg], found: list[tuple[str, Arg | None]]) -> None:
    option = row.options.get(name)
    if option is None and "&" in row.letters:
        meant = {option for full, option in row.options.items() if full.startswith(name)}
        option = meant.pop() if len(meant) == 1 else None
    if option is None:
        stem = name.removeprefix("--")
        if "*" not in row.letters or any(long.startswith(stem) or stem.startswith(long) for long in row.refused):
            raise UnclearError("an option whose effect is not known")
    elif option.value == "yes":
        found.append((option.mark, _value(rest) if value is None else value))
    else:
        found.append((option.mark, value))


def _short(row: Row, text: str, rest: list[Arg], found: list[tuple[str, Arg | None]]) -> None:
    for index, letter in enumerate(text[1:], start=1):
        option = row.options.get(f"-{letter}")
        if option is None:
            if "*" not in row.letters or letter in row.refused or text[1:].partition("=")[0] in row.refused:
                raise UnclearError("an option whose effect is not known")
        elif option.value != "no":
            attached = text[index + 1 :]
            value = literal(attached) if attached else _value(rest) if option.value == "yes" else None
            found.append((option.mark, value))
            return
        else:
            found.append((option.mark, None))


def _value(rest: list[Arg]) -> Arg:
    if not rest or rest[-1].loose:
        raise UnclearError("an option without a value that can be told")
    return rest.pop()


# Effects


def act(call: Call) -> list[ShellAction]:
    """Turn a read command into actions."""
    actions: list[ShellAction] = []
    if call.has("harmless", "dry") or any(_dry(value) for value in call.values("dry-run")):
        return []
    call = replace(call, place=replace(call.place, origin=call.place.cwd))
    for folder in call.values("cwd"):
        call = call.at(_folder(folder, call.place.cwd))
    first = call.row.operands[0] if call.row.operands else "none"
    if first.startswith("@"):
        actions += RULES[first](call)
    else:
        recursive = call.has("recursive")
        for role, operand in assign(call):
            actions += _role(call, role, operand, recursive=recursive)
    for mark, value in call.found:
        if "/" in mark:
            actions.append(call.named(mark, value))
        elif mark in VOCABULARY and value is not None:
            actions += call.files(mark, value)
        elif mark == "pattern-file" and value is not None:
            actions += call.files("read", value)
    actions += [call.named(effect, None) for effect in call.row.always]
    if call.has("vague"):
        touched = {one.action for one in actions if one.object_type == "file" and one.action not in {None, "read"}}
        actions += [call.file(action, Absent.UNKNOWN) for action in sorted(filter(None, touched))]
    if call.has("parents"):
        actions += [parent for one in actions for parent in _parents(call, one)]
    return actions


def _parents(call: Call, action: ShellAction) -> list[ShellAction]:
    """Repeat an action for every folder above its path."""
    path = action.attributes.get("object.path")
    if not isinstance(path, FilePath) or action.action is None:
        return []
    steps = path.text.split("/")
    above = [FilePath("/".join(steps[:count])) for count in range(2, len(steps))]
    here = call.place.cwd
    # The working directory is there already.
    exist = [one for one in above if action.action == "create" and here is not None and one.covers(here)]
    return [call.file(action.action, one) for one in above if one not in exist]


def _dry(value: Arg) -> bool:
    return value.text in {"client", "server"}


def assign(call: Call) -> list[tuple[str, Arg]]:
    """Give each operand its role; where nobody can count them, each gets every role."""
    roles = list(call.row.operands)
    if call.has("skip", "pattern-file") and roles[:1] == ["text"]:
        del roles[0]
    if call.loose:
        return [(role.rstrip("*"), operand) for operand in call.operands for role in dict.fromkeys(roles)]
    many = next((index for index, role in enumerate(roles) if role.endswith("*")), None)
    if many is None:
        roles = [] if roles == ["none"] else roles
        if len(call.operands) > len(roles):
            raise UnclearError("more operands than it takes")
        pairs = list(zip(roles, call.operands, strict=False))
    else:
        before, after = roles[:many], roles[many + 1 :]
        count = len(call.operands) - len(before) - len(after)
        pairs = list(zip([*before, *[roles[many]] * max(count, 0), *after], call.operands, strict=False))
    wanting = [role for role in roles[len(pairs) :] if "/" in role] if not pairs or many is None else []
    absent = Arg(text=None, head="")
    recursive = call.has("recursive") or any(":recursive" in role for role in roles)
    if recursive and roles and roles[-1].startswith("read") and not any("read" in role for role, _ in pairs):
        pairs.append((roles[-1], literal(".")))
    return [(role.rstrip("*"), operand) for role, operand in [*pairs, *((role, absent) for role in wanting)]]


def _role(call: Call, role: str, operand: Arg, *, recursive: bool) -> list[ShellAction]:
    action, _, modifier = role.partition(":")
    if action == "text":
        return []
    if "/" in action:
        return [call.named(action, operand)]
    more: Attributes = {"object.host": Absent.UNKNOWN} if action == "upload" else _NONE
    return call.files(action, operand, recursive=recursive or modifier == "recursive", more=more)


def run(call: Call, args: Iterable[Arg], cwd: FilePath | None) -> list[ShellAction]:
    """Judge a command that another one runs."""
    rest = list(args)
    return judge(rest, replace(call.place, cwd=cwd, wrapped=call.place.wrapped + 1)) if rest else []


def assignment(name: str, *, exported: bool) -> None:
    """Check that setting a variable changes nothing that programs do.

    Raises:
        UnclearError: A shell or a program may act on it.
    """
    own = _OWN_NAMES.fullmatch(name) and not _READ_BY_PROGRAMS.fullmatch(name) and not exported
    if not own and not _HARMLESS_NAMES.fullmatch(name):
        raise UnclearError("a variable that shells or programs may act on is set")


RULES: Final[dict[str, Callable[[Call], list[ShellAction]]]] = {}
"""The functions for commands that a row cannot describe, by their name in the table."""

_RAW: Final = frozenset({"@find", "@dd", "@cloud"})
"""Rules that read their options themselves."""


def rule(name: str) -> Callable[[Callable[[Call], list[ShellAction]]], Callable[[Call], list[ShellAction]]]:
    """Register a rule under its name in the table."""

    def register(function: Callable[[Call], list[ShellAction]]) -> Callable[[Call], list[ShellAction]]:
        RULES[f"@{name}"] = function
        return function

    return register


__all__ = [
    "MAX_WRAPPERS",
    "Call",
    "Option",
    "Place",
    "act",
    "assignment",
    "judge",
    "parse",
    "path_of",
    "rule",
    "run",
    "unknown",
]
