# SPDX-License-Identifier: Apache-2.0
"""``carriage lint``: everything wrong or doubtful in a policy file, with line, reason and mend.

Exit codes: 0 it loads, with or without warnings; 2 it does not.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path  # noqa: TC003  # typer reads it
from typing import TYPE_CHECKING, Annotated, Final

import typer

from carriage_core import Fault, PolicyFileError, load_policy_file, names_every_constant

if TYPE_CHECKING:
    from collections.abc import Iterator

    from carriage_core import PolicyRegistry

USAGE: Final = 2


def lint(
    policies: Annotated[Path, typer.Argument(metavar="POLICIES", help="A policy file.")],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print errors and warnings as JSON.")] = False,
) -> None:
    """Load a policy file and say what is wrong with it, and what it does less than it may seem."""
    errors: tuple[Fault, ...] = ()
    warnings: tuple[Fault, ...] = ()
    try:
        warnings = tuple(doubts(load_policy_file(policies)))
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
            typer.echo(f"{policies}: loads, {len(warnings)} warnings")
    if errors:
        raise typer.Exit(USAGE)


def doubts(registry: PolicyRegistry) -> Iterator[Fault]:
    """Find rules that are sound but do less than a reader may think."""
    for policy in registry.policies:
        if not policy.mediated:
            yield Fault(
                path=policy.id,
                message="carried, not mediated: the model is shown the text and nothing enforces it",
                mend="name the action it governs, if a tool performs one",
            )
        elif not names_every_constant(policy):
            yield Fault(
                path=policy.id,
                message="the text does not name every constant of the rule, so the exact tier carries it unbound",
                mend="name them in the text, or set minimum_tier to compact",
            )
        for handle, declaration in policy.evidence:
            if declaration.expires_seconds is None and not declaration.single_use:
                yield Fault(
                    path=f"{policy.id}.evidence.{handle}",
                    message="one result lifts the rule for as long as the plane lives",
                    mend="add expires or single_use: true",
                )


def _as_json(faults: tuple[Fault, ...]) -> list[dict[str, object]]:
    return [dataclasses.asdict(fault) for fault in faults]
