"""When logs are ticked and looked at: decided by arithmetic, on a clock that stands still until a test moves it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from rowbus.errors import ConfigurationError
from rowbus.log.ticker.decisions import Recurring, TickSchedule, Troubles, Wish
from rowbus.settings import TickerSettings
from rowbus.testing import FakeClock
from tests.fixtures.every import every

LONGEST = 0.25
PERIOD = 0.05


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def schedule(clock: FakeClock) -> TickSchedule:
    return TickSchedule(LONGEST, clock)


def wish(queue: int = 1, *, period: float = PERIOD, moved: bool = True, wait: float = 0.0) -> Wish:
    return Wish(queue, f"log {queue}", period, moved, wait)


# --------------------------------------------------------------------------------------------------- which are ticked


def test_a_log_is_ticked_when_its_tick_is_due_and_not_before(schedule: TickSchedule) -> None:
    now, later = wish(1), wish(2, wait=0.02)

    assert schedule.due([now, later]) == [now]


def test_the_next_look_is_when_the_next_tick_is_due(schedule: TickSchedule) -> None:
    schedule.due([wish(wait=0.02)])

    assert schedule.pause() == pytest.approx(0.021)


def test_the_next_look_counts_from_the_look_not_from_the_end_of_its_ticks(
    schedule: TickSchedule, clock: FakeClock
) -> None:
    schedule.due([wish(1), wish(2, wait=0.02)])
    clock.advance(0.5)

    assert schedule.pause() == 0


def test_a_tick_of_quiet_times_does_not_quicken_the_looks(schedule: TickSchedule) -> None:
    assert schedule.due([wish(moved=False)]) != []

    assert schedule.pause() == LONGEST


# ------------------------------------------------------------------------------------------------------ how often


def test_nothing_known_is_looked_at_after_the_longest_pause(schedule: TickSchedule) -> None:
    assert schedule.due([]) == []
    assert schedule.pause() == LONGEST


@every("period", [0.01, 0.05, 0.1])
def test_a_log_that_moves_is_looked_at_once_a_period(schedule: TickSchedule, period: float) -> None:
    schedule.due([wish(period=period)])

    assert schedule.pause() == pytest.approx(period, abs=0.002)


def test_a_period_longer_than_the_longest_pause_does_not_hold_up_new_logs(schedule: TickSchedule) -> None:
    schedule.due([wish(period=60.0)])

    assert schedule.pause() == LONGEST


def test_the_log_with_the_shortest_period_sets_the_pace(schedule: TickSchedule) -> None:
    schedule.due([wish(1, period=0.2), wish(2, period=0.01)])

    assert schedule.pause() == pytest.approx(0.011)


@every("silence, pause", [(0.5, 0.051), (2.0, 0.1), (4.0, 0.2), (60.0, LONGEST)])
def test_the_looks_grow_rarer_with_the_silence(
    schedule: TickSchedule, clock: FakeClock, silence: float, pause: float
) -> None:
    schedule.due([wish()])
    clock.advance(silence)
    schedule.due([])

    assert schedule.pause() == pytest.approx(pause)


def test_one_event_ends_the_silence(schedule: TickSchedule, clock: FakeClock) -> None:
    schedule.due([wish()])
    clock.advance(60)
    schedule.due([wish()])

    assert schedule.pause() == pytest.approx(0.051)


def test_an_hour_of_silence_costs_four_looks_a_second_and_no_memory(
    schedule: TickSchedule, clock: FakeClock
) -> None:
    schedule.due([wish(queue) for queue in range(100)])
    looks = 0
    end = clock() + 3600
    while clock() < end:
        clock.advance(schedule.pause())
        schedule.due([])
        looks += 1

    assert looks < 3600 * 4.1
    assert schedule._moved == {}


# --------------------------------------------------------------------------------------------------- what goes wrong


def test_a_log_that_fails_is_left_alone_ever_longer_and_only_the_first_time_is_news(
    schedule: TickSchedule, clock: FakeClock
) -> None:
    delays = []
    news = []
    for _ in range(8):
        news.append(schedule.failed(1))
        start = clock()
        while schedule.aside():
            clock.advance(0.05)
        delays.append(clock() - start)

    assert news == [True] + [False] * 7
    assert delays == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0], abs=0.051)


def test_a_log_that_was_left_alone_is_looked_at_when_its_time_has_come(schedule: TickSchedule) -> None:
    schedule.due([])
    schedule.failed(1)

    assert schedule.pause() == pytest.approx(0.1)


def test_a_log_that_fails_holds_up_no_other(schedule: TickSchedule) -> None:
    schedule.failed(1)

    assert schedule.due([wish(2)]) == [wish(2)]
    assert schedule.aside() == [1]


def test_a_tick_after_failures_is_news_once(schedule: TickSchedule) -> None:
    schedule.failed(1)

    assert schedule.ticked(1) is True
    assert schedule.ticked(1) is False
    assert schedule.aside() == []
    assert schedule.failed(1) is True


def test_a_lock_that_is_free_at_the_next_try_is_no_news(schedule: TickSchedule) -> None:
    for _ in range(4):  # as on a busy server, whose commits take turns at notifying
        assert [schedule.failed(1, locked=True) for _ in range(2)] == [False, False]
        assert schedule.ticked(1) is False


def test_a_lock_that_is_held_on_is_news_once_and_so_is_its_end(schedule: TickSchedule) -> None:
    assert [schedule.failed(1, locked=True) for _ in range(5)] == [False, False, True, False, False]
    assert schedule.ticked(1) is True


def test_another_failure_after_that_of_a_lock_is_news(schedule: TickSchedule) -> None:
    assert schedule.failed(1, locked=True) is False
    assert schedule.failed(1) is True


def test_what_the_database_declined_is_asked_for_ever_less_often(
    schedule: TickSchedule, clock: FakeClock
) -> None:
    asked = 0
    for _ in range(1200):  # a minute
        for due in schedule.due([wish(moved=False)]):
            schedule.declined(due)
            asked += 1
        clock.advance(0.05)

    assert asked < 20


def test_a_declined_tick_never_delays_an_event(schedule: TickSchedule) -> None:
    for _ in range(5):
        schedule.declined(wish(moved=False))

    assert schedule.due([wish(moved=True)]) == [wish(moved=True)]


# ------------------------------------------------------------------------------------------------ maintenance and news


def test_what_recurs_is_due_at_once_and_then_once_a_period(clock: FakeClock) -> None:
    recurring = Recurring(30, clock)

    assert recurring.take() is True
    assert recurring.take() is False
    assert recurring.wait() == 30
    clock.advance(29)
    assert (recurring.take(), recurring.wait()) == (False, 1)
    clock.advance(2)
    assert recurring.wait() == 0
    assert recurring.take() is True


def test_what_recurs_can_be_hastened(clock: FakeClock) -> None:
    recurring = Recurring(30, clock)
    recurring.take()
    recurring.hasten()

    assert recurring.take() is True


def test_a_trouble_is_news_when_it_arises_changes_or_ends() -> None:
    troubles = Troubles()

    assert troubles.update({"orders": "a consumer"}) == ([("orders", "a consumer")], [])
    assert troubles.update({"orders": "a consumer"}) == ([], [])
    assert troubles.update({"orders": "a lock", "audit": "a lock"}).arisen == [
        ("orders", "a lock"),
        ("audit", "a lock"),
    ]
    assert troubles.update({"audit": "a lock"}) == ([], ["orders"])
    assert troubles.update({"audit": "a lock", "orders": "a lock"}).arisen == [("orders", "a lock")]


@every(
    "settings",
    [
        {"tick_period": timedelta(milliseconds=9)},
        {"longest_look_delay": timedelta(0)},
        {"silence_timeout": timedelta(milliseconds=900)},
        {"silence_timeout": timedelta(seconds=3), "longest_look_delay": timedelta(seconds=2)},
        {"maintenance_period": timedelta(0)},
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, timedelta]) -> None:
    with pytest.raises(ConfigurationError):
        replace(TickerSettings(), **settings)
