"""Reads a captured message the way an outsider would. It imports nothing of the project, on purpose."""

import json
import re

_ENTRY = re.compile(r"^\[([a-z0-9._-]{1,64})\] ", re.MULTILINE)


def ids_shown(message: str, sentences: dict[str, str]) -> list[str]:
    """List the ids of the rules a message shows, in order; where it has no ids, by the sentences people wrote.

    Args:
        message: The bytes at the head of the prompt.
        sentences: What people wrote, by id, for a message that shows only that.
    """
    lines = message.split("\n")
    head = re.fullmatch(r"=== CONTROL CAPSULE v1 (full|compact) [0-9a-f]{16} ===", lines[0])
    if head is None or lines[-1] != "=== END CONTROL CAPSULE ===":
        return _by_sentence(message, sentences)
    found: list[str] = []
    for index, line in enumerate(lines):
        entry = _ENTRY.match(line)
        if entry is None:
            continue
        if head[1] == "full":
            # The sentence closes an entry: the first line after the head of the entry that is a JSON string.
            quoted = next(text for text in lines[index:] if text.startswith('"'))
            assert json.loads(quoted) == sentences[entry[1]]
        found.append(entry[1])
    return found


def _by_sentence(message: str, sentences: dict[str, str]) -> list[str]:
    """Cut a message into whole sentences, each followed by a line end or the end of the message."""

    def cut(rest: str, left: frozenset[str]) -> list[str] | None:
        for name in sorted(left):
            sentence = sentences[name]
            for shown in (sentence, f"User rule: {sentence}"):
                if rest == shown:
                    return [name]
                if rest.startswith(shown + "\n"):
                    tail = cut(rest[len(shown) + 1 :], left - {name})
                    if tail is not None:
                        return [name, *tail]
        return None

    return cut(message, frozenset(sentences)) or []
