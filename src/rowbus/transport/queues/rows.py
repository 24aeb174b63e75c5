"""What comes out of the tables that every database has: rows as values, and the two ways to say when something is due.

Invariant: nothing here knows a database; decoders of each backend make these.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final, NamedTuple

Due = timedelta | datetime
"""After how long a message is due, by the database's clock, or when: an aware datetime."""

BEFORE_ALL: Final = -(2**31)
"""A position in a queue before that of every message."""


class DueMessage(NamedTuple):
    """A message whose time has come, locked by this transaction: the row's id, the raw header text."""

    id: str
    headers: str


class MovedBatch(NamedTuple):
    """How many messages were due, up to a batch, and how many of them went to the queue they were expected to."""

    due: int
    moved: int


class WaitingMessage(NamedTuple):
    """A message looked at without being taken; `due` is aware, `size` that of its body in bytes."""

    id: str
    due: datetime
    headers: str
    size: int


class DelayedState(NamedTuple):
    """How a table stands: counts stop at the limit given; `next_due` may be past; `at` is the database's time."""

    waiting: int
    overdue: int
    next_due: datetime | None
    at: datetime


class OversizedMessage(NamedTuple):
    """A message too large to be received; `headers` is the beginning of the raw text.

    `size` is that of headers and body, in the bytes of the database.
    """

    id: str
    seq: int
    headers: str
    size: int


class MovedMessage(NamedTuple):
    """A message that is to be moved to another queue, and the header text it is to have there."""

    id: str
    seq: int
    headers: str


class QueueState(NamedTuple):
    """How a queue stands: `depth` stops at the limit given, `oldest_headers` is raw text, `at` the database's time.

    `in_hand` is None where the database cannot tell; then `depth` leaves out what somebody has in hand.
    """

    depth: int
    in_hand: int | None
    oldest_headers: str | None
    at: datetime
