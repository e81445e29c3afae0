"""What docs/shell.md says the table holds."""

import re
from pathlib import Path

from carriage_core.shell.effects import VOCABULARY, rows
from carriage_core.shell.table import HARMLESS

DOCUMENT = (Path(__file__).parents[2] / "docs" / "shell.md").read_text(encoding="utf-8")


def test_the_document_does_not_promise_another_table() -> None:
    """Rows, command words, harmless words and actions are those of the shipped table."""
    found = re.search(r"has (\d+) rows for (\d+) command words, and (\d+) words", DOCUMENT)
    assert found is not None
    words = {key.split(" ")[0] for key in rows()}
    assert tuple(map(int, found.groups())) == (len(rows()), len(words), len(HARMLESS))
    listed = re.search(r"Actions: ([a-z,\s-]+)\.", DOCUMENT)
    assert listed is not None
    assert set(re.split(r",\s+", listed[1])) == set(VOCABULARY)
