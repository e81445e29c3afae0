# SPDX-License-Identifier: Apache-2.0
"""Tools, and how a concrete call becomes the abstract action that policies speak about (DESIGN 3.4)."""

from __future__ import annotations

import itertools
import math
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from carriage_core.arguments import BadArgumentsError, json_tree
from carriage_core.canonical import digest_of
from carriage_core.errors import ToolBindingError
from carriage_core.policy import RESERVED_WORDS, WORD, Issuer, IssuerKind, check_visible
from carriage_core.schema import Absent, FilePath, Sort, Value, canonical_value, normal

MAX_ACTIONS: Final = 256
"""Most actions one call may expand to through list-valued arguments."""

OPERATOR: Final = Issuer(kind=IssuerKind.DEVELOPER, name="policy-file")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """A tool as a framework offers it: its name, where it lives, and its argument schema if known.

    Attributes:
        name: What the model calls it.
        server: The MCP server or other origin, None for a local tool.
        arguments: Names the schema allows, or None where the schema is unknown or open.
        digest: SHA-256 of the JSON Schema of its arguments, None where unknown.
        types: JSON types that the schema allows for each argument, where it says so; those of the elements for a list.
    """

    name: str
    server: str | None = None
    arguments: frozenset[str] | None = None
    digest: str | None = None
    types: tuple[tuple[str, frozenset[str]], ...] = ()

    @classmethod
    def of(cls, tool: ToolSpec | str | Mapping[str, object]) -> ToolSpec:
        """Read a tool from a name, an AutoGen or MCP style schema, or an OpenAI function entry.

        Raises:
            ToolBindingError: It has no name.
        """
        if isinstance(tool, ToolSpec):
            return tool
        if isinstance(tool, str):
            return cls(name=tool)
        inner = tool.get("function", tool)
        entry: Mapping[str, object] = inner if isinstance(inner, Mapping) else tool
        name = entry.get("name")
        if not isinstance(name, str) or not name:
            raise ToolBindingError("a tool without a name was offered.", mend="pass its name or its schema.")
        schema = entry.get("parameters", entry.get("inputSchema", entry.get("input_schema")))
        server = entry.get("server")
        if not isinstance(schema, Mapping):
            return cls(name=name, server=server if isinstance(server, str) else None)
        properties = schema.get("properties")
        closed = schema.get("additionalProperties") is not True and isinstance(properties, Mapping)
        return cls(
            name=name,
            server=server if isinstance(server, str) else None,
            arguments=frozenset(map(str, properties)) if closed and isinstance(properties, Mapping) else None,
            digest=digest_of(json_tree(schema)),
            types=_json_types(properties) if isinstance(properties, Mapping) else (),
        )


_NUMERIC: Final = frozenset({"integer", "number"})
_WRITTEN_AS: Final = {
    Sort.NUMBER: _NUMERIC,
    Sort.INTEGER: _NUMERIC,
    Sort.MONEY: _NUMERIC,
    Sort.BOOL: frozenset({"boolean"}),
}
"""JSON types that a value of a sort can have; a string for all others, and any for `Sort.ANY`."""


def _json_types(properties: Mapping[object, object]) -> tuple[tuple[str, frozenset[str]], ...]:
    found = {str(name): _types_of(entry) for name, entry in properties.items()}
    return tuple((name, types) for name, types in found.items() if types)


def _types_of(entry: object) -> frozenset[str]:
    """Read the types of one property; empty where the schema does not say, or says it in a way not read here."""
    if not isinstance(entry, Mapping):
        return frozenset()
    branches = entry.get("anyOf", entry.get("oneOf"))
    if isinstance(branches, list):
        each = [_types_of(branch) for branch in branches]
        return frozenset[str]().union(*each) if all(each) else frozenset()
    declared = entry.get("type")
    names = {declared} if isinstance(declared, str) else {*declared} if isinstance(declared, list) else set()
    if "array" in names:
        # A list makes one action for each element, so the elements are what an attribute sees.
        inner = _types_of(entry.get("items"))
        return frozenset((names - {"array"}) | inner) if inner else frozenset()
    return frozenset(str(name) for name in names)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributeSource:
    """Where an attribute comes from: a dotted path into the arguments, or a constant of the binding.

    Attributes:
        argument: Dotted path, None for a constant.
        constant: The constant, None for an argument.
        sort: Type of the argument; another type than that is unknown.
        default: What the tool does when the argument is left out; None where that is not known (DESIGN 3.3).
        secret: Whether its value is masked wherever a verdict would show it (DESIGN 3.9).
        cwd: For paths, the working directory that relative ones are read against.
        steps: The parts of `argument`.
    """

    argument: str | None = None
    constant: Value | None = None
    sort: Sort = Sort.ANY
    default: Value | None = None
    secret: bool = False
    cwd: FilePath | None = None
    steps: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse a source that could not be shown in a capsule, or that is none."""
        object.__setattr__(self, "steps", () if self.argument is None else tuple(self.argument.split(".")))
        if (self.argument is None) == (self.constant is None):
            raise ToolBindingError("an attribute needs an argument or a constant.", mend="give one of them.")
        if self.argument is not None:
            check_visible("argument", self.argument)
        elif isinstance(normal(self.constant), Absent):
            raise ToolBindingError(
                "a constant is not in normal form.", mend="write plain visible text or a finite number."
            )
        if self.default is not None and (self.argument is None or normal(self.default, self.sort) != self.default):
            raise ToolBindingError(
                f"a default is not a value of type {self.sort}.", mend="write what the tool uses when it is left out."
            )
        if self.cwd is not None and self.sort is not Sort.PATH:
            raise ToolBindingError("only a path has a working directory.", mend="add type: path, or remove cwd.")

    def canonical(self) -> object:
        """RFC 8785 input."""
        return [
            self.argument,
            None if self.constant is None else canonical_value(self.constant),
            self.sort.value,
            None if self.default is None else canonical_value(self.default),
            self.secret,
            None if self.cwd is None else self.cwd.text,
        ]

    def values(self, arguments: Mapping[str, object]) -> list[Value | Absent]:
        """Read the attribute from checked arguments: one value, or one for each element of a list.

        Raises:
            BadArgumentsError: More than `MAX_ACTIONS` elements.
        """
        if self.constant is not None:
            return [self.constant]
        if len(self.steps) == 1 and type(arguments) is dict:
            raw = arguments.get(self.steps[0], Absent.MISSING)
            if type(raw) is str:
                return [normal(raw, self.sort, self.cwd)]
            if not isinstance(raw, list | tuple):
                return [self._value(raw)]
        current: list[object] = [arguments]
        for step in self.steps:
            following: list[object] = []
            for value in current:
                if not isinstance(value, Mapping):
                    following.append(Absent.UNKNOWN if value is not Absent.MISSING else value)
                elif step not in value:
                    following.append(Absent.MISSING)
                else:
                    found = value[step]
                    # An empty list names no object at all; nobody can say what the tool makes of that.
                    following.extend((found or [Absent.UNKNOWN]) if isinstance(found, list | tuple) else [found])
            current = following
            if len(current) > MAX_ACTIONS:
                raise BadArgumentsError(f"the call names more than {MAX_ACTIONS} objects")
        return [self._value(value) for value in current]

    def _value(self, raw: object) -> Value | Absent:
        if raw is Absent.MISSING:
            return Absent.MISSING if self.default is None else self.default
        return raw if isinstance(raw, Absent) else normal(raw, self.sort, self.cwd)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellSource:
    """The argument that holds a shell command, which is parsed into the actions it would do (DESIGN 3.4).

    Attributes:
        argument: The argument's name.
        cwd: Where the shell starts; None makes every relative path unknown.
        words: Further command words: the action each does, None for a harmless one.
        stdin: The argument that says, when true, that the text goes to a running program, None where there is none.
    """

    argument: str
    cwd: FilePath | None = None
    words: tuple[tuple[str, str | None], ...] = ()
    stdin: str | None = None

    def __post_init__(self) -> None:
        """Refuse names that no capsule could show."""
        for name in (self.argument, *(word for word, _ in self.words), *(() if self.stdin is None else (self.stdin,))):
            check_visible("a shell binding's name", name)
        for _, action in self.words:
            if action is not None and (not WORD.fullmatch(action) or action in RESERVED_WORDS):
                raise ToolBindingError(f"action {action!r} is not a plain word.", mend="use letters, digits, _ and -.")

    def canonical(self) -> object:
        """RFC 8785 input."""
        return [
            self.argument,
            None if self.cwd is None else self.cwd.text,
            [[word, action] for word, action in self.words],
            self.stdin,
        ]

    def actions(self, tool: str, arguments: Mapping[str, object], *, external: bool) -> tuple[Action, ...]:
        """Parse the command; what cannot be understood is an unknown action.

        Raises:
            BadArgumentsError: The command is no text, or does more than `MAX_ACTIONS` things.
            ToolBindingError: The parser is not installed.
        """
        command = arguments.get(self.argument)
        if not isinstance(command, str):
            raise BadArgumentsError(f"{self.argument!r} is not a command")
        fixed: dict[str, Value | Absent] = {"action.tool": tool, "action.external": external}
        if self.stdin is not None and arguments.get(self.stdin, False) is not False:
            why = "the text goes to a program that is already running"
            return (Action(name=None, tool=tool, object_type=None, external=external, attributes=fixed, why=why),)
        # Here, since the parser is an extra and few bindings need it.
        from carriage_core.shell import shell_actions  # noqa: PLC0415

        parsed = shell_actions(command, cwd=self.cwd, words=dict(self.words))
        if len(parsed) > MAX_ACTIONS:
            raise BadArgumentsError(f"the command does more than {MAX_ACTIONS} things")
        return tuple(
            Action(
                name=one.action,
                tool=tool,
                object_type=one.object_type,
                external=external,
                attributes={
                    **fixed,
                    **({} if one.action is None else {"action.name": one.action}),
                    **({} if one.object_type is None else {"object.type": one.object_type}),
                    **one.attributes,
                },
                why=one.why,
            )
            for one in parsed
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """What a call would do, in the words policies use.

    Attributes:
        name: The action, None where nobody can say: then every rule could govern it.
        tool: The tool called.
        object_type: Type of the object, None where it is not known.
        external: Whether its effects leave the process.
        attributes: ``object.*`` and ``action.*`` values in normal form; one that is not in it is missing, and unknown
            where the action itself is.
        secret: The attributes among them that are masked.
        why: How a parsed command came to be this action, empty for others.
    """

    name: str | None
    tool: str
    object_type: str | None
    external: bool
    attributes: Mapping[str, Value | Absent]
    secret: frozenset[str] = frozenset()
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolBinding:
    """How calls of one tool map to actions.

    Attributes:
        tool: The tool's exact name.
        action: The abstract action, or None for a declared harmless tool (``action: none``) and for a shell.
        server: The server it must come from, or None for any.
        schema_digest: The argument schema it is pinned to, or None.
        external: Whether its effects leave the process; true unless declared otherwise.
        object_type: Type of the object acted on, or None.
        object_attributes: ``object.*`` attributes by name, sorted.
        action_attributes: ``action.*`` attributes by name, sorted.
        arguments: Further argument names the tool has, so that evidence may use them.
        trusted_evidence: Whether its structured results may be recorded as evidence.
        shell: For a tool that runs shell commands, where the command stands.
        except_when: An argument, and the values of it that make a call none of this binding's business; a value that is
            missing or not text does not. For tools that do several things, one binding for each.
        issuer: Who declared the binding.
        line: Line in the policy file, 0 where there is none.
        shipped: Whether an adapter brought it for its framework's own tool, not the operator.
        reads: Where every attribute of a call is read, in the order of `names`.
        names: Full names of those attributes.
        fixed: The attributes that are the same for every call.
        secret: Full names of the attributes whose values are masked.
    """

    tool: str
    action: str | None
    server: str | None = None
    schema_digest: str | None = None
    external: bool = True
    object_type: str | None = None
    object_attributes: tuple[tuple[str, AttributeSource], ...] = ()
    action_attributes: tuple[tuple[str, AttributeSource], ...] = ()
    arguments: frozenset[str] = frozenset()
    trusted_evidence: bool = False
    shell: ShellSource | None = None
    except_when: tuple[str, tuple[str, ...]] | None = None
    issuer: Issuer = OPERATOR
    line: int = 0
    shipped: bool = False
    reads: tuple[AttributeSource, ...] = field(init=False, repr=False, compare=False)
    names: tuple[str, ...] = field(init=False, repr=False, compare=False)
    fixed: Mapping[str, Value | Absent] = field(init=False, repr=False, compare=False)
    secret: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse names the clause grammar could not show, and evidence from tools that repeat what they read."""
        for what, word in (("action", self.action), ("object type", self.object_type)):
            if word is not None and (not WORD.fullmatch(word) or word in RESERVED_WORDS):
                raise ToolBindingError(f"{what} {word!r} is not a plain word.", mend="use letters, digits, _ and -.")
        for what, name in (("tool", self.tool), ("server", self.server), ("schema", self.schema_digest)):
            if name is not None:
                check_visible(what, name)
        for name in (*dict(self.object_attributes), *dict(self.action_attributes)):
            if not WORD.fullmatch(name):
                raise ToolBindingError(
                    f"the attribute {name!r} is not a plain word.", mend="use letters, digits, _ and -."
                )
        if self.shell is not None and (self.action or self.object_type or self.trusted_evidence):
            raise ToolBindingError(
                f"{self.tool!r} runs a shell: its actions come from the command.",
                mend="remove action, object and trusted_evidence.",
            )
        if self.except_when is not None:
            if not self.except_when[1]:
                raise ToolBindingError(
                    f"{self.tool!r} excepts no value of an argument.", mend="name a value, or remove the exception."
                )
            for name in (self.except_when[0], *self.except_when[1]):
                check_visible("an exception", name)
        # The model chooses arguments; it must not choose what the binding itself says of the call.
        shadowed = sorted({"name", "tool", "external"} & set(dict(self.action_attributes)))
        shadowed += sorted({"type"} & set(dict(self.object_attributes)))
        if shadowed:
            raise ToolBindingError(
                f"the attribute {shadowed[0]!r} is the binding's own.",
                mend="give the argument's attribute another name.",
            )
        if self.trusted_evidence and is_reader(self.tool):
            # 3.5: such a tool returns whatever a page, file or command printed; anyone can write that.
            raise ToolBindingError(
                f"{self.tool!r} returns text it read elsewhere and cannot be trusted_evidence.",
                mend="let a tool of your own verify and return a structured result.",
            )
        self._prepare()

    def _prepare(self) -> None:
        """Work out once what every call needs."""
        reads = [(f"object.{name}", source) for name, source in self.object_attributes]
        reads += [(f"action.{name}", source) for name, source in self.action_attributes]
        fixed: dict[str, Value | Absent] = {"action.tool": self.tool, "action.external": self.external}
        if self.action is not None:
            fixed["action.name"] = self.action
        if self.object_type is not None:
            fixed["object.type"] = self.object_type
        object.__setattr__(self, "reads", tuple(source for _, source in reads))
        object.__setattr__(self, "names", tuple(name for name, _ in reads))
        object.__setattr__(self, "fixed", fixed)
        object.__setattr__(self, "secret", frozenset(name for name, source in reads if source.secret))

    def contradictions(self, types: Mapping[str, frozenset[str]]) -> tuple[tuple[str, Sort, frozenset[str]], ...]:
        """Find arguments declared of a type that the tool's schema rules out: such a value is never there.

        Returns:
            Argument, declared type, and the JSON types of the schema.
        """
        sources = [source for _, source in (*self.object_attributes, *self.action_attributes)]
        return tuple(
            (source.argument, source.sort, types[source.argument])
            for source in sources
            if source.argument is not None
            and source.argument in types
            and source.sort is not Sort.ANY
            and not types[source.argument] & _WRITTEN_AS.get(source.sort, frozenset({"string"}))
        )

    @property
    def acts(self) -> bool:
        """Whether calls of the tool are actions at all, rather than declared harmless."""
        return self.action is not None or self.shell is not None

    @property
    def known_arguments(self) -> frozenset[str]:
        """Top-level argument names the binding speaks of."""
        sources = (source for _, source in (*self.object_attributes, *self.action_attributes))
        shell = () if self.shell is None else (self.shell.argument, *filter(None, (self.shell.stdin,)))
        named = {source.argument.split(".")[0] for source in sources if source.argument is not None}
        excepted = () if self.except_when is None else (self.except_when[0],)
        return self.arguments | named | frozenset(shell) | frozenset(excepted)

    def canonical(self) -> object:
        """RFC 8785 input with everything that affects a verdict."""
        return {
            "action": self.action,
            "action_attributes": [[name, source.canonical()] for name, source in self.action_attributes],
            "external": self.external,
            "object": [
                self.object_type,
                [[name, source.canonical()] for name, source in self.object_attributes],
            ],
            "schema": self.schema_digest,
            "server": self.server,
            "shell": None if self.shell is None else self.shell.canonical(),
            "tool": self.tool,
            "trusted_evidence": self.trusted_evidence,
            **({} if self.except_when is None else {"except": [self.except_when[0], sorted(self.except_when[1])]}),
        }

    def actions(self, arguments: Mapping[str, object]) -> tuple[Action, ...]:
        """Turn checked arguments into actions: one, or one for each element of a list-valued path.

        Raises:
            BadArgumentsError: More than `MAX_ACTIONS` elements.
        """
        if self.except_when is not None and arguments.get(self.except_when[0]) in self.except_when[1]:
            return ()
        if self.shell is not None:
            return self.shell.actions(self.tool, arguments, external=self.external)
        if self.action is None:
            return ()
        choices = [source.values(arguments) for source in self.reads]
        count = math.prod([len(values) for values in choices])
        if count == 1:
            return (self._action([value for (value,) in choices]),)
        if count > MAX_ACTIONS:
            raise BadArgumentsError(f"the call names more than {MAX_ACTIONS} objects")
        return tuple(map(self._action, itertools.product(*choices)))

    def _action(self, values: Iterable[Value | Absent]) -> Action:
        attributes = dict(self.fixed)
        attributes.update(zip(self.names, values, strict=True))
        return Action(
            name=self.action,
            tool=self.tool,
            object_type=self.object_type,
            external=self.external,
            attributes=attributes,
            secret=self.secret,
        )


_READERS: Final = frozenset(
    [
        "terminal",
        "bash",
        "shell",
        "sh",
        "execute_bash",
        "cmd",
        "powershell",
        "run_command",
        "command",
        "browser",
        "browse",
        "fetch",
        "http_get",
        "curl",
        "wget",
        "web_search",
        "search",
        "read_file",
        "file_read",
        "cat",
        "open_file",
        "file_editor",
        "str_replace_editor",
        "view",
        "get_page",
        "http_request",
        "fetch_url",
        "python",
        "execute_python",
        "ipython",
        "run_python",
        "code_executor",
    ]
)
_READER_PARTS: Final = frozenset({"bash", "shell", "terminal", "browser", "fetch", "curl", "wget", "powershell"})


def is_reader(tool: str) -> bool:
    """Whether a tool's name says that it repeats what a command, page or file holds."""
    name = unicodedata.normalize("NFKC", tool).casefold().replace("-", "_")
    return name in _READERS or not _READER_PARTS.isdisjoint(name.split("_"))


def confusable(name: str) -> str:
    """Fold a tool name so that names people confuse become equal: width, case, separators, 0/O and 1/l/I."""
    folded = unicodedata.normalize("NFKC", name).casefold()
    return "".join(_TWINS.get(character, character) for character in folded if character not in "_-. :/")


_TWINS: Final = dict(zip("01\u0430\u0435\u043e\u0440\u0441\u0445\u0443i", "olaeopcxyl", strict=True))
