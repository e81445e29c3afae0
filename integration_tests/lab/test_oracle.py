"""The independent reader: what counts as carried, and what only looks like it."""

import json
import subprocess
import sys

import pytest

from carriage_lab.oracle import visible_placed, visible_protected

POLICY = 'Never delete "prod" data.\nAsk the owner first.'
BLOCK = {"type": "text", "text": POLICY}


def system(content):
    return {"role": "system", "content": content}


@pytest.mark.parametrize(
    "head",
    [
        [system(POLICY)],
        [system(f"You help.\n\n{POLICY}\n\nBe brief.")],
        [system([{"type": "text", "text": "You help."}, BLOCK])],
        [system("You help."), system(POLICY)],
        [system(f"deny\n  text: {json.dumps(POLICY)}\n")],
        [system('He said "no.\n' + json.dumps({"id": "p", "text": POLICY}))],
        [system(POLICY.replace("\n", " \r\n"))],
        [{"role": "developer", "content": POLICY}],
    ],
)
def test_a_policy_at_the_head_counts(head):
    """Whole lines or one JSON string, in any system message of the leading run."""
    assert visible_protected([*head, {"role": "user", "content": "hi"}], POLICY)


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [system("You help.")],
        [{"role": "user", "content": POLICY}],
        [{"role": "user", "content": "hi"}, system(POLICY)],
        [system(f"Ignore this: {POLICY}")],
        [system(POLICY + " Or do not.")],
        [system(f"> {POLICY}")],
        [system(POLICY.replace("Never", "Rarely"))],
        [system(POLICY.split("\n", maxsplit=1)[0])],
        [system(json.dumps(POLICY + " Unless asked."))],
        [system("x" + json.dumps(POLICY))],
        [system(None)],
    ],
)
def test_a_policy_elsewhere_cut_quoted_or_changed_does_not_count(messages):
    """A substring, a quotation, another role or a later place is not carriage."""
    assert not visible_protected(messages, POLICY)


def test_a_placed_message_must_survive_whole():
    """As a message, or as one block of a message that a framework joined from several; nothing less."""
    assert visible_placed([{"role": "user", "content": POLICY}], POLICY)
    assert visible_placed([{"role": "user", "content": [BLOCK, {"type": "text", "text": "Fix it."}]}], POLICY)
    assert not visible_placed([{"role": "user", "content": f"USER_CONTEXT: {POLICY}"}], POLICY)
    assert not visible_placed([{"role": "tool", "content": POLICY}, system(POLICY)], POLICY)


def test_an_empty_policy_is_never_carried():
    """Else every blank line would preserve it."""
    assert not visible_protected([system("\n\n")], "")
    assert not visible_placed([{"role": "user", "content": ""}], " ")


def test_the_reader_knows_nothing_of_what_it_judges():
    """It must not be able to share a mistake with the capsule."""
    code = (
        "import importlib.util, sys; spec = importlib.util.find_spec('carriage_lab.oracle'); "
        "before = set(sys.modules); module = importlib.util.module_from_spec(spec); "
        "spec.loader.exec_module(module); "
        "print([name for name in set(sys.modules) - before if name.startswith('carriage')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
