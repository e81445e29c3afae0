# SPDX-License-Identifier: Apache-2.0
"""``carriage lint``: everything wrong or doubtful in a policy file, with line, reason and mend.

Exit codes: 0 it loads, with or without warnings; 2 it does not.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path  # noqa: TC003  # typer reads it
from typing import Annotated, Any, Final, NoReturn

import typer

from carriage_cli.doubts import doubts, doubts_about_tools
from carriage_cli.evidence import plain_json
from carriage_core import CarriageError, Fault, PolicyFileError, ToolSpec, load_policy_file

USAGE: Final = 2


def lint(
    policies: Annotated[Path, typer.Argument(metavar="POLICIES", help="A policy file.")],
    *,
    tools: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The tools the agent has: a JSON list of names or schemas.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print errors and warnings as JSON.")] = False,
) -> None:
    """Load a policy file and say what is wrong with it, and what it does less than it may seem."""
    errors: tuple[Fault, ...] = ()
    warnings: tuple[Fault, ...] = ()
    offered = () if tools is None else _specs(tools)
    try:
        registry = load_policy_file(policies)
        warnings = tuple(sorted(doubts(registry), key=lambda fault: fault.line))
        if tools is not None:
            warnings += tuple(doubts_about_tools(registry, offered))
    except PolicyFileError as problem:
        errors = problem.faults
    if as_json:
        found = {"file": str(policies), "errors": _as_json(errors), "warnings": _as_json(warnings)}
        sys.stdout.write(json.dumps(found, indent=2) + "\n")
    else:
        for kind, faults in (("error", errors), ("warning", warnings)):
            for fault in faults:
                line = f":{fault.line}" if fault.line else ""
                typer.echo(f"{policies}{line}: {kind}: {fault.path or 'file'}: {fault.message} ({fault.mend})")
        if not errors:
            typer.echo(f"{policies}: loads, {len(warnings)} warning{'' if len(warnings) == 1 else 's'}")
    if errors:
        raise typer.Exit(USAGE)


def _specs(path: Path) -> tuple[ToolSpec, ...]:
    try:
        tree: Any = plain_json(path.read_text(encoding="utf-8"))
        if not isinstance(tree, list) or not all(isinstance(entry, str | dict) for entry in tree):
            _stop(
                f'{path}: not a list of names or schemas. Mend: write ["name", {{"name": ..., "parameters": {{...}}}}].'
            )
        return tuple(ToolSpec.of(entry) for entry in tree)
    except (OSError, ValueError) as problem:
        _stop(f"{path}: cannot be read as JSON ({problem}). Mend: check the path and the text.")
    except CarriageError as problem:
        _stop(f"{path}: {problem}")


def _as_json(faults: tuple[Fault, ...]) -> list[dict[str, object]]:
    return [dataclasses.asdict(fault) for fault in faults]


def _stop(text: str) -> NoReturn:
    typer.echo(f"error: {text}", err=True)
    raise typer.Exit(USAGE)
