"""A handler's sends and appended events, and the rule by which equal sends collapse.

Invariant: within one dispatch there is at most one row per message id and destination, as NServiceBus promises
(docs/wire-format.md#dispatch): the last one wins and takes the place of the first.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from rowbus.messages.headers import Header

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime, timedelta

    from rowbus.messages.address import QueueAddress
    from rowbus.messages.message import OutgoingMessage


class Send(NamedTuple):
    """One message for one queue."""

    destination: QueueAddress
    message: OutgoingMessage


class DelayedSend(NamedTuple):
    """One message for one queue, later: after a delay from the database's now, or at an aware instant.

    What is due already leaves at once.
    """

    destination: QueueAddress
    message: OutgoingMessage
    due: timedelta | datetime


class AppendedEvent(NamedTuple):
    """One event for one log."""

    log: str
    type: str | None = None
    data: str | None = None
    extra1: str | None = None
    extra2: str | None = None
    extra3: str | None = None
    extra4: str | None = None

    def json(self) -> object:
        """Return the data, read as JSON (None for NULL). Raises ValueError."""
        return None if self.data is None else json.loads(self.data)


AnySend = Send | DelayedSend
"""A message for a queue, now or later."""


class Multicast(NamedTuple):
    """One event for each queue whose endpoint subscribes to one of its types."""

    message: OutgoingMessage
    types: tuple[str, ...]

    def to(self, subscribers: Iterable[QueueAddress]) -> list[Send]:
        """Return the sends of its copies."""
        return [Send(address, self.message) for address in subscribers]


class Cancellation(NamedTuple):
    """A delayed message that is to be no more, by its id and its instant, in the table where it waits.

    It may have been sent by the same transaction: cancellations come after what is sent.
    """

    waits_in: QueueAddress
    message_id: str
    due: datetime


Leaving = Send | DelayedSend | AppendedEvent | Cancellation
"""What leaves when a message is completed."""

S = TypeVar("S", bound="AnySend")


def deduplicate(sends: Sequence[S]) -> Sequence[S]:
    """Keep the last of those with equal message id and destination, at the place of the first.

    Whether they are delayed makes no difference, as in NServiceBus.
    """
    if len(sends) < 2:  # noqa: PLR2004 - one send has no duplicate; this is the common case
        return sends
    kept: dict[object, S] = {}
    for position, send in enumerate(sends):
        message_id = send.message.headers.get(Header.MESSAGE_ID)
        kept[(message_id, send.destination) if message_id else position] = send
    return tuple(kept.values())


def in_order_of_keys(sends: Sequence[Send]) -> Sequence[Send]:
    """Put those with a key last, in the order of queues and of their keys' digests; the others stay as they are.

    Who sends a key holds a lock until it commits: those who take several take them in one order, or they would wait for
    each other.
    """
    keyed = [send for send in sends if send.message.headers.get(Header.KEY)]
    if not keyed:
        return sends
    plain = [send for send in sends if not send.message.headers.get(Header.KEY)]
    return [*plain, *sorted(keyed, key=_place)]


def _place(send: Send) -> tuple[str, bytes]:
    key = send.message.headers[Header.KEY] or ""
    return send.destination.canonical, hashlib.sha256(key.encode()).digest()


def by_destination(sends: Iterable[Send]) -> dict[QueueAddress, list[OutgoingMessage]]:
    """Group by queue, keeping the order within each."""
    groups: dict[QueueAddress, list[OutgoingMessage]] = {}
    for send in sends:
        groups.setdefault(send.destination, []).append(send.message)
    return groups


def by_log(events: Iterable[AppendedEvent]) -> dict[str, list[AppendedEvent]]:
    """Group by log, keeping the order within each."""
    groups: dict[str, list[AppendedEvent]] = {}
    for event in events:
        groups.setdefault(event.log, []).append(event)
    return groups
