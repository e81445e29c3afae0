# SPDX-License-Identifier: Apache-2.0
"""``carriage check``: what the monitor would say about one call, without running anything.

Exit codes: 0 allow, 2 a file or the arguments are wrong, 3 deny, 4 confirm.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path  # noqa: TC003  # typer reads it
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

import typer

from carriage_cli.evidence import EvidenceFileError, file_runs, plain_json, read_runs
from carriage_core import CarriageError, ControlPlane, Outcome, Utf8UpperBound

if TYPE_CHECKING:
    from carriage_core import Verdict

USAGE: Final = 2
EXIT: Final = {Outcome.ALLOW: 0, Outcome.DENY: 3, Outcome.CONFIRM: 4}


def check(  # the options of one verb
    policies: Annotated[Path, typer.Argument(metavar="POLICIES", help="A policy file.")],
    *,
    tool: Annotated[str, typer.Option("--tool", metavar="NAME", help="The tool the agent would call.")],
    arguments: Annotated[str, typer.Option("--args", metavar="JSON", help="Its arguments, a JSON object.")] = "{}",
    evidence: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help='What trusted tools returned before: [{"tool":, "args":, "result":}, ...].'),
    ] = None,
    actor: Annotated[str | None, typer.Option("--actor", metavar="NAME", help="The agent that acts.")] = None,
    tenant: Annotated[str | None, typer.Option("--tenant", metavar="NAME", help="The tenant it acts for.")] = None,
    task: Annotated[str | None, typer.Option("--task", metavar="NAME", help="The task it works on.")] = None,
    server: Annotated[str | None, typer.Option("--server", metavar="NAME", help="The tool's MCP server.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdict as JSON.")] = False,
) -> None:
    """Print the verdict on one call, with its reasons. Without --evidence a rule that needs some stands."""
    call = _object(arguments)
    try:
        plane = ControlPlane.from_file(policies, actor=actor, tenant=tenant, task=task, counter=Utf8UpperBound())
        if evidence is not None:
            file_runs(read_runs(evidence), plane, evidence)
    except (CarriageError, EvidenceFileError) as error:
        _stop(str(error))
    verdict = plane.check(tool, call, server=server)
    if as_json:
        sys.stdout.write(json.dumps(_as_json(verdict), indent=2) + "\n")
    else:
        typer.echo(f"{verdict.outcome}: {verdict.explain()}")
    raise typer.Exit(EXIT[verdict.outcome])


def _object(text: str) -> dict[str, Any]:
    try:
        value = plain_json(text)
    except ValueError as problem:
        _stop(f'--args is not a JSON object ({problem}). Mend: write it as \'{{"name": "value"}}\'.')
    if not isinstance(value, dict):
        _stop('--args is not a JSON object. Mend: write it as \'{"name": "value"}\'.')
    return value


def _as_json(verdict: Verdict) -> dict[str, object]:
    return {
        "outcome": verdict.outcome.value,
        "code": verdict.code,
        "tool": verdict.tool,
        "explanation": verdict.explain(),
        "message": verdict.message,
        "would": None if verdict.would is None else verdict.would.value,
        "policies": list(verdict.policies),
        "reasons": [
            {
                "policy": reason.policy_id,
                "effect": reason.effect,
                "clause": reason.clause,
                "values": dict(reason.values),
                "lift": reason.lift,
                "observed": reason.observed,
            }
            for reason in verdict.reasons
        ],
        "evidence": list(verdict.evidence),
        "spends": list(verdict.one_use),
        "counts": [
            # str: JSON numbers are not exact everywhere
            {
                "amount": None if charge.amount is None else str(charge.amount),
                "window_seconds": charge.window.total_seconds(),
            }
            for charge in verdict.charges
        ],
        "arguments_sha256": verdict.argument_digest,
        "registry": verdict.registry_digest,
    }


def _stop(text: str) -> NoReturn:
    typer.echo(f"error: {text}", err=True)
    raise typer.Exit(USAGE)
