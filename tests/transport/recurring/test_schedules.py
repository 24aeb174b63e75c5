"""When recurring messages are sent: cron expressions also where the clock changes, intervals, missed ticks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as some

import rowbus
from rowbus.transport.recurring.schedule import (
    FIRST_PAUSE,
    LONGEST_PAUSE,
    MISSED_AFTER,
    MOST_TICKS,
    CatchUp,
    Schedule,
    due_ticks,
    pause_until,
    schedule_of,
)
from tests.fixtures.every import every

BERLIN = ZoneInfo("Europe/Berlin")
HOURLY = schedule_of("0 * * * *", None)
EVERY_SECOND = schedule_of(timedelta(seconds=1), None)
NOW = datetime(2026, 6, 1, 12, 0, 30, tzinfo=UTC)
DAY = timedelta(days=1)
FIRST = datetime(2020, 1, 1, tzinfo=UTC)


def ticks(schedule: Schedule, start: datetime, count: int) -> list[str]:
    """Return the ticks after a moment as the clock on the wall in Berlin shows them, each found from the one before."""
    found = []
    for _ in range(count):
        start = schedule.after(start)
        found.append(start.astimezone(BERLIN).isoformat(" ", "minutes"))
    return found


def berlin(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=BERLIN)


def test_seven_on_weekdays_is_seven_on_the_clock_on_the_wall_in_summer_and_in_winter() -> None:
    assert ticks(schedule_of("0 7 * * mon-fri", "Europe/Berlin"), berlin("2026-10-22 12:00"), 3) == [
        "2026-10-23 07:00+02:00",
        "2026-10-26 07:00+01:00",
        "2026-10-27 07:00+01:00",
    ]


def test_what_falls_into_the_hour_left_out_in_spring_comes_after_it() -> None:
    assert ticks(schedule_of("30 2 * * *", "Europe/Berlin"), berlin("2026-03-28 12:00"), 2) == [
        "2026-03-29 03:00+02:00",
        "2026-03-30 02:30+02:00",
    ]


def test_what_falls_into_the_hour_that_comes_twice_in_autumn_comes_once() -> None:
    assert ticks(schedule_of("30 2 * * *", "Europe/Berlin"), berlin("2026-10-24 12:00"), 2) == [
        "2026-10-25 02:30+02:00",
        "2026-10-26 02:30+01:00",
    ]


def test_what_comes_each_half_hour_comes_in_both_of_the_hours_in_autumn() -> None:
    assert ticks(schedule_of("*/30 * * * *", "Europe/Berlin"), berlin("2026-10-25 01:45"), 5) == [
        "2026-10-25 02:00+02:00",
        "2026-10-25 02:30+02:00",
        "2026-10-25 02:00+01:00",
        "2026-10-25 02:30+01:00",
        "2026-10-25 03:00+01:00",
    ]


@given(
    some.integers(0, 10 * 365 * 24 * 3600).map(lambda seconds: FIRST + timedelta(seconds=seconds)),
    some.sampled_from(
        ["30 2 * * *", "*/7 * * * *", "0 3 * * sun", "15 */2 * * *", "*/20 30 2 * * *", "0 0 1 * *"]
    ),
    some.sampled_from(["Europe/Berlin", "UTC", "Australia/Lord_Howe", "America/New_York", "Africa/Cairo"]),
)
def test_ticks_found_one_from_the_other_only_go_forward(start: datetime, expression: str, tz: str) -> None:
    schedule, found = schedule_of(expression, tz), [start]
    for _ in range(4):
        found.append(schedule.after(found[-1]))
    assert all(later > earlier for earlier, later in pairwise(found))
    assert schedule.after(start) == found[1]


CHANGES = {  # a day before a change of the clock in autumn, and one in spring
    "Europe/Berlin": (datetime(2024, 10, 26, tzinfo=UTC), datetime(2024, 3, 30, tzinfo=UTC)),
    "America/New_York": (datetime(2024, 11, 2, tzinfo=UTC), datetime(2024, 3, 9, tzinfo=UTC)),
    "Australia/Lord_Howe": (
        datetime(2024, 4, 5, tzinfo=UTC),
        datetime(2024, 10, 4, tzinfo=UTC),
    ),  # by half an hour
}


@given(
    some.sampled_from(list(CHANGES)).flatmap(
        lambda tz: some.tuples(some.just(tz), some.sampled_from(CHANGES[tz]))
    ),
    some.sampled_from(["10 1-3 * * *", "30 2 * * *", "*/20 2 * * *", "*/7 * * * *", "40 1 * * *"]),
    some.integers(0, 3 * 24 * 60),
)
def test_where_the_clock_changes_ticks_are_the_same_whenever_one_asks(
    zone: tuple[str, datetime], expression: str, minutes: int
) -> None:
    """An instance that begins to look in the doubled hour finds the ticks of one that has looked for long."""
    schedule = schedule_of(expression, zone[0])
    moment, known = zone[1] + timedelta(minutes=minutes), [schedule.after(zone[1] - DAY)]
    while known[-1] <= moment:
        known.append(schedule.after(known[-1]))

    assert schedule.after(moment) == known[-1]
    assert schedule.until(moment) == known[-2]


def test_an_interval_ticks_at_the_same_moments_whenever_it_was_begun() -> None:
    schedule = schedule_of(timedelta(minutes=5), None)
    assert schedule.after(NOW) == NOW.replace(minute=5, second=0)
    assert schedule.after(schedule.after(NOW)) == NOW.replace(minute=10, second=0)
    assert schedule.until(NOW.replace(second=0)) == NOW.replace(second=0)


def test_the_last_tick_of_an_expression_is_the_moment_itself_or_before_it() -> None:
    noon = NOW.replace(second=0)
    assert HOURLY.until(noon) == noon
    assert HOURLY.until(noon - timedelta(microseconds=1)) == noon - timedelta(hours=1)


@every(
    "when, tz, text",
    [
        ("0 7 * *", None, "'0 7 * *' is no cron expression: Wrong number of fields."),
        ("61 * * * *", None, "'61 * * * *' is no cron expression: Bad minute."),
        ("0 0 30 2 *", None, "'0 0 30 2 *' is no cron expression: Bad day-of-month."),
        (
            "0 7 * * *",
            "Europe/Berlni",
            "There is no time zone 'Europe/Berlni'; write it as in 'Europe/Berlin'.",
        ),
        (
            "0 7 * * *",
            "../etc/passwd",
            "There is no time zone '../etc/passwd'; write it as in 'Europe/Berlin'.",
        ),
        (timedelta(0), None, "A message every 0:00:00: the shortest interval is 0.1 s."),
        (
            timedelta(hours=1),
            "UTC",
            "An interval has no time zone: leave tz out, or write a cron expression.",
        ),
    ],
)
def test_what_is_no_schedule_is_refused(when: str | timedelta, tz: str | None, text: str) -> None:
    with pytest.raises(rowbus.ConfigurationError) as raised:
        schedule_of(when, tz)
    assert str(raised.value) == text


@every("catch_up", ["skip", "one", "all"])
def test_a_tick_that_is_less_than_a_minute_late_is_always_sent(catch_up: CatchUp) -> None:
    late = due_ticks(EVERY_SECOND, NOW - timedelta(seconds=3), NOW, catch_up)
    assert late.ticks == tuple(NOW - timedelta(seconds=back) for back in (3, 2, 1, 0))
    assert late.following == NOW + timedelta(seconds=1)


@every("catch_up, hours", [("skip", []), ("one", [11]), ("all", [9, 10, 11])])
def test_of_missed_ticks_none_the_last_or_each_is_sent(catch_up: CatchUp, hours: list[int]) -> None:
    now = NOW.replace(hour=11, minute=30)
    due = due_ticks(HOURLY, now.replace(hour=9, minute=0, second=0), now, catch_up)
    assert [tick.hour for tick in due.ticks] == hours
    assert due.following == now.replace(hour=12, minute=0, second=0)


@every("catch_up, hours", [("skip", [12]), ("one", [12]), ("all", [10, 11, 12])])
def test_a_tick_that_is_due_stands_for_those_missed_before(catch_up: CatchUp, hours: list[int]) -> None:
    due = due_ticks(HOURLY, NOW.replace(hour=10, second=0), NOW, catch_up)
    assert [tick.hour for tick in due.ticks] == hours


def test_a_year_of_missed_seconds_is_no_work_unless_all_are_wanted() -> None:
    due = due_ticks(EVERY_SECOND, NOW - 365 * DAY, NOW, "skip")
    assert len(due.ticks) <= MOST_TICKS
    assert due.ticks[0] > NOW - MISSED_AFTER - timedelta(seconds=1)
    every = due_ticks(EVERY_SECOND, NOW - 365 * DAY, NOW, "all")
    assert len(every.ticks) == MOST_TICKS
    assert every.following == NOW - 365 * DAY + timedelta(seconds=MOST_TICKS)


def test_the_next_look_is_when_something_is_due() -> None:
    assert pause_until(None, NOW, 0) == LONGEST_PAUSE
    assert pause_until(NOW + timedelta(seconds=2), NOW, 0) == 2
    assert pause_until(NOW + DAY, NOW, 0) == LONGEST_PAUSE
    assert pause_until(NOW, NOW, 0) == 0
    assert pause_until(NOW, NOW, 1) == FIRST_PAUSE
    assert pause_until(NOW, NOW, 100) == LONGEST_PAUSE
