"""A delayed message on its way to a store: in the queue `<endpoint>.Timeouts`, then as a `DelayedMessage`'s parts.

The queue holds the message as it will be, and beside its headers two properties: the destination and when it is due
(docs/wire-format.md#timeouts-queue). They are removed before the message goes on.

Invariant: `unwrap(wrap(message))` gives the message, header for header; a message given up on keeps both properties,
so that putting it back into the Timeouts queue sends it to its destination.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rowbus.errors import InvalidAddressError, InvalidTimestampError, Unrecoverable
from rowbus.messages.headers import Header
from rowbus.messages.message import OutgoingMessage
from rowbus.messages.timestamps import format_timestamp, parse_timestamp

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from rowbus.messages.address import QueueAddress

QUALIFIER = "Timeouts"
PROPERTIES = "NServiceBus.Timeouts.Properties."
DESTINATION = f"{PROPERTIES}NServiceBus.Timeout.Destination"
DUE = f"{PROPERTIES}NServiceBus.Timeout.Expire"


class TimeoutMessage(NamedTuple):
    """What a message of the Timeouts queue says: where it goes, when it is due, and its own headers."""

    destination: QueueAddress
    due: datetime
    headers: dict[str, str | None]


def wrap(message: OutgoingMessage, destination: QueueAddress, due: datetime) -> OutgoingMessage:
    """Return the message as it goes into the Timeouts queue."""
    return OutgoingMessage({**message.headers, **properties(destination.canonical, due)}, message.body)


def properties(destination: str, due: datetime) -> dict[str, str]:
    """Return the headers that say where a message goes and when."""
    return {DESTINATION: destination, DUE: format_timestamp(due)}


def unwrap(headers: Mapping[str, str | None], queue: QueueAddress) -> TimeoutMessage:
    """Read a message of a Timeouts queue. Raises Unrecoverable when it does not say where it goes, or when."""
    destination, due = headers.get(DESTINATION), headers.get(DUE)
    if not (destination and due):
        raise Unrecoverable(
            f"Message {headers.get(Header.MESSAGE_ID)} is no delayed message: the headers {DESTINATION} and {DUE} "
            "say where a message of this queue goes, and when."
        )
    own = {name: value for name, value in headers.items() if not name.startswith(PROPERTIES)}
    try:
        return TimeoutMessage(queue.neighbour(destination), parse_timestamp(due), own)
    except (InvalidAddressError, InvalidTimestampError) as error:
        raise Unrecoverable(f"This delayed message cannot be delivered: {error}") from error
