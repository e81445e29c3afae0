# SPDX-License-Identifier: Apache-2.0
"""Tools, and how a concrete call becomes the abstract action that policies speak about (DESIGN 3.4)."""

from __future__ import annotations

import itertools
import math
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from carriage_core.errors import ToolBindingError
from carriage_core.policy import RESERVED_WORDS, WORD, Issuer, IssuerKind, check_visible, digest_of
from carriage_core.schema import Absent, Sort, Value, canonical_value, normal

MAX_ARGUMENTS: Final = 200_000
"""Most characters and nodes that a call's arguments may hold together (DESIGN 3.14)."""

MAX_ARGUMENT_DEPTH: Final = 32
MAX_ACTIONS: Final = 256
"""Most actions one call may expand to through list-valued arguments."""

OPERATOR: Final = Issuer(kind=IssuerKind.DEVELOPER, name="policy-file")


class BadArgumentsError(ValueError):
    """The arguments of a call cannot be judged, so the call is denied."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """A tool as a framework offers it: its name, where it lives, and its argument schema if known.

    Attributes:
        name: What the model calls it.
        server: The MCP server or other origin, None for a local tool.
        arguments: Names the schema allows, or None where the schema is unknown or open.
        digest: SHA-256 of the JSON Schema of its arguments, None where unknown.
    """

    name: str
    server: str | None = None
    arguments: frozenset[str] | None = None
    digest: str | None = None

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
            digest=digest_of(_json_tree(schema)),
        )


def _json_tree(value: object) -> object:
    """Copy JSON into a form RFC 8785 takes, one to one: numbers as tagged text, and so objects tagged as well."""
    match value:
        case None | bool():
            return value
        case str():
            return str.__str__(value)
        case int():
            return {"number": repr(int(value))}
        case float():
            return {"number": repr(float(value))}
        case Mapping():
            return {"object": {str(key): _json_tree(item) for key, item in value.items()}}
        case Sequence():
            return [_json_tree(item) for item in value]
        case _:
            return {"repr": type(value).__name__}


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributeSource:
    """Where an attribute comes from: a dotted path into the arguments, or a constant of the binding."""

    argument: str | None = None
    constant: Value | None = None
    sort: Sort = Sort.ANY

    def __post_init__(self) -> None:
        """Refuse a source that could not be shown in a capsule, or that is none."""
        if (self.argument is None) == (self.constant is None):
            raise ToolBindingError("an attribute needs an argument or a constant.", mend="give one of them.")
        if self.argument is not None:
            check_visible("argument", self.argument)
        elif isinstance(normal(self.constant), Absent):
            raise ToolBindingError(
                "a constant is not in normal form.", mend="write plain visible text or a finite number."
            )

    def canonical(self) -> object:
        """RFC 8785 input."""
        return [self.argument, None if self.constant is None else canonical_value(self.constant), self.sort.value]


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """What a call would do, in the words policies use.

    `attributes` holds ``object.*`` and ``action.*`` values in normal form; one that is not in it is missing.
    """

    name: str
    tool: str
    object_type: str | None
    external: bool
    attributes: Mapping[str, Value | Absent]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolBinding:
    """How calls of one tool map to actions.

    Attributes:
        tool: The tool's exact name.
        action: The abstract action, or None for a declared harmless tool (``action: none``).
        server: The server it must come from, or None for any.
        schema_digest: The argument schema it is pinned to, or None.
        external: Whether its effects leave the process; true unless declared otherwise.
        object_type: Type of the object acted on, or None.
        object_attributes: ``object.*`` attributes by name, sorted.
        action_attributes: ``action.*`` attributes by name, sorted.
        arguments: Further argument names the tool has, so that evidence may use them.
        trusted_evidence: Whether its structured results may be recorded as evidence.
        issuer: Who declared the binding.
        line: Line in the policy file, 0 where there is none.
        shipped: Whether an adapter brought it for its framework's own tool, not the operator.
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
    issuer: Issuer = OPERATOR
    line: int = 0
    shipped: bool = False

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

    @property
    def known_arguments(self) -> frozenset[str]:
        """Top-level argument names the binding speaks of."""
        sources = (source for _, source in (*self.object_attributes, *self.action_attributes))
        return self.arguments | {source.argument.split(".")[0] for source in sources if source.argument is not None}

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
            "tool": self.tool,
            "trusted_evidence": self.trusted_evidence,
        }

    def actions(self, arguments: Mapping[str, object]) -> tuple[Action, ...]:
        """Turn checked arguments into actions: one, or one for each element of a list-valued path.

        Raises:
            BadArgumentsError: More than `MAX_ACTIONS` elements.
        """
        if self.action is None:
            return ()
        names: list[str] = []
        choices: list[list[Value | Absent]] = []
        for prefix, sources in (("object", self.object_attributes), ("action", self.action_attributes)):
            for name, source in sources:
                names.append(f"{prefix}.{name}")
                choices.append(_values(arguments, source))
        if math.prod(len(values) for values in choices) > MAX_ACTIONS:
            raise BadArgumentsError(f"the call names more than {MAX_ACTIONS} objects")
        fixed: dict[str, Value | Absent] = {
            "action.name": self.action,
            "action.tool": self.tool,
            "action.external": self.external,
        }
        if self.object_type is not None:
            fixed["object.type"] = self.object_type
        return tuple(
            Action(
                name=self.action,
                tool=self.tool,
                object_type=self.object_type,
                external=self.external,
                attributes=fixed | dict(zip(names, values, strict=True)),
            )
            for values in itertools.product(*choices)
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


def _values(arguments: Mapping[str, object], source: AttributeSource) -> list[Value | Absent]:
    if source.constant is not None:
        return [source.constant]
    current: list[object] = [arguments]
    for step in (source.argument or "").split("."):
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
    return [value if isinstance(value, Absent) else normal(value, source.sort) for value in current]


def plain_arguments(arguments: object) -> dict[str, object]:
    """Rebuild arguments as plain JSON containers and scalars, read once: what is judged is then what runs.

    Raises:
        BadArgumentsError: Not a JSON object, too deep or large, NaN, infinity, or lone surrogates.
    """
    if arguments is None:
        return {}
    if not isinstance(arguments, Mapping):
        raise BadArgumentsError("the arguments are not an object")
    return _plain_object(arguments, 0, [MAX_ARGUMENTS])


def checked_arguments(arguments: object, spec: ToolSpec | None) -> Mapping[str, object]:
    """Return `plain_arguments` that the tool declares.

    Raises:
        BadArgumentsError: As there, or a key that the tool's schema does not have.
    """
    plain = plain_arguments(arguments)
    if spec is not None and spec.arguments is not None:
        extra = sorted(set(plain) - spec.arguments)
        if extra:
            raise BadArgumentsError(f"the tool declares no argument {extra[0][:64]!r}")
    return plain


def _plain_object(value: Mapping[object, object], depth: int, left: list[int]) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, item in value.items():
        if not isinstance(key, str):
            raise BadArgumentsError("an argument name is not a string")
        found[_plain_text(key, left)] = _plain(item, depth + 1, left)
    return found


def _plain_text(value: str, left: list[int]) -> str:
    left[0] -= 1 + len(value)
    if left[0] < 0:
        raise BadArgumentsError("the arguments are too large to judge")
    text = value if type(value) is str else "".join(value)
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise BadArgumentsError("the arguments hold a lone surrogate")
    return text


def _plain(value: object, depth: int, left: list[int]) -> object:
    left[0] -= 1
    if left[0] < 0:
        raise BadArgumentsError("the arguments are too large to judge")
    if depth > MAX_ARGUMENT_DEPTH:
        raise BadArgumentsError("the arguments nest too deeply")
    match value:
        case None | bool():
            return value
        case str():
            return _plain_text(value, left)
        case int():
            return int(value)
        case float():
            if not math.isfinite(value):
                raise BadArgumentsError("the arguments hold NaN or infinity")
            return float(value)
        case Mapping():
            return _plain_object(value, depth, left)
        case list() | tuple():
            return [_plain(item, depth + 1, left) for item in value]
        case _:
            raise BadArgumentsError(f"the arguments hold a {type(value).__name__}, which is not JSON")


def argument_digest(arguments: Mapping[str, object]) -> str:
    """SHA-256 over the arguments with numbers tagged, so 1, 1.0 and true stay apart."""
    return digest_of(_json_tree(arguments))
