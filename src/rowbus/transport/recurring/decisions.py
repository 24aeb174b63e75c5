"""Which ticks of a schedule are sent now, and how long to sleep: the decisions of recurring messages.

A tick is missed when it was not sent within a minute, because no instance ran or the database was away. Only then does
the catch-up policy say what becomes of it; a tick that is late by less is always sent.

Invariant: pure; the present moment is the database's.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final, Literal, NamedTuple, TypeAlias

from rowbus.running.backoff import doubling
from rowbus.transport.recurring.schedule import Schedule

CatchUp: TypeAlias = Literal["skip", "one", "all"]
"""What becomes of missed ticks: none is sent; one, if none is due now; each."""

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
