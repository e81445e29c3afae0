"""How a command is read: real bash is the judge of quotes, words and of what runs at all."""

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carriage_core.errors import ToolBindingError
from carriage_core.schema import Absent, FilePath
from carriage_core.shell import MAX_COMMAND, OBJECT_TYPES, VOCABULARY, ShellAction, ready, shell_actions, tree
from carriage_core.shell.syntax import Reader, Simple, joined
from carriage_core.shell.words import UnclearError
from integration_tests.core.shell_grammar import double, escaped, plain, single

BASH = shutil.which("bash")
ROUNDS = int(os.environ.get("CARRIAGE_EXAMPLES", "200"))
WORK = FilePath("/work")

needs_bash = pytest.mark.skipif(BASH is None, reason="no bash to judge by")


def bash(
    command: str, cwd: Path, path: str = os.environ["PATH"], log: str = os.devnull
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [BASH or "bash", "-c", command],
        cwd=cwd,
        env={"PATH": path, "HOME": "/nowhere", "LC_ALL": "C.UTF-8", "DELETED": log},
        capture_output=True,
        timeout=20,
        check=False,
        stdin=subprocess.DEVNULL,
    )


# Quotes

PIECES = (*"aZ0 .,-_/=:@%+#^~!{}[]*?$\"'`\\;&|<>()\n\té", "..", "{a,b}", "rm", "日")


def spelled(rng: random.Random, text: str) -> str:
    if not text:
        return rng.choice(["''", '""', "$''"])
    out = []
    for piece in (text[at : at + 3] for at in range(0, len(text), 3)):
        ways = [plain, single, double, escaped, ansi]
        if "\n" in piece:
            ways = [single, double, ansi]
        if "!" in piece:
            ways = [single, ansi]
        out.append(rng.choice(ways)(piece) if rng.random() < 0.9 else piece)
    return "".join(out)


def ansi(text: str) -> str:
    codes = {"\n": "\\n", "\t": "\\t", "'": "\\'", "\\": "\\\\"}
    return (
        "$'"
        + "".join(codes.get(one, f"\\x{ord(one):02x}" if one.isascii() else f"\\u{ord(one):04x}") for one in text)
        + "'"
    )


def arguments(command: str) -> list[str | None] | None:
    """Read a simple command; None where it is not read at all."""
    try:
        node = Reader(joined(command)).read()
        if not isinstance(node, Simple) or node.redirects or node.assignments:
            return None
        return [arg.text for word in node.words for arg in word.arguments()]
    except UnclearError:
        return None


@needs_bash
def test_a_quoted_word_is_another_to_bash(tmp_path: Path):
    rng = random.Random(7)  # noqa: S311
    compared = 0
    for _ in range(max(ROUNDS // 4, 20)):
        words = ["".join(rng.choice(PIECES) for _ in range(rng.randrange(9))) for _ in range(12)]
        lines = [f"printf '%s\\0' {spelled(rng, word)}" for word in words]
        read = [(line, arguments(line)) for line in lines]
        known = [(line, texts) for line, texts in read if texts is not None and None not in texts]
        script = "\nprintf '\\1'\n".join(line for line, _ in known)
        theirs = bash(script, tmp_path).stdout.decode().split("\1")
        for (line, texts), output in zip(known, theirs, strict=True):
            ours = "".join(f"{text}\0" for text in (texts or [])[2:]) or "\0"
            assert ours == output, line
            compared += 1
    assert compared > ROUNDS


@needs_bash
def test_a_line_continues_in_another_place_to_bash(tmp_path: Path):
    rng = random.Random(8)  # noqa: S311
    alphabet = ["a", "b", " ", " ", "\\\n", "\\\n", "\\\\", "'", '"', "$'", "#", "\\ ", ";", "\n", "\\'"]
    compared = 0
    for _ in range(ROUNDS * 4):
        text = "printf %s " + "".join(rng.choice(alphabet) for _ in range(rng.randrange(12)))
        try:
            without = joined(text)
        except UnclearError:
            continue
        first, second = bash(text, tmp_path), bash(without, tmp_path)
        assert (first.stdout, first.returncode) == (second.stdout, second.returncode), text
        compared += 1
    assert compared > ROUNDS


# What runs

TOKENS = (
    *(
        "rm p",
        "rm q",
        "rm",
        "\\rm",
        "r'm'",
        '"rm"',
        "$'\\x72m'",
        "p",
        "q",
        "-f",
        "--",
        "cd d",
        "cd ..",
        "true",
        "false",
    ),
    *(
        "echo",
        "cat",
        "env",
        "x=1",
        ";",
        ";",
        "&&",
        "||",
        "|",
        "&",
        "\n",
        "\n",
        "(",
        ")",
        "{",
        "}",
        "!",
        "if",
        "then",
        "else",
    ),
    *(
        "fi",
        "for i in a",
        "do",
        "done",
        "case a in",
        "a)",
        "*)",
        ";;",
        "esac",
        "[[",
        "]]",
        "[",
        "]",
        "$(",
        "`",
        "<(",
        '"',
        "'",
    ),
    *(
        "$'",
        "\\",
        "\\\n",
        "#",
        "<<E",
        "<<'E'",
        "E\n",
        "\nE\n",
        ">o",
        "2>&1",
        "<i",
        "$x",
        "$((1))",
        "{a,b}",
        "*",
        "~",
        "-n",
        "=",
        "é",
    ),
    *(
        "time",
        "exec",
        "command",
        "builtin",
        "function",
        "f()",
        "select",
        "until",
        "a=(",
        "${x}",
        '$"',
        "!p",
        "\t",
        "&>",
        ">|",
    ),
)
"""Words and marks that are thrown together; most of what comes out is no command at all."""


def soup(rng: random.Random) -> str:
    return "".join(rng.choice(TOKENS) + rng.choice(["", " ", " ", " "]) for _ in range(rng.randrange(2, 12)))


def accounted(actions: tuple[ShellAction, ...], cwd: str, args: list[str]) -> bool:
    """Whether the actions say that ``rm`` deletes these arguments in this folder."""
    if any(one.action is None for one in actions):
        return True
    paths = {one.attributes.get("object.path") for one in actions if one.action == "delete"}
    operands = [arg for arg in args if not arg.startswith("-")]
    return Absent.UNKNOWN in paths or all(FilePath.of(arg, FilePath(cwd)) in paths for arg in operands)


def world(folder: Path) -> tuple[Path, Path]:
    """Make a place to run in, whose only ``rm`` writes down where and with what it was called.

    Each call is written at once, to the log of its own command: two of a pipe run beside each other, and one that
    was sent to the background may outlive its command.
    """
    programs, place = folder / "bin", folder / "place"
    programs.mkdir()
    (programs / "rm").write_text('#!/bin/sh\nprintf "%s\\0" "$PWD" "$@" "$(printf "\\1")" >>"$DELETED"\n')
    (programs / "rm").chmod(0o755)
    for name in ("cat", "env"):
        (programs / name).symlink_to(shutil.which(name) or name)
    (place / "d").mkdir(parents=True)
    return programs, place


@needs_bash
def test_bash_deletes_something_that_no_action_tells_of(tmp_path: Path):
    programs, place = world(tmp_path)
    rng = random.Random(int(os.environ.get("CARRIAGE_SOUP", "9")))  # noqa: S311
    ran = 0
    for turn in range(ROUNDS * 5):
        command = soup(rng)
        log = tmp_path / f"log{turn}"
        (place / "d").mkdir(exist_ok=True)
        try:
            bash(command, place, str(programs), str(log))
        except subprocess.TimeoutExpired:
            continue
        if not log.exists():
            continue
        actions = shell_actions(command, cwd=FilePath(str(place)))
        for entry in log.read_text(errors="replace").split("\0\1\0")[:-1]:
            cwd, *args = entry.split("\0")
            assert accounted(actions, cwd, args), (command, cwd, args)
        ran += all(one.action is not None for one in actions)
    assert ran > ROUNDS // 50  # and not only because everything is unknown


# Anything at all


def check(actions: tuple[ShellAction, ...]) -> None:
    for one in actions:
        assert one.why
        if one.action is None:
            assert one.object_type is None
        else:
            assert one.attributes.keys() <= VOCABULARY[one.action].keys()
            assert one.object_type is None or one.object_type in OBJECT_TYPES[one.action]


@given(st.text(max_size=60), st.sampled_from([WORK, None]))
def test_a_text_makes_the_reader_fail(text: str, cwd: FilePath | None):
    check(shell_actions(text, cwd=cwd))


@given(st.lists(st.sampled_from(TOKENS + PIECES), max_size=25).map(" ".join), st.sampled_from([WORK, None]))
def test_a_mixture_of_shell_words_makes_the_reader_fail(text: str, cwd: FilePath | None):
    check(shell_actions(text, cwd=cwd))


@given(
    st.text(
        alphabet=st.sampled_from("\x00\x01\x07\r\x1b\x7f\u200b\u202e\ufeff\ud800\u2028\xad"), min_size=1, max_size=2
    )
)
def test_a_hidden_character_is_read_over(hidden: str):
    assert [one.action for one in shell_actions(f"echo {hidden} a", cwd=WORK)] == [None]


LONG = (
    "a " * 4_000,
    "a;" * 4_000,
    "(" * 4_000,
    "$(" * 2_000,
    '"$(' * 2_000,
    "`" * 8_000,
    "'" * 8_001,
    "{" * 8_000,
    "{a," * 2_000,
    "{a,b}" * 1_500,
    "\\\n" * 4_000,
    "<<E " * 2_000 + "\n" + "E\n" * 10,
    "if a; then " * 700,
    "! " * 4_000,
    "sudo " * 1_600,
    "a && " * 1_600 + "a",
    "rm " + "x/" * 4_000,
    "rm " + "x " * 4_000,
    "cd a; " * 1_300 + "rm x",
    "for i in a; do cd a; " * 300 + "true" + "; done" * 300,
    "sed '" + "s/a/b/;" * 1_000 + "' x",
    "sed 's/" + "[" * 4_000 + "/b/' x",
    "sed 's/" + "\\a" * 3_000 + "' x",
    "find " + "-exec a \\; " * 700,
    "echo $" + "'" + "\\x41" * 2_000 + "'",
    "x=${a:-" + "a" * 8_000 + "}",
    "[[ " + "a && " * 1_600 + "a ]]",
    "é" * 8_000,
    "a" * MAX_COMMAND * 100,
    "#" + "`" * 8_000,
)


@pytest.mark.parametrize("text", LONG, ids=range(len(LONG)))
def test_a_long_text_is_never_answered(text: str):
    """Texts of repeated openings, which make a reader that looks back take for ever."""
    check(shell_actions(text[:MAX_COMMAND] if len(text) < MAX_COMMAND * 2 else text, cwd=WORK))


def test_a_command_over_the_limit_is_read_in_part():
    assert [one.action for one in shell_actions("echo " + "a" * MAX_COMMAND, cwd=WORK)] == [None]
    assert shell_actions("echo " + "a" * (MAX_COMMAND - 5), cwd=WORK) == ()


def test_a_missing_parser_lets_commands_pass(monkeypatch: pytest.MonkeyPatch):
    tree.load.cache_clear()
    monkeypatch.setitem(__import__("sys").modules, "tree_sitter_bash", None)
    try:
        assert not ready()
        with pytest.raises(ToolBindingError, match=r"policy-carriage\[shell\]"):
            shell_actions("true", cwd=WORK)
    finally:
        monkeypatch.undo()
        tree.load.cache_clear()
    assert ready()
