"""The diagnosis of a table of delayed messages, from facts gathered elsewhere.

Invariant: pure; a table whose mover works is never complained about.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from rowbus.transport.queues.diagnosis import Finding, Level, duration

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

OVERDUE_WARNING: Final = timedelta(seconds=30)
"""A mover takes over within seconds, so what has been due for longer is waiting for one that does not run."""


def diagnose_delayed(
    subject: str,
    *,
    waiting: int,
    overdue: int,
    next_due: datetime | None,
    at: datetime,
    mover: str | None = None,
) -> Finding:
    """Judge whether due messages are moved; counts may have stopped at a limit.

    `mover` names the session that has the mover's lock, where there is one and it may be known.
    """
    if next_due is None or at - next_due < OVERDUE_WARNING:
        return Finding(Level.OK, subject, f"{waiting:,} delayed {'message' if waiting == 1 else 'messages'}")
    text = f"{overdue:,} of {waiting:,} delayed messages are overdue, the first for {duration(at - next_due)}"
    advice = "run its endpoint, or `rowbus delayed move`, and look at its log"
    if mover is not None:
        text += f"; the mover's lock has {mover}"
        advice = "look at that program's log; if it is no mover, end its session: it keeps others from moving"
    return Finding(Level.WARN, subject, text, advice)


def diagnose_shifts(subject: str, shifts: Sequence[timedelta]) -> Finding | None:
    """Judge messages whose time a session's time zone moved; None if there is none."""
    if not shifts:
        return None
    first = shifts[0]
    text = (
        f"{len(shifts):,} of the messages due next {'is' if len(shifts) == 1 else 'are'} due "
        f"{duration(abs(first))} {'earlier' if first < timedelta() else 'later'} than NServiceBus.DeliverAt says"
    )
    advice = (
        "sessions that are not in UTC write this table: `alter role … set timezone to 'UTC'` for the role of the .NET "
        "endpoints, and restart them"
    )
    return Finding(Level.FAIL, subject, text, advice)
