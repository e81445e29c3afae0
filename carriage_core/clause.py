# SPDX-License-Identifier: Apache-2.0
"""The clause: a rule as one line that a model can read and a parser can read back (DESIGN 3.7).

::

    clause    = effect actions ["on" TYPE] ["where" condition] ["unless" condition]
    effect    = "deny" | "confirm" | "permit" | "deny-by-default"
    actions   = ACTION {"or" ACTION} | "any"
    condition = and {"or" and};  and = unary {"and" unary}
    unary     = "not" unary | "(" condition ")" | "exists" ATTRIBUTE | ATTRIBUTE operator operand
    operator  = "==" | "!=" | "<" | "<=" | ">" | ">=" | "in" | "like" | "startswith" | "endswith" | "contains"
    operand   = literal | ATTRIBUTE | "[" literal {"," literal} "]"
    literal   = STRING | NUMBER | "true" | "false" | ("time" | "path" | "url") STRING

Strings are JSON strings, so no value can end its own line. Rendering and parsing are exact inverses.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Final, assert_never

from carriage_core.condition import (
    All,
    AnyOf,
    Attribute,
    Compare,
    Condition,
    Not,
    Operator,
    all_of,
    any_of,
)
from carriage_core.errors import CapsuleFormatError, PolicyError
from carriage_core.policy import ANY_ACTION, Effect, Policy
from carriage_core.schema import Absent, FilePath, Sort, Url, Value, decimal_text, instant_text, normal

_SYMBOLS: Final = {
    Operator.EQ: "==",
    Operator.NE: "!=",
    Operator.LT: "<",
    Operator.LE: "<=",
    Operator.GT: ">",
    Operator.GE: ">=",
    Operator.IN: "in",
    Operator.GLOB: "like",
    Operator.PREFIX: "startswith",
    Operator.SUFFIX: "endswith",
    Operator.CONTAINS: "contains",
}
_OPERATORS: Final = {symbol: operator for operator, symbol in _SYMBOLS.items()}
_KINDS: Final = {"time": Sort.TIME, "path": Sort.PATH, "url": Sort.URL}
"""Words that say of which type the string behind them is."""

_TOKEN: Final = re.compile(
    r"""\s*(?P<token>
        "(?:[^"\\]|\\.)*" | [A-Za-z_][A-Za-z0-9_.-]* | -?[0-9]+(?:\.[0-9]+)?
        | == | != | <= | >= | [<>()\[\],;=:]
    )""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """The part of a policy that a clause line shows."""

    effect: Effect
    actions: tuple[str, ...]
    object_type: str | None
    where: Condition | None
    unless: Condition | None


def quote(text: str) -> str:
    """Quote as a JSON string; line ends become escapes, everything visible stays as it is."""
    return json.encoder.encode_basestring(text)


def clause_of(policy: Policy) -> Clause | None:
    """Return the clause of a mediated policy, None for one that is only carried."""
    if not policy.mediated:
        return None
    return Clause(
        effect=policy.effect,
        actions=policy.actions,
        object_type=policy.object_type,
        where=policy.where,
        unless=policy.unless,
    )


def render_clause(clause: Clause) -> str:
    """Write a clause on one line."""
    words = [clause.effect.value]
    words.append("any" if clause.actions == (ANY_ACTION,) else " or ".join(clause.actions))
    if clause.object_type is not None:
        words += ["on", clause.object_type]
    if clause.where is not None:
        words += ["where", _condition(clause.where)]
    if clause.unless is not None:
        words += ["unless", _condition(clause.unless)]
    return " ".join(words)


def _condition(condition: Condition, parent: type[All | AnyOf | Not] | None = None) -> str:
    match condition:
        case Compare(attribute, Operator.EXISTS, _):
            return f"exists {attribute}"
        case Compare(attribute, operator, operand):
            return f"{attribute} {_SYMBOLS[operator]} {_operand(operand)}"
        case Not(part):
            return f"not {_condition(part, Not)}"
        case All(parts):
            text = " and ".join(_condition(part, All) for part in parts)
            return text if parent is None or parent is AnyOf else f"({text})"
        case AnyOf(parts):
            text = " or ".join(_condition(part, AnyOf) for part in parts)
            return text if parent is None else f"({text})"
        case _ as unreachable:
            assert_never(unreachable)


def _operand(operand: Value | Attribute | tuple[Value, ...] | None) -> str:
    match operand:
        case Attribute(name):
            return name
        case tuple():
            return "[" + ", ".join(render_literal(literal) for literal in operand) + "]"
        case None:
            raise CapsuleFormatError("an operand is missing.", mend="only exists has none.")
        case _:
            return render_literal(operand)


def render_literal(literal: Value) -> str:
    """Write a literal: JSON string, plain decimal, truth value, or ``time``, ``path``, ``url`` and a string."""
    match literal:
        case bool():
            return "true" if literal else "false"
        case str():
            return quote(literal)
        case Decimal():
            return decimal_text(literal)
        case datetime():
            return f"time {quote(instant_text(literal))}"
        case FilePath(text):
            return f"path {quote(text)}"
        case Url(text):
            return f"url {quote(text)}"


class Tokens:
    """A cursor over the words of one capsule line.

    Raises:
        CapsuleFormatError: From any method, where the line is not of the grammar.
    """

    def __init__(self, line: str) -> None:
        """Split `line`; every character must belong to a token."""
        self._line = line
        self._tokens: list[str] = []
        position = 0
        end = len(line.rstrip(" "))
        while position < end:
            match = _TOKEN.match(line, position)
            if match is None:
                raise self.error()
            self._tokens.append(match["token"])
            position = match.end()
        self._index = 0

    def error(self) -> CapsuleFormatError:
        """Build the error for this line, without quoting untrusted text at length."""
        return CapsuleFormatError(
            f"not a capsule line: {self._line[:60]!r}.", mend="render it again from the registry."
        )

    @property
    def left(self) -> int:
        """How many tokens are not yet taken."""
        return len(self._tokens) - self._index

    def peek(self) -> str | None:
        """Return the next token without taking it, or None at the end."""
        return self._tokens[self._index] if self._index < len(self._tokens) else None

    def take(self, *expected: str) -> str:
        """Take the next token, which must be one of `expected` where any are given."""
        token = self.peek()
        if token is None or (expected and token not in expected):
            raise self.error()
        self._index += 1
        return token

    def peek_string(self) -> bool:
        """Whether a string is next."""
        token = self.peek()
        return token is not None and token[0] == '"'

    def follows_string(self) -> bool:
        """Whether a string stands behind the next token."""
        return self._index + 1 < len(self._tokens) and self._tokens[self._index + 1][0] == '"'

    def skip(self, word: str) -> bool:
        """Take `word` if it is next."""
        if self.peek() != word:
            return False
        self._index += 1
        return True

    def word(self) -> str:
        """Take a name."""
        token = self.take()
        if not (token[0].isalpha() or token[0] == "_"):
            raise self.error()
        return token

    def string(self) -> str:
        """Take a JSON string."""
        token = self.take()
        if token[0] != '"':
            raise self.error()
        try:
            return str(json.loads(token))
        except ValueError as problem:
            raise self.error() from problem

    def integer(self) -> int:
        """Take an integer."""
        try:
            return int(self.take())
        except ValueError as problem:
            raise self.error() from problem

    def end(self) -> None:
        """Require that nothing is left."""
        if self.peek() is not None:
            raise self.error()


def parse_clause(line: str) -> Clause:
    """Read a clause back.

    Raises:
        CapsuleFormatError: The line is not a clause of this grammar.
    """
    tokens = Tokens(line)
    clause = take_clause(tokens)
    tokens.end()
    return clause


def take_clause(tokens: Tokens) -> Clause:
    """Read a clause from a cursor and leave what follows it."""
    effect = Effect(tokens.take(*Effect))
    if tokens.skip("any"):
        actions: tuple[str, ...] = (ANY_ACTION,)
    else:
        names = [tokens.word()]
        while tokens.skip("or"):
            names.append(tokens.word())
        actions = tuple(names)
    try:
        return Clause(
            effect=effect,
            actions=actions,
            object_type=tokens.word() if tokens.skip("on") else None,
            where=_take_or(tokens) if tokens.skip("where") else None,
            unless=_take_or(tokens) if tokens.skip("unless") else None,
        )
    except PolicyError as problem:
        raise tokens.error() from problem


def _take_or(tokens: Tokens) -> Condition:
    parts = [_take_and(tokens)]
    while tokens.skip("or"):
        parts.append(_take_and(tokens))
    return any_of(*parts)


def _take_and(tokens: Tokens) -> Condition:
    parts = [_take_unary(tokens)]
    while tokens.skip("and"):
        parts.append(_take_unary(tokens))
    return all_of(*parts)


def _take_unary(tokens: Tokens) -> Condition:
    if tokens.skip("not"):
        return Not(_take_unary(tokens))
    if tokens.skip("("):
        inner = _take_or(tokens)
        tokens.take(")")
        return inner
    if tokens.skip("exists"):
        return Compare(tokens.word(), Operator.EXISTS)
    attribute = tokens.word()
    operator = _OPERATORS[tokens.take(*_OPERATORS)]
    return Compare(attribute, operator, _take_operand(tokens))


def _take_operand(tokens: Tokens) -> Value | Attribute | tuple[Value, ...]:
    if tokens.skip("["):
        literals = [take_literal(tokens)]
        while tokens.skip(","):
            literals.append(take_literal(tokens))
        tokens.take("]")
        return tuple(literals)
    token = tokens.peek() or ""
    named = token[:1].isalpha() or token[:1] == "_"
    if named and token not in {"true", "false"} and not (token in _KINDS and tokens.follows_string()):
        return Attribute(tokens.word())
    return take_literal(tokens)


def take_literal(tokens: Tokens) -> Value:
    """Read one literal from a cursor."""
    token = tokens.peek() or ""
    if token in {"true", "false"}:
        return tokens.take() == "true"
    if token.startswith('"'):
        return tokens.string()
    if token in _KINDS:
        tokens.take()
        value = normal(tokens.string(), _KINDS[token])
        if isinstance(value, Absent):
            raise tokens.error()
        return value
    if token and (token[0].isdigit() or token[0] == "-"):
        return Decimal(tokens.take())
    raise tokens.error()
