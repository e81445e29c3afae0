# SPDX-License-Identifier: Apache-2.0
"""One policy against one rule that is shown, by logic and with witnesses (DESIGN 3.11).

Logic judges which actions are denied, confirmed and allowed. Beside it stand the few things that no attribute holds:
how old evidence may be, whether a record is spent, who may use it, whether a rule is enforced at all. What cannot be
decided is unverifiable, never preserved.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from carriage_core.audit_binding import exchanged
from carriage_core.audit_findings import Carriage, Witness
from carriage_core.audit_messages import normalise
from carriage_core.condition import All, AnyOf, Attribute, Compare, Condition, Not, Operator, all_of, attributes
from carriage_core.policy import (
    CounterDeclaration,
    Effect,
    EvidenceDeclaration,
    FieldOrigin,
    FieldSource,
    Issuer,
    IssuerKind,
    Mode,
    Policy,
    Scope,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from carriage_core.audit_decide import Decide, Decision
    from carriage_core.clause import Clause

_SHOWN: Final = "shown-"
"""Set before the name of a handle or counter that is declared to be something else than the source's."""

_DEFAULTS: Final = frozenset({Effect.PERMIT, Effect.DEFAULT_DENY})


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What a shown rule is to a policy; the parts are those of a `Finding`."""

    carriage: Carriage
    why: str
    witness: Witness | None = None
    extra: Witness | None = None
    bound: tuple[str, ...] = ()


def unverifiable(why: str) -> Comparison:
    """Say that logic has nothing to say."""
    return Comparison(carriage=Carriage.UNVERIFIABLE, why=why)


def rule_of(clause: Clause, like: Policy) -> Policy:
    """Make a whole rule of a clause line; what the line does not show is taken from `like`.

    Raises:
        PolicyError: The clause is of our grammar, but no rule of our language.
    """
    declared = like.declarations
    used: dict[str, set[str]] = {}
    for name in attributes(clause.unless):
        root, *rest = name.split(".")
        if root == "evidence" and len(rest) == 2:  # noqa: PLR2004  # handle and field
            used.setdefault(rest[0], set()).add(rest[1])
    counted = {name.split(".")[1] for name in attributes(clause.unless) if name.startswith("counter.")}
    known = dict(like.counters)
    weak = like.issuer.kind is IssuerKind.USER and clause.effect in _DEFAULTS
    return Policy(
        id=like.id,
        issuer=Issuer(kind=IssuerKind.ORGANIZATION, name="shown") if weak else like.issuer,
        effect=clause.effect,
        text=like.text,
        scope=like.scope,
        actions=clause.actions,
        object_type=clause.object_type,
        where=clause.where,
        unless=clause.unless,
        evidence=tuple((handle, _declaration(declared.get(handle), fields)) for handle, fields in used.items()),
        counters=tuple((name, known.get(name, CounterDeclaration(key=(), window_seconds=1))) for name in counted),
        mode=like.mode,
        valid_from=like.valid_from,
        valid_until=like.valid_until,
    )


def _declaration(known: EvidenceDeclaration | None, used: set[str]) -> EvidenceDeclaration:
    """Declare what a clause reads from a handle, beside what the source declares of it."""
    own = {} if known is None else dict(known.fields)
    result = {name: FieldSource(origin=FieldOrigin.RESULT, path=name) for name in used}
    argument = {"key": FieldSource(origin=FieldOrigin.ARGUMENT, path="key")}
    if known is None:
        return EvidenceDeclaration(
            from_tool="nowhere", key=("key",), fields=tuple(sorted({**result, **argument}.items()))
        )
    return replace(known, fields=tuple(sorted({**result, **own}.items())))


def compare(source: Policy, shown: Policy, context: Iterable[Policy], by: Decide) -> Comparison:
    """Judge a shown rule against the policy it stands for.

    Args:
        source: The policy.
        shown: The rule, whole; see `rule_of` for a clause line.
        context: Permits and confirms of the set; they bear on rules that they can lift.
        by: What decides.
    """
    if not (source.mediated and shown.mediated):
        return unverifiable("a rule that is only carried can be compared by its letters alone")
    aside, names = _aside(source, shown), exchanged(source, shown)
    source, shown, moved = _same_evidence(source, shown)
    ours, theirs = _surroundings(source, shown, tuple(context))
    weaker, stricter = by(ours, theirs), by(theirs, ours).turned()
    witness = weaker.witness or aside.weaker
    extra = stricter.witness or aside.stricter
    if weaker.undecided and witness is None:
        return unverifiable("the question is past the limit of exact analysis")
    if witness is not None and extra is not None:
        bound = tuple(sorted({*names, *moved}))
        if bound:
            why = f"the same rule about another {' and '.join(bound)}"
            return Comparison(carriage=Carriage.MISBOUND, why=why, witness=witness, extra=extra, bound=bound)
    if witness is not None:
        why = "what is shown permits what the policy forbids"
        return Comparison(carriage=Carriage.WEAKENED, why=why, witness=witness, extra=extra)
    if stricter.undecided and extra is None:
        return unverifiable("the question is past the limit of exact analysis")
    if extra is not None:
        return Comparison(
            carriage=Carriage.OVER_INCLUDED, why="what is shown forbids what the policy permits", extra=extra
        )
    return Comparison(carriage=Carriage.EQUIVALENT, why="other letters, the same verdict on every action")


def lifted(source: Iterable[Policy], shown: Iterable[Policy], default: Policy, by: Decide) -> Decision:
    """Decide whether the permits and confirms of `shown` lift a default more widely than those of `source`."""
    return by(
        tuple(map(_plain, (default, *source))),
        tuple(map(_plain, (default, *shown))),
    )


def same_text(source: Policy, shown: Policy) -> bool:
    """Whether a shown rule still has the policy's own sentence; only a full capsule shows one beside a clause."""
    return normalise(source.text) == normalise(shown.text)


def _surroundings(
    source: Policy, shown: Policy, context: tuple[Policy, ...]
) -> tuple[tuple[Policy, ...], tuple[Policy, ...]]:
    """Put both rules where they have an effect: a permit beside a default, a default beside what lifts it."""
    if source.effect is Effect.PERMIT:
        # Whatever it permits is denied otherwise, so that more permitted is weaker and less is stricter.
        denied = Policy(
            id="default",
            issuer=source.issuer,
            effect=Effect.DEFAULT_DENY,
            text="Nothing else is allowed.",
            actions=("*",),
        )
        around: tuple[Policy, ...] = (denied,)
    elif Effect.DEFAULT_DENY in {source.effect, shown.effect}:
        around = tuple(_plain(policy) for policy in context)
    else:
        around = ()
    return (_plain(source), *around), (_plain(shown), *around)


def _plain(policy: Policy) -> Policy:
    """Turn scope and validity into conditions, which say the same: what cannot be resolved applies."""
    scope = policy.scope
    parts: list[Condition] = [] if policy.where is None else [policy.where]
    for name, value in (("tenant", scope.tenant), ("task", scope.task), ("actor.id", scope.agent)):
        if value is not None:
            parts.append(Compare(name, Operator.EQ, value))
    if policy.valid_from is not None:
        parts.append(Compare("time", Operator.GE, policy.valid_from))
    if policy.valid_until is not None:
        parts.append(Compare("time", Operator.LT, policy.valid_until))
    return replace(
        policy,
        where=all_of(*parts) if parts else None,
        scope=Scope(),
        valid_from=None,
        valid_until=None,
        mode=Mode.ENFORCE,
    )


def _same_evidence(source: Policy, shown: Policy) -> tuple[Policy, Policy, frozenset[str]]:
    """Give evidence and counters of both rules one name and one declaration where they are the same, else two.

    Returns:
        Source, shown, and the kinds of what is declared to be something else.
    """
    names: dict[str, str] = {}
    moved: set[str] = set()
    mine, yours = source.declarations, shown.declarations
    joined: dict[str, EvidenceDeclaration] = {}
    for handle, declaration in yours.items():
        own = handle if handle in mine else _only(each for each in mine if each not in yours)
        if own is not None and _same(mine[own], declaration):
            names[f"evidence.{handle}"] = f"evidence.{own}"
            fields = {**dict(declaration.fields), **dict(mine[own].fields)}
            joined[own] = replace(mine[own], fields=tuple(sorted(fields.items())))
        elif handle in mine:
            names[f"evidence.{handle}"] = f"evidence.{(_SHOWN + handle)[:64]}"
            moved.add("evidence source")
    own_counters = dict(source.counters)
    for name, counter in shown.counters:
        if name in own_counters and own_counters[name] != counter:
            names[f"counter.{name}"] = f"counter.{(_SHOWN + name)[:64]}"
            moved.add("counter")

    def new(attribute: str) -> str:
        root = ".".join(attribute.split(".")[:2])
        return attribute if root not in names else names[root] + attribute[len(root) :]

    evidence: list[tuple[str, EvidenceDeclaration]] = []
    for handle, declaration in shown.evidence:
        own = new(f"evidence.{handle}").removeprefix("evidence.")
        evidence.append((own, joined.get(own, declaration)))
    renamed = replace(
        shown,
        unless=None if shown.unless is None else _renamed(shown.unless, new),
        evidence=tuple(evidence),
        counters=tuple((new(f"counter.{name}").removeprefix("counter."), each) for name, each in shown.counters),
    )
    kept = tuple((handle, joined.get(handle, declaration)) for handle, declaration in source.evidence)
    return replace(source, evidence=kept), renamed, frozenset(moved)


def _only(names: Iterable[str]) -> str | None:
    """The one name there is, if there is just one."""
    found = list(names)
    return found[0] if len(found) == 1 else None


def _same(mine: EvidenceDeclaration, yours: EvidenceDeclaration) -> bool:
    """Whether records of both prove the same, apart from for how long and for whom."""
    ours, theirs = dict(mine.fields), dict(yours.fields)
    return (mine.from_tool, mine.key) == (yours.from_tool, yours.key) and all(
        ours[name] == theirs[name] for name in ours.keys() & theirs.keys()
    )


def _renamed(condition: Condition, new: Callable[[str], str]) -> Condition:
    match condition:
        case Compare(attribute, operator, Attribute(name)):
            return Compare(new(attribute), operator, Attribute(new(name)))
        case Compare(attribute, operator, operand):
            return Compare(new(attribute), operator, operand)
        case Not(part):
            return Not(_renamed(part, new))
        case All(parts):
            return All(tuple(_renamed(part, new) for part in parts))
        case AnyOf(parts):
            return AnyOf(tuple(_renamed(part, new) for part in parts))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Aside:
    weaker: Witness | None
    stricter: Witness | None


def _aside(source: Policy, shown: Policy) -> _Aside:
    """Compare what no attribute holds: mode, and the life of evidence."""
    weaker: str = ""
    stricter: str = ""
    if source.mode is not shown.mode:
        observed = shown.mode is Mode.OBSERVE
        weaker, stricter = ("which is only marked", "") if observed else ("", "which is enforced, not only marked")
    theirs = shown.declarations
    for handle, mine in source.evidence:
        yours = theirs.get(handle)
        if yours is None or not _same(mine, yours):
            continue
        longer, shorter = _life(mine, yours)
        weaker = weaker or (longer and f"{longer} {handle}")
        stricter = stricter or (shorter and f"{shorter} {handle}")
    return _Aside(
        weaker=_told(source, weaker, source="deny", shown="allow") if weaker else None,
        stricter=_told(source, stricter, source="allow", shown="deny") if stricter else None,
    )


def _life(mine: EvidenceDeclaration, yours: EvidenceDeclaration) -> tuple[str, str]:
    """Say under what evidence only the shown rule, and only the source, is lifted."""
    longer = shorter = ""
    ours, theirs = mine.expires_seconds, yours.expires_seconds
    if ours is not None and (theirs is None or theirs > ours):
        longer = f"lifted by a record {ours} seconds old of"
    elif theirs is not None and (ours is None or theirs < ours):
        shorter = f"not lifted by a record {theirs} seconds old of"
    if mine.single_use and not yours.single_use:
        longer = longer or "lifted by a record already spent of"
    elif yours.single_use and not mine.single_use:
        shorter = shorter or "not lifted by a record already spent of"
    if yours.shared and not mine.shared:
        longer = longer or "lifted by another agent's record of"
    elif mine.shared and not yours.shared:
        shorter = shorter or "not lifted by another agent's record of"
    return longer, shorter


def _told(policy: Policy, note: str, *, source: str, shown: str) -> Witness:
    return Witness(
        action=policy.actions[0], object_type=policy.object_type, values=(), source=source, shown=shown, note=note
    )
