# SPDX-License-Identifier: Apache-2.0
"""The lines of the full tier that say what counts as evidence and what counters add up (DESIGN 3.5, 3.7)."""

from __future__ import annotations

from carriage_core.clause import Tokens, quote
from carriage_core.policy import CounterDeclaration, EvidenceDeclaration, FieldOrigin, FieldSource
from carriage_core.schema import Sort


def evidence_line(handle: str, declaration: EvidenceDeclaration) -> str:
    """Write one evidence declaration on one line."""
    parts = [f"evidence {handle}: tool {quote(declaration.from_tool)}", "key " + ", ".join(declaration.key)]
    parts += [f"{name} = {source.origin} {quote(source.path)}{_sort(source)}" for name, source in declaration.fields]
    if declaration.expires_seconds is not None:
        parts.append(f"expires {declaration.expires_seconds}")
    if declaration.single_use:
        parts.append("once")
    if declaration.shared:
        parts.append("shared")
    return "; ".join(parts)


def _sort(source: FieldSource) -> str:
    return "" if source.sort is Sort.ANY else f" as {source.sort}"


def parse_evidence(tokens: Tokens) -> tuple[str, EvidenceDeclaration]:
    """Read the line back: handle and declaration.

    Raises:
        CapsuleFormatError: It is not such a line.
    """
    tokens.take("evidence")
    handle = tokens.word()
    tokens.take(":")
    tokens.take("tool")
    from_tool = tokens.string()
    tokens.take(";")
    tokens.take("key")
    key = _names(tokens)
    fields: list[tuple[str, FieldSource]] = []
    expires: int | None = None
    flags: set[str] = set()
    while tokens.skip(";"):
        word = tokens.word()
        if tokens.skip("="):
            origin, path = FieldOrigin(tokens.take(*FieldOrigin)), tokens.string()
            fields.append((word, FieldSource(origin=origin, path=path, sort=take_sort(tokens))))
        elif word == "expires":
            expires = tokens.integer()
        elif word in {"once", "shared"}:
            flags.add(word)
        else:
            raise tokens.error()
    tokens.end()
    return handle, EvidenceDeclaration(
        from_tool=from_tool,
        key=key,
        fields=tuple(fields),
        expires_seconds=expires,
        single_use="once" in flags,
        shared="shared" in flags,
    )


def _names(tokens: Tokens) -> tuple[str, ...]:
    names = [tokens.word()]
    while tokens.skip(","):
        names.append(tokens.word())
    return tuple(names)


def take_sort(tokens: Tokens) -> Sort:
    """Read ``as SORT`` where it is there."""
    return Sort(tokens.word()) if tokens.skip("as") else Sort.ANY


def counter_line(name: str, declaration: CounterDeclaration) -> str:
    """Write one counter declaration on one line."""
    parts = [f"counter {name}: window {declaration.window_seconds}"]
    if declaration.key:
        parts.append("key " + ", ".join(declaration.key))
    if declaration.amount is not None:
        parts.append(f"amount {declaration.amount}")
    return "; ".join(parts)


def parse_counter(tokens: Tokens) -> tuple[str, CounterDeclaration]:
    """Read the line back: name and declaration.

    Raises:
        CapsuleFormatError: It is not such a line.
    """
    tokens.take("counter")
    name = tokens.word()
    tokens.take(":")
    tokens.take("window")
    window = tokens.integer()
    key: tuple[str, ...] = ()
    amount: str | None = None
    while tokens.skip(";"):
        if tokens.take("key", "amount") == "key":
            key = _names(tokens)
        else:
            amount = tokens.word()
    tokens.end()
    return name, CounterDeclaration(key=key, window_seconds=window, amount=amount)
