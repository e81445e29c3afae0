"""What a decision costs as the registry grows, where only one policy can match the call.

A decision must not grow with policies that cannot match (DESIGN, invariant 12). There is no bar yet: the table
shows the growth from 10 to 10,000 policies, for rules of other actions, of other object types, and for rules of the
same action and type that require another value.
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
SPREADS = ("action", "type", "value")
OTHERS = 50
TIMES = 301
OWNER = Issuer(kind=IssuerKind.ORGANIZATION, name="platform-security")
CALL = {"artifact_id": "a1", "repository": "acme/api"}


def rule(index: int, action: str, kind: str, repository: str) -> Policy:
    """One rule of an action, a type of object and a value."""
    return Policy(
        id=f"rule-{index}",
        issuer=OWNER,
        effect=Effect.DENY,
        text=f"Rule {index}.",
        actions=(action,),
        object_type=kind,
        where=Compare("object.repository", Operator.EQ, repository),
    )


def binding(tool: str, action: str, kind: str) -> ToolBinding:
    """A tool with an object."""
    source = AttributeSource(argument="repository")
    return ToolBinding(tool=tool, action=action, object_type=kind, object_attributes=(("repository", source),))


def plane_of(size: int, spread: str) -> ControlPlane:
    """A plane whose other policies differ from the one that matches in their action, object type or value."""

    def other(number: int) -> tuple[str, str]:
        if spread == "action":
            return f"act-{number}", "artifact"
        return "delete", f"kind-{number}" if spread == "type" else "artifact"

    policies = [rule(0, "delete", "artifact", "acme/api")]
    for index in range(1, size):
        repository = f"acme/service-{index}" if spread == "value" else "acme/api"
        policies.append(rule(index, *other(index % OTHERS), repository))
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
    print(f"{'policies':>9}" + "".join(f"{f'other {spread}s':>16} {'growth':>7}" for spread in SPREADS))
    first: list[float] = []
    for size in SIZES:
        times = [microseconds(plane_of(size, spread)) for spread in SPREADS]
        first = first or times
        cells = "".join(f"{now:16.1f} {now / then:6.2f}x" for now, then in zip(times, first, strict=True))
        print(f"{size:9,}{cells}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
