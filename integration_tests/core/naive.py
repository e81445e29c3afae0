"""What the core should say, written apart from it and as plainly as possible.

It reads the records (policies, bindings, conditions) and uses none of the code that selects, indexes, normalises,
evaluates or judges. Every policy is looked at for every action, every assignment of evidence is tried, numbers are
fractions, and the third truth value is None.
"""

import ipaddress
import itertools
import math
import posixpath
import string
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

from carriage_core.binding import AttributeSource, ToolBinding
from carriage_core.condition import All, AnyOf, Attribute, Compare, Condition, Not
from carriage_core.policy import EvidenceDeclaration, FieldSource, Policy
from carriage_core.runtime import RuntimeState
from carriage_core.schema import FilePath, Url

MISSING = ("missing",)
UNKNOWN = ("unknown",)

type Plain = tuple[Any, ...]
type Truth = bool | None


def hidden(character: str) -> bool:
    ignorable = "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u3164\uffa0"
    return character in ignorable or unicodedata.category(character) in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


# How many decimals a number of a sort may have; None for any.
DECIMALS: dict[str, int | None] = {"any": None, "number": None, "integer": 0, "money": 2}


def plain(raw: object, sort: str = "any") -> Plain:
    """Bring a raw argument into a tagged plain value, or UNKNOWN."""
    if isinstance(raw, bool):
        return ("bool", raw) if sort in {"any", "bool"} else UNKNOWN
    if isinstance(raw, int | float):
        return number(raw, sort)
    if not isinstance(raw, str) or sort in {*DECIMALS, "bool"} - {"any"} or len(raw) > 4096:
        return UNKNOWN
    if sort == "time":
        return instant(raw)
    visible = raw.replace("\n", "").replace("\t", "") if sort == "text" else raw
    if any(hidden(character) for character in visible):
        return UNKNOWN
    if sort != "text" and (_percent(raw) or _variable(raw)):
        return UNKNOWN
    readers = {"path": path, "url": url, "host": host, "caseless": caseless}
    return readers[sort](raw) if sort in readers else ("text", unicodedata.normalize("NFC", raw))


def number(raw: float, sort: str) -> Plain:
    if sort not in DECIMALS or (isinstance(raw, float) and not math.isfinite(raw)):
        return UNKNOWN
    if isinstance(raw, int) and abs(raw) >= 10**64:
        return UNKNOWN
    if raw and not 1e-64 <= abs(raw) < 1e65:
        return UNKNOWN
    exact, decimals = Fraction(repr(raw)), DECIMALS[sort]
    whole = decimals is None or (exact * 10**decimals).denominator == 1
    return ("number", exact) if whole else UNKNOWN


def caseless(raw: str) -> Plain:
    """Fold case the way Unicode compares without case: decomposed, folded, composed (3.13, D145)."""
    return ("text", unicodedata.normalize("NFC", unicodedata.normalize("NFD", raw).casefold()))


def path(raw: str) -> Plain:
    """Read an absolute path; what a shell or a library would expand, join or decode is unknown."""
    if not raw.startswith("/") or raw.strip() != raw or "://" in raw or set(raw) & set("\\*?["):
        return UNKNOWN
    # One slash at the start: to the standard library two are another root.
    text = posixpath.normpath("/" + unicodedata.normalize("NFC", raw).lstrip("/"))
    return ("path", text) if len(text) <= 4096 else UNKNOWN


def url(raw: str) -> Plain:
    """Read an absolute URL by cutting pieces off both ends."""
    scheme, separator, rest = raw.partition("://")
    letters, digits = string.ascii_letters, string.digits
    if not separator or len(raw) > 4096 or set(raw) & set("%\\ ") or raw.strip() != raw:
        return UNKNOWN
    if scheme[:1] not in letters or not scheme or not set(scheme) <= set(letters + digits + "+.-"):
        return UNKNOWN
    rest, _, _ = rest.partition("#")
    rest, question, query = rest.partition("?")
    authority, slash, below = rest.partition("/")
    name, colon, port = authority, "", ""
    if ":" in authority.rpartition("]")[2]:
        name, colon, port = authority.rpartition(":")
    standard = {"http": "80", "https": "443", "ws": "80", "wss": "443", "ftp": "21"}.get(scheme.lower())
    known = domain(name)
    if known is None or (colon and not (0 < len(port) <= 5 and set(port) <= set(digits) and 0 < int(port) < 65536)):
        return UNKNOWN
    shown = f":{int(port)}" if colon and str(int(port)) != standard else ""
    kept = posixpath.normpath("/" + below.lstrip("/")) if slash else "/"
    folder = kept != "/" and below.rpartition("/")[2] in {"", ".", ".."}
    text = f"{scheme.lower()}://{known}{shown}{kept}{'/' if folder else ''}{question}{query}"
    return ("url", unicodedata.normalize("NFC", text))


def domain(name: str) -> str | None:
    """Read the name of a host: words of ASCII with dots between, or an address spelled the one plain way."""
    inner = name.removeprefix("[").removesuffix("]")
    if name == f"[{inner}]":
        if not set(inner) <= set(string.hexdigits + ":."):
            return None
        try:
            address = ipaddress.IPv6Address(inner)
        except ValueError:
            return None
        mapped = address.packed[:12] == b"\0" * 10 + b"\xff\xff"
        return ".".join(map(str, address.packed[12:])) if mapped else f"[{address}]"
    name = name.removesuffix(".")
    ends = set(string.ascii_letters + string.digits)
    for word in name.split("."):
        if not word or not set(word) <= ends | set("_-") or not {word[0], word[-1]} <= ends:
            return None
    name = name.lower()
    last = name.split(".")[-1]
    if not set(last) <= set(string.digits) and not (last[:2] == "0x" and set(last[2:]) <= set(string.hexdigits)):
        return name
    numbers = name.split(".")
    plainly = all(set(part) <= set(string.digits) and str(int(part)) == part and int(part) < 256 for part in numbers)
    return name if len(numbers) == 4 and plainly else None


def host(raw: str) -> Plain:
    """Read the host of a URL, or a bare name."""
    if "://" not in raw and set(raw) & set("/?#@"):
        return UNKNOWN
    whole = url(raw if "://" in raw else f"https://{raw}/")
    if whole is UNKNOWN:
        return UNKNOWN
    authority = whole[1].split("/")[2]
    return ("text", authority.rpartition(":")[0] if ":" in authority.rpartition("]")[2] else authority)


def covers(base: Plain, other: Plain) -> bool:
    """Whether a path or URL lies at or below another one, segment by segment; nothing is below a query."""
    if base == other or "?" in base[1]:
        return bool(base == other)
    above = base[1].rstrip("/").split("/")
    below = other[1].partition("?")[0].split("/")
    return bool(below[: len(above)] == above)


def _percent(raw: str) -> bool:
    digits = "0123456789abcdefABCDEF"
    return any(
        raw[index] == "%" and raw[index + 1] in digits and raw[index + 2] in digits for index in range(len(raw) - 2)
    )


def _variable(raw: str) -> bool:
    starts = "_{(abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    return raw.startswith("~") or any(raw[index] == "$" and raw[index + 1] in starts for index in range(len(raw) - 1))


def instant(raw: str) -> Plain:
    if len(raw) < 17 or raw[10] not in "Tt" or not (raw[-1] in "Zz" or raw[-6] in "+-"):
        return UNKNOWN
    try:
        return ("time", datetime.fromisoformat(raw.upper()).astimezone(UTC))
    except (ValueError, OverflowError):
        return UNKNOWN


def literal(value: object) -> Plain:
    """Tag a literal of a policy, which is in normal form already."""
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, Decimal):
        return ("number", Fraction(value))
    if isinstance(value, datetime):
        return ("time", value.astimezone(UTC))
    if isinstance(value, FilePath | Url):
        return ("path" if isinstance(value, FilePath) else "url", value.text)
    return ("text", value)


def glob(pattern: str, text: str) -> bool:
    """Match by trying every split; a star is any sequence, a backslash and a star a literal star."""
    if not pattern:
        return not text
    if pattern.startswith("\\*"):
        return text.startswith("*") and glob(pattern[2:], text[1:])
    if pattern[0] == "*":
        return any(glob(pattern[1:], text[cut:]) for cut in range(len(text) + 1))
    return text[:1] == pattern[0] and glob(pattern[1:], text[1:])


def holds(condition: Condition | None, values: Mapping[str, Plain]) -> Truth:
    if condition is None:
        return True
    if isinstance(condition, Not):
        inner = holds(condition.part, values)
        return None if inner is None else not inner
    if isinstance(condition, All | AnyOf):
        parts = [holds(part, values) for part in condition.parts]
        decisive = isinstance(condition, AnyOf)
        if decisive in parts:
            return decisive
        return None if None in parts else not decisive
    return compares(condition, values)


def compares(comparison: Compare, values: Mapping[str, Plain]) -> Truth:  # noqa: PLR0911  # one a comparison
    left = values.get(comparison.attribute, MISSING)
    operator = comparison.operator.value
    if operator == "exists":
        return {MISSING: False, UNKNOWN: None}.get(left, True)
    if left in (MISSING, UNKNOWN):
        return None
    if operator == "in":
        assert isinstance(comparison.operand, tuple)
        members = [literal(value) for value in comparison.operand]
        if left in members:
            return True
        return False if all(left[0] == member[0] for member in members) else None
    if isinstance(comparison.operand, Attribute):
        right = values.get(comparison.operand.name, MISSING)
    else:
        right = literal(comparison.operand)
    if left[0] in {"path", "url"} and right[0] == "text" and operator in {"suffix", "contains", "glob"}:
        left = ("text", left[1])  # a pattern speaks of the whole text
    if left[0] != right[0]:
        return None
    match operator:
        case "eq":
            return bool(left == right)
        case "ne":
            return bool(left != right)
        case "lt" | "le" | "gt" | "ge" if left[0] in {"number", "time"}:
            a, b = left[1], right[1]
            return bool({"lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b}[operator])
        case "prefix" if left[0] in {"path", "url"}:
            return covers(right, left)
        case "prefix" | "suffix" | "contains" | "glob" if left[0] == "text":
            text, other = left[1], right[1]
            return bool(
                {
                    "prefix": text[: len(other)] == other,
                    "suffix": other == "" or text[-len(other) :] == other,
                    "contains": other in text,
                    "glob": glob(other, text),
                }[operator]
            )
    return None


# -- calls ---------------------------------------------------------------------------------------


def bad(value: object, depth: int = 0) -> bool:
    """Whether arguments hold what is not JSON, or JSON that cannot be judged."""
    if depth > 32:
        return True
    if isinstance(value, str):
        return any(0xD800 <= ord(character) <= 0xDFFF for character in value)
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, Mapping):
        return any(not isinstance(key, str) or bad(key) or bad(item, depth + 1) for key, item in value.items())
    if isinstance(value, list | tuple):
        return any(bad(item, depth + 1) for item in value)
    return not (value is None or isinstance(value, bool | int))


def found_at(arguments: object, steps: list[str]) -> list[object]:
    """List what lies at a path; a list on the way, but not inside another, stands for each of its elements."""
    if not steps:
        return [arguments]
    if not isinstance(arguments, Mapping):
        return [UNKNOWN]
    if steps[0] not in arguments:
        return [MISSING]
    inner = arguments[steps[0]]
    elements = inner if isinstance(inner, list | tuple) else [inner]
    if not elements:
        return [UNKNOWN]
    return [value for element in elements for value in found_at(element, steps[1:])]


def source_values(arguments: Mapping[str, object], source: AttributeSource) -> list[Plain]:
    if source.constant is not None:
        return [literal(source.constant)]
    assert source.argument is not None
    values: list[Plain] = []
    for value in found_at(arguments, source.argument.split(".")):
        if value is MISSING or value is UNKNOWN:
            values.append(MISSING if value is MISSING else UNKNOWN)
        else:
            values.append(plain(value, source.sort.value))
    return values


def actions(binding: ToolBinding, arguments: Mapping[str, object]) -> list[dict[str, Plain]]:
    """All actions a call makes under one binding, each as its attributes."""
    if binding.action is None:
        return []
    named = [(f"object.{name}", source) for name, source in binding.object_attributes]
    named += [(f"action.{name}", source) for name, source in binding.action_attributes]
    out: list[dict[str, Plain]] = []
    for values in itertools.product(*(source_values(arguments, source) for _, source in named)):
        action: dict[str, Plain] = {
            "action.name": ("text", binding.action),
            "action.tool": ("text", binding.tool),
            "action.external": ("bool", binding.external),
        }
        if binding.object_type is not None:
            action["object.type"] = ("text", binding.object_type)
        action.update(zip((name for name, _ in named), values, strict=True))
        out.append(action)
    return out


def for_members(action: Mapping[str, Plain], runtime: RuntimeState, now: datetime | None) -> list[dict[str, Plain]]:
    """The attributes as each member of the delegation chain would have them; `now` is None where time is unknown."""

    def text(value: str | None) -> Plain:
        return UNKNOWN if value is None else ("text", value)

    shared = {
        "tenant": text(runtime.tenant),
        "task": text(runtime.task),
        "time": UNKNOWN if now is None else ("time", now),
    }
    return [{**action, **shared, "actor.id": text(member)} for member in runtime.chain or (None,)]


# -- policies ------------------------------------------------------------------------------------


def mediated(policy: Policy) -> bool:
    return policy.actions not in {(), ("respond",)}


def scoped(policy: Policy, runtime: RuntimeState) -> bool:
    pairs = ((policy.scope.tenant, runtime.tenant), (policy.scope.task, runtime.task))
    if any(None not in pair and pair[0] != pair[1] for pair in pairs):
        return False
    return policy.scope.agent is None or not runtime.chain or policy.scope.agent in runtime.chain


def in_window(policy: Policy, now: datetime | None) -> bool:
    if now is None:
        return True
    late = policy.valid_until is not None and now >= policy.valid_until
    return not late and not (policy.valid_from is not None and now < policy.valid_from)


def governs(policy: Policy, action: Mapping[str, Plain], runtime: RuntimeState, now: datetime | None) -> bool:
    """Whether one policy belongs to A* of one action."""
    if not mediated(policy) or not scoped(policy, runtime) or not in_window(policy, now):
        return False
    if policy.actions != ("*",) and action["action.name"][1] not in policy.actions:
        return False
    kind = action.get("object.type")
    if policy.object_type is not None and kind is not None and kind[1] != policy.object_type:
        return False
    return any(holds(policy.where, member) is not False for member in for_members(action, runtime, now))


def applicable(
    policies: Iterable[Policy], bindings: Iterable[ToolBinding], tools: Iterable[str], runtime: RuntimeState
) -> set[str]:
    """Ids of what could govern some call of some of these tools, or is only carried."""
    bindings, tools = list(bindings), set(tools)
    unbound = bool(tools - {binding.tool for binding in bindings})
    offered = [binding for binding in bindings if binding.tool in tools and binding.action is not None]

    def could(policy: Policy, binding: ToolBinding) -> bool:
        named = policy.actions == ("*",) or binding.action in policy.actions
        return named and (
            None in {policy.object_type, binding.object_type} or policy.object_type == binding.object_type
        )

    return {
        policy.id
        for policy in policies
        if scoped(policy, runtime)
        and (unbound or not mediated(policy) or any(could(policy, binding) for binding in offered))
    }


def every_action(bindings: Iterable[ToolBinding], tool: str, arguments: Mapping[str, object]) -> list[dict[str, Plain]]:
    return [action for binding in bindings if binding.tool == tool for action in actions(binding, arguments)]


# -- evidence ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Seen:
    """One run of a tool that may give evidence, as infrastructure saw it."""

    tool: str
    arguments: Mapping[str, object]
    result: object
    succeeded: bool
    runtime: RuntimeState
    at: datetime


def at(value: object, source: FieldSource) -> Plain:
    for step in source.path.split("."):
        if not isinstance(value, Mapping) or step not in value:
            return MISSING
        value = value[step]
    return plain(value, source.sort.value)


def live(
    declaration: EvidenceDeclaration, events: Iterable[Seen], runtime: RuntimeState, now: datetime | None
) -> list[dict[str, Plain]]:
    """The records of a declaration that count for a runtime; `now` is None where time is unknown."""
    latest: dict[tuple[Plain, ...], tuple[datetime, dict[str, Plain]]] = {}
    for event in events:
        mine = event.runtime == runtime
        if declaration.shared:
            mine = (event.runtime.tenant, event.runtime.task) == (runtime.tenant, runtime.task)
        if event.tool != declaration.from_tool or not mine:
            continue
        fields = {
            name: at(event.arguments if source.origin.value == "argument" else event.result, source)
            for name, source in declaration.fields
        }
        key = tuple(fields[name] for name in declaration.key)
        latest.pop(key, None)
        absent = any(value in (MISSING, UNKNOWN) for value in fields.values())
        if event.succeeded and isinstance(event.result, Mapping) and not absent:
            latest[key] = (event.at, fields)
    life = declaration.expires_seconds
    return [
        fields
        for recorded, fields in latest.values()
        if now is not None and (life is None or now < recorded + timedelta(seconds=life))
    ]


def lifted(
    policy: Policy,
    action: Mapping[str, Plain],
    runtime: RuntimeState,
    now: datetime | None,
    events: Iterable[Seen],
) -> bool:
    """Whether some choice of one live record per handle, or none, makes `unless` true for every member."""
    if policy.unless is None:
        return False
    events = list(events)
    handles = [handle for handle, _ in policy.evidence]
    choices = [[None, *live(declaration, events, runtime, now)] for _, declaration in policy.evidence]
    names = {f"evidence.{handle}.{field}" for handle, d in policy.evidence for field, _ in d.fields}
    for assignment in itertools.product(*choices):
        values = dict.fromkeys(names, UNKNOWN)
        for handle, record in zip(handles, assignment, strict=True):
            values.update({f"evidence.{handle}.{name}": value for name, value in (record or {}).items()})
        members = for_members(action, runtime, now)
        if all(holds(policy.unless, {**member, **values}) is True for member in members):
            return True
    return False


# -- the verdict ---------------------------------------------------------------------------------


def verdict(
    policies: Iterable[Policy],
    bindings: Iterable[ToolBinding],
    tool: str,
    arguments: object,
    runtime: RuntimeState,
    now: datetime | None,
    events: Iterable[Seen] = (),
) -> str:
    """Say allow, confirm or deny by looking at every policy for every action."""
    policies, bindings, events = list(policies), list(bindings), list(events)
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, Mapping) or bad(arguments):
        return "deny"
    if not any(mediated(policy) for policy in policies):
        return "allow"
    mine = [binding for binding in bindings if binding.tool == tool]
    if not mine or any(binding.server is not None or binding.schema_digest is not None for binding in mine):
        return "deny"  # calls here come from no server and with no schema
    worst = "allow"
    for action in every_action(mine, tool, arguments):
        bound = [
            policy for policy in policies if policy.mode.value == "enforce" and governs(policy, action, runtime, now)
        ]
        held = [policy for policy in bound if not lifted(policy, action, runtime, now, events)]
        for policy in held:
            said = {"deny": "deny", "confirm": "confirm", "permit": "allow", "deny-by-default": "deny"}[
                policy.effect.value
            ]
            if policy.effect.value == "deny-by-default" and any(
                RANKS.index(other.issuer.kind.value) <= RANKS.index(policy.issuer.kind.value)
                and speaks(other, action, runtime, now)
                for other in bound
                if other.effect.value == "permit" or (other.effect.value == "confirm" and other in held)
            ):
                said = "allow"
            worst = max(worst, said, key=("allow", "confirm", "deny").index)
    return worst


RANKS = ("organization", "developer", "user")


def speaks(policy: Policy, action: Mapping[str, Plain], runtime: RuntimeState, now: datetime | None) -> bool:
    """Whether a permit or confirm surely applies: `where` true, and for a permit `unless` false, for every member."""
    members = for_members(action, runtime, now)
    kind = action.get("object.type")
    if policy.object_type is not None and (kind is None or kind[1] != policy.object_type):
        return False
    if any(policy.where is not None and holds(policy.where, member) is not True for member in members):
        return False
    if policy.effect.value == "confirm":
        return True
    return now is not None and all(policy.unless is None or holds(policy.unless, member) is False for member in members)
