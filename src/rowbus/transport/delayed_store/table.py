"""The table of a delayed message store, on every database, and the queue `<endpoint>.Timeouts` on the way to a store.

The queue holds the message as it will be, and beside its headers two properties: the destination and when it is due
(docs/wire-format.md#timeouts-queue). They are removed before the message goes on.

Invariants: nothing here names a database. `unwrap(wrap(message))` gives the message, header for header; a message given
up on keeps both properties, so that putting it back into the Timeouts queue sends it to its destination.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from rowbus.database.backends import backend_class, bound_table
from rowbus.database.statements import Statement, no_rows
from rowbus.errors import InvalidAddressError, InvalidTimestampError, Unrecoverable
from rowbus.messages.headers import Header
from rowbus.messages.message import OutgoingMessage
from rowbus.messages.timestamps import format_timestamp, parse_timestamp
from rowbus.transport.delayed.table import DelayedState
from rowbus.transport.delayed_store.protocol import DelayedMessage
from rowbus.transport.queues.records.table import RecordStatements

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rowbus.database.statements import Rows
    from rowbus.messages.address import Addresses, QueueAddress

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


class DelayedStoreTable(RecordStatements):
    """Statements on the table of a delayed message store; each runs in its runner's transaction."""

    folder = "transport/delayed_store"
    variable = "store"
    remedy = (
        "the table of the delayed message store does not exist; starting its endpoint creates it, as does "
        "`rowbus schema install MODULE:ENDPOINT`."
    )

    def __init__(self, address: QueueAddress) -> None:
        """Bind the SQL files to the table. No I/O."""
        super().__init__(address)
        self._store = self._load("store", "Failed to store a delayed message in", prepare=True)
        self._fetch = self._load("fetch_next_due", "Failed to fetch due messages from", prepare=True)
        self._remove = self._load("remove", "Failed to remove a delayed message from", prepare=True)
        self._increment = self._load("increment_failure_count", "Failed to count a failure in", prepare=True)
        self._next = self._load("next", "Failed to look into")

    def bound_session(self, *, lock_timeout: float, statement_timeout: float) -> list[Statement[None]]:
        """Have no statement of the session wait for a lock, or run, longer than so many seconds, where that can be."""
        raise NotImplementedError

    def is_store(self) -> Statement[bool]:
        """Say whether the table has a store's columns. Locks nothing."""
        raise NotImplementedError

    def store(self, message: DelayedMessage) -> Statement[None]:
        """Keep a message; one of the same id stays as it is. Waits for who stores or removes that one."""
        return Statement(self._store, self._parameters(message), no_rows)

    def fetch_next_due(self, at: datetime) -> Statement[DelayedMessage | None]:
        """Lock and return the earliest message that is due at an instant and not locked; never waits."""
        return Statement(self._fetch, {"at": at}, self._message)

    def next(self) -> Statement[datetime | None]:
        """Ask when the earliest message is due, locked or not."""
        return Statement(self._next, {}, self._first_due)

    def remove(self, message_id: str) -> Statement[int]:
        """Delete a message and say how many there were, 1 or 0; waits for who has it locked."""
        return Statement(self._remove, {"message_id": message_id}, self._counted)

    def increment_failure_count(self, message_id: str) -> Statement[int]:
        """Count a failure of a message and say how many there were, 1 or 0; waits for who has it locked."""
        return Statement(self._increment, {"message_id": message_id}, self._counted)

    def state(self, most: int) -> Statement[DelayedState]:
        """Count the messages, up to `most`. Keeps no lock."""
        query = self._load("state", "Failed to count the messages of")
        return Statement(query, {"most": most}, self._state)

    def peek(self, most: int) -> Statement[list[KeptMessage]]:
        """Look at the messages due next without taking them. Keeps no lock."""
        return Statement(self._load("peek", "Failed to look into"), {"most": most}, self._kept)

    def _parameters(self, message: DelayedMessage) -> Mapping[str, object]:
        return {
            "message_id": message.message_id,
            "destination": message.destination,
            "time": message.time,
            "headers": message.headers,
            "body": message.body,
        }

    def _message(self, rows: Rows, _count: int) -> DelayedMessage | None:
        for message_id, destination, time, headers, body, retries in rows:
            return DelayedMessage(
                message_id=message_id,
                destination=destination,
                time=self._due(time),
                headers=headers,
                body=body or b"",
                number_of_retries=retries,
            )
        return None

    def _first_due(self, rows: Rows, _count: int) -> datetime | None:
        return None if rows[0][0] is None else self._due(rows[0][0])

    def _state(self, rows: Rows, _count: int) -> DelayedState:
        waiting, overdue, next_due, at = rows[0]
        return DelayedState(waiting, overdue, next_due and self._due(next_due), self._due(at))

    def _kept(self, rows: Rows, _count: int) -> list[KeptMessage]:
        return [
            KeptMessage(
                message_id,
                self._due(due),
                destination or "",
                headers.decode("utf-8", "backslashreplace"),
                size,
                failures,
            )
            for message_id, due, destination, headers, size, failures in rows
        ]

    def _due(self, value: Any) -> datetime:  # noqa: ANN401 - what the driver makes of it
        return self._instant(value).astimezone(UTC)


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
