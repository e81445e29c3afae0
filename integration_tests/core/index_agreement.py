"""What the index selects against a plain scan of everything, and faults put into the index to see them found."""

import dataclasses
import inspect
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from carriage_core import applicability, index
from carriage_core.arguments import BadArgumentsError, PlainArguments
from carriage_core.registry import PolicyRegistry
from carriage_core.views import views
from integration_tests.core import naive
from integration_tests.core.generated_calls import Case
from integration_tests.core.strategies import NOW, specs


@dataclass(frozen=True)
class Selection:
    """The code that selects: ours, or a copy of it with a fault."""

    a_plus: Callable[..., Any]
    a_star: Callable[..., Any]
    index: Callable[..., Any]


OURS = Selection(applicability.a_plus, applicability.a_star, index.PolicyIndex)


@dataclass(frozen=True)
class Fault:
    """A small change of the source, of the kind that a careless edit makes."""

    name: str
    module: ModuleType
    old: str
    new: str

    def selection(self) -> Selection:
        """Run the changed source beside the real one."""
        source = inspect.getsource(self.module)
        assert source.count(self.old) == 1, f"{self.name}: the source no longer says {self.old!r} once"
        changed = ModuleType(self.module.__name__)
        exec(compile(source.replace(self.old, self.new), f"<{self.name}>", "exec"), changed.__dict__)  # noqa: S102  # our own source
        found = {name: getattr(changed, name) for name in ("a_plus", "a_star") if hasattr(changed, name)}
        if hasattr(changed, "PolicyIndex"):
            found["index"] = changed.PolicyIndex
        return dataclasses.replace(OURS, **found)


FAULTS = (
    Fault(
        "a call misses rules for any action",
        index,
        "if action is None else (action, ANY_ACTION):",
        "if action is None else (action,):",
    ),
    Fault(
        "a call misses rules for any type",
        index,
        "for kind in (object_type, None) if kind in by_type",
        "for kind in (object_type,) if kind in by_type",
    ),
    Fault(
        "a call without a type misses rules for one",
        index,
        "found.extend(by_type.values())",
        "found.extend(filter(None, [by_type.get(None)]))",
    ),
    Fault(
        "an unknown value misses rules that require one",
        index,
        "if isinstance(value, Absent) or type(value) is not kind:",
        "if not isinstance(value, Absent) and type(value) is not kind:",
    ),
    Fault(
        "a value of another type misses rules that require one",
        index,
        "if isinstance(value, Absent) or type(value) is not kind:",
        "if isinstance(value, Absent):",
    ),
    Fault(
        "one branch of an any is taken as required",
        index,
        "where.parts if isinstance(where, All)",
        "where.parts if hasattr(where, 'parts')",
    ),
    Fault(
        "only the first literal of a list is filed",
        index,
        "return part.attribute, tuple(dict.fromkeys(part.operand))",
        "return part.attribute, part.operand[:1]",
    ),
    Fault(
        "a value that must not be there is taken as required",
        index,
        "elif part.operator is Operator.EQ and",
        "elif part.operator in {Operator.EQ, Operator.NE} and",
    ),
    Fault(
        "only the first action of a rule is filed",
        index,
        "for action in policy.actions:",
        "for action in policy.actions[:1]:",
    ),
    Fault(
        "A+ misses rules for any action",
        index,
        "for name in (action, ANY_ACTION):\n            if object_type is None:",
        "for name in (action,):\n            if object_type is None:",
    ),
    Fault("A+ misses rules for any type", index, " | self._kinds.get((name, None), 0)", ""),
    Fault("A+ misses rules that are only carried", index, "chosen = self._carried", "chosen = 0"),
    Fault("A+ misses scoped rules where the actor is unknown", index, "if None not in values:", "if True:"),
    Fault(
        "A+ looks at the first agent of a chain only",
        index,
        "agents = runtime.chain or (None,)",
        "agents = runtime.chain[:1] or (None,)",
    ),
    Fault(
        "A+ looks at one binding of a tool",
        applicability,
        "for binding in bindings if binding.action is not None)",
        "for binding in bindings[:1] if binding.action is not None)",
    ),
    Fault(
        "an unbound tool is taken as harmless",
        applicability,
        "if bindings is None or any(",
        "if bindings is None:\n            continue\n        if any(",
    ),
    Fault("a rule that may apply is left out", applicability, "is not Truth.FALSE", "is Truth.TRUE"),
)


def tally(cases: Iterable[Case], selection: Selection = OURS) -> Counter[str]:
    """Count pairs of a registry and a call, and everything in which `selection` differs from the plain scan."""
    seen = Counter[str]()
    for case in cases:
        registry = dataclasses.replace(case.world.registry, index=selection.index(case.world.registry.policies))
        shown = {policy.id for policy in selection.a_plus(registry, case.runtime, specs(case.candidates))}
        scanned = naive.applicable(case.world.policies, case.world.bindings, case.candidates, case.runtime)
        seen["candidate sets"] += 1
        seen["different A+"] += shown != scanned
        for tool, arguments in case.calls:
            _compare(seen, selection, case, registry, shown, tool, arguments)
    return seen


def _compare(
    seen: Counter[str],
    selection: Selection,
    case: Case,
    registry: PolicyRegistry,
    shown: set[str],
    tool: str,
    arguments: object,
) -> None:
    seen["pairs"] += 1
    try:
        plain = PlainArguments.of(arguments)
    except BadArgumentsError:
        seen["refused"] += 1
        seen["different refusal"] += isinstance(arguments, dict) and not naive.bad(arguments)
        return
    now = NOW if case.moment.trusted else None
    ours = [action for binding in registry.bindings[tool] for action in binding.actions(plain.values)]
    # A call of nothing is a call without arguments.
    theirs = naive.every_action(case.world.bindings, tool, arguments if isinstance(arguments, dict) else {})
    seen["different actions"] += len(ours) != len(theirs)
    governing: set[str] = set()
    for action, scanned in zip(ours, theirs, strict=False):
        members = views(action, case.runtime, case.moment)
        found = [policy.id for policy in selection.a_star(registry, case.runtime, action, case.moment, members)]
        expected = {p.id for p in case.world.policies if naive.governs(p, scanned, case.runtime, now)}
        seen["different A*"] += set(found) != expected or len(found) != len(expected)
        governing |= expected
    seen["not in A+"] += not governing <= shown
    seen["with A*"] += bool(governing)
    unclear = any(value in (naive.MISSING, naive.UNKNOWN) for action in theirs for value in action.values())
    seen["with a missing or unknown value"] += unclear
    seen["with several actions"] += len(theirs) > 1


DIFFERENCES = ("different A+", "different A*", "not in A+", "different actions", "different refusal")


def differences(seen: Counter[str]) -> int:
    """How often anything differed."""
    return sum(seen[name] for name in DIFFERENCES)
