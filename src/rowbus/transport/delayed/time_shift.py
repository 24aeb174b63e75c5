"""By how much the time zone of a .NET session moved the time of a delayed message (docs/wire-format.md#delayed-table).

NServiceBus writes `due` in the time zone of its session and says in a header when the message is to be delivered. A
difference of whole quarters of an hour is a time zone's; clocks that differ by seconds are not.

Invariant: pure; text of any kind has a shift or none.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from rowbus.errors import InvalidTimestampError, MalformedHeadersError
from rowbus.messages.headers import Header, decode_headers
from rowbus.messages.message_names import names_assemblies
from rowbus.messages.timestamps import parse_timestamp

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from rowbus.transport.delayed.waiting import WaitingMessage

QUARTER: Final = timedelta(minutes=15)
FARTHEST: Final = timedelta(hours=14)  # that a time zone is from UTC
CLOCKS: Final = timedelta(minutes=1)
"""How far the clocks of the sender and of the database may be apart."""

MOST_LOOKED_AT: Final = 100
"""How many messages of a table are compared, those that are due next."""


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
