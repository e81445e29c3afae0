# SPDX-License-Identifier: Apache-2.0
"""``carriage check``: what the monitor would say about one call, without running anything.

Exit codes: 0 allow, 2 the policy file or the arguments are wrong, 3 deny, 4 confirm.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path  # noqa: TC003  # typer reads it
from typing import Annotated, Any, Final, NoReturn

import typer

from carriage_core import CarriageError, ControlPlane, Outcome, Utf8UpperBound, Verdict

USAGE: Final = 2
EXIT: Final = {Outcome.ALLOW: 0, Outcome.DENY: 3, Outcome.CONFIRM: 4}


def check(  # the options of one verb
    policies: Annotated[Path, typer.Argument(metavar="POLICIES", help="A policy file.")],
    *,
    tool: Annotated[str, typer.Option("--tool", metavar="NAME", help="The tool the agent would call.")],
    arguments: Annotated[str, typer.Option("--args", metavar="JSON", help="Its arguments, a JSON object.")] = "{}",
    actor: Annotated[str | None, typer.Option("--actor", metavar="NAME", help="The agent that acts.")] = None,
    tenant: Annotated[str | None, typer.Option("--tenant", metavar="NAME", help="The tenant it acts for.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdict as JSON.")] = False,
) -> None:
    """Print the verdict on one call, with its reasons. No evidence is on record, so a rule that needs some stands."""
    try:
        plane = ControlPlane.from_file(policies, actor=actor, tenant=tenant, counter=Utf8UpperBound())
    except CarriageError as error:
        _stop(str(error))
    verdict = plane.check(tool, _object(arguments))
    if as_json:
        sys.stdout.write(json.dumps(_as_json(verdict), indent=2) + "\n")
    else:
        typer.echo(f"{verdict.outcome}: {verdict.explain()}")
    raise typer.Exit(EXIT[verdict.outcome])


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text, object_pairs_hook=_once, parse_constant=_no_constant)
    except ValueError as problem:
        _stop(f'--args is not a JSON object ({problem}). Mend: write it as \'{{"name": "value"}}\'.')
    if not isinstance(value, dict):
        _stop('--args is not a JSON object. Mend: write it as \'{"name": "value"}\'.')
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse duplicate keys: which of them runs is the tool's choice, not ours (DESIGN 3.4)."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key occurs twice")
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _as_json(verdict: Verdict) -> dict[str, object]:
    tree = dataclasses.asdict(verdict)
    return {**tree, "governing": sorted(verdict.governing), "explanation": verdict.explain()}


def _stop(text: str) -> NoReturn:
    typer.echo(f"error: {text}", err=True)
    raise typer.Exit(USAGE)
