"""A round of receiving: ramps up, keeps within its bounds, and ends at the first receive that finds nothing."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from rowbus.transport.receiving.decisions import Round

patiently = settings(deadline=None, max_examples=60)


def start_all(current: Round, most: int = 1) -> list[int]:
    """Start receives until no more may start; give what each may ask for."""
    granted: list[int] = []
    while messages := current.try_start(most):
        granted.append(messages)
    return granted


def test_a_round_begins_with_a_single_receive() -> None:
    assert start_all(Round(concurrency=8)) == [1]


def test_every_receive_that_finds_something_lets_twice_as_many_follow() -> None:
    current = Round(concurrency=100)
    under_way = []
    for _ in range(4):
        start_all(current)
        under_way.append(current.receiving)
        current.finished(1)

    assert under_way == [1, 2, 4, 8]


def test_no_more_receives_are_under_way_than_the_concurrency_allows() -> None:
    current = Round(concurrency=3)
    for _ in range(5):
        start_all(current)
        current.finished(1)
    start_all(current)

    assert current.receiving == 3


def test_a_receive_that_finds_nothing_ends_the_round() -> None:
    current = Round(concurrency=8)
    start_all(current)
    current.finished(1)
    start_all(current)

    current.finished(0)

    assert current.ended
    assert current.try_start() == 0
    assert not current.over, "one receive is still under way"
    current.finished(1)
    assert current.over


def test_a_late_find_does_not_open_an_ended_round_again() -> None:
    current = Round(concurrency=8)
    start_all(current)
    current.finished(1)
    start_all(current)
    current.finished(0)

    current.finished(5)

    assert current.over
    assert current.try_start() == 0


def test_an_abandoned_round_is_over_when_its_receives_are() -> None:
    current = Round(concurrency=8)
    start_all(current)

    current.abandon()

    assert current.try_start() == 0
    assert not current.over
    current.finished(1)
    assert current.over


def test_a_round_that_was_never_used_is_not_over() -> None:
    assert not Round(concurrency=1).over


def test_a_bounded_round_is_over_after_that_many_messages_without_an_empty_receive() -> None:
    current = Round(concurrency=1, records=3)
    for _ in range(3):
        assert not current.over
        assert current.try_start() == 1
        current.finished(1)

    assert current.over
    assert not current.ended
    assert current.received == 3


def test_the_last_receive_of_a_bounded_round_asks_only_for_what_is_left() -> None:
    current = Round(concurrency=1, records=25)
    asked = []
    while messages := current.try_start(10):
        asked.append(messages)
        current.finished(messages)

    assert asked == [10, 10, 5]


def test_what_was_found_is_added_up() -> None:
    current = Round(concurrency=1)
    for found in (10, 7, 0):
        current.try_start(10)
        current.finished(found)

    assert current.received == 17


@patiently
@given(
    concurrency=st.integers(1, 16),
    records=st.none() | st.integers(1, 60),
    steps=st.lists(st.tuples(st.sampled_from(["start", "find", "miss", "abandon"]), st.integers(1, 20))),
)
def test_a_round_never_exceeds_its_concurrency_or_its_bound(
    concurrency: int, records: int | None, steps: list[tuple[str, int]]
) -> None:
    current = Round(concurrency=concurrency, records=records)
    asked: list[int] = []
    total = 0
    was_over = False
    for step, number in steps:
        if step == "start":
            granted = current.try_start(number)
            assert 0 <= granted <= number
            assert not (granted and was_over), "a round that is over stays over"
            total += granted
            if granted:
                asked.append(granted)
        elif step == "abandon":
            current.abandon()
        elif asked:
            most = asked.pop()
            current.finished(min(number, most) if step == "find" else 0)
        was_over = current.over
        assert current.receiving == len(asked) <= concurrency
        assert current.received <= total
        assert records is None or total <= records


@patiently
@given(concurrency=st.integers(1, 16), waiting=st.integers(0, 200), most=st.integers(1, 10))
def test_a_round_takes_everything_that_waits_and_costs_each_slot_at_most_one_empty_receive(
    concurrency: int, waiting: int, most: int
) -> None:
    current = Round(concurrency=concurrency)
    empty = 0
    left = waiting
    while not current.over:
        asked = start_all(current, most)
        while current.receiving:
            found = min(left, asked.pop(0) if asked else most)
            left -= found
            empty += not found
            current.finished(found)

    assert current.received == waiting
    assert 1 <= empty <= concurrency
