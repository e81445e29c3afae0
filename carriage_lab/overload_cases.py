# SPDX-License-Identifier: Apache-2.0
"""The rows of the overload table: which rules are active in each case, and how much control may take.

Everything here comes from two shipped files, read as plain YAML. Which rules are active is written there by hand,
and what a complete prompt must show is a string. This module imports nothing of the core, so it can share no mistake
with what it judges.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import as_file, files
from typing import TYPE_CHECKING, Any, Final

from ruamel.yaml import YAML

from carriage_lab import oracle

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

_RANKS: Final = ("organization", "developer", "user")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What people wrote, and the two ways in which a prompt may show it.

    Attributes:
        id: Its name.
        text: The sentence.
        clause: The line ``[id] clause`` that says as much as the sentence; None for a rule without an action.
    """

    id: str
    text: str
    clause: str | None

    def shown_in(self, messages: Sequence[Mapping[str, Any]]) -> bool:
        """Whether the leading system messages carry the sentence, or its clause as a whole line."""
        if oracle.visible_protected(messages, self.text):
            return True
        return self.clause is not None and oracle.visible_protected(messages, self.clause)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySet:
    """What an agent is offered, and the rules that can then apply.

    Attributes:
        name: Its name in the tables.
        tools: The tools on offer.
        active: The rules that can apply, in replay order.
    """

    name: str
    tools: tuple[str, ...]
    active: tuple[Rule, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One row: a policy set under a control budget.

    Attributes:
        name: Its name in the tables.
        set: The policy set.
        budget: The most tokens that control may take.
    """

    name: str
    set: PolicySet
    budget: int

    @property
    def active(self) -> tuple[Rule, ...]:
        """The rules that can apply, in replay order."""
        return self.set.active

    def complete(self, messages: Sequence[Mapping[str, Any]]) -> bool:
        """Whether every active rule stands where control counts."""
        return all(rule.shown_in(messages) for rule in self.active)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The whole table before it is measured.

    Attributes:
        rules: Every rule of the registry, in replay order.
        sets: The policy sets.
        budgets: The control budgets of the 48 rows.
    """

    rules: tuple[Rule, ...]
    sets: tuple[PolicySet, ...]
    budgets: tuple[int, ...]

    def cases(self, budgets: Iterable[tuple[str, int]] | None = None) -> tuple[Case, ...]:
        """Cross the policy sets with named `budgets`; with the plan's own where none are given."""
        named = [(str(budget), budget) for budget in self.budgets] if budgets is None else list(budgets)
        return tuple(
            Case(name=f"{each.name}-{name}", set=each, budget=budget) for each in self.sets for name, budget in named
        )


def policy_file() -> AbstractContextManager[Path]:
    """Return the registry's file, for as long as the context lasts."""
    return as_file(files("carriage_lab") / "data" / "overload_policies.yaml")


def case_file() -> AbstractContextManager[Path]:
    """Return the file of the cases, for as long as the context lasts."""
    return as_file(files("carriage_lab") / "data" / "overload_cases.yaml")


def read_plan(policies: Path, cases: Path) -> Plan:
    """Read the two files.

    Raises:
        ValueError: A case names a rule that the registry does not have.
    """
    source, stated = _yaml(policies), _yaml(cases)
    clauses: Mapping[str, str] = stated["clauses"]
    rules = {
        each["id"]: Rule(
            id=each["id"],
            text=each["text"],
            clause=f"[{each['id']}] {clauses[each['id']]}" if each["id"] in clauses else None,
        )
        for each in sorted(source["policies"], key=_replay_order)
    }
    order = list(rules)
    return Plan(
        rules=tuple(rules.values()),
        sets=tuple(
            PolicySet(
                name=each["name"],
                tools=tuple(each["tools"]),
                active=tuple(rules[name] for name in sorted(each["active"], key=order.index)),
            )
            for each in stated["sets"]
        ),
        budgets=tuple(stated["budgets"]),
    )


def shipped_plan() -> Plan:
    """Read the shipped files."""
    with policy_file() as policies, case_file() as cases:
        return read_plan(policies, cases)


def _replay_order(policy: Mapping[str, Any]) -> tuple[int, int, str]:
    """Organization, developer, user; then priority, then id: the order in which replay has always sent texts."""
    return (_RANKS.index(policy["issuer"]["kind"]), -policy.get("priority", 0), policy["id"])


def _yaml(path: Path) -> Any:  # noqa: ANN401  # a tree of plain values
    return YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))
