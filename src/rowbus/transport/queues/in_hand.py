"""The messages of a queue that processes have in hand: their rows are deleted by transactions that run.

Invariant: bounded, whatever the queue holds: `LOOKED_AT` are looked at, the oldest; nothing is locked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.database.statements import Statement, load
from rowbus.messages.headers import Header
from rowbus.messages.message import read_headers, short_type

if TYPE_CHECKING:
    from datetime import datetime

    from rowbus.database.statements import Rows
    from rowbus.messages.address import QueueAddress

LOOKED_AT: Final = 1_000


class MessageInHand(NamedTuple):
    """A message in hand: its type, which names its handler, its id, and who has had it since when."""

    type: str
    message_id: str
    pid: int
    place: str | None
    since: datetime | None


def in_hand(address: QueueAddress) -> Statement[list[MessageInHand]]:
    """Find which messages of a queue of PostgreSQL are in hand, and whose; the one for longest first. Locks nothing."""
    query = load(
        "transport/queues/sql/postgresql/in_hand.sql",
        identifiers={"schema": address.schema, "queue": address.table},
        failing=f"Failed to look into {address}",
        queue=str(address),
        prepare=False,
    )
    return Statement(query, {"looked_at": LOOKED_AT, "most": LOOKED_AT}, _held)


def _held(rows: Rows, _count: int) -> list[MessageInHand]:
    return [_message(*row) for row in rows]


def _message(row_id: object, text: str, pid: int, place: str | None, since: datetime | None) -> MessageInHand:
    headers = read_headers(text)
    message_id = (headers or {}).get(Header.MESSAGE_ID) or str(row_id)
    return MessageInHand(short_type(headers), message_id, pid, place, since)
