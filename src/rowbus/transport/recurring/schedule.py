"""When a recurring message is sent: a cron expression in a time zone, or an interval.

A cron expression is read as Debian's cron reads it (cronsim), also where the clock changes: what falls into the hour
that is left out in spring comes right after it, what falls into the hour that comes twice in autumn comes once;
expressions with `*` for minute or hour follow the clock on the wall. An interval is counted from the beginning of 1970
in UTC, so that it ticks at the same moments in every instance, whenever that was started.

Invariant: pure; ticks are aware datetimes in UTC, and `after` gives the same tick to every instance.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from typing import Final, NamedTuple, TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from rowbus.errors import ConfigurationError

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
SHORTEST: Final = timedelta(milliseconds=100)
CHANGE: Final = timedelta(hours=4)
"""Longer than what a change of the clock leaves out or doubles: before it, no local time is ambiguous."""

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
    schedule = Cron(" ".join(when.split()), tz or "UTC")
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
