"""When a recurring message is sent: its schedule, which ticks of it are sent now, and how long to sleep.

A cron expression is read as Debian's cron reads it (cronsim), also where the clock changes: what falls into the hour
that is left out in spring comes right after it, what falls into the hour that comes twice in autumn comes once;
expressions with `*` for minute or hour follow the clock on the wall. An interval is counted from the beginning of 1970
in UTC, so that it ticks at the same moments in every instance, whenever that was started.

A tick is missed when it was not sent within a minute, because no instance ran or the database was away. Only then does
the catch-up policy say what becomes of it; a tick that is late by less is always sent.

Invariants: pure; ticks are aware datetimes in UTC, and `after` gives the same tick to every instance; the present
moment is the database's.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from typing import Final, Literal, NamedTuple, TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from rowbus.errors import ConfigurationError
from rowbus.running.backoff import doubling

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
SHORTEST: Final = timedelta(milliseconds=100)
CHANGE: Final = timedelta(hours=4)
"""Longer than what a change of the clock leaves out or doubles: before it, no local time is ambiguous."""

NICKNAMES: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
"""As crontab(5) of Debian's cron has them; `@reboot` has no moment that all instances share."""

_MICROSECOND: Final = timedelta(microseconds=1)


class Cron(NamedTuple):
    """A cron expression of five fields, or of six that begin with seconds, in a time zone of the IANA database."""

    expression: str
    tz: str = "UTC"

    @property
    def text(self) -> str:
        """The schedule in words, by which instances know that they mean the same one."""
        return f"{self.expression} {self.tz}"

    def after(self, moment: datetime) -> datetime:
        """Return the first tick after a moment."""
        start = moment - CHANGE if self._changes(moment - CHANGE, moment) else moment
        return next(tick for tick in self._ticks(start) if tick > moment)

    def until(self, moment: datetime) -> datetime:
        """Return the last tick before or at a moment."""
        back = CronSim(self.expression, (moment + _MICROSECOND).astimezone(ZoneInfo(self.tz)), reverse=True)
        tick = next(back).astimezone(UTC)
        if not self._changes(tick - CHANGE, moment):
            return tick
        start = [each.astimezone(UTC) for each in islice(back, 2)][-1] - CHANGE
        return max(takewhile(lambda each: each <= moment, self._ticks(start)), default=tick)

    def _ticks(self, start: datetime) -> Iterator[datetime]:
        """Give the ticks after a moment at which the clock has not just been changed, for ever."""
        return (
            tick.astimezone(UTC) for tick in CronSim(self.expression, start.astimezone(ZoneInfo(self.tz)))
        )

    def _changes(self, before: datetime, after: datetime) -> bool:
        """Say whether the clock on the wall is changed between two moments."""
        zone = ZoneInfo(self.tz)
        return before.astimezone(zone).utcoffset() != after.astimezone(zone).utcoffset()


class Interval(NamedTuple):
    """A tick every so often, counted from the beginning of 1970 in UTC."""

    every: timedelta

    @property
    def text(self) -> str:
        """The schedule in words, by which instances know that they mean the same one."""
        return f"every {self.every}"

    def after(self, moment: datetime) -> datetime:
        """Return the first tick after a moment."""
        return self.until(moment) + self.every

    def until(self, moment: datetime) -> datetime:
        """Return the last tick before or at a moment."""
        return moment - (moment - EPOCH) % self.every


Schedule: TypeAlias = Cron | Interval
"""Says when a message is sent."""


def schedule_of(when: str | timedelta, tz: str | None) -> Schedule:
    """Return the schedule a user means; raises ConfigurationError for an expression, zone or interval that is none."""
    if isinstance(when, timedelta):
        return _interval(when, tz)
    if not isinstance(when, str):  # pyright: ignore[reportUnnecessaryIsInstance] # what users give
        raise ConfigurationError(
            f"{when!r} is no schedule: give a datetime.timedelta, or a cron expression as in '0 7 * * mon-fri'."
        )
    expression = " ".join(when.split())
    schedule = Cron(NICKNAMES.get(expression.lower(), expression), tz or "UTC")
    try:
        schedule.after(EPOCH)
    except CronSimError as error:
        raise ConfigurationError(f"{when!r} is no cron expression: {error}.") from error
    except StopIteration as error:
        raise ConfigurationError(f"{when!r} never comes.") from error
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ConfigurationError(f"There is no time zone {tz!r}; write it as in 'Europe/Berlin'.") from error
    return schedule


def _interval(every: timedelta, tz: str | None) -> Interval:
    if every < SHORTEST:
        raise ConfigurationError(f"A message every {every}: the shortest interval is 0.1 s.")
    if tz is not None:
        raise ConfigurationError("An interval has no time zone: leave tz out, or write a cron expression.")
    return Interval(every)


CatchUp: TypeAlias = Literal["skip", "one", "all"]
"""The fate of missed ticks: none is sent; one, if none is due now; each."""

MISSED_AFTER: Final = timedelta(minutes=1)
MOST_TICKS: Final = 100  # sent in one transaction
LONGEST_PAUSE: Final = 30.0  # seconds until the next look, for schedules that other instances declare
FIRST_PAUSE: Final = 0.01  # seconds; doubled for each look at a tick that another instance is sending


class Due(NamedTuple):
    """The ticks to be sent in one transaction, in order, and the one that the schedule waits for then."""

    ticks: tuple[datetime, ...]
    following: datetime


def due_ticks(schedule: Schedule, next_due: datetime, now: datetime, catch_up: CatchUp) -> Due:
    """Say what is to be sent now of a schedule that waits for `next_due`, which has come."""
    tick, cutoff = next_due, now - MISSED_AFTER
    if tick < cutoff and catch_up != "all":
        tick = schedule.after(cutoff)
        if catch_up == "one" and tick > now:
            return Due((max(next_due, schedule.until(cutoff)),), tick)
    ticks: list[datetime] = []
    while tick <= now and len(ticks) < MOST_TICKS:
        ticks.append(tick)
        tick = schedule.after(tick)
    return Due(tuple(ticks), tick)


def pause_until(next_due: datetime | None, now: datetime, in_vain: int) -> float:
    """Say how long to sleep until the first of the schedules is due (None: there is none).

    `in_vain` is how many looks in a row found something due that another instance was sending.
    """
    if next_due is None:
        return LONGEST_PAUSE
    if next_due <= now:
        return doubling(in_vain, first=FIRST_PAUSE, most=LONGEST_PAUSE) if in_vain else 0.0
    return min((next_due - now).total_seconds(), LONGEST_PAUSE)
