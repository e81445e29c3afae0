# SPDX-License-Identifier: Apache-2.0
"""The evidence file of ``carriage check``: calls of trusted tools that ran before, with what they returned.

A JSON list of ``{"tool": NAME, "args": {...}, "result": {...}}``, oldest first; ``actor`` and ``server`` are
optional. Each goes through the monitor and is filed as an adapter would
file it, so a call that is denied proves nothing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NoReturn

from carriage_core import CarriageError, Settlement

if TYPE_CHECKING:
    from pathlib import Path

    from carriage_core import ControlPlane

_KEYS: Final = frozenset({"tool", "args", "result", "actor", "server"})


class EvidenceFileError(Exception):
    """The file, or what an entry of it says, cannot be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One earlier call of a tool, and its result."""

    tool: str
    arguments: dict[str, Any]
    result: object
    actor: str | None = None
    server: str | None = None


def read_runs(path: Path) -> tuple[Run, ...]:
    """Read an evidence file.

    Raises:
        EvidenceFileError: It cannot be read, or an entry of it is not as described.
    """
    try:
        tree = plain_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise EvidenceFileError(
            f"{path}: cannot be read as JSON ({problem}). Mend: check the path and the text."
        ) from None
    if not isinstance(tree, list):
        raise EvidenceFileError(f"{path}: not a list. Mend: write [{{...}}].")
    return tuple(_run(entry, f"{path}: entry {index}") for index, entry in enumerate(tree, 1))


def _run(entry: object, place: str) -> Run:
    shape = 'Mend: write {"tool": NAME, "args": {...}, "result": {...}}.'
    if not isinstance(entry, dict) or not {"tool", "args", "result"} <= entry.keys() <= _KEYS:
        raise EvidenceFileError(f"{place}: not one earlier call with its result. {shape}")
    names = [entry["tool"], *(entry[key] for key in ("actor", "server") if entry.get(key) is not None)]
    if not all(isinstance(name, str) and name for name in names) or not isinstance(entry["args"], dict):
        raise EvidenceFileError(f"{place}: a name that is no text, or args that are no object. {shape}")
    return Run(
        tool=entry["tool"],
        arguments=entry["args"],
        result=entry["result"],
        actor=entry.get("actor"),
        server=entry.get("server"),
    )


def file_runs(runs: tuple[Run, ...], plane: ControlPlane, path: Path) -> int:
    """Let every run happen on `plane` and return how many records there are.

    Raises:
        EvidenceFileError: The monitor denies one of them, or it proves nothing.
    """
    filed = 0
    for index, run in enumerate(runs, 1):
        place = f"{path}: entry {index}"
        view = plane if run.actor is None else plane.as_actor(run.actor)
        decision = view.authorize(run.tool, run.arguments, server=run.server)
        if not decision.allowed:
            raise EvidenceFileError(f"{place}: the call of {run.tool} itself is {decision.verdict.explain()}")
        try:
            records = view.settle(decision, Settlement.EXECUTED, run.result)
        except CarriageError as problem:
            raise EvidenceFileError(f"{place}: {problem}") from None
        if not records:
            raise EvidenceFileError(
                f"{place}: nothing of it is evidence for any rule. Mend: name a tool a rule's evidence comes from, "
                "and return every field that is declared."
            )
        filed += len(records)
    return filed


def plain_json(text: str) -> Any:  # noqa: ANN401  # any JSON value
    """Parse JSON without duplicate keys, NaN or Infinity.

    Raises:
        ValueError: It is not that.
    """
    return json.loads(text, object_pairs_hook=_once, parse_constant=_no_constant)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse duplicate keys: which of them runs is the tool's choice, not ours (DESIGN 3.4)."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key occurs twice")
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
