# SPDX-License-Identifier: Apache-2.0
"""``carriage demo``: one agent loses a rule natively and keeps it with policy-carriage, on real framework classes.

Exit codes: 0 shown, 1 what was shown is not what this project promises, 2 no framework is installed.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from carriage_core import FrameworkMissingError, load_adapter
from carriage_lab import demo_story as story

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from carriage_lab.demo_story import Outcome

DEFECT: Final = 1
USAGE: Final = 2
FRAMEWORKS: Final = {"autogen": "AutoGen", "openhands": "OpenHands"}

COLUMNS: Final = ("native", "policy-carriage", "policy-carriage, careless model")

INTRODUCTION: Final = (
    "A maintainer agent gets a rule, then twelve CI logs, then a request to clean up. Agents, memory managers and "
    "tools are the frameworks' own. The model is scripted and offline and decides from what it is shown: it deletes "
    "when the rule is not in front of it. The careless one deletes whatever it is shown."
)


def demo(
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print what happened as JSON.")] = False,
) -> None:
    """Show an agent delete a release artifact natively, and get blocked with policy-carriage."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # offline: no download of a price list
    os.environ.setdefault("OPENHANDS_SUPPRESS_BANNER", "1")
    console = Console(highlight=False, soft_wrap=not sys.stdout.isatty())
    if not as_json:
        console.print(Text(f"Rule: {story.RULE}", style="bold"))
        console.print(Text(INTRODUCTION))
    shown: dict[str, Outcome] = {}
    for name, title in FRAMEWORKS.items():
        try:
            with _waiting(f"running {title}"):
                load_adapter(name)
                shown[name] = importlib.import_module(f"carriage_lab.demo_{name}").run()
        except FrameworkMissingError as missing:
            typer.echo(f"{title} is left out: {missing}", err=True)
            continue
        if not as_json:
            _print(console, title, shown[name])
    if not shown:
        raise typer.Exit(USAGE)
    sound = all(outcome.sound for outcome in shown.values())
    if as_json:
        sys.stdout.write(
            json.dumps({name: dataclasses.asdict(outcome) for name, outcome in shown.items()}, indent=2) + "\n"
        )
    else:
        console.print(_conclusion(sound=sound))
    if not sound:
        raise typer.Exit(DEFECT)


def _waiting(what: str) -> AbstractContextManager[object]:
    if not sys.stderr.isatty():
        return nullcontext()
    return Console(stderr=True).status(what)


def _print(console: Console, title: str, outcome: Outcome) -> None:
    console.print()
    if sys.stdout.isatty():
        console.print(_table(outcome))
    else:
        for row in (("", *COLUMNS), *_lines(outcome)):
            console.print(Text("\t".join((title, *row))))
    console.print(Text("Log of the careless run (sequence, kind, what, hash):"))
    for line in outcome.careless.manifests:
        console.print(Text(f"  {line}", style="dim"))
    console.print(Text(f"Overload, with a control budget of {story.TOO_SMALL} tokens: {outcome.overload}"))
    console.print(Text(f"Model calls made in the overload: {outcome.overload_calls}"))


def _lines(outcome: Outcome) -> list[tuple[str, ...]]:
    runs = (outcome.native, outcome.carried, outcome.careless)
    return [
        ("memory manager", *(run.manager for run in runs)),
        ("rule reached model calls", *(f"{sum(run.carried)} of {len(run.carried)}" for run in runs)),
        ("proposed", *(", ".join(run.proposed) or "nothing" for run in runs)),
        ("blocked before it ran", *(", ".join(run.blocked) or "nothing" for run in runs)),
        ("executed", *(", ".join(run.executed) or "nothing" for run in runs)),
        ("ended", *(run.ended for run in runs)),
    ]


def _table(outcome: Outcome) -> Table:
    table = Table(title=outcome.native.framework, title_justify="left", title_style="bold", expand=True)
    table.add_column("", style="bold")
    for column, colour in zip(COLUMNS, ("red", "green", "green"), strict=True):
        table.add_column(column, style=colour, overflow="fold")
    for line in _lines(outcome):
        table.add_row(*(Text(cell) for cell in line))
    return table


def _conclusion(*, sound: bool) -> Text:
    if sound:
        return Text(
            "\nNatively the rule was lost and the deletion ran. With policy-carriage every call had the rule, and the "
            "careless deletion was blocked before it ran.",
            style="bold",
        )
    return Text("\nDEFECT: this run does not show what policy-carriage promises.", style="bold red")
