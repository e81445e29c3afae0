"""What counters add up to, against a ledger that only keeps a list."""

from datetime import timedelta
from decimal import Decimal
from fractions import Fraction

import hypothesis.strategies as st
import pytest
from hypothesis import given

from carriage_core import Absent
from carriage_core.counters import Charge, CounterLedger
from carriage_core.runtime import Moment
from integration_tests.core.samples import START

WINDOWS = {"a": timedelta(seconds=10), "b": timedelta(seconds=3)}

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b"]),
        st.sampled_from([("x",), ("y",), None]),
        st.sampled_from([Decimal(0), Decimal("0.1"), Decimal("1e30"), Decimal(7), None]),
        st.sampled_from(["d1", "d2", "d3"]),
        st.integers(0, 4),
        st.sampled_from(["reserve", "reserve", "release"]),
        st.booleans(),
    ),
    max_size=30,
)


def at(seconds: int, *, trusted: bool = True) -> Moment:
    return Moment(now=START + timedelta(seconds=seconds), trusted=trusted)


@given(steps=STEPS)
def test_a_counter_is_the_sum_of_what_is_in_its_window(
    steps: list[tuple[str, tuple[str] | None, Decimal | None, str, int, str, bool]],
) -> None:
    """After any reservations, releases and passing of time, a counter stands at the exact sum of its live charges."""
    ledger, kept, seconds = CounterLedger(), [], 0
    for account, key, amount, decision, wait, what, trusted in steps:
        seconds += wait
        charge = Charge(account=(account,), key=key, amount=amount, window=WINDOWS[account])
        if what == "reserve":
            assert ledger.reserve([charge], decision, moment=at(seconds, trusted=trusted))
            kept.append((seconds, decision, charge))
        else:
            ledger.release(decision, [charge])
            kept = [entry for entry in kept if (entry[1], entry[2].account) != (decision, (account,))]
        for name, window in WINDOWS.items():
            for probe in (("x",), ("y",)):
                one = Charge(account=(name,), key=probe, amount=Decimal(1), window=window)
                live = [
                    held.amount
                    for since, _, held in kept
                    if held.account == (name,)
                    and held.key in (None, probe)
                    and seconds < since + window.total_seconds()
                ]
                found = ledger.value(one, moment=at(seconds))
                if None in live:
                    assert found is Absent.UNKNOWN
                else:
                    assert isinstance(found, Decimal)
                    assert Fraction(found) == sum(map(Fraction, live), Fraction(1))
                assert ledger.value(one, moment=at(seconds, trusted=False)) is Absent.UNKNOWN


def test_an_unknown_amount_or_key_of_the_call_itself_is_unknown() -> None:
    """What cannot be added cannot be shown to stay under a limit."""
    ledger = CounterLedger()
    for key, amount in ((None, Decimal(1)), (("x",), None)):
        charge = Charge(account=("a",), key=key, amount=amount, window=WINDOWS["a"])
        assert ledger.value(charge, moment=at(0)) is Absent.UNKNOWN


def test_earlier_actions_of_the_same_call_count() -> None:
    """Ten refunds in one call are ten refunds, not one."""
    ledger = CounterLedger()
    charges = [Charge(account=("a",), key=("x",), amount=Decimal(n), window=WINDOWS["a"]) for n in (2, 3)]
    assert ledger.value(charges[1], pending=charges[:1], moment=at(0)) == Decimal(5)
    other = Charge(account=("a",), key=("y",), amount=Decimal(9), window=WINDOWS["a"])
    assert ledger.value(charges[1], pending=[other], moment=at(0)) == Decimal(3)
    unknown = Charge(account=("a",), key=None, amount=None, window=WINDOWS["a"])
    assert ledger.value(charges[1], pending=[unknown], moment=at(0)) is Absent.UNKNOWN


def test_a_full_ledger_takes_no_half_of_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Past the limit nothing of a call is charged, and what expires makes room again."""
    monkeypatch.setattr("carriage_core.counters.MAX_CHARGES", 3)
    ledger = CounterLedger()
    charge = Charge(account=("b",), key=("x",), amount=Decimal(1), window=WINDOWS["b"])
    assert ledger.reserve([charge, charge], "d1", moment=at(0))
    assert not ledger.reserve([charge, charge], "d2", moment=at(1))
    assert ledger.value(charge, moment=at(1)) == Decimal(3)
    assert ledger.reserve([charge, charge], "d2", moment=at(3))
    assert ledger.value(charge, moment=at(3)) == Decimal(3)
