"""When the poller looks next: for what is next in the store, for what was just stored, and patiently."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as some

from rowbus.testing import FakeClock
from rowbus.transport.delayed_store.decisions import LONGEST_WAIT, DueSchedule

NOW = FakeClock().now()


def after(seconds: float) -> timedelta:
    return timedelta(seconds=seconds)


def test_it_waits_exactly_until_the_next_message_is_due() -> None:
    assert DueSchedule().wait(NOW, NOW + after(7.25)) == 7.25


def test_it_looks_every_ten_seconds_at_least() -> None:
    assert DueSchedule().wait(NOW, None) == LONGEST_WAIT == 10
    assert DueSchedule().wait(NOW, NOW + after(3600)) == 10


def test_a_message_being_stored_that_is_due_sooner_shortens_the_wait() -> None:
    schedule = DueSchedule()

    assert schedule.expect(NOW + after(3), NOW)

    assert schedule.wait(NOW, NOW + after(30)) == 3
    assert schedule.wait(NOW, None) == 3


def test_a_message_that_is_due_later_than_the_next_look_wakes_nobody() -> None:
    schedule = DueSchedule()

    assert not schedule.expect(NOW + after(11), NOW)

    assert schedule.wait(NOW, None) == 10


def test_a_message_whose_storing_has_not_committed_when_it_is_due_is_looked_for_again_and_again() -> None:
    schedule = DueSchedule()
    schedule.expect(NOW, NOW)

    waits = [schedule.wait(NOW + after(0.1), None) for _ in range(3)]

    assert waits == [0.02, 0.04, 0.08]


def test_it_is_not_forgotten_because_another_one_was_found_first() -> None:
    schedule = DueSchedule()
    uncommitted, committed = NOW, NOW + after(0.01)
    schedule.expect(uncommitted, NOW)
    schedule.expect(committed, NOW)

    schedule.found(committed)

    assert schedule.wait(NOW + after(0.02), None) < 1


def test_one_that_was_found_is_not_looked_for_any_more() -> None:
    schedule = DueSchedule()
    schedule.expect(NOW, NOW)
    schedule.expect(NOW, NOW)

    schedule.found(NOW)
    assert schedule.wait(NOW, None) < 1
    schedule.found(NOW)
    assert schedule.wait(NOW, None) == 10


def test_one_that_never_comes_is_forgotten_after_a_while() -> None:
    schedule = DueSchedule()
    schedule.expect(NOW, NOW)

    assert schedule.wait(NOW + after(4.9), None) < 1
    assert schedule.wait(NOW + after(5.1), None) == 10


def test_what_is_overdue_but_in_other_hands_is_looked_for_ever_more_slowly_but_each_second() -> None:
    schedule = DueSchedule()

    waits = [schedule.wait(NOW, NOW - after(1)) for _ in range(20)]

    assert waits[:3] == [0.02, 0.04, 0.08]
    assert max(waits) == 1
    schedule.found(NOW)
    assert schedule.wait(NOW, NOW - after(1)) == 0.02


@given(some.lists(some.tuples(some.sampled_from("efw"), some.floats(-10, 100))))
def test_whatever_happens_it_waits_between_nothing_and_ten_seconds(steps: list[tuple[str, float]]) -> None:
    schedule = DueSchedule()
    for step, seconds in steps:
        if step == "e":
            schedule.expect(NOW + after(seconds), NOW)
        elif step == "f":
            schedule.found(NOW + after(seconds))
        else:
            assert 0 < schedule.wait(NOW, NOW + after(seconds)) <= 10
    assert len(schedule._order) <= len(steps)
