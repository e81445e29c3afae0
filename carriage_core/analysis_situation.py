# SPDX-License-Identifier: Apache-2.0
"""A concrete situation, and what the product's own evaluator says about it (DESIGN 3.11).

Analysis reasons about rules in its own way, and is not to be believed on its word. So each witness is judged again
here, by the very functions that the monitor uses, before anybody sees it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from carriage_core.analysis_strings import UndecidableError
from carriage_core.applicability import binds_here
from carriage_core.clause import render_literal
from carriage_core.condition import evaluate
from carriage_core.counters import Charge, CounterLedger, charges_of
from carriage_core.errors import CarriageError
from carriage_core.index import PolicyIndex
from carriage_core.monitor import outcome_of
from carriage_core.policy import FieldOrigin
from carriage_core.ruling import Circumstances, rule_on, standing
from carriage_core.runtime import EvidenceLedger
from carriage_core.schema import Absent, FilePath, Url
from carriage_core.views import views

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from decimal import Decimal

    from carriage_core.binding import Action
    from carriage_core.condition import Condition, Truth
    from carriage_core.policy import EvidenceDeclaration, Policy
    from carriage_core.runtime import Moment, RuntimeState
    from carriage_core.schema import Value
    from carriage_core.verdict import Outcome
    from carriage_core.views import View


@dataclass(frozen=True, slots=True, kw_only=True)
class Witness:
    """A situation that shows why an answer is no.

    Attributes:
        action: What would be done, with every attribute that matters, missing and unknown ones included.
        runtime: Who acts: tenant, task and delegation chain.
        moment: When, and whether the clock can be trusted.
        records: The live evidence there is: each declaration with the fields of one record.
        charged: What counters were charged before: the policy, the counter, and the sum, None for one not known.
        values: For conditions: what stands in evidence and counters.
        first: What the first side says: an `Outcome`, or for conditions a `Truth`.
        second: What the second side says.
    """

    action: Action
    runtime: RuntimeState
    moment: Moment
    first: Outcome | Truth
    second: Outcome | Truth
    records: tuple[tuple[EvidenceDeclaration, Mapping[str, Value]], ...] = ()
    charged: tuple[tuple[Policy, str, Decimal | None], ...] = ()
    values: tuple[tuple[str, Value | Absent], ...] = ()

    @property
    def counters(self) -> tuple[tuple[tuple[str, str], Value | Absent], ...]:
        """What counters stood at before this call, by policy id and name."""
        return tuple(
            ((policy.id, name), Absent.UNKNOWN if before is None else before) for policy, name, before in self.charged
        )

    def describe(self) -> str:
        """Say the situation on one line, for people."""
        shown = [f"{name} = {_shown(value)}" for name, value in sorted(self.action.attributes.items())]
        shown += [f"{name} = {_shown(value)}" for name, value in self.values]
        if self.action.name is None:
            shown.append("action unknown")
        for name, one in (("tenant", self.runtime.tenant), ("task", self.runtime.task)):
            shown += [] if one is None else [f"{name} = {_shown(one)}"]
        if self.runtime.chain:
            shown.append(f"actor = {' > '.join(map(_shown, self.runtime.chain))}")
        if not self.moment.trusted:
            shown.append("clock not trusted")
        for declaration, fields in self.records:
            inner = ", ".join(f"{name} = {_shown(value)}" for name, value in sorted(fields.items()))
            shown.append(f"{declaration.from_tool} has shown ({inner})")
        for policy, name, before in self.charged:
            shown.append(f"{policy.id} counted {'an unknown sum' if before is None else before} for {name} before")
        return f"{self._told(self.first)} against {self._told(self.second)}: {'; '.join(shown) or 'anything'}"

    @staticmethod
    def _told(result: Outcome | Truth) -> str:
        return str(result) if isinstance(result, str) else result.name.lower()


def _shown(value: Value | Absent) -> str:
    return value.value if isinstance(value, Absent) else render_literal(value)


def judged_again(witness: Witness, first: Iterable[Policy], second: Iterable[Policy]) -> Witness:
    """Put in a witness what the monitor says of it.

    Raises:
        UndecidableError: The situation cannot be set up, such as a record that the ledger refuses.
    """
    try:
        return replace(witness, first=outcome_in(first, witness), second=outcome_in(second, witness))
    except CarriageError as fault:
        raise UndecidableError(f"a situation cannot be set up: {fault}") from fault


def evaluated_again(witness: Witness, first: Condition, second: Condition) -> Witness:
    """Put in a witness what the evaluator says of two conditions."""
    return replace(witness, first=truth_in(first, witness), second=truth_in(second, witness))


def outcome_in(policies: Iterable[Policy], witness: Witness) -> Outcome:
    """Judge a situation as the monitor does.

    Raises:
        CarriageError: The situation cannot be set up, such as a record that the ledger refuses.
    """
    action, runtime, moment = witness.action, witness.runtime, witness.moment
    held = Circumstances(runtime=runtime, moment=moment, ledger=_ledger(witness), counters=_counted(witness))
    members = views(action, runtime, moment)
    index = PolicyIndex(tuple(policies))
    governing = [
        policy
        for policy in index.matching(action.name, action.object_type, action.attributes)
        if binds_here(policy, runtime, action, moment, members)
    ]
    ruled = [rule_on(policy, action, members, held, ()) for policy in governing]
    return outcome_of(ruling.policy.effect for ruling in standing(one for one in ruled if not one.observed))


def truth_in(condition: Condition, witness: Witness) -> Truth:
    """Evaluate a condition in a situation."""
    return evaluate(condition, _view(witness).__getitem__)


def _view(witness: Witness) -> View:
    return views(witness.action, witness.runtime, witness.moment)[-1].extended(dict(witness.values))


def _ledger(witness: Witness) -> EvidenceLedger:
    ledger = EvidenceLedger()
    for declaration, fields in witness.records:
        arguments: dict[str, Any] = {}
        result: dict[str, Any] = {}
        for name, source in declaration.fields:
            tree = arguments if source.origin is FieldOrigin.ARGUMENT else result
            *folders, last = source.path.split(".")
            for folder in folders:
                tree = tree.setdefault(folder, {})
            value = fields[name]
            tree[last] = value.text if isinstance(value, FilePath | Url) else value
        ledger.record(
            declaration,
            arguments=arguments,
            result=result,
            runtime=witness.runtime,
            moment=witness.moment,
            call_id=None,
            argument_digest="",
        )
    return ledger


def _counted(witness: Witness) -> CounterLedger:
    ledger = CounterLedger()
    member = views(witness.action, witness.runtime, witness.moment)[-1]
    for policy, name, before in witness.charged:
        charge = charges_of(policy, member, witness.runtime)[name]
        earlier = Charge(account=charge.account, key=charge.key, amount=before, window=timedelta(days=1))
        ledger.reserve([earlier], "before", moment=witness.moment)
    return ledger
