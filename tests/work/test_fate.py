"""The fate of a row after a call of its handler: one rule after the other."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rowbus.work.fate import Ending, Failure, Kind, kind_of
from tests.fixtures.every import every

PLAIN = Failure(
    in_transaction=True,
    is_refused=False,
    is_held=False,
    is_outage=False,
    is_conflict_of_several=False,
    pause=None,
)

FAILURES = st.builds(
    Failure,
    in_transaction=st.booleans(),
    is_refused=st.booleans(),
    is_held=st.booleans(),
    is_outage=st.booleans(),
    is_conflict_of_several=st.booleans(),
    pause=st.sampled_from([None, 0.0, 5.0]),
)


@every(
    "ending, failure, kind",
    [
        (Ending.FAILED, PLAIN, Kind.FAILED),
        (Ending.FAILED, PLAIN._replace(is_outage=True), Kind.OUTAGE),
        (Ending.FAILED, PLAIN._replace(is_outage=True, in_transaction=False), Kind.FAILED),
        (Ending.FAILED, PLAIN._replace(is_conflict_of_several=True), Kind.PUT_BACK),
        (Ending.FAILED, PLAIN._replace(pause=0.0), Kind.PAUSED),
        (Ending.FAILED, PLAIN._replace(is_refused=True), Kind.GIVEN_UP),
        (Ending.ENDED, PLAIN, Kind.GIVEN_UP),
        (Ending.ENDED, PLAIN._replace(is_held=True), Kind.COUNTED),
        (Ending.LOST, PLAIN, Kind.LOST),
        (Ending.OVERDUE, PLAIN._replace(pause=5.0, is_conflict_of_several=True), Kind.COUNTED),
        (Ending.OVERDUE, PLAIN._replace(in_transaction=False), Kind.FAILED),
        (Ending.UNFINISHED, PLAIN, Kind.LOST),
        (Ending.UNFINISHED, PLAIN._replace(in_transaction=False), Kind.FAILED),
        (Ending.UNFINISHED, PLAIN._replace(pause=5.0, is_conflict_of_several=True), Kind.LOST),
    ],
)
def test_each_ending_has_its_fate(ending: Ending, failure: Failure, kind: Kind) -> None:
    assert kind_of(ending, failure) is kind


@given(st.sampled_from([each for each in Ending if each is not Ending.DONE]), FAILURES)
def test_no_failure_is_done_and_none_outside_a_transaction_waits_for_the_database(
    ending: Ending, failure: Failure
) -> None:
    kind = kind_of(ending, failure)
    assert kind is not Kind.DONE
    assert failure.in_transaction or kind is not Kind.OUTAGE
    assert (kind is Kind.PAUSED) <= (failure.pause is not None)
    assert (kind is Kind.COUNTED) <= (failure.is_held or ending is Ending.OVERDUE)
