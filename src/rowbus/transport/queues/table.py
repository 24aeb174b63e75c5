"""A queue: the operations on its table, on every database.

A method returns statements, each in its runner's transaction; where there may be several they are to be run in one. A
backend's classes fulfil these protocols.

Invariant: nothing here names a database, and the layers above need no more of a queue than is here.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from rowbus.database.backends import TABLES_KEPT, bound_table
from rowbus.messages.address import refuse_missing
from rowbus.settings import LARGEST_MESSAGE, LONGEST_READ

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime, timedelta

    from rowbus.database.statements import Query, Row, Statement, Steps
    from rowbus.messages.address import QueueAddress
    from rowbus.messages.message import MessageRow, OutgoingMessage, PeekedMessage
    from rowbus.transport.queues.catalog.ownership import Ownership


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


class Place(NamedTuple):
    """Where a message is in its queue, and the header text it has there."""

    headers: str
    seq: int


class MessageTable(Protocol):
    """A table that messages go into, one by one, several, or as a stream."""

    @property
    def address(self) -> QueueAddress:
        """Where it is."""
        raise NotImplementedError

    @property
    def copy(self) -> Query:
        """The stream of rows that `Session.copy` writes."""
        raise NotImplementedError

    def copy_rows(
        self,
        messages: Iterable[tuple[str, bytes]],
        moment: Any,  # noqa: ANN401 - when they expire, or are due
        /,
    ) -> Iterator[Row]:
        """Yield the rows for `copy` from header texts and bodies; `moment` is what the clock was asked for before."""
        raise NotImplementedError

    def notify(self) -> list[Statement[None]]:
        """Wake who waits for messages here when the transaction commits; nothing where no receiver can be woken."""
        raise NotImplementedError

    def listen(self) -> list[Statement[None]]:
        """Have the session notified of what commits from now on; nothing where sessions cannot be."""
        raise NotImplementedError

    def show_receiver(self) -> list[Statement[None]]:
        """Have the server show that the session's process receives here, until `hide_receiver` or the session's end.

        Takes a shared session lock and never waits; nothing where sessions cannot be notified, or nobody receives.
        """
        raise NotImplementedError

    def hide_receiver(self) -> list[Statement[None]]:
        """Take one `show_receiver` back."""
        raise NotImplementedError

    def exists(self) -> Statement[bool]:
        """Say whether the table exists."""
        raise NotImplementedError

    def create(self) -> list[Statement[None]]:
        """Create the table if it is missing: in one transaction. Another creator may make it fail; see `installer`."""
        raise NotImplementedError


class RecordTable(Protocol):
    """A table of facts."""

    @property
    def address(self) -> QueueAddress:
        """Where it is."""
        raise NotImplementedError

    def exists(self) -> Statement[bool]:
        """Say whether the table exists."""
        raise NotImplementedError

    def create(self) -> list[Statement[None]]:
        """Create the table if it is missing: in one transaction. Another creator may make it fail; see `installer`."""
        raise NotImplementedError

    def grant(self, role: str) -> Statement[None]:
        """Let a role do what endpoints do with it."""
        raise NotImplementedError


class QueueTable(MessageTable, Protocol):
    """Statements on one queue; none waits for a lock unless it says so."""

    @property
    def shows_in_flight(self) -> bool:
        """Whether a message in flight can be looked at; where not, it cannot be told from one that is gone."""
        raise NotImplementedError

    def send(self, message: OutgoingMessage, *, notify: bool) -> Statement[None]:
        """Put one message in the queue; it exists when the transaction commits."""
        raise NotImplementedError

    def send_copy(self, sent: Statement[None], /) -> Statement[None]:
        """Put what `send` puts into another queue in this one."""
        raise NotImplementedError

    def send_together(
        self, message: OutgoingMessage, addresses: Sequence[Any], /, *, notify: bool
    ) -> list[Statement[None]]:
        """Put a copy of a message in each of several queues, and wake their receivers, in few statements.

        A failure does not say of which queue it is. No statements where the database has no such thing.
        """
        raise NotImplementedError

    def send_all(self, messages: Sequence[OutgoingMessage], *, notify: bool) -> list[Statement[None]]:
        """Put messages in the queue, in this order; at least one is given."""
        raise NotImplementedError

    def expiry(self, time_to_be_received: timedelta | None) -> Statement[datetime | None]:
        """Ask the database when a message sent now would expire (None: never), as `copy_rows` wants it."""
        raise NotImplementedError

    def notify_all(self, addresses: Sequence[Any], /) -> list[Statement[None]]:
        """Wake the receivers of several queues when the transaction commits; nothing where none can be woken."""
        raise NotImplementedError

    def receive(
        self,
        most: int,
        lower_bound: int,
        *,
        most_bytes: int = LARGEST_MESSAGE,
        passed_over: Sequence[int] = (),
    ) -> Statement[list[MessageRow]]:
        """Take up to `most` of the oldest messages that are not in flight, oldest first.

        Deletes and so locks them until the transaction ends; passes over what others have locked, never waiting.
        Messages above `most_bytes` count, but are not taken; those at the positions `passed_over` do not exist for it.
        """
        raise NotImplementedError

    def find_oversized(self, most: int, *, most_bytes: int) -> Statement[list[OversizedMessage]]:
        """Find those above `most_bytes` among the `most` oldest messages. Locks nothing."""
        raise NotImplementedError

    def move(
        self, messages: Sequence[MovedMessage], to: QueueAddress, *, notify: bool
    ) -> list[Statement[int]]:
        """Move messages to another queue with other headers, in this order; each says how many it moved.

        Bodies stay in the database. Passes over messages that are gone or in flight. Raises
        QueueNotFoundError for a missing queue.
        """
        raise NotImplementedError

    def requeue(self, row_id: str, place: Place, *, notify: bool) -> Statement[int]:
        """Put the message at a place at the end of its queue, with the header text given; say 1 or 0.

        `place.seq` is where it is now: 0 when it is elsewhere, gone or in flight. To be run in a transaction.
        """
        raise NotImplementedError

    def locate(self, row_id: str) -> Statement[Place | None]:
        """Look for a message; None when it is gone (SQL Server: or in flight). Locks nothing."""
        raise NotImplementedError

    def server_started(self) -> Statement[datetime | None]:
        """Ask when the queue's server was started. Locks nothing."""
        raise NotImplementedError

    def count_available(self, most: int, lower_bound: int) -> Statement[int]:
        """Estimate, up to `most`, how many messages could be received now. Locks nothing."""
        raise NotImplementedError

    def are_queues(self, addresses: Sequence[Any], /) -> list[Statement[Mapping[QueueAddress, bool]]]:
        """Say which tables have a queue's columns, and which have not; leaves out missing ones. Locks nothing."""
        raise NotImplementedError

    def ownerships(
        self, addresses: Sequence[QueueAddress], beside: QueueAddress
    ) -> Statement[Mapping[QueueAddress, Ownership]] | None:
        """Find the owners of tables, for a role that trusts that of the queue `beside`; None where none runs code."""
        raise NotImplementedError

    def keep(self) -> list[Statement[None]]:
        """Keep the table as it is for the rest of the transaction, where its owner's code would run."""
        raise NotImplementedError

    def holds(self, row_id: str) -> Statement[bool]:
        """Say whether a row is in the queue, in flight or not."""
        raise NotImplementedError

    def holds_message(self, message_id: str) -> Statement[bool]:
        """Say whether a message of this id is in the queue. Reads all of it."""
        raise NotImplementedError

    def peek(self, most: int, most_read: int = LONGEST_READ) -> Statement[list[PeekedMessage]]:
        """Look at the oldest messages without taking them, also at those in flight. Locks nothing.

        Of headers and bodies, at up to so many characters and bytes.
        """
        raise NotImplementedError

    def purge(self) -> Statement[int]:
        """Delete all messages and say how many; waits for receivers that have some in hand."""
        raise NotImplementedError

    def purge_expired(self, batch_size: int) -> Statement[int]:
        """Delete up to `batch_size` expired messages that are not in flight and say how many."""
        raise NotImplementedError

    def inspect(self, *, purges: bool) -> list[Statement[list[str]]]:
        """Ask for what in the table makes receiving (or purging, where that is done) slow or headers unreadable.

        Answers sentences for people; no statements where there is nothing to look for.
        """
        raise NotImplementedError

    def has_body_string(self) -> Statement[bool]:
        """Say whether the table has the BodyString column. Locks nothing."""
        raise NotImplementedError

    def has_notify_trigger(self) -> Statement[bool]:
        """Say whether inserts by other software notify. Raises ConfigurationError where there are no notifications."""
        raise NotImplementedError

    def limit_lock_wait(self, milliseconds: int) -> list[Statement[None]]:
        """Have this transaction's statements give up after so long a wait for a lock, where others wait behind it."""
        raise NotImplementedError

    def create_body_string(self) -> list[Statement[None]]:
        """Add the BodyString column if it is missing: in one transaction; waits for other installers."""
        raise NotImplementedError

    def create_notify_trigger(self) -> list[Statement[None]]:
        """Make inserts by other software notify too: in one transaction; waits for other installers.

        Raises ConfigurationError where there are no notifications.
        """
        raise NotImplementedError

    def drop(self) -> Statement[None]:
        """Drop the table with all that is in it; waits for transactions that use it."""
        raise NotImplementedError

    def unlisten(self) -> list[Statement[None]]:
        """Have the session no longer notified."""
        raise NotImplementedError


def queue_table(address: QueueAddress) -> QueueTable:
    """Return the statements on a queue. No I/O."""
    table: QueueTable = bound_table("rowbus.transport.queues", "QueueTable", address)
    return table


def find_queues(addresses: Sequence[QueueAddress]) -> Steps[dict[QueueAddress, bool]]:
    """Say which tables of one database are queues by their columns, and which are not; leaves out missing ones."""
    found: dict[QueueAddress, bool] = {}
    for statement in queue_table(addresses[0]).are_queues(addresses):
        found |= yield statement
    return found


@lru_cache(maxsize=TABLES_KEPT)
def destination_table(address: QueueAddress) -> QueueTable:
    """Return the statements on a queue that a message or a call names; QueueNotFoundError if none can have the name."""
    refuse_missing(address, "Failed to send message to")
    return queue_table(address)
