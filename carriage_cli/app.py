# SPDX-License-Identifier: Apache-2.0
"""The verbs of ``carriage``, one module each."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

import typer

from carriage_cli.audit import audit
from carriage_cli.check import check
from carriage_cli.corpus import corpus
from carriage_cli.demo import demo
from carriage_cli.lint import lint
from carriage_cli.observe_report import observe_report
from carriage_cli.overload import overload
from carriage_cli.pressure import pressure
from carriage_cli.replay import replay
from carriage_cli.schema import schema

app = typer.Typer(
    name="carriage",
    help="Keep trusted policy in front of an agent when it acts, and stop it when that cannot be done.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(audit)
app.command()(check)
app.command()(corpus)
app.command()(demo)
app.command()(lint)
app.command()(overload)
app.command()(observe_report)
app.command()(pressure)
app.command()(replay)
app.command()(schema)


def _version(wanted: bool) -> None:  # noqa: FBT001  # typer's callback signature
    if wanted:
        typer.echo(f"policy-carriage {version('policy-carriage')}")
        raise typer.Exit


@app.callback()
def common(
    *,
    show_version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Take the options every verb has."""
    del show_version
