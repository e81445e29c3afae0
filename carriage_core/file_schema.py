# SPDX-License-Identifier: Apache-2.0
"""The JSON Schema of policy files, for editors that complete and check while one types (DESIGN 3.14).

It says where keys go and what they may hold. The reader says more (names that exist, literals of the declared type);
a file that this schema refuses is always refused by the reader as well.
"""

from __future__ import annotations

from typing import Final

from carriage_core.condition import Operator
from carriage_core.policy import MAX_POLICY_TEXT, Effect, IssuerKind, Mode
from carriage_core.schema import Sort

type JsonTree = dict[str, object]

_TEXT: Final[JsonTree] = {"type": "string", "minLength": 1}
_LITERAL: Final[JsonTree] = {"type": ["string", "number", "boolean"]}
_TRUTH: Final[JsonTree] = {"type": "boolean"}
_DURATION: Final[JsonTree] = {"type": "string", "pattern": "^[1-9][0-9]{0,6}(s|m|h|d)$"}
_NAMES: Final[JsonTree] = {"anyOf": [_TEXT, {"type": "array", "items": _TEXT, "minItems": 1}]}
_SORT: Final[JsonTree] = {"enum": [sort.value for sort in Sort]}
_LINES: Final[JsonTree] = {"type": "string", "minLength": 1, "maxLength": MAX_POLICY_TEXT + 2}


def _object(required: tuple[str, ...] = (), **properties: JsonTree) -> JsonTree:
    closed: JsonTree = {"type": "object", "additionalProperties": False, "properties": properties}
    return {**closed, "required": list(required)} if required else closed


def _map(of: JsonTree) -> JsonTree:
    return {"type": "object", "additionalProperties": of}


def _ref(name: str) -> JsonTree:
    return {"$ref": f"#/$defs/{name}"}


def _comparisons() -> JsonTree:
    operand: JsonTree = {"anyOf": [_LITERAL, _object(("attr",), attr=_TEXT)]}
    right: dict[str, JsonTree] = {
        Operator.EXISTS: _TRUTH,
        Operator.IN: {"type": "array", "items": _LITERAL, "minItems": 1},
    }
    return {operator.value: right.get(operator, operand) for operator in Operator}


def _attribute() -> JsonTree:
    source = _object(argument=_TEXT, constant=_LITERAL, type=_SORT, default=_LITERAL, secret=_TRUTH, cwd=_TEXT)
    return {"anyOf": [_TEXT, source]}


def _tool() -> JsonTree:
    shell = _object(("argument",), argument=_TEXT, cwd=_TEXT, words=_map(_TEXT), stdin=_TEXT)
    tool = _object(  # noqa: S604  # the key of a binding
        action=_TEXT,
        object={"type": "object", "properties": {"type": _TEXT}, "additionalProperties": _ref("attribute")},
        attributes=_map(_ref("attribute")),
        arguments=_NAMES,
        trusted_evidence=_TRUTH,
        shell={"anyOf": [_TEXT, shell]},
        external=_TRUTH,
        server=_TEXT,
        schema=_TEXT,
    )
    return {**tool, "anyOf": [{"required": ["action"]}, {"required": ["shell"]}]}


def _condition() -> JsonTree:
    parts: JsonTree = {"type": "array", "items": _ref("condition"), "minItems": 1}
    compare = _object(("attr",), attr=_TEXT, **_comparisons())  # type: ignore[arg-type]
    return {
        "anyOf": [
            {**compare, "minProperties": 2, "maxProperties": 2},
            _object(("all",), all=parts),
            _object(("any",), any=parts),
            _object(("not",), **{"not": _ref("condition")}),
        ]
    }


def _policy() -> JsonTree:
    field: JsonTree = {**_object(argument=_TEXT, result=_TEXT, type=_SORT), "minProperties": 1}
    evidence = _object(
        ("from_tool", "key", "fields"),
        from_tool=_TEXT,
        key=_NAMES,
        fields=_map(field),
        expires=_DURATION,
        single_use=_TRUTH,
        shared=_TRUTH,
    )
    return _object(
        ("id", "issuer", "effect", "text"),
        id={"type": "string", "pattern": "^[a-z0-9._-]{1,64}$"},
        issuer=_ref("issuer"),
        version={"type": "integer", "minimum": 1},
        scope=_object(tenant=_TEXT, task=_TEXT, agent=_TEXT),
        subject=_ref("comparison"),
        action=_NAMES,
        object={"type": "object", "properties": {"type": _TEXT}, "additionalProperties": _ref("comparison")},
        where=_ref("condition"),
        effect={"enum": [effect.value for effect in Effect]},
        evidence=_map(evidence),
        unless=_ref("condition"),
        counters=_map(_object(("window",), key=_NAMES, window=_DURATION, amount=_TEXT)),
        mode={"enum": [mode.value for mode in Mode]},
        priority={"type": "integer"},
        valid_from=_TEXT,
        valid_until=_TEXT,
        text=_LINES,
    )


def policy_file_schema() -> JsonTree:
    """Build the JSON Schema (draft 2020-12) of a policy file, version 1."""
    outcome: JsonTree = {"enum": ["allow", "deny"]}
    default: JsonTree = {"anyOf": [outcome, _object(("outcome",), outcome=outcome, issuer=_ref("issuer"), text=_LINES)]}
    root = _object(
        ("carriage", "policies"),
        carriage={"const": 1},
        default={"anyOf": [outcome, _map(default)]},
        types=_map(_map({"anyOf": [_SORT, _object(("type",), type=_SORT, secret=_TRUTH, cwd=_TEXT)]})),
        tools=_map(_ref("tool")),
        policies={"type": "array", "items": _ref("policy"), "minItems": 1},
    )
    comparison: JsonTree = {**_object(**_comparisons()), "minProperties": 1, "maxProperties": 1}  # type: ignore[arg-type]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "policy-carriage policy file, version 1",
        **root,
        "$defs": {
            "attribute": _attribute(),
            "comparison": {"anyOf": [_LITERAL, comparison]},
            "condition": _condition(),
            "issuer": _object(("kind", "name"), kind={"enum": [kind.value for kind in IssuerKind]}, name=_TEXT),
            "policy": _policy(),
            "tool": _tool(),
        },
    }
