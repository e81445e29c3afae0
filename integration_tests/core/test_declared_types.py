"""A literal of another type than the attribute's would never be decided; the file is refused instead."""

from __future__ import annotations

import pytest

from carriage_core import ControlPlane, PolicyFileError, Utf8UpperBound, parse_policy_text

FILE = """
carriage: 1
tools:
  deploy:
    action: deploy
    object: {{type: service, id: name, size: {{argument: size, type: number}}}}
    attributes: {{at: {{argument: at, type: time}}}}
policies:
  - id: window
    issuer: {{kind: organization, name: ops}}
    effect: deny
    action: deploy
    where: {where}
    text: Not now.
"""


def plane(where: str) -> ControlPlane:
    return ControlPlane(parse_policy_text(FILE.format(where=where)), counter=Utf8UpperBound())


def call(at: str = "2026-12-01T16:00:00Z", size: object = 3) -> dict[str, object]:
    return {"name": "web", "size": size, "at": at}


def test_time_attribute_is_compared_as_an_instant():
    """An argument declared a time has an order, and one instant spelled in two zones is one instant."""
    before = plane('{attr: action.at, lt: "2026-12-01T17:00:00+01:00"}')
    assert before.check("deploy", call("2026-12-01T15:59:59Z")).outcome == "deny"
    assert before.check("deploy", call("2026-12-01T16:00:00Z")).outcome == "allow"
    assert before.check("deploy", call("tomorrow")).outcome == "deny"


@pytest.mark.parametrize(
    ("where", "declared"),
    [
        ('{attr: object.size, eq: "5"}', "number"),
        ("{attr: object.size, eq: true}", "number"),
        ("{attr: object.size, in: [1, two]}", "number"),
        ("{attr: action.at, eq: tomorrow}", "instant"),
        ("{attr: action.at, gt: 5}", "text is needed"),
    ],
)
def test_literal_of_another_type_is_refused(where, declared):
    """A rule that could never be decided is a fault with its line, not a rule that looks as if it protected."""
    with pytest.raises(PolicyFileError) as refused:
        plane(where)
    assert declared in str(refused.value)
    assert all(fault.line == 13 for fault in refused.value.faults)


def test_literal_of_the_declared_type_is_decided():
    """What the declaration allows still loads and binds."""
    big = plane("{attr: object.size, gt: 2}")
    assert big.check("deploy", call(size=3)).outcome == "deny"
    assert big.check("deploy", call(size=2)).outcome == "allow"
    assert big.check("deploy", call(size="2")).outcome == "deny"
