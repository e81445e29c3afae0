# SPDX-License-Identifier: Apache-2.0
"""``carriage audit``: what became of each policy in a transcript.

Results go to standard output; progress, past two seconds, and faults to standard error. Exit codes: 0 every policy is
preserved in every transcript, 2 something cannot be read, 3 anything else.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path  # noqa: TC003  # typer reads it
from typing import TYPE_CHECKING, Annotated, Final, NoReturn

import typer

from carriage_core import CarriageError, load_policy_file
from carriage_core.audit import CarriageAudit
from carriage_core.audit_findings import SEVERITY, AuditReport, Carriage
from carriage_core.audit_report import as_json, as_text
from carriage_lab.transcripts import read_transcripts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from carriage_lab.transcripts import Transcript

USAGE: Final = 2
NOT_PRESERVED: Final = 3
PATIENCE: Final = 2.0
"""Seconds before progress is shown."""


def audit(
    transcript: Annotated[
        Path,
        typer.Argument(
            metavar="TRANSCRIPT",
            help="Role and content messages (JSON or JSON lines), a saved AutoGen state, or an OpenHands event log.",
        ),
    ],
    *,
    policies: Annotated[Path, typer.Option("--policies", metavar="FILE", help="The policies that should be there.")],
    as_data: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Say for every policy whether the transcript carries it: preserved, absent, weakened, misbound, ...

    A policy counts as preserved only in messages whose provenance the transcript records as trusted.
    """
    try:
        auditor = CarriageAudit.of(load_policy_file(policies))
        transcripts = read_transcripts(transcript)
        reports = tuple(_audited(auditor, transcripts))
    except CarriageError as error:
        _stop(str(error))
    if as_data:
        sys.stdout.write(json.dumps(_data(transcript, transcripts, reports), indent=2) + "\n")
    else:
        for each, report in zip(transcripts, reports, strict=True):
            if each.name:
                typer.echo(f"{each.name}:")
            typer.echo(as_text(report))
    if not all(report.preserved for report in reports):
        raise typer.Exit(NOT_PRESERVED)


def _audited(auditor: CarriageAudit, transcripts: Sequence[Transcript]) -> list[AuditReport]:
    """Audit one after the other and say how far it is, once it takes long."""
    started = shown = time.monotonic()
    reports: list[AuditReport] = []
    for done, transcript in enumerate(transcripts):
        now = time.monotonic()
        if now - started > PATIENCE and now - shown > PATIENCE / 4:
            typer.echo(f"{done} of {len(transcripts)} transcripts", err=True)
            shown = now
        reports.append(auditor.read(transcript.messages))
    return reports


def _data(file: Path, transcripts: Sequence[Transcript], reports: Sequence[AuditReport]) -> dict[str, object]:
    worst = max((report.carriage for report in reports), key=SEVERITY.__getitem__, default=Carriage.ABSENT)
    return {
        "file": str(file),
        "set": worst.value,
        "preserved": bool(reports) and all(report.preserved for report in reports),
        "transcripts": [
            {"name": each.name, **as_json(report)} for each, report in zip(transcripts, reports, strict=True)
        ],
    }


def _stop(text: str) -> NoReturn:
    typer.echo(f"error: {text}", err=True)
    raise typer.Exit(USAGE)
