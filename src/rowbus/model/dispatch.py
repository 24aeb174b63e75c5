"""What a handler wants sent, and the rule by which equal sends collapse.

Invariant: within one dispatch there is at most one row per message id and destination, as NServiceBus promises
(reference §4.4): the last one wins and takes the place of the first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rowbus.model.headers import Header

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rowbus.model.address import QueueAddress
    from rowbus.model.message import OutgoingMessage


class Send(NamedTuple):
    """One message for one queue."""

    destination: QueueAddress
    message: OutgoingMessage


def deduplicate(sends: Sequence[Send]) -> Sequence[Send]:
    """Keep the last of those with equal message id and destination, at the place of the first."""
    if len(sends) < 2:  # noqa: PLR2004 - one send has no duplicate; this is the common case
        return sends
    kept: dict[object, Send] = {}
    for position, send in enumerate(sends):
        message_id = send.message.headers.get(Header.MESSAGE_ID)
        kept[(message_id, send.destination) if message_id else position] = send
    return tuple(kept.values())


def by_destination(sends: Iterable[Send]) -> dict[QueueAddress, list[OutgoingMessage]]:
    """Group by queue, keeping the order within each."""
    groups: dict[QueueAddress, list[OutgoingMessage]] = {}
    for send in sends:
        groups.setdefault(send.destination, []).append(send.message)
    return groups
