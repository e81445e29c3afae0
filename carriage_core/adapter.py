# SPDX-License-Identifier: Apache-2.0
"""How the lab and the command line reach adapters: the entry-point group ``carriage.adapters``.

An adapter ships whether or not its framework is installed, so *declared* and *usable* are two questions with two
errors. A third adapter needs no change here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from carriage_core.errors import FrameworkMissingError, UnknownAdapterError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from importlib.metadata import EntryPoint

GROUP: Final = "carriage.adapters"


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """What an adapter offers beside its own public names.

    Attributes:
        name: The entry point's name and the extra that brings its framework.
        drop_ins: Memory managers by the native manager they replace, such as ``buffered``.
        guards: Action guards by what they wrap, such as ``workbench``.
    """

    name: str
    drop_ins: Mapping[str, Callable[..., Any]]
    guards: Mapping[str, Callable[..., Any]]


def declared_adapters() -> dict[str, EntryPoint]:
    """List declared adapters by name; their frameworks may be missing."""
    from importlib.metadata import entry_points  # noqa: PLC0415  # a fifth of the core's import time, needed by few

    return {entry.name: entry for entry in entry_points(group=GROUP)}


def load_adapter(name: str) -> Adapter:
    """Load an adapter and with it its framework.

    Raises:
        UnknownAdapterError: No installed distribution declares it.
        FrameworkMissingError: Its framework is not installed. A bug inside the adapter is not reported as this.
    """
    declared = declared_adapters()
    entry = declared.get(name)
    if entry is None:
        raise UnknownAdapterError(
            f"no adapter {name!r} is declared; declared: {', '.join(sorted(declared)) or 'none'}.",
            mend="install the distribution that brings it.",
        )
    try:
        adapter = entry.load()
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.split(".")[0].startswith("carriage"):
            raise
        raise FrameworkMissingError(name, missing.name) from missing
    if not isinstance(adapter, Adapter):
        raise UnknownAdapterError(
            f"the entry point {name!r} is not an Adapter.", mend="point it at a carriage_core Adapter."
        )
    return adapter
