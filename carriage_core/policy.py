# SPDX-License-Identifier: Apache-2.0
"""The Policy IR: one frozen record that is shown, checked and enforced (paper V-B; DESIGN 3.1, 3.2).

A `Policy` carries the sentence people wrote and, where it can be expressed, the structured rule a monitor can
judge. Identity is (issuer kind, issuer name, tenant, id); `digest` covers everything, `canonical_key` only what
a verdict depends on.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Final, override

from carriage_core.canonical import digest_of
from carriage_core.condition import (
    Attribute,
    Condition,
    attributes,
    canonical_condition,
    comparisons,
    constants,
    normalised,
)
from carriage_core.errors import PolicyError
from carriage_core.schema import Absent, FilePath, Sort, Url, Value, canonical_value, hidden_character, normal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from carriage_core.prepared import Prepared

CANONICAL_FORM: Final = 2
"""Version of the canonical form that digests are taken over."""

MAX_POLICY_TEXT: Final = 4_000
"""Longest sentence, in characters (DESIGN 3.14)."""

MAX_NAME: Final = 256
"""Longest name of an issuer, tool, tenant or the like, in characters."""

ANY_ACTION: Final = "*"
"""As a policy's action: every action some tool is bound to."""

RESPOND: Final = "respond"
"""The reserved action of saying something: carried, never mediated (DESIGN 3.2)."""

_ID: Final = re.compile(r"[a-z0-9._-]{1,64}")
WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_ATTRIBUTE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}(\.[A-Za-z_][A-Za-z0-9_-]{0,63}){0,3}")
RESERVED_WORDS: Final = frozenset(
    {
        "and",
        "or",
        "not",
        "on",
        "where",
        "unless",
        "in",
        "exists",
        "like",
        "startswith",
        "endswith",
        "contains",
    }
    | {"true", "false", "time", "any", "nothing"}
)
"""Words of the clause grammar; no action, type or one-word attribute may be one of them (but ``time``)."""


class IssuerKind(StrEnum):
    """Who speaks. Organization outranks developer outranks user (DESIGN 3.1)."""

    ORGANIZATION = "organization"
    DEVELOPER = "developer"
    USER = "user"

    @property
    def rank(self) -> int:
        """0 is the highest; also the capsule's first sort key."""
        return _RANKS[self]


_RANKS: Final = {IssuerKind.ORGANIZATION: 0, IssuerKind.DEVELOPER: 1, IssuerKind.USER: 2}


class Effect(StrEnum):
    """What a policy does to an action (DESIGN 3.2); deny prevails over confirm, permit and default."""

    DENY = "deny"
    CONFIRM = "confirm"
    """Needs an approval of this very call."""
    PERMIT = "permit"
    """Lifts a deny-by-default of its own or a lower rank, and nothing else."""
    DEFAULT_DENY = "deny-by-default"
    """Denies what no permit, and no approved confirm, of its own or a higher rank speaks for."""


class Mode(StrEnum):
    """Whether a verdict is enforced, or computed and only marked (DESIGN 3.13)."""

    ENFORCE = "enforce"
    OBSERVE = "observe"


@dataclass(frozen=True, slots=True, kw_only=True)
class Issuer:
    """A named authority; names are one line of visible characters."""

    kind: IssuerKind
    name: str

    def __post_init__(self) -> None:
        """Refuse names that could not be shown in a capsule."""
        check_visible("issuer.name", self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Where a policy is in force; an unset field means everywhere."""

    tenant: str | None = None
    task: str | None = None
    agent: str | None = None

    def __post_init__(self) -> None:
        """Refuse empty and invisible names."""
        for name in ("tenant", "task", "agent"):
            value = getattr(self, name)
            if value is not None:
                check_visible(f"scope.{name}", value)

    def covers(self, *, tenant: str | None, task: str | None, agents: tuple[str, ...]) -> bool:
        """Whether a policy with this scope applies; what the runtime cannot resolve applies (DESIGN 3.2).

        `agents` is the delegation chain: a rule that matches any member applies (DESIGN 3.4).
        """
        return (
            (self.tenant is None or tenant is None or self.tenant == tenant)
            and (self.task is None or task is None or self.task == task)
            and (self.agent is None or not agents or self.agent in agents)
        )


class FieldOrigin(StrEnum):
    """Where an evidence field comes from: the executed arguments or the structured result."""

    ARGUMENT = "argument"
    RESULT = "result"


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldSource:
    """A dotted path into the executed arguments or the tool's structured result, and the type of what is there."""

    origin: FieldOrigin
    path: str
    sort: Sort = Sort.ANY


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceDeclaration:
    """What counts as evidence under a handle, and for how long (DESIGN 3.5).

    Attributes:
        from_tool: The bound tool, declared ``trusted_evidence``, whose results are recorded.
        key: Field names; per key only the latest record is live. Each must come from the arguments.
        fields: Every field of a record with its source, sorted by name.
        expires_seconds: Life of a record, or None for as long as the plane lives.
        single_use: Whether one authorised action spends the record.
        shared: Whether other agents of the same tenant and task may use the record.
        digest: SHA-256 of the declaration; records are filed under it, so equal declarations share records.
    """

    from_tool: str
    key: tuple[str, ...]
    fields: tuple[tuple[str, FieldSource], ...]
    expires_seconds: int | None = None
    single_use: bool = False
    shared: bool = False
    digest: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse keys that the tool's result could choose: a result must not say which object it is about."""
        check_visible("from_tool", self.from_tool)
        sources = dict(self.fields)
        if not self.fields or not self.key:
            raise PolicyError("evidence needs fields and a key.", mend="name at least one key field.")
        for name, source in self.fields:
            _word("evidence field", name)
            check_visible(f"evidence field {name}", source.path)
        for name in self.key:
            if name not in sources:
                raise PolicyError(f"evidence key {name!r} is not a field.", mend="list it under fields.")
            if sources[name].origin is not FieldOrigin.ARGUMENT:
                raise PolicyError(
                    f"evidence key {name!r} comes from the result.",
                    mend="take key fields from the executed arguments: {argument: NAME}.",
                )
        if self.expires_seconds is not None and self.expires_seconds <= 0:
            raise PolicyError("evidence that expires at once proves nothing.", mend="give a positive duration.")
        object.__setattr__(self, "digest", digest_of(self.canonical()))

    def canonical(self) -> object:
        """RFC 8785 input that identifies this declaration."""
        return {
            "expires": self.expires_seconds,
            "fields": [[name, source.origin.value, source.path, source.sort.value] for name, source in self.fields],
            "from_tool": self.from_tool,
            "key": list(self.key),
            "shared": self.shared,
            "single_use": self.single_use,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterDeclaration:
    """What ``counter.NAME`` adds up: the amounts of authorised actions of this policy, per key and window.

    It counts the call that is judged as well, so "at most 500 a day" is ``unless counter.NAME <= 500``.

    Attributes:
        key: Attributes of the call that must be equal for amounts to be added; empty for one sum over all.
        window_seconds: How far back authorised actions count.
        amount: The attribute to add, or None to count calls.
    """

    key: tuple[str, ...]
    window_seconds: int
    amount: str | None = None

    def __post_init__(self) -> None:
        """Refuse a window of nothing and keys the call does not decide."""
        if self.window_seconds <= 0:
            raise PolicyError("a counter's window must be positive.", mend="give a duration such as 1d.")
        for name in (*self.key, *(() if self.amount is None else (self.amount,))):
            if not _ATTRIBUTE.fullmatch(name) or not name.startswith(("object.", "action.", "actor.")):
                raise PolicyError(f"a counter cannot use {name!r}.", mend="use object.NAME, action.NAME or actor.id.")
        if self.amount is not None and self.amount.startswith("actor."):
            raise PolicyError("an actor is not an amount.", mend="name a number of the call, or leave amount out.")
        if len(set(self.key)) != len(self.key):
            raise PolicyError("a counter names a key twice.", mend="name each key attribute once.")

    def canonical(self) -> object:
        """RFC 8785 input that identifies this declaration."""
        return {"amount": self.amount, "key": list(self.key), "window": self.window_seconds}


def check_visible(what: str, text: str) -> None:
    """Require a name of 1 to `MAX_NAME` visible characters.

    Raises:
        PolicyError: It is empty, longer, or holds control, bidirectional or invisible characters.
    """
    if not text or len(text) > MAX_NAME or hidden_character(text) is not None:
        raise PolicyError(
            f"{what} must be 1 to {MAX_NAME} visible characters.", mend="remove control and invisible characters."
        )


def _word(what: str, text: str) -> None:
    if not WORD.fullmatch(text) or text in RESERVED_WORDS:
        raise PolicyError(
            f"{what} {text!r} is not a plain word.",
            mend="use letters, digits, _ and -, and none of the grammar's own words.",
        )


class _Preparable:
    """Room for what is worked out at a policy's first use; no part of its value, never compared, copied or shown."""

    __slots__ = ("prepared",)
    prepared: Prepared


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy(_Preparable):
    """One trusted rule.

    Attributes:
        id: ``[a-z0-9._-]{1,64}``.
        issuer: Who says so.
        version: A rising integer, from 1.
        scope: Tenant, task and agent where it is in force.
        actions: The abstract actions it governs; empty means carried, not mediated; ``("*",)`` means any.
        object_type: The type of object it governs, or None for every type.
        where: When the rule applies; it binds unless this is false.
        effect: Deny, confirm, permit or deny-by-default.
        unless: What lifts it; it binds unless this is true.
        evidence: Declarations by handle, sorted.
        counters: Counter declarations by name, sorted.
        mode: Whether its verdicts are enforced; part of the rule, so only its issuer can change it.
        priority: Order of rendering only, higher first; no verdict depends on it.
        valid_from: First instant in force, or None.
        valid_until: First instant no longer in force, or None.
        text: The sentence people wrote.
        line: Line in the policy file, 0 where there is none; no part of the rule.

    Raises:
        PolicyError: Any part is out of the language or its bounds.
    """

    id: str
    issuer: Issuer
    effect: Effect
    text: str
    version: int = 1
    scope: Scope = Scope()  # frozen
    actions: tuple[str, ...] = ()
    object_type: str | None = None
    where: Condition | None = None
    unless: Condition | None = None
    evidence: tuple[tuple[str, EvidenceDeclaration], ...] = ()
    counters: tuple[tuple[str, CounterDeclaration], ...] = ()
    mode: Mode = Mode.ENFORCE
    priority: int = 0
    valid_from: datetime | None = None
    valid_until: datetime | None = None
    line: int = field(default=0, repr=False, compare=False)
    digest: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check every part, bring conditions into normal form and take the digest."""
        set_field = object.__setattr__
        if self.where is not None:
            set_field(self, "where", normalised(self.where))
        if self.unless is not None:
            set_field(self, "unless", normalised(self.unless))
        set_field(self, "evidence", tuple(sorted(self.evidence, key=lambda pair: pair[0])))
        set_field(self, "counters", tuple(sorted(self.counters, key=lambda pair: pair[0])))
        set_field(self, "actions", tuple(sorted(set(self.actions))))
        _check_identity(self)
        _check_rule(self)
        set_field(self, "digest", digest_of({"canonical": CANONICAL_FORM, "policy": self.canonical()}))

    @override
    def __hash__(self) -> int:
        """By the digest, which says everything; the tree under it would be walked at every lookup."""
        return hash(self.digest)

    @property
    def identity(self) -> tuple[str, str, str | None, str]:
        """What a new version must share to supersede this one."""
        return (self.issuer.kind.value, self.issuer.name, self.scope.tenant, self.id)

    @property
    def mediated(self) -> bool:
        """Whether the monitor can enforce it; otherwise it is carried, not mediated."""
        return bool(self.actions) and self.actions != (RESPOND,)

    @property
    def declarations(self) -> Mapping[str, EvidenceDeclaration]:
        """Evidence declarations by handle."""
        return dict(self.evidence)

    @property
    def order(self) -> tuple[int, int, str, str, str]:
        """Sort key of the capsule: rank, then priority, then id (DESIGN 3.7)."""
        return (self.issuer.kind.rank, -self.priority, self.id, self.issuer.name, self.scope.tenant or "")

    def canonical(self) -> dict[str, object]:
        """Everything, as RFC 8785 input."""
        return {
            "id": self.id,
            "issuer": [self.issuer.kind.value, self.issuer.name],
            "key": self.canonical_key(),
            "priority": self.priority,
            "text": self.text,
            "version": self.version,
        }

    def canonical_key(self) -> dict[str, object]:
        """The paper's tuple (subject, action, object, polarity, condition) plus evidence (DESIGN 3.2)."""
        return {
            "actions": list(self.actions),
            "effect": self.effect.value,
            "counters": {name: declaration.canonical() for name, declaration in self.counters},
            "evidence": {handle: declaration.canonical() for handle, declaration in self.evidence},
            "mode": self.mode.value,
            "object_type": self.object_type,
            "scope": [self.scope.tenant, self.scope.task, self.scope.agent],
            "unless": canonical_condition(self.unless),
            "valid": [
                None if bound is None else canonical_value(bound) for bound in (self.valid_from, self.valid_until)
            ],
            "where": canonical_condition(self.where),
        }


def _check_identity(policy: Policy) -> None:
    if not _ID.fullmatch(policy.id):
        raise PolicyError(f"policy id {policy.id!r} is not [a-z0-9._-]{{1,64}}.", mend="use lower case, digits, . _ -")
    if policy.version < 1:
        raise PolicyError("versions start at 1.", mend="give a rising integer.")
    for bound in (policy.valid_from, policy.valid_until):
        if bound is not None and isinstance(normal(bound), Absent):
            raise PolicyError(
                "a validity bound is not an instant with a zone.", mend="write it as 2026-12-01T16:00:00Z."
            )
    text = policy.text
    if not text.strip() or text != text.strip() or len(text) > MAX_POLICY_TEXT:
        raise PolicyError(
            f"text must be 1 to {MAX_POLICY_TEXT} characters without outer blanks.",
            mend="write the sentence people follow.",
        )
    # 3.7: user text is one paragraph, so it cannot imitate the capsule's own lines.
    allowed = "" if policy.issuer.kind is IssuerKind.USER else "\n"
    hidden = hidden_character(text, allowed=allowed)
    if hidden is not None:
        raise PolicyError(
            f"text holds the character U+{ord(hidden):04X}, which readers cannot see.",
            mend="remove it or write a space.",
        )


def _check_rule(policy: Policy) -> None:
    for action in policy.actions:
        if action != ANY_ACTION:
            _word("action", action)
    if ANY_ACTION in policy.actions and len(policy.actions) > 1:
        raise PolicyError("'*' already means every action.", mend="drop the other actions.")
    if policy.object_type is not None:
        _word("object type", policy.object_type)
    if not policy.mediated and (
        policy.where or policy.unless or policy.evidence or policy.counters or policy.object_type
    ):
        raise PolicyError(
            "a rule without a mediated action cannot have object, where, unless, evidence or counters.",
            mend="name the action it governs, or keep only the text.",
        )
    if policy.effect in {Effect.PERMIT, Effect.DEFAULT_DENY}:
        _check_default(policy)
    for handle, _ in policy.evidence:
        _word("evidence handle", handle)
    _check_conditions(policy)


def _check_default(policy: Policy) -> None:
    """3.1, 3.2: who may lift a default, and on what."""
    if policy.issuer.kind is IssuerKind.USER:
        raise PolicyError(
            f"a user's rule cannot {policy.effect}.", mend="users may deny or confirm; let an operator issue it."
        )
    if not policy.mediated:
        raise PolicyError(f"a {policy.effect} without a mediated action does nothing.", mend="name the action.")
    if policy.effect is Effect.PERMIT and (policy.evidence or policy.counters):
        # A permit counts only if `unless` is false, and without a record it is unknown.
        raise PolicyError(
            "a permit cannot read evidence or counters.", mend="put them into the unless of the rule it would lift."
        )


def _check_conditions(policy: Policy) -> None:
    for name, _ in policy.counters:
        _word("counter", name)
    when, lift = attributes(policy.where), attributes(policy.unless)
    for name in sorted(when | lift):
        _check_attribute(policy, name)
    if any(name.startswith(("evidence.", "counter.")) for name in when):
        raise PolicyError(
            "where says when a rule applies and cannot read evidence or counters.", mend="move it to unless."
        )
    used = {name.split(".")[1] for name in lift if name.startswith("evidence.")}
    for handle in policy.declarations:
        if handle not in used:
            raise PolicyError(
                f"evidence {handle!r} is declared and never read.", mend="use it in unless, or remove it."
            )
    for name, _ in policy.counters:
        if f"counter.{name}" not in lift:
            raise PolicyError(f"counter {name!r} is declared and never read.", mend="use it in unless, or remove it.")
    for literal in (*constants(policy.where), *constants(policy.unless)):
        _check_literal(literal)
    for comparison in (*comparisons(policy.where), *comparisons(policy.unless)):
        if isinstance(comparison.operand, Attribute) and comparison.operand.name == comparison.attribute:
            raise PolicyError(f"{comparison.attribute} is compared with itself.", mend="name the other attribute.")


def _check_attribute(policy: Policy, name: str) -> None:
    if not _ATTRIBUTE.fullmatch(name) or (name in RESERVED_WORDS and name != "time"):
        raise PolicyError(
            f"{name!r} is not an attribute.",
            mend="write object.NAME, action.NAME or evidence.HANDLE.FIELD.",
        )
    declared = policy.declarations
    counters = dict(policy.counters)
    root, *rest = name.split(".")
    if root == "evidence":
        handle, *names = rest or [""]
        if handle not in declared:
            raise PolicyError(
                f"{name!r} names evidence that the policy does not declare.",
                mend=f"declare it under evidence, or use one of {sorted(declared) or 'none'}.",
            )
        if len(names) != 1 or names[0] not in dict(declared[handle].fields):
            raise PolicyError(
                f"{name!r} is not a field of evidence {handle!r}.",
                mend=f"use one of {[field_name for field_name, _ in declared[handle].fields]}.",
            )
    if root == "counter" and (len(rest) != 1 or rest[0] not in counters):
        raise PolicyError(
            f"{name!r} names a counter that the policy does not declare.",
            mend=f"declare it under counters, or use one of {sorted(counters) or 'none'}.",
        )


def _check_literal(literal: Value) -> None:
    if isinstance(literal, str):
        # Read as prose: percent signs and variables are legal in a literal, they only make an *argument* unknown.
        if hidden_character(literal) is not None or normal(literal, Sort.TEXT) != literal:
            raise PolicyError(
                f"the literal {literal!r} is not in normal form.",
                mend="write it in NFC, without invisible characters.",
            )
    elif isinstance(literal, FilePath | Url):
        if type(literal).of(literal.text) != literal:
            raise PolicyError(
                f"the literal {literal.text!r} is not in normal form.", mend="build it with its `of` method."
            )
    elif isinstance(literal, datetime) and literal.tzinfo is None:
        raise PolicyError("a time literal has no zone.", mend="write it as 2026-12-01T16:00:00Z.")
