"""What a decision costs as the registry grows, where only one policy can match the call.

A decision must not grow with policies that cannot match (DESIGN, invariant 12). There is no bar yet: the table
shows the growth from 10 to 10,000 policies, for rules of other actions and for rules of other object types.
"""

import statistics
import sys
import time

from carriage_core import (
    AttributeSource,
    Compare,
    ControlPlane,
    Effect,
    Issuer,
    IssuerKind,
    Operator,
    Policy,
    PolicyRegistry,
    ToolBinding,
    Utf8UpperBound,
)

SIZES = (10, 100, 1_000, 10_000)
OTHERS = 50
TIMES = 301
OWNER = Issuer(kind=IssuerKind.ORGANIZATION, name="platform-security")
CALL = {"artifact_id": "a1", "repository": "acme/api"}


def rule(index: int, action: str, kind: str) -> Policy:
    """One rule of an action and a type of object."""
    return Policy(
        id=f"rule-{index}",
        issuer=OWNER,
        effect=Effect.DENY,
        text=f"Rule {index}.",
        actions=(action,),
        object_type=kind,
        where=Compare("object.repository", Operator.GLOB, "acme/*"),
    )


def binding(tool: str, action: str, kind: str) -> ToolBinding:
    """A tool with an object."""
    source = AttributeSource(argument="repository")
    return ToolBinding(tool=tool, action=action, object_type=kind, object_attributes=(("repository", source),))


def plane_of(size: int, spread: str) -> ControlPlane:
    """A plane whose other policies differ from the one that matches in their action, or in their object type."""

    def other(number: int) -> tuple[str, str]:
        return (f"act-{number}", "artifact") if spread == "action" else ("delete", f"kind-{number}")

    policies = [rule(0, "delete", "artifact")]
    policies += [rule(index, *other(index % OTHERS)) for index in range(1, size)]
    # Letters that nobody takes for one another, so that the names cannot be confused.
    letters = "bcdfghkmnp"
    bindings = [binding(f"tool_{letters[n // 10]}{letters[n % 10]}", *other(n)) for n in range(OTHERS)]
    bindings.append(binding("delete_artifact", "delete", "artifact"))
    return ControlPlane(PolicyRegistry.of(policies, bindings), counter=Utf8UpperBound())


def microseconds(plane: ControlPlane) -> float:
    """The median time of a decision."""
    assert plane.check("delete_artifact", CALL).policies == ("rule-0",)
    samples: list[float] = []
    for _ in range(TIMES):
        start = time.perf_counter_ns()
        plane.check("delete_artifact", CALL)
        samples.append((time.perf_counter_ns() - start) / 1_000)
    return statistics.median(samples)


def main() -> int:
    """Print the table."""
    print(f"check(), one policy can match, median of {TIMES}, in microseconds")
    print(f"{'policies':>9} {'other actions':>14} {'growth':>7} {'other types':>14} {'growth':>7}")
    first: list[float] = []
    for size in SIZES:
        times = [microseconds(plane_of(size, spread)) for spread in ("action", "type")]
        first = first or times
        growth = [now / then for now, then in zip(times, first, strict=True)]
        print(f"{size:9,} {times[0]:14.1f} {growth[0]:6.2f}x {times[1]:14.1f} {growth[1]:6.2f}x")
    return 0


if __name__ == "__main__":
    sys.exit(main())
