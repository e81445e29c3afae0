"""Commands from a grammar: what does a forbidden thing is denied however it is spelled, what only looks so is not."""

import os
import subprocess
from pathlib import Path

import pytest

from carriage_core.schema import FilePath
from carriage_core.shell import shell_actions
from integration_tests.core.shell_grammar import OPERATIONS, Operation, near_miss, variant

EACH = 250
"""Seeds for each operation and kind; five operations make more than 1,000 different commands of each kind."""

REAL = 40
"""Commands of each operation that bash runs."""

FOUND = Path("/usr/bin/bash").exists() or Path("/bin/bash").exists()
WORK = FilePath("/work")

by_name = pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name.split()[0])
needs_bash = pytest.mark.skipif(not FOUND, reason="no bash to judge by")


def denied(operation: Operation, command: str, cwd: FilePath | None, root: str = "/work") -> bool:
    """Whether a policy that denies the operation applies to anything the command does."""
    return any(map(operation.rule(root).binds, shell_actions(command, cwd=cwd)))


@by_name
def test_a_forbidden_operation_passes_under_another_spelling(operation: Operation):
    commands = [variant(operation, seed).text for seed in range(EACH)]
    assert [command for command in commands if not denied(operation, command, WORK)] == []


@by_name
def test_a_command_that_only_looks_forbidden_is_stopped(operation: Operation):
    commands = [near_miss(operation, seed).text for seed in range(EACH)]
    assert [command for command in commands if denied(operation, command, WORK)] == []
    assert [command for command in commands if None in {one.action for one in shell_actions(command, cwd=WORK)}] == []


def test_the_grammar_makes_a_thousand_different_commands_of_each_kind():
    assert len({variant(one, seed).text for one in OPERATIONS for seed in range(EACH)}) >= 1_000
    assert len({near_miss(one, seed).text for one in OPERATIONS for seed in range(EACH)}) >= 1_000


@by_name
def test_the_command_is_denied_where_the_folder_is_not_known(operation: Operation):
    """Without a working directory a relative path could be any."""
    commands = [variant(operation, seed).text for seed in range(60)]
    assert [command for command in commands if not denied(operation, command, None)] == []


# Real bash is the judge of whether a generated command does what the grammar says.


def scratch(folder: Path) -> Path:
    root = folder / "w"
    for below in ("release", "build", "keys", "x"):
        (root / below).mkdir(parents=True, exist_ok=True)
    for below in ("release/app.tar.gz", "build/app.tar.gz", "build/notes.txt", "build/a", "build/wide", "keys/id"):
        (root / below).write_text("content\n")
    (root / "build/wide").chmod(0o777)
    (root / "keys").chmod(0o700)
    (root / "keys/id").chmod(0o600)
    (root / "secret.env").write_text("token\n")
    return root


def stubs(folder: Path) -> Path:
    """Make programs that write down that they were called, for those that must not run."""
    (folder / "bin").mkdir()
    for name in ("git", "gh", "curl", "wget", "scp", "rsync", "aws", "nc", "docker", "setfacl", "chattr", "perl"):
        stub = folder / "bin" / name
        stub.write_text(f'#!/bin/sh\ncat >/dev/null 2>&1 </dev/null\necho {name} "$@" >>{folder}/log\n')
        stub.chmod(0o755)
    return folder / "bin"


def bash(command: str, root: Path, programs: Path) -> None:
    environment = {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(root), "LC_ALL": "C.UTF-8"}
    subprocess.run(
        ["bash", "-c", command],  # noqa: S607  # whichever bash there is
        cwd=root,
        env=environment,
        capture_output=True,
        timeout=20,
        check=False,
        stdin=subprocess.DEVNULL,
    )


DELETE, PUSH, RELEASE, UPLOAD, RIGHTS = OPERATIONS


def rights(root: Path) -> tuple[int, int] | None:
    try:
        return (root / "keys").stat().st_mode & 0o7777, (root / "keys/id").stat().st_mode & 0o7777
    except FileNotFoundError:
        return None


@needs_bash
def test_a_variant_does_not_delete_so_that_the_test_proves_nothing(tmp_path: Path):
    programs = stubs(tmp_path)
    for seed in [seed for seed in range(REAL * 3) if variant(DELETE, seed).real][:REAL]:
        root = scratch(tmp_path / str(seed))
        made = variant(DELETE, seed, str(root))
        bash(made.text, root, programs)
        assert not (root / "release/app.tar.gz").exists(), made.text
        assert denied(DELETE, made.text, FilePath(str(root)), str(root)), made.text


@needs_bash
def test_a_near_miss_deletes_after_all(tmp_path: Path):
    programs = stubs(tmp_path)
    for seed in range(REAL):
        root = scratch(tmp_path / str(seed))
        made = near_miss(DELETE, seed, str(root))
        bash(made.text, root, programs)
        assert (root / "release/app.tar.gz").exists(), made.text


@needs_bash
def test_a_variant_leaves_the_rights_alone_so_that_the_test_proves_nothing(tmp_path: Path):
    programs = stubs(tmp_path)
    changed = 0
    for seed in [seed for seed in range(REAL * 4) if variant(RIGHTS, seed).real][:REAL]:
        root = scratch(tmp_path / str(seed))
        made = variant(RIGHTS, seed, str(root))
        bash(made.text, root, programs)
        changed += rights(root) != (0o700, 0o600)
        assert rights(root) != (0o700, 0o600), made.text
    assert changed == REAL


@needs_bash
def test_a_near_miss_changes_the_rights_after_all(tmp_path: Path):
    programs = stubs(tmp_path)
    for seed in range(REAL):
        root = scratch(tmp_path / str(seed))
        made = near_miss(RIGHTS, seed, str(root))
        bash(made.text, root, programs)
        assert rights(root) in {(0o700, 0o600), None}, made.text


@needs_bash
@pytest.mark.parametrize("operation", [PUSH, RELEASE, UPLOAD], ids=lambda operation: operation.name.split()[0])
def test_a_variant_calls_no_program_so_that_the_test_proves_nothing(operation: Operation, tmp_path: Path):
    programs = stubs(tmp_path)
    for seed in [seed for seed in range(REAL * 3) if variant(operation, seed).real][:REAL]:
        root = scratch(tmp_path / str(seed))
        (tmp_path / "log").unlink(missing_ok=True)
        made = variant(operation, seed, str(root))
        bash(made.text, root, programs)
        assert (tmp_path / "log").exists(), made.text


TREE_MISREADS = (
    "! { rm build/x; }",
    "! ! rm build/x",
    "true | ! rm build/x",
    "echo a\n\\rm build/x",
    "x=y 2>/dev/null",
    "echo { }",
)


@pytest.mark.parametrize("command", TREE_MISREADS)
def test_one_of_two_readings_is_believed_where_they_differ(command: str):
    """The tree gets these wrong; they are allowed by nobody until it does not."""
    assert [one.action for one in shell_actions(command, cwd=WORK)] == [None]
