# SPDX-License-Identifier: Apache-2.0
"""Paths, URLs and hosts in normal form, compared by segment (DESIGN 3.3).

A path is absolute and has no ``.``, ``..`` or empty segment; symbolic links are not followed here, so what a
link points to at execution is a named non-guarantee. A URL has a lower-case scheme and host, no default port, no
user part and no fragment. What could be another place to the tool than it looks here has no normal form.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Final

from carriage_core.absent import Absent
from carriage_core.characters import MAX_TEXT, composed, hidden_character, resolves_later

_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)([^?#]*)(\?[^#]*)?(?:#.*)?")
_HOST: Final = re.compile(r"[a-z0-9]([a-z0-9_-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9_-]*[a-z0-9])?)*")
_AUTHORITY: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]]+)(?::([0-9]{1,5}))?")
_NUMERIC_LABEL: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
_DEFAULT_PORTS: Final = {"http": 80, "https": 443, "ws": 80, "wss": 443, "ftp": 21}
_MAX_PORT: Final = 65_535


@dataclass(frozen=True, slots=True)
class FilePath:
    """An absolute path in normal form; build it with `of`."""

    text: str

    @classmethod
    def of(cls, raw: str, cwd: FilePath | None = None) -> FilePath | Absent:
        """Read a path; a relative one against `cwd`.

        Returns:
            The path, or `Absent.UNKNOWN`: relative without `cwd`, a home directory, a variable, a pattern, a URL, a
            backslash, outer blanks, or characters a reader cannot see.
        """
        if _unclear(raw) or "://" in raw or any(character in raw for character in "\\*?["):
            return Absent.UNKNOWN
        if not raw.startswith("/"):
            if cwd is None:
                return Absent.UNKNOWN
            raw = f"{cwd.text}/{raw}"
        text = _without_dots(composed(raw))
        return cls(text) if len(text) <= MAX_TEXT else Absent.UNKNOWN

    def covers(self, other: FilePath) -> bool:
        """Whether `other` is this path or lies below it."""
        return other.text == self.text or other.text.startswith(self.text.rstrip("/") + "/")


@dataclass(frozen=True, slots=True)
class Url:
    """An absolute URL in normal form; build it with `of`."""

    text: str

    @classmethod
    def of(cls, raw: str) -> Url | Absent:
        """Read a URL.

        Returns:
            The URL, or `Absent.UNKNOWN`: no scheme or host, a user part, percent-encoding, a host that is not plain
            ASCII or another spelling of an address (``0x7f.1``), or characters a reader cannot see.
        """
        match = None if _unclear(raw) or "%" in raw or "\\" in raw or " " in raw else _URL.fullmatch(raw)
        if match is None:
            return Absent.UNKNOWN
        scheme = match[1].lower()
        authority = _AUTHORITY.fullmatch(match[2])
        host = None if authority is None else _host(authority[1])
        if authority is None or host is None:
            return Absent.UNKNOWN
        port = "" if authority[2] is None else _port(scheme, int(authority[2]))
        if port is None:
            return Absent.UNKNOWN
        path = _without_dots(match[3] or "/")
        if match[3].endswith(("/", "/.", "/..")) and path != "/":
            path += "/"
        return cls(composed(f"{scheme}://{host}{port}{path}{match[4] or ''}"))

    @property
    def host(self) -> str:
        """The host, without the port."""
        authority = self.text.split("/", 3)[2]
        return authority.partition("]")[0] + "]" if authority.startswith("[") else authority.partition(":")[0]

    def covers(self, other: Url) -> bool:
        """Whether `other` is this URL or lies below its path; one with a query covers only itself."""
        if "?" in self.text:
            return other.text == self.text
        base = self.text.rstrip("/")
        return other.text == self.text or other.text.startswith((f"{base}/", f"{base}?"))


def host_of(raw: str) -> str | Absent:
    """Read the host of a URL, or a bare host name with or without a port."""
    if "://" not in raw:
        if any(character in raw for character in "/?#@"):
            return Absent.UNKNOWN
        raw = f"https://{raw}/"
    url = Url.of(raw)
    return url if isinstance(url, Absent) else url.host


def _unclear(raw: str) -> bool:
    return (
        not raw or len(raw) > MAX_TEXT or raw != raw.strip() or hidden_character(raw) is not None or resolves_later(raw)
    )


def _without_dots(path: str) -> str:
    kept: list[str] = []
    for segment in path.split("/"):
        if segment == "..":
            del kept[-1:]
        elif segment not in {"", "."}:
            kept.append(segment)
    return "/" + "/".join(kept)


def _host(raw: str) -> str | None:
    if not raw.isascii():  # before the case is folded: the Kelvin sign folds to an ASCII k
        return None
    if raw.startswith("["):
        try:
            address = ipaddress.IPv6Address(raw[1:-1])
        except ValueError:
            return None
        # ::ffff:127.0.0.1 is 127.0.0.1 under another name.
        return f"[{address.compressed}]" if address.ipv4_mapped is None else str(address.ipv4_mapped)
    host = raw.lower().removesuffix(".")
    if not _HOST.fullmatch(host):
        return None
    if _NUMERIC_LABEL.fullmatch(host.rsplit(".", 1)[-1]):
        try:
            return str(ipaddress.IPv4Address(host))
        except ValueError:
            return None  # 127.1 and 0x7f000001 are addresses too, to some clients
    return host


def _port(scheme: str, port: int) -> str | None:
    if not 0 < port <= _MAX_PORT:
        return None
    return "" if _DEFAULT_PORTS.get(scheme) == port else f":{port}"
