"""`compaction-conformance-kit` against the token-limited drop-in: rules by type, five rounds, three budgets.

Each safety rule and hard constraint of a session is admitted under the kit's own canary id, an update as the next
version. The kit's rounds are driven as it drives any compactor: each compacts what the one before put out. Run with
-s to see the table.
"""

import asyncio
import importlib
from collections import Counter

import pytest
from autogen_core.models import AssistantMessage, SystemMessage, UserMessage
from autogen_ext.models.replay import ReplayChatCompletionClient

from carriage_autogen import ControlTokenLimitedChatCompletionContext
from carriage_core import (
    ControlOverloadError,
    ControlPlane,
    Effect,
    Issuer,
    IssuerKind,
    Policy,
    PolicyRegistry,
)

pytest.importorskip("compaction_kit", reason="nox -s autogen-peers installs it")

CanaryType = importlib.import_module("compaction_kit.canaries").CanaryType
seeded_canaries = importlib.import_module("compaction_kit.canaries").seeded_canaries
CompactedContext = importlib.import_module("compaction_kit.compacted").CompactedContext
build_random_session = importlib.import_module("compaction_kit.corpus").build_random_session
build_generated_session = importlib.import_module("compaction_kit.generated").build_generated_session
run_conformance = importlib.import_module("compaction_kit.runner").run_conformance
build_seeded_session = importlib.import_module("compaction_kit.session").build_seeded_session

OPERATOR = Issuer(kind=IssuerKind.ORGANIZATION, name="kit")
CARRIED = (CanaryType.SAFETY_RULE, CanaryType.HARD_CONSTRAINT)
ROUNDS, BUDGETS, SEEDS = 5, (0.1, 0.2, 0.3), range(1, 13)
MESSAGE = 4


class Characters:
    """The kit's budgets are characters."""

    name = "characters"

    def count(self, text):
        return len(text)


class Counting(ReplayChatCompletionClient):
    def __init__(self):
        super().__init__([])

    def count_tokens(self, messages, **_):
        return sum(len(message.content) + MESSAGE for message in messages)


def plane_for(session, canaries, budget):
    """A plane that holds the rules: an outdated sentence first, as version 1, then its update."""
    rules = [canary for canary in canaries if canary.type in CARRIED]
    outdated = {
        canary.id: turn.text
        for canary in rules
        for turn in session.turns
        if canary.superseded_tokens
        and turn.canary_id is None
        and turn.role == "user"
        and any(token.lower() in turn.text.lower() for token in canary.superseded_tokens)
    }
    policies = [
        Policy(id=canary.id, issuer=OPERATOR, effect=Effect.DENY, text=outdated.get(canary.id, canary.content))
        for canary in rules
    ]
    plane = ControlPlane(
        PolicyRegistry.of(policies, ()),
        counter=Characters(),
        # The head's own overhead, and one character left for data.
        control_budget=max(1, budget - MESSAGE - 1),
        window=budget,
        reserved_output=0,
    )
    for canary in rules:
        if canary.id in outdated:
            newer = Policy(id=canary.id, issuer=OPERATOR, effect=Effect.DENY, text=canary.content, version=2)
            plane.admit(newer, by=OPERATOR)
    return plane, rules, len(outdated)


class DropIn:
    """The drop-in as one of the kit's compactors."""

    name = "policy-carriage"

    def __init__(self, session, canaries):
        self.session, self.canaries = session, canaries
        self.capsules, self.overloads, self.alone, self.updates = [], 0, 0, 0

    def compact(self, turns, round_num=1, budget_chars=None):
        plane, _, self.updates = plane_for(self.session, self.canaries, budget_chars)
        context = ControlTokenLimitedChatCompletionContext(Counting(), token_limit=budget_chars, control=plane)
        for turn in turns:
            text = turn.text
            if self.capsules and turn.role == "system":
                # The last round's output: its capsule was placed, it is no part of the history.
                text = text.removeprefix(self.capsules[-1]).strip("\n")
            kind = AssistantMessage if turn.role == "assistant" else UserMessage
            asyncio.run(context.add_message(kind(content=text or "-", source=turn.role)))
        try:
            messages = asyncio.run(context.get_messages())
        except ControlOverloadError:
            # A newest message that alone is larger than what is left is not sent; nor is a set that does not fit.
            if not self._fits(plane):
                self.overloads += 1
                return CompactedContext(text="", compactor_name=self.name, round_num=round_num)
            self.alone += 1
            messages = [SystemMessage(content=plane.capsule().text)]
        self.capsules.append(plane.capsule().text)
        text = "\n".join(message.content for message in messages)
        return CompactedContext(text=text, compactor_name=self.name, round_num=round_num)

    @staticmethod
    def _fits(plane):
        try:
            plane.capsule()
        except ControlOverloadError:
            return False
        return True


def sessions():
    yield "seeded", build_seeded_session(), seeded_canaries()
    for seed in SEEDS:
        yield f"random {seed}", *build_random_session(seed)
    for seed in SEEDS:
        yield f"generated {seed}", *build_generated_session(seed)


def test_rules_survive_every_round_wherever_they_fit():
    """Both types at 100 % in each of five rounds, the newest version and no other in the capsule, or an overload."""
    totals = Counter()
    for name, session, canaries in sessions():
        for budget in BUDGETS:
            drop_in = DropIn(session, canaries)
            run = run_conformance(session, drop_in, rounds=ROUNDS, canaries=canaries, budget_fraction=budget)
            rules = [canary for canary in canaries if canary.type in CARRIED]
            totals[f"{budget:.0%} runs"] += 1
            if drop_in.overloads:
                # The exact tier, the sentences alone, does not fit: recorded, and nothing sent instead.
                smallest = len("\n".join(canary.content for canary in rules))
                assert smallest > run.rounds[0].budget_chars - MESSAGE - 1, name
                assert drop_in.overloads == ROUNDS
                totals[f"{budget:.0%} overloads"] += 1
                continue
            for result, capsule in zip(run.rounds, drop_in.capsules, strict=True):
                for canary in rules:
                    assert result.survived[canary.id], (name, budget, result.round_num, canary.id)
                    assert canary.content in capsule or canary.content.replace('"', '\\"') in capsule
                    stale = [token for token in canary.superseded_tokens if token.lower() in capsule.lower()]
                    assert not stale, (name, budget, canary.id)
                totals[f"{budget:.0%} rules"] += len(rules)
                totals[f"{budget:.0%} stale in the whole text"] += sum(
                    any(token.lower() in result.context.text.lower() for token in canary.superseded_tokens)
                    for canary in rules
                )
                assert result.within_budget
            totals[f"{budget:.0%} rounds whose one message of data was too large"] += drop_in.alone
    for key, number in sorted(totals.items()):
        print(f"{key}: {number}")  # noqa: T201  # with -s
    assert totals["30% rules"] > 0


def test_a_set_that_does_not_fit_is_an_overload_and_not_a_part_of_it():
    """At 2 % even the sentences alone are too long: every round is recorded as an overload, none sends less."""
    session, canaries = build_seeded_session(), seeded_canaries()
    drop_in = DropIn(session, canaries)
    run = run_conformance(session, drop_in, rounds=ROUNDS, canaries=canaries, budget_fraction=0.02)
    assert drop_in.overloads == ROUNDS
    assert all(result.context.text == "" for result in run.rounds)
