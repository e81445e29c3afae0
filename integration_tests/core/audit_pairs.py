"""The labelled pairs of the audit: read, drawn into two halves, judged and counted."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from carriage_core import PolicyRegistry, parse_policy_text
from carriage_core.audit import CarriageAudit
from carriage_core.audit_findings import Carriage, Finding

FILE = Path(__file__).parent / "audit_corpus" / "pairs.yaml"

SEED = 20261207
"""Draws the half of every family that nothing was adjusted to."""

type Judge = Callable[[Pair], Carriage]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A source policy, what is visible, and what became of it by the label."""

    id: str
    family: str
    source: str
    beside: tuple[str, ...]
    in_grammar: bool
    messages: tuple[dict[str, Any], ...]
    label: Carriage
    bound: tuple[str, ...]
    held_out: bool


def read() -> tuple[PolicyRegistry, tuple[Pair, ...]]:
    """Read the sources and every pair, in file order."""
    data = YAML(typ="safe", pure=True).load(FILE.read_text(encoding="utf-8"))
    registry = parse_policy_text(json.dumps(data["sources"], ensure_ascii=False))
    families: dict[str, list[str]] = {}
    for raw in data["pairs"]:
        families.setdefault(raw["family"], []).append(raw["id"])
    held: set[str] = set()
    for family, ids in families.items():
        held |= set(random.Random(f"{SEED} {family}").sample(sorted(ids), (len(ids) + 1) // 2))  # noqa: S311  # a draw, no secret
    return registry, tuple(_pair(raw, held) for raw in data["pairs"])


def _pair(raw: dict[str, Any], held: set[str]) -> Pair:
    return Pair(
        id=raw["id"],
        family=raw["family"],
        source=raw["source"],
        beside=tuple(raw.get("beside", ())),
        in_grammar=raw["grammar"],
        messages=tuple(map(_message, raw["messages"])),
        label=Carriage(raw["label"]),
        bound=tuple(raw.get("bound", ())),
        held_out=raw["id"] in held,
    )


def _message(raw: dict[str, Any]) -> dict[str, Any]:
    content = raw["text"] if "text" in raw else [{"type": "text", "text": part} for part in raw["parts"]]
    return {"role": "user", "content": content} | ({"provenance": raw["provenance"]} if "provenance" in raw else {})


def finder(registry: PolicyRegistry) -> Callable[[Pair], Finding]:
    """Judge pairs by our audit, one for each set of policies."""
    policies = {policy.id: policy for policy in registry.policies}
    bindings = [binding for group in registry.bindings.values() for binding in group]
    audits: dict[tuple[str, ...], CarriageAudit] = {}

    def find(pair: Pair) -> Finding:
        wanted = (pair.source, *pair.beside)
        if wanted not in audits:
            audits[wanted] = CarriageAudit([policies[each] for each in wanted], bindings)
        (finding,) = audits[wanted].read(pair.messages).of(pair.source)
        return finding

    return find


def equality(registry: PolicyRegistry) -> Judge:
    """A baseline: some message is the policy's text, or it is absent; where it came from is not looked at."""
    texts = {policy.id: policy.text for policy in registry.policies}

    def judge(pair: Pair) -> Carriage:
        shown = (_text(message["content"]) for message in pair.messages)
        return Carriage.PRESERVED if texts[pair.source] in tuple(shown) else Carriage.ABSENT

    return judge


def substring(registry: PolicyRegistry) -> Judge:
    """A baseline: the policy's text stands anywhere in some message, or it is absent."""
    texts = {policy.id: policy.text for policy in registry.policies}

    def judge(pair: Pair) -> Carriage:
        shown = (_text(message["content"]) for message in pair.messages)
        return Carriage.PRESERVED if any(texts[pair.source] in text for text in shown) else Carriage.ABSENT

    return judge


def _text(content: str | list[dict[str, str]]) -> str:
    return content if isinstance(content, str) else "\n".join(part["text"] for part in content)


def never(_: Pair) -> Carriage:
    """A baseline: nothing can be verified."""
    return Carriage.UNVERIFIABLE


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """How a judge did on some pairs.

    Attributes:
        pairs: How many.
        exact: How many got their label.
        grammar: How many have a visible side in the language.
        grammar_exact: How many of these got their label.
        falsely_preserved: Ids that were called preserved, with or without "if trusted", and are labelled otherwise.
        confusion: How often each label got each finding.
    """

    pairs: int
    exact: int
    grammar: int
    grammar_exact: int
    falsely_preserved: tuple[str, ...]
    confusion: Counter[tuple[Carriage, Carriage]]


SAYS_PRESERVED = frozenset({Carriage.PRESERVED, Carriage.PRESERVED_IF_TRUSTED})


def score(pairs: Iterable[Pair], judge: Judge) -> Score:
    """Judge and count."""
    judged: Sequence[tuple[Pair, Carriage]] = [(pair, judge(pair)) for pair in pairs]
    grammar = [(pair, found) for pair, found in judged if pair.in_grammar]
    return Score(
        pairs=len(judged),
        exact=sum(pair.label is found for pair, found in judged),
        grammar=len(grammar),
        grammar_exact=sum(pair.label is found for pair, found in grammar),
        falsely_preserved=tuple(
            pair.id for pair, found in judged if found in SAYS_PRESERVED and found is not pair.label
        ),
        confusion=Counter((pair.label, found) for pair, found in judged),
    )
