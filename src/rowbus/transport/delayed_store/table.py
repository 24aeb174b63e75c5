"""The table of a delayed message store, on every database, and the queue `<endpoint>.Timeouts` on the way to a store.

The queue holds the message as it will be, and beside its headers two properties: the destination and when it is due
(docs/wire-format.md#timeouts-queue). They are removed before the message goes on.

Invariants: nothing here names a database. `unwrap(wrap(message))` gives the message, header for header; a message given
up on keeps both properties, so that putting it back into the Timeouts queue sends it to its destination.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from rowbus.database.backends import backend_class, bound_table
from rowbus.errors import InvalidAddressError, InvalidTimestampError, Unrecoverable
from rowbus.messages.headers import Header
from rowbus.messages.message import OutgoingMessage
from rowbus.messages.timestamps import format_timestamp, parse_timestamp
from rowbus.transport.queues.table import RecordTable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from rowbus.database.statements import Statement
    from rowbus.messages.address import Addresses, QueueAddress
    from rowbus.transport.delayed.table import DelayedState
    from rowbus.transport.delayed_store.protocol import DelayedMessage

QUALIFIER = "Timeouts"
PROPERTIES = "NServiceBus.Timeouts.Properties."
DESTINATION = f"{PROPERTIES}NServiceBus.Timeout.Destination"
DUE = f"{PROPERTIES}NServiceBus.Timeout.Expire"


class KeptMessage(NamedTuple):
    """A message of a store, looked at without being taken; `due` is aware, `size` that of its body in bytes."""

    id: str
    due: datetime
    destination: str
    headers: str
    size: int
    failures: int


class DelayedStoreTable(RecordTable, Protocol):
    """Statements on the table of a delayed message store."""

    def bound_session(self, *, lock_timeout: float, statement_timeout: float) -> list[Statement[None]]:
        """Have no statement of the session wait for a lock, or run, longer than so many seconds, where that can be."""
        raise NotImplementedError

    def is_store(self) -> Statement[bool]:
        """Say whether the table has a store's columns. Locks nothing."""
        raise NotImplementedError

    def store(self, message: DelayedMessage) -> Statement[None]:
        """Keep a message; one of the same id stays as it is. Waits for who stores or removes that one."""
        raise NotImplementedError

    def fetch_next_due(self, at: datetime) -> Statement[DelayedMessage | None]:
        """Lock and return the earliest message that is due at an instant and not locked; never waits."""
        raise NotImplementedError

    def next(self) -> Statement[datetime | None]:
        """Ask when the earliest message is due, locked or not."""
        raise NotImplementedError

    def remove(self, message_id: str) -> Statement[int]:
        """Delete a message and say how many there were, 1 or 0; waits for who has it locked."""
        raise NotImplementedError

    def increment_failure_count(self, message_id: str) -> Statement[int]:
        """Count a failure of a message and say how many there were, 1 or 0; waits for who has it locked."""
        raise NotImplementedError

    def state(self, most: int) -> Statement[DelayedState]:
        """Count the messages, up to `most`. Keeps no lock."""
        raise NotImplementedError

    def peek(self, most: int) -> Statement[list[KeptMessage]]:
        """Look at the messages due next without taking them. Keeps no lock."""
        raise NotImplementedError


def find_stores(addresses: Addresses, schema: str | None = None) -> Statement[list[QueueAddress]]:
    """Find the tables of stores in the database of these addresses, or those of one schema. Locks nothing."""
    found: Statement[list[QueueAddress]] = backend_class(
        "rowbus.transport.delayed_store", addresses.backend, "find_stores"
    )(addresses, schema)
    return found


def delayed_store_table(address: QueueAddress) -> DelayedStoreTable:
    """Return the statements on the table of a delayed message store. No I/O."""
    table: DelayedStoreTable = bound_table("rowbus.transport.delayed_store", "DelayedStoreTable", address)
    return table


# --------------------------------------------------------------------------------------------------- the Timeouts queue


class TimeoutMessage(NamedTuple):
    """The contents of a message of the Timeouts queue: where it goes, when it is due, and its own headers."""

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
