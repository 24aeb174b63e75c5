"""Findings on schedules: ticks that are due, and that nobody sends.

Invariant: pure; a schedule whose endpoint runs is never complained about: it is looked at every second.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from rowbus.transport.queues.diagnosis import Finding, Level, duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rowbus.transport.recurring.table import ScheduleRow

MISSED_AFTER: Final = timedelta(seconds=30)


def diagnose_schedules(subject: str, rows: Iterable[ScheduleRow]) -> Iterator[Finding]:
    """Find the schedules of an endpoint that are missed."""
    for row in rows:
        if (late := lateness(row)) > MISSED_AFTER:
            text = f"{row.name} is due since {duration(late)}, and nobody sends it"
            advice = (
                "start its endpoint: `rowbus run MODULE:ENDPOINT`; or resume what is paused (`rowbus pause` lists it); "
                "or `rowbus recurring remove` it, if no program has it any more"
            )
            yield Finding(Level.WARN, subject, text, advice)


def lateness(row: ScheduleRow) -> timedelta:
    """Return for how long a tick is due, by the database's clock."""
    return max(row.at - row.next_due, timedelta())
