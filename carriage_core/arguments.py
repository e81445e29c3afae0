# SPDX-License-Identifier: Apache-2.0
"""The arguments of a call: copied once into plain JSON, so that what is judged is what runs (DESIGN 3.4)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from carriage_core.canonical import digest_of_built

MAX_ARGUMENTS: Final = 200_000
"""Most characters and nodes that a call's arguments may hold together (DESIGN 3.14)."""

MAX_ARGUMENT_DEPTH: Final = 32


class BadArgumentsError(ValueError):
    """The arguments of a call cannot be judged, so the call is denied."""


@dataclass(frozen=True, slots=True)
class PlainArguments:
    """Arguments read once: a private copy and its digest. Build it with `of`.

    Attributes:
        values: Plain JSON containers and scalars.
        digest: SHA-256 over them, numbers tagged.
    """

    values: Mapping[str, object]
    digest: str

    @classmethod
    def of(cls, arguments: object) -> PlainArguments:
        """Copy arguments.

        Raises:
            BadArgumentsError: Not a JSON object, too deep or large, NaN, infinity, or lone surrogates.
        """
        values = plain_arguments(arguments)
        return cls(values, argument_digest(values))

    def require(self, declared: frozenset[str] | None) -> None:
        """Require that every name is `declared`; any is, for None.

        Raises:
            BadArgumentsError: One is not.
        """
        if declared is not None and not declared.issuperset(self.values):
            extra = sorted(self.values.keys() - declared)
            raise BadArgumentsError(f"the tool declares no argument {extra[0][:64]!r}")


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


def _plain_object(value: Mapping[object, object], depth: int, left: list[int]) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, item in value.items():
        if type(key) is str and type(item) is str and key.isascii() and item.isascii():
            left[0] -= 2 + len(key) + len(item)
            if left[0] < 0:
                raise BadArgumentsError("the arguments are too large to judge")
            found[key] = item
            continue
        if not isinstance(key, str):
            raise BadArgumentsError("an argument name is not a string")
        name = _plain_text(key, left)
        found[name] = _plain_text(item, left) if type(item) is str else _plain(item, depth + 1, left)
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
    tree = {str(key): item if type(item) is str else json_tree(item) for key, item in arguments.items()}
    return digest_of_built({"object": tree})  # numbers are text by now


def json_tree(value: object) -> object:
    """Copy JSON into a form RFC 8785 takes, one to one: numbers as tagged text, and so objects tagged as well."""
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return value
    match value:
        case str():
            return str.__str__(value)
        case int():
            return {"number": repr(int(value))}
        case float():
            return {"number": repr(float(value))}
        case Mapping():
            return {"object": {str(key): json_tree(item) for key, item in value.items()}}
        case Sequence():
            return [json_tree(item) for item in value]
        case _:
            return {"repr": type(value).__name__}
