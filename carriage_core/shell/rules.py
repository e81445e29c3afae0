# SPDX-License-Identifier: Apache-2.0
"""Commands that a row of the table cannot describe: wrappers, archives, copies and remote targets (DESIGN 3.4)."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from carriage_core.absent import Absent
from carriage_core.schema import FilePath, Sort, Url, Value, normal
from carriage_core.shell.commands import Call, assignment, path_of, rule, run
from carriage_core.shell.words import ANYTHING, Arg, UnclearError, literal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from carriage_core.shell.effects import ShellAction

_ASSIGNMENT: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\+?=")
_PLACEHOLDER: Final = "{}"

# Commands that run commands


@rule("run")
def _run(call: Call) -> list[ShellAction]:
    operands = list(call.operands)
    for name in call.values("unset"):
        assignment(name.text or "", exported=True)
    while operands and call.word in {"env", "sudo", "doas"}:
        match = _ASSIGNMENT.match(operands[0].head)
        if match is None:
            break
        assignment(match[1], exported=True)
        del operands[0]
    return run(call, operands, call.place.cwd)


@rule("run1")
def _run_behind_one(call: Call) -> list[ShellAction]:
    if not call.operands or call.operands[0].text is None:
        raise UnclearError("an operand that cannot be told")
    return run(call, call.operands[1:], call.place.cwd)


@rule("xargs")
def _xargs(call: Call) -> list[ShellAction]:
    command = call.operands or (literal("echo"),)
    replaced = [value.text or "" for value in call.values("replace")]
    if call.has("replace"):
        marker = (replaced or [_PLACEHOLDER])[-1] or _PLACEHOLDER
        return run(call, [_with_hole(arg, marker, None) for arg in command], call.place.cwd)
    return run(call, [*command, ANYTHING], call.place.cwd)


def _with_hole(arg: Arg, marker: str, folder: str | None) -> Arg:
    """Put something unknown where a marker stands; `folder` is what it certainly lies in if nothing else is there."""
    if arg.text is None or marker not in arg.text:
        return arg
    head = arg.text.partition(marker)[0]
    if folder is not None:
        known = f"{folder}/" if arg.text == marker else None
        return Arg(text=None, head=f"{head}{folder}", folder=known)
    return Arg(text=None, head=head)


_FIND_TESTS: Final = frozenset(
    """
    -amin -anewer -atime -cmin -cnewer -ctime -fstype -gid -group -ilname -iname -inum -ipath -iregex -links -lname
    -maxdepth -mindepth -mmin -mtime -name -newer -newermt -newerct -newerat -path -perm -printf -regex -regextype
    -samefile -size -type -uid -used -user -wholename -xtype -context
    """.split()  # noqa: SIM905  # a paragraph is easier to read than a list
)
_FIND_WORDS: Final = frozenset(
    """
    ! ( ) , -a -and -daystart -depth -empty -executable -false -follow -ls -mount -nogroup
    -noignore_readdir_race -noleaf -not -nouser -o -or -print -print0 -prune -quit -readable -true -writable
    -xdev
    """.split()  # noqa: SIM905  # the same
)
_FIND_WRITES: Final = {"-fprint": 1, "-fprint0": 1, "-fls": 1, "-fprintf": 2}
_FIND_RUNS: Final = frozenset({"-exec", "-ok", "-execdir", "-okdir"})


@rule("find")
def _find(call: Call) -> list[ShellAction]:
    args = list(call.operands)
    follows = any(arg.text in {"-L", "-follow"} for arg in args)
    while args and args[0].text in {"-H", "-L", "-P"}:
        del args[0]
    roots: list[Arg] = []
    while args and not (args[0].maybe_option or (args[0].text or "-").startswith(("-", "(", "!", ","))):
        roots.append(args.pop(0))
    follows = follows or any(root.text is None for root in roots)
    actions: list[ShellAction] = []
    while args:
        primary = args.pop(0).text
        if primary is None:
            raise UnclearError("an argument that could be any option")
        count = 1 if primary in _FIND_TESTS else _FIND_WRITES.get(primary, 0)
        if len(args) < count or any(arg.loose for arg in args[:count]):
            raise UnclearError("a test without a value that can be told")
        if primary in _FIND_WRITES:
            actions += call.files("write", args[0])
        elif primary in _FIND_RUNS:
            ends = [at for at in range(len(args)) if _ends_exec(args, at)]
            if not ends:
                raise UnclearError("a command that does not end")
            # -execdir runs in the folder of what was found, wherever that is.
            apart = primary.endswith("dir")
            for root in _folders(roots, follows=follows or apart):
                command = [_with_hole(arg, _PLACEHOLDER, root) for arg in args[: ends[0]]]
                actions += run(call, command, None if apart else call.place.cwd)
            del args[: ends[0] + 1]
        elif primary == "-delete":
            for root in _folders(roots, follows=follows):
                within = None if root is None else path_of(root, call.place.cwd)
                actions.append(call.file("delete", Absent.UNKNOWN, within, recursive=True))
        elif not count and primary not in _FIND_WORDS:
            raise UnclearError("a test or action that is not known")
        del args[:count]
    return actions


def _ends_exec(args: Sequence[Arg], at: int) -> bool:
    if args[at].loose:
        raise UnclearError("a command whose end cannot be told")
    return args[at].text == ";" or (args[at].text == "+" and args[at - 1].text == _PLACEHOLDER)


def _folders(roots: Sequence[Arg], *, follows: bool) -> list[str | None]:
    """Name the folders that what is found lies in; None where links or patterns lead elsewhere."""
    return [None] if follows else [root.text for root in roots] or ["."]


# Files


@rule("anywhere")
def _anywhere(call: Call) -> list[ShellAction]:
    return [one for arg in call.operands[:1] for one in call.files("read", arg)] + [call.file("write", Absent.UNKNOWN)]


@rule("anywhere-create")
def _anywhere_create(call: Call) -> list[ShellAction]:
    return [call.file("create", Absent.UNKNOWN)]


def _split(call: Call) -> tuple[list[Arg], Arg]:
    """Tell sources from the target."""
    folders = call.values("target")
    if call.loose:
        return list(call.operands), ANYTHING
    if folders:
        return list(call.operands), folders[-1]
    if len(call.operands) < 2:  # noqa: PLR2004  # a source and a target
        raise UnclearError("a source or a target is missing")
    return list(call.operands[:-1]), call.operands[-1]


def _targets(call: Call, sources: Sequence[Arg], target: Arg) -> list[Arg]:
    """List the paths that could be written: the target, and what it would hold if it is a folder."""
    if call.loose:
        return [ANYTHING, *call.operands]
    if target.text is None:
        return [target]
    stands_for_folder = (
        call.has("target") or len(sources) > 1 or target.text.rstrip("/").rpartition("/")[2] in {"", ".", ".."}
    )
    found = [] if stands_for_folder and not call.has("exact") else [target]
    if not call.has("exact"):
        for source in sources:
            base = None if source.text is None else source.text.rstrip("/").rpartition("/")[2]
            folder = f"{target.text.rstrip('/')}/" if target.text != "/" else "/"
            found.append(
                Arg(text=None, head=folder, folder=folder)
                if base in {None, "", ".", ".."}
                else literal(f"{folder}{base}")
            )
    return found


@rule("move")
def _move(call: Call) -> list[ShellAction]:
    sources, target = _split(call)
    targets = _targets(call, sources, target)
    actions = [one for arg in targets for one in call.files("write", arg)]
    for source in sources:
        path = Absent.UNKNOWN if source.text is None else path_of(source.text, call.place.cwd)
        for arg in targets:
            place = Absent.UNKNOWN if arg.text is None else path_of(arg.text, call.place.cwd)
            actions.append(call.file("move", path, more={"object.target": place}))
        # The source may be a folder: then all below it is gone from there too.
        actions += call.files("delete", source, recursive=True)
    return actions


@rule("copy")
def _copy(call: Call) -> list[ShellAction]:
    if call.has("folders"):
        return [one for operand in call.operands for one in call.files("create", operand)]
    sources, target = _split(call)
    recursive = call.has("recursive")
    actions = [one for source in sources for one in call.files("read", source, recursive=recursive)]
    for arg in _targets(call, sources, target):
        actions += call.files("write", arg, recursive=recursive)
    return actions


@rule("link")
def _link(call: Call) -> list[ShellAction]:
    operands = call.operands
    if len(operands) == 1 and not call.has("target"):
        operands = (*operands, literal("."))
    call = replace(call, operands=operands)
    sources, target = _split(call)
    actions = [one for arg in _targets(call, sources, target) for one in call.files("write", arg)]
    for source in sources:
        if call.has("symbolic") and not call.has("from-here") and not source.head.startswith("/"):
            actions.append(call.file("read", Absent.UNKNOWN))  # relative to wherever the link ends up
        else:
            actions += call.files("read", source)
    return actions


@rule("dd")
def _dd(call: Call) -> list[ShellAction]:
    actions: list[ShellAction] = []
    for arg in call.operands:
        name, equals, value = arg.head.partition("=")
        if arg.loose or not equals or name not in _DD_OPERANDS:
            raise UnclearError("an operand that cannot be told")
        if name in {"if", "of"}:
            inner = Arg(text=None if arg.text is None else value, head=value)
            actions += call.files("read" if name == "if" else "write", inner)
    return actions


_DD_OPERANDS: Final = frozenset("if of bs ibs obs cbs count skip iseek seek oseek conv iflag oflag status".split())  # noqa: SIM905

_ADDRESS: Final = r"(?:(?:[0-9]+|\$|/(?:\\.|[^/\\\n\[])*/)(?:,\+?(?:[0-9]+|\$|/(?:\\.|[^/\\\n\[])*/))?!?[ ]*)?"
_SED: Final = re.compile(
    r"[ \n;]*" + _ADDRESS + r"(?:s([/|#,:@%!_])(?:\\[^\n]|\[(?:(?!\1)[^\]\\\n])+\]|(?!\1)[^\\\n\[])*\1"
    r"(?:\\[^\n]|(?!\1)[^\\\n])*\1[gpiI0-9]*|[pdqDNnhHgGxQ=]|[aic]\\?[ ]*[^\n]*)[ ]*(?=[;\n]|$)"
)
"""Scripts that neither run a command nor name a file."""


@rule("sed")
def _sed(call: Call) -> list[ShellAction]:
    scripts, operands = call.values("script"), list(call.operands)
    if not scripts:
        if not operands:
            raise UnclearError("a script is missing")
        scripts = [operands.pop(0)]
    for script in scripts:
        rest = script.text
        if rest is None or call.loose:
            raise UnclearError("a script that cannot be read")
        while rest.strip(" \n;"):
            step = _SED.match(rest)
            if step is None:
                raise UnclearError("a script that may run or write something")
            rest = rest[step.end() :]
    in_place = call.has("in-place")
    suffixes = [value for value in call.values("in-place") if value.text != ""]
    actions = [one for arg in operands for one in call.files("write" if in_place else "read", arg)]
    return [*actions, *([call.file("write", Absent.UNKNOWN)] if suffixes else [])]


@rule("awk")
def _awk(call: Call) -> list[ShellAction]:
    if not call.operands or call.operands[0].text is None or call.loose:
        raise UnclearError("a program that cannot be read")
    if re.search(r"system|getline|[|>@]", call.operands[0].text):
        raise UnclearError("a program that may run or write something")
    return [one for arg in call.operands[1:] for one in call.files("read", arg)]


@rule("tar")
def _tar(call: Call) -> list[ShellAction]:
    mode = {mark for mark, _ in call.found if mark in {"c", "x", "t", "r"}}
    archives, folders = call.values("archive"), call.values("cwd")
    if len(mode) != 1 or len(archives) > 1 or len(folders) > 1 or call.loose:
        raise UnclearError("what is done to which archive cannot be told")
    if any(":" in archive.head or archive.text is None for archive in archives):
        raise UnclearError("an archive that may lie elsewhere")
    outside = _origin(call)
    if "x" in mode or "t" in mode:
        actions = [one for archive in archives for one in outside.files("read", archive)]
        if "x" in mode:
            within = call.place.cwd
            actions.append(call.file("write", Absent.UNKNOWN, within, recursive=True))
        return actions
    actions = [one for archive in archives for one in outside.files("write", archive)]
    actions += [one for arg in call.operands for one in call.files("read", arg, recursive=True)]
    if call.has("remove"):
        actions += [one for arg in call.operands for one in call.files("delete", arg, recursive=True)]
    return actions


def _origin(call: Call) -> Call:
    """The call where it was made, before options moved it."""
    return call.at(call.place.origin)


@rule("squeeze")
def _squeeze(call: Call) -> list[ShellAction]:
    recursive = call.has("recursive")
    if call.has("stdout"):
        return [one for arg in call.operands for one in call.files("read", arg, recursive=recursive)]
    actions: list[ShellAction] = []
    unpacks = "un" in call.word or call.has("unpack")
    suffix = {"gzip": ".gz", "gunzip": ".gz", "bzip2": ".bz2", "bunzip2": ".bz2"}.get(call.word, ".xz")
    for arg in call.operands:
        actions += call.files("delete", arg, recursive=recursive)
        if arg.text is None or recursive or (unpacks and not arg.text.endswith(suffix)):
            actions.append(call.file("write", Absent.UNKNOWN))
        else:
            packed = arg.text.removesuffix(suffix) if unpacks else f"{arg.text}{suffix}"
            actions += call.files("write", literal(packed))
    return actions


@rule("zip")
def _zip(call: Call) -> list[ShellAction]:
    if not call.operands or call.loose:
        raise UnclearError("an archive is missing")
    archive, *files = call.operands
    recursive = call.has("recursive")
    actions = call.files("write", archive)
    if archive.text is not None:
        actions += call.files("write", literal(f"{archive.text}.zip"))
    actions += [one for arg in files for one in call.files("read", arg, recursive=recursive)]
    if call.has("remove"):
        actions += [one for arg in files for one in call.files("delete", arg, recursive=True)]
    return actions


@rule("unzip")
def _unzip(call: Call) -> list[ShellAction]:
    actions = [one for arg in call.operands[:1] for one in call.files("read", arg)]
    if call.has("list"):
        return actions
    folders = call.values("target")
    within = call.place.cwd if not folders else None
    if folders and folders[-1].text is not None:
        path = path_of(folders[-1].text, call.place.cwd)
        within = path if isinstance(path, FilePath) else None
    return [*actions, call.file("write", Absent.UNKNOWN, within, recursive=True)]


# The shell's own


@rule("assign")
def _assign(call: Call) -> list[ShellAction]:
    for operand in call.operands:
        match = _ASSIGNMENT.match(operand.head)
        name = match[1] if match else operand.text or ""
        if operand.loose and match is None:
            raise UnclearError("a variable that cannot be told")
        assignment(name, exported=call.word not in {"local", "readonly"} and match is not None)
    return []


@rule("names")
def _names(call: Call) -> list[ShellAction]:
    for operand in call.operands:
        assignment(operand.text or "", exported=False)
    return []


# Network


_REMOTE: Final = re.compile(r"(?:[^/:@\s]+@)?(\[[0-9A-Fa-f:]+\]|[^/:@\s]+):(?!//)")
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_WEB: Final = frozenset({"http", "https"})
_READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_WRITES: Final = frozenset({"POST", "PUT", "PATCH"})
_UNKNOWN_URL: Final = {"object.url": Absent.UNKNOWN, "object.host": Absent.UNKNOWN}
_AUTHORITY: Final = re.compile(r"(https?://[^/?#]+)[/?#]")


def _where(arg: Arg) -> dict[str, Value | Absent]:
    """Read a URL as far as it is known: at least its host."""
    if arg.text is None:
        known = _AUTHORITY.match(arg.head)
        return {
            "object.url": Absent.UNKNOWN,
            "object.host": normal(known[1] + "/", Sort.HOST) if known and not arg.loose else Absent.UNKNOWN,
        }
    text = arg.text
    match = _SCHEME.match(text)
    if match and match[1].lower() not in _WEB:
        raise UnclearError("a URL of another kind than http")
    # Braces and brackets make several URLs of one.
    url = Absent.UNKNOWN if any(mark in text for mark in "{}[]") else Url.of(text if match else f"http://{text}")
    return {"object.url": url, "object.host": url.host if isinstance(url, Url) else Absent.UNKNOWN}


def _request(call: Call, method: str, url: Arg, files: Sequence[Arg], *, sends: bool) -> list[ShellAction]:
    """Say what one HTTP request does."""
    where = _where(url)
    actions: list[ShellAction] = []
    for file in files:
        actions += call.files("upload", file, more=where)
    if method == "DELETE":
        # Anything may be behind a URL: a release, a branch, a package.
        actions.append(call.action("delete", None, "asks a server to delete", where))
    elif method in _WRITES or sends:
        actions.append(call.action("send", "url", "sends to a server", {"action.method": method, **where}))
    elif method in _READS:
        actions.append(call.action("fetch", "url", "reads from a server", where))
    else:
        raise UnclearError("a request method whose effect is not known")
    return actions


def _unknown_text(arg: Arg | None) -> bool:
    return arg is not None and arg.text is None and not arg.pattern


@rule("curl")
def _curl(call: Call) -> list[ShellAction]:
    files: list[Arg] = []
    sends = call.has("data", "raw", "urlencode", "form", "body")
    for mark, value in call.found:
        if value is not None and mark in _CURL_FILES:
            files += _CURL_FILES[mark](value)
    urls = [*call.operands, *call.values("url")]
    if any(_unknown_text(value) for _, value in call.found) or any(map(_unknown_text, urls)):
        files.append(Arg(text=None, head=""))  # a variable may hold what a file held
    methods = [value.text for value in call.values("method")]
    default = (
        "PUT"
        if call.has("body")
        else "POST"
        if sends and not call.has("get")
        else "HEAD"
        if call.has("head")
        else "GET"
    )
    method = methods[-1] if methods else default
    if method is None or call.loose:
        raise UnclearError("a request that cannot be told")
    actions = [one for url in urls for one in _request(call, method, url, files, sends=sends and not call.has("get"))]
    if call.has("remote-name"):
        folders = call.values("target")
        within = call.place.cwd if not folders else _known(folders[-1], call.place.cwd)
        actions.append(call.file("write", Absent.UNKNOWN, within))
    elif call.has("target") or any("#" in value.head for value in call.values("write")):
        actions.append(call.file("write", Absent.UNKNOWN))
    return actions


def _known(arg: Arg, cwd: FilePath | None) -> FilePath | None:
    path = Absent.UNKNOWN if arg.text is None else path_of(arg.text, cwd)
    return path if isinstance(path, FilePath) else None


def _behind_at(value: Arg) -> list[Arg]:
    """``@file`` reads a file, anything else is literal."""
    if value.head.startswith("@"):
        name = value.head[1:]
        return [_source(Arg(text=None if value.text is None else name, head=name))]
    return []


def _source(arg: Arg) -> Arg:
    """A file to send; what comes from another program is unknown."""
    return Arg(text=None, head="") if arg.text in {"-", ".", ""} or "{" in arg.head or "[" in arg.head else arg


def _urlencode(value: Arg) -> list[Arg]:
    match = re.match(r"[^=@]*@", value.head)
    return _behind_at(_behind(value, match.end() - 1)) if match else []


def _behind(arg: Arg, index: int) -> Arg:
    return Arg(text=None if arg.text is None else arg.text[index:], head=arg.head[index:])


def _form(value: Arg) -> list[Arg]:
    _, _, content = value.head.partition("=")
    if content[:1] not in {"@", "<"}:
        return []
    name = content[1:]
    plain = value.text is not None and not any(mark in name for mark in ';,"')
    return [_source(literal(name))] if plain else [Arg(text=None, head="")]


def _cookie(value: Arg) -> list[Arg]:
    return [] if "=" in value.head else [value]


def _body(value: Arg) -> list[Arg]:
    return [_source(value)]


_CURL_FILES: Final[dict[str, Callable[[Arg], list[Arg]]]] = {
    "data": _behind_at,
    "header": _behind_at,
    "urlencode": _urlencode,
    "form": _form,
    "cookie": _cookie,
    "body": _body,
}


@rule("wget")
def _wget(call: Call) -> list[ShellAction]:
    files = call.values("body")
    sends = call.has("body", "raw")
    if any(_unknown_text(value) for _, value in call.found) or any(map(_unknown_text, call.operands)):
        files.append(Arg(text=None, head=""))
    methods = [value.text for value in call.values("method")]
    method = methods[-1] if methods else "POST" if sends else "GET"
    if method is None or call.loose:
        raise UnclearError("a request that cannot be told")
    actions = [one for url in call.operands for one in _request(call, method, url, files, sends=sends)]
    documents = call.values("document")
    if documents:
        actions += [one for value in documents for one in call.files("write", value)]
    elif not call.has("spider"):
        folders = call.values("target")
        within = call.place.cwd if not folders else _known(folders[-1], call.place.cwd)
        actions.append(call.file("write", Absent.UNKNOWN, within))
    return actions


def _host(arg: Arg) -> str | Absent | None:
    """The host of ``host:path``; None for a local path, unknown where it could be either."""
    match = _REMOTE.match(arg.head)
    if match:
        host = normal(match[1], Sort.HOST)
        return host if isinstance(host, str | Absent) else Absent.UNKNOWN
    if arg.head.startswith(("scp://", "rsync://")):
        return Absent.UNKNOWN
    if arg.text is None and "/" not in arg.head:
        return Absent.UNKNOWN
    return None


@rule("scp")
def _scp(call: Call) -> list[ShellAction]:
    return _between(call, removes=False, mirrors=False)


@rule("rsync")
def _rsync(call: Call) -> list[ShellAction]:
    return _between(call, removes=call.has("remove"), mirrors=call.has("delete"))


def _between(call: Call, *, removes: bool, mirrors: bool) -> list[ShellAction]:
    """Copy between this machine and others."""
    if call.loose:
        raise UnclearError("what is copied where cannot be told")
    sources, target = _split(call)
    recursive = call.has("recursive")
    there = _host(target)
    actions: list[ShellAction] = []
    for source in sources:
        here = _host(source)
        if here is not None:
            actions.append(
                call.action("fetch", "url", "copies from a host", {"object.url": Absent.UNKNOWN, "object.host": here})
            )
            if removes:
                actions.append(call.action("delete", "remote-file", "deletes on a host", {"object.host": here}))
        if here is None or here is Absent.UNKNOWN:
            more: dict[str, Value | Absent] = {} if there is None else {"object.host": there}
            actions += call.files("read" if there is None else "upload", source, recursive=recursive, more=more)
            if removes:
                actions += call.files("delete", source, recursive=True)
    if there is None or there is Absent.UNKNOWN:
        local = [_behind_host(source) for source in sources]
        for arg in _targets(call, local, target):
            actions += call.files("write", arg, recursive=recursive)
        if mirrors:
            actions += call.files("delete", target, recursive=True)
    if there is not None and mirrors:
        actions.append(call.action("delete", "remote-file", "deletes on a host", {"object.host": there}))
    return actions


def _behind_host(arg: Arg) -> Arg:
    match = _REMOTE.match(arg.head)
    return _behind(arg, match.end()) if match else arg


def _bucket_url(arg: Arg) -> Url | Absent | None:
    """The URL of an object in a bucket, None for a local path."""
    if arg.text is None:
        return Absent.UNKNOWN
    return Url.of(arg.text) if arg.text.startswith(("s3://", "gs://")) else None


def _on_object(call: Call, action: str, arg: Arg, *, recursive: bool = False) -> list[ShellAction]:
    url = _bucket_url(arg) or Absent.UNKNOWN
    host = url.host if isinstance(url, Url) else Absent.UNKNOWN
    kind, why = "object" if action == "delete" else "url", f"would {action} in a bucket"
    found = [call.action(action, kind, why, {"object.url": url, "object.host": host})]
    if recursive:
        found.append(call.action(action, kind, why, {"object.url": Absent.UNKNOWN, "object.host": host}))
    return found


@rule("bucket")
def _bucket(call: Call) -> list[ShellAction]:
    everything = call.has("recursive") or call.row.options.get("--force") is not None
    return [one for arg in call.operands for one in _on_object(call, "delete", arg, recursive=everything)]


@rule("transfer")
def _transfer(call: Call) -> list[ShellAction]:
    sources, target = _split(call)
    there = _bucket_url(target)
    recursive = "-r" not in call.row.options or call.has("recursive")
    actions: list[ShellAction] = []
    moves, host = _moves(call), there.host if isinstance(there, Url) else Absent.UNKNOWN
    for source in sources:
        here = _bucket_url(source)
        if here is not None:
            actions += _on_object(call, "fetch", source)
            actions += _on_object(call, "delete", source, recursive=recursive) if moves else []
        else:
            more: dict[str, Value | Absent] = {} if there is None else {"object.url": there, "object.host": host}
            actions += call.files("read" if there is None else "upload", source, recursive=True, more=more)
            actions += call.files("delete", source, recursive=True) if moves else []
    if there is None:
        for arg in _targets(call, sources, target):
            actions += call.files("write", arg, recursive=True)
        actions += call.files("delete", target, recursive=True) if call.has("delete") else []
    elif call.has("delete"):
        actions += _on_object(call, "delete", target, recursive=True)
    elif not actions or any(one.action == "fetch" for one in actions):
        actions += _on_object(call, "send", target)
    return actions


def _moves(call: Call) -> bool:
    return call.key.endswith(" mv")


@rule("cloud")
def _cloud(call: Call) -> list[ShellAction]:
    texts = [arg.text for arg in call.operands]
    if None in texts:
        raise UnclearError("a subcommand that cannot be told")
    words = [text for text in texts if text is not None and not text.startswith("-")]
    if "delete" in words:
        return [call.named("delete/resource", None)]
    if words[-1:] in (["list"], ["version"], ["info"]) or (len(words) > 1 and words[-2] == "describe"):
        return []
    raise UnclearError("a subcommand whose effects are not known")


@rule("api")
def _api(call: Call) -> list[ShellAction]:
    methods = [value.text for value in call.values("method")]
    method = methods[-1] if methods else "POST" if call.has("field", "input") else "GET"
    if method == "DELETE":
        return [call.action("delete", None, "asks a server to delete", _UNKNOWN_URL)]
    if method != "GET" or not call.operands or call.operands[0].text is None or "graphql" in call.operands[0].text:
        raise UnclearError("a request whose effect is not known")
    return [call.action("fetch", "url", "reads from a server", _UNKNOWN_URL)]


# Git

_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_-]+")


def _ref(text: str) -> str | Absent:
    for prefix in ("refs/heads/", "heads/", "refs/tags/", "tags/"):
        if text.startswith(prefix):
            text = text.removeprefix(prefix)
            break
    named = normal(text, Sort.TEXT)
    return (
        named
        if isinstance(named, str) and text not in {"", "HEAD", "@"} and not set("*^~{@") & set(text)
        else Absent.UNKNOWN
    )


@rule("push")
def _push(call: Call) -> list[ShellAction]:
    if call.loose:
        raise UnclearError("what is pushed where cannot be told")
    operands = [*call.values("remote"), *call.operands]
    where = operands.pop(0).text if operands else None
    remote = where if where is not None and _PLAIN_NAME.fullmatch(where) else Absent.UNKNOWN
    if where is not None and "::" in where:
        raise UnclearError("a remote that runs a program")
    force = call.has("force")
    every = call.has("all", "everything") or not operands
    pushed: list[tuple[str | Absent, bool]] = [(Absent.UNKNOWN, call.has("everything"))] if every else []
    for operand in operands:
        if operand.text is None:
            pushed.append((Absent.UNKNOWN, True))
            continue
        source, colon, target = operand.text.removeprefix("+").rpartition(":")
        force = force or operand.text.startswith("+")
        pushed.append((_ref(target), call.has("delete") or (colon == ":" and not source)))
    actions: list[ShellAction] = []
    for name, deletes in pushed:
        actions.append(
            call.action(
                "push",
                "ref",
                "would push",
                {"object.name": name, "object.remote": remote, "action.force": force or deletes},
            )
        )
        if deletes:
            actions.append(
                call.action("delete", "ref", "would delete a ref", {"object.name": name, "object.remote": remote})
            )
    return actions


@rule("branch")
def _branch(call: Call) -> list[ShellAction]:
    if call.has("list", "config") or not call.operands:
        return []
    if call.has("delete"):
        effect = "delete/ref"
    elif call.has("move"):
        effect = "move/ref"
    else:
        return [call.named("create/ref", call.operands[-1 if call.has("copy") else 0])]
    return [
        call.action(effect.partition("/")[0], "ref", "would change a ref", {"object.name": _ref_of(operand)})
        for operand in call.operands
    ]


def _ref_of(arg: Arg) -> str | Absent:
    return Absent.UNKNOWN if arg.text is None else _ref(arg.text)


@rule("checkout")
def _checkout(call: Call) -> list[ShellAction]:
    names = call.values("new")
    moves = [] if names and not call.operands else [call.file("write", Absent.UNKNOWN)]
    return [*moves, *(call.named("create/ref", name) for name in names)]


@rule("restore")
def _restore(call: Call) -> list[ShellAction]:
    if call.has("staged") and not call.has("worktree"):
        return []
    return [one for arg in call.operands for one in call.files("write", arg, recursive=True)]


@rule("clean")
def _clean(call: Call) -> list[ShellAction]:
    return [one for arg in call.operands or (literal("."),) for one in call.files("delete", arg, recursive=True)]


@rule("gitrm")
def _gitrm(call: Call) -> list[ShellAction]:
    action = "stage" if call.has("cached") else "delete"
    return [one for arg in call.operands for one in call.files(action, arg, recursive=True)]


def _plain_remotes(call: Call) -> None:
    if any(arg.text is None or "::" in arg.text or arg.text.startswith("-") for arg in call.operands):
        raise UnclearError("a remote that cannot be told")


def _from(arg: Arg | None) -> dict[str, Value | Absent]:
    url = Absent.UNKNOWN if arg is None or arg.text is None else Url.of(arg.text)
    return {"object.url": url, "object.host": url.host if isinstance(url, Url) else Absent.UNKNOWN}


@rule("fetch")
def _fetch(call: Call) -> list[ShellAction]:
    _plain_remotes(call)
    where = _from(call.operands[0] if call.operands else None)
    return [call.action("fetch", "repository", "reads from a remote", where)]


@rule("pull")
def _pull(call: Call) -> list[ShellAction]:
    return [*_fetch(call), call.file("write", Absent.UNKNOWN), call.named("commit/repository", None)]


@rule("clone")
def _clone(call: Call) -> list[ShellAction]:
    _plain_remotes(call)
    if not call.operands:
        raise UnclearError("a repository is missing")
    source, *folders = call.operands
    if not folders:
        base = (source.text or "").rstrip("/").removesuffix(".git").rpartition("/")[2].rpartition(":")[2]
        folders = [literal(base)]
    writes = [one for folder in folders for one in call.files("write", folder, recursive=True)]
    return [call.action("fetch", "repository", "reads from a remote", _from(source)), *writes]


@rule("config")
def _config(call: Call) -> list[ShellAction]:
    if call.has("list") or (len(call.operands) == 1 and call.operands[0].text is not None):
        return []
    raise UnclearError("a setting that may run a program later")


@rule("sub-or-list")
def _list(_: Call) -> list[ShellAction]:
    return []


@rule("sub-or-save")
def _save(call: Call) -> list[ShellAction]:
    return [call.file("write", Absent.UNKNOWN)]
