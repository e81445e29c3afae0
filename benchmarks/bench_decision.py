"""What a decision costs as policies that cannot match are added: `check` with the full verdict.

No bar yet; it shows that the cost does not grow with rules for other actions, and how it grows with rules for the
same action and another object.
"""

from __future__ import annotations

import statistics
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

COUNTS = (10, 100, 1_000, 10_000)
BATCH = 50
ROUNDS = 7


def plane(count: int, *, same_action: bool) -> ControlPlane:
    issuer = Issuer(kind=IssuerKind.ORGANIZATION, name="bench")
    source = (("id", AttributeSource(argument="id")),)
    actions = ["act-0" if same_action else f"act-{number}" for number in range(count)]
    bindings = [
        ToolBinding(tool=f"tool {action}", action=action, object_type="thing", object_attributes=source)
        for action in dict.fromkeys(actions)
    ]
    policies = [
        Policy(
            id=f"rule-{number}",
            issuer=issuer,
            effect=Effect.DENY,
            text=f"Do not do {action} to {number}.",
            actions=(action,),
            object_type="thing",
            where=Compare("object.id", Operator.EQ, f"object-{number}"),
        )
        for number, action in enumerate(actions)
    ]
    return ControlPlane(PolicyRegistry.of(policies, bindings), counter=Utf8UpperBound())


def microseconds(control: ControlPlane) -> float:
    def batch() -> float:
        start = time.thread_time_ns()
        for _ in range(BATCH):
            if control.check("tool act-0", {"id": "object-0"}).allowed:
                raise SystemExit("the rule did not bind")
        return (time.thread_time_ns() - start) / BATCH / 1_000

    return statistics.median(batch() for _ in range(ROUNDS))


def main() -> int:
    print(f"one decision, microseconds of thread CPU, median of {ROUNDS}")
    print(f"{'policies':>9} {'other actions':>14} {'same action':>12}")
    for count in COUNTS:
        other = microseconds(plane(count, same_action=False))
        same = microseconds(plane(count, same_action=True))
        print(f"{count:>9} {other:>14.1f} {same:>12.1f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
