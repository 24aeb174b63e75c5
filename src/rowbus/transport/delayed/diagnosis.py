"""The diagnosis of a table of delayed messages, from facts, and by how much a .NET session's time zone moved a time.

NServiceBus writes `due` in the time zone of its session and says in a header when the message is to be delivered. A
difference of whole quarters of an hour is a time zone's; clocks that differ by seconds are not.

Invariants: pure; a table whose mover works is never complained about; text of any kind has a shift or none.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from rowbus.errors import InvalidTimestampError, MalformedHeadersError
from rowbus.messages.headers import Header, decode_headers
from rowbus.messages.message_names import names_assemblies
from rowbus.messages.timestamps import parse_timestamp
from rowbus.transport.queues.diagnosis import Finding, Level, duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from rowbus.transport.delayed.waiting import WaitingMessage

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


QUARTER: Final = timedelta(minutes=15)
FARTHEST: Final = timedelta(hours=14)  # that a time zone is from UTC
CLOCKS: Final = timedelta(minutes=1)
"""The distance that the clocks of the sender and of the database may have."""

MOST_LOOKED_AT: Final = 100
"""The number of messages of a table that are compared, those that are due next."""


def shift_of(due: datetime, headers: str) -> timedelta | None:
    """Return by how much later a message is due than its header says, in quarters of an hour; None if it is not.

    A delayed retry has none: it keeps the header of its first delay. Nor has a message of ours, whose session was in
    UTC: if its times differ, the clock of its sender is off, which delays nothing.
    """
    deliver_at = _deliver_at(headers)
    if deliver_at is None:
        return None
    difference = due - deliver_at
    shift = round(difference / QUARTER) * QUARTER
    is_a_zones = QUARTER <= abs(shift) <= FARTHEST and abs(difference - shift) <= CLOCKS
    return shift if is_a_zones else None


def shifts_of(messages: Iterable[WaitingMessage]) -> list[timedelta]:
    """Return the shifts of those messages that have one."""
    found = (shift_of(message.due, message.headers) for message in messages)
    return [shift for shift in found if shift is not None]


def _deliver_at(text: str) -> datetime | None:
    try:
        headers = decode_headers(text)
        types = headers.get(Header.ENCLOSED_MESSAGE_TYPES)
        if Header.RETRIES in headers or (types and not names_assemblies(types)):
            return None
        return parse_timestamp(headers.get(Header.DELIVER_AT) or "")
    except (MalformedHeadersError, InvalidTimestampError):
        return None
