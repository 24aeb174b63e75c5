"""What services ask of the tables that hold messages, whatever database they are in.

A method returns statements, each in its runner's transaction; where there may be several they are to be run in one. A
backend's classes fulfil these protocols; `tables.messaging` makes them from addresses.

Invariant: nothing here names a database, and nobody above `tables` needs more of these tables than is here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from rowbus.settings import LARGEST_MESSAGE
from rowbus.transport.queues.record_tables import RecordTable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime, timedelta

    from rowbus.database.statements import Query, Row, Statement
    from rowbus.transport.delayed_store.protocol import DelayedMessage
    from rowbus.messages.address import QueueAddress
    from rowbus.transport.recoverability.failed_message import FailedMessage
    from rowbus.database.locks.holder import LockHolder
    from rowbus.messages.message import MessageRow, OutgoingMessage, PeekedMessage
    from rowbus.transport.queues.rows import DelayedState, Due, DueMessage, MovedBatch, MovedMessage, OversizedMessage, WaitingMessage


class MessageTable(Protocol):
    """A table that messages go into, one by one, several, or as a stream."""

    @property
    def address(self) -> QueueAddress:
        """Where it is."""
        raise NotImplementedError

    @property
    def copy(self) -> Query:
        """What `session.copy` streams rows into."""
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
        """Wake who waits for messages here when the transaction commits; nothing where nobody can be woken."""
        raise NotImplementedError

    def listen(self) -> list[Statement[None]]:
        """Have the session notified of what commits from now on; nothing where sessions cannot be."""
        raise NotImplementedError

    def exists(self) -> Statement[bool]:
        """Say whether the table exists."""
        raise NotImplementedError

    def create(self) -> list[Statement[None]]:
        """Create the table if it is missing: in one transaction. Another creator may make it fail; see `services`."""
        raise NotImplementedError


class QueueTable(MessageTable, Protocol):
    """Statements on one queue; none waits for anybody unless it says so."""

    def send(self, message: OutgoingMessage, *, notify: bool) -> Statement[None]:
        """Put one message in the queue; it exists when the transaction commits."""
        raise NotImplementedError

    def send_all(self, messages: Sequence[OutgoingMessage], *, notify: bool) -> list[Statement[None]]:
        """Put messages in the queue, in this order; at least one is given."""
        raise NotImplementedError

    def expiry(self, time_to_be_received: timedelta | None) -> Statement[datetime | None]:
        """Ask the database when a message sent now would expire (None: never), as `copy_rows` wants it."""
        raise NotImplementedError

    def receive(
        self,
        most: int,
        lower_bound: int,
        *,
        most_bytes: int = LARGEST_MESSAGE,
        passed_over: Sequence[int] = (),
    ) -> Statement[list[MessageRow]]:
        """Take up to `most` of the oldest messages nobody has in hand, oldest first.

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

        Bodies stay in the database. Passes over messages that are gone or in somebody's hands. Raises
        QueueNotFoundError for a missing queue.
        """
        raise NotImplementedError

    def count_available(self, most: int, lower_bound: int) -> Statement[int]:
        """Estimate, up to `most`, how many messages could be received now. Locks nothing."""
        raise NotImplementedError

    def is_queue(self) -> Statement[bool | None]:
        """Say whether the table has a queue's columns, None if it does not exist. Locks nothing."""
        raise NotImplementedError

    def holds(self, row_id: str) -> Statement[bool]:
        """Say whether a row is in the queue, in somebody's hands or not."""
        raise NotImplementedError

    def peek(self, most: int) -> Statement[list[PeekedMessage]]:
        """Look at the oldest messages without taking them, also at those in somebody's hands. Locks nothing."""
        raise NotImplementedError

    def purge(self) -> Statement[int]:
        """Delete all messages and say how many; waits for receivers that have some in hand."""
        raise NotImplementedError

    def purge_expired(self, batch_size: int) -> Statement[int]:
        """Delete up to `batch_size` expired messages nobody has in hand and say how many."""
        raise NotImplementedError

    def inspect(self, *, purges: bool) -> list[Statement[list[str]]]:
        """Ask for what in the table makes receiving (or purging, where that is done) slow or headers unreadable.

        Answers sentences for people; no statements where there is nothing to look for.
        """
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


class DelayedTable(MessageTable, Protocol):
    """Statements on one table of messages that wait until they are due."""

    def store(self, message: OutgoingMessage, due: Due, *, notify: bool) -> Statement[None]:
        """Store one message until it is due; it is there when the transaction commits."""
        raise NotImplementedError

    def store_all(
        self, messages: Sequence[OutgoingMessage], dues: Sequence[Due], *, notify: bool
    ) -> list[Statement[None]]:
        """Store messages, at least one; of those with equal delays the first is due first."""
        raise NotImplementedError

    def due(self, due: Due) -> Statement[datetime]:
        """Ask the database when a message stored now would be due, as `copy_rows` wants it."""
        raise NotImplementedError

    def take_due(self, batch_size: int) -> Statement[list[DueMessage]]:
        """Lock up to so many messages that are due, the longest due first, passing over those others have locked."""
        raise NotImplementedError

    def move_expected(
        self, batch_size: int, queue: QueueAddress, mark: str, *, notify: bool = True
    ) -> Statement[MovedBatch] | None:
        """Move those of a batch of due messages that have this mark to its queue; say how many were due and moved.

        None where the database cannot do that in one statement.
        """
        raise NotImplementedError

    def move(
        self, ids: Sequence[str], queue: QueueAddress, mark: str = "", *, notify: bool = True
    ) -> Statement[int]:
        """Move messages this transaction has locked to a queue, in this order; return how many.

        `mark` is text to be cut out of their headers. Raises QueueNotFoundError for a missing queue.
        """
        raise NotImplementedError

    def move_with_headers(
        self, ids: Sequence[str], headers: Sequence[str], queue: QueueAddress, *, notify: bool = True
    ) -> list[Statement[int]]:
        """Move messages this transaction has locked to a queue with these header texts in place of their own."""
        raise NotImplementedError

    def next_due(self) -> Statement[float | None]:
        """Ask in how many seconds the next message is due: not positive, one is due now; None, there is none."""
        raise NotImplementedError

    def try_lead(self) -> Statement[bool]:
        """Become the one mover of this table until the session ends; say whether that worked. Never waits."""
        raise NotImplementedError

    def leaders(self) -> Statement[list[LockHolder]]:
        """Ask which session is that mover, as far as this one may know. Locks nothing."""
        raise NotImplementedError

    def configure(self, *, lock_timeout: float, idle_timeout: float) -> list[Statement[None]]:
        """Make a session fit for moving, as far as the database can; the timeouts are in seconds, 0 for none."""
        raise NotImplementedError

    def state(self, most: int) -> Statement[DelayedState]:
        """Count the messages, up to `most`. Locks nothing."""
        raise NotImplementedError

    def peek(self, most: int) -> Statement[list[WaitingMessage]]:
        """Look at the messages due next without taking them. Locks nothing."""
        raise NotImplementedError

    def grant_move(self, role: str) -> Statement[None]:
        """Let a role delay messages here and move them."""
        raise NotImplementedError

    def grant_store(self, role: str) -> Statement[None]:
        """Let a role delay messages here, and nothing else."""
        raise NotImplementedError


class ErrorQueueTable(Protocol):
    """Statements on one error queue, for those who put its messages back; none waits for who has messages in hand."""

    def newest(self) -> Statement[int | None]:
        """Ask for the position of the newest message, None for an empty queue. Locks nothing."""
        raise NotImplementedError

    def scan(self, after: int, newest: int, most: int) -> Statement[list[FailedMessage]]:
        """Read the stories of up to `most` messages after one position and up to another, in order. Locks nothing."""
        raise NotImplementedError

    def look(self, row_id: str) -> Statement[PeekedMessage | None]:
        """Look at one row, None if it is gone. Locks nothing."""
        raise NotImplementedError

    def headers(self, row_ids: Sequence[str]) -> Statement[list[MovedMessage]]:
        """Read the header texts of rows in order, but for those that are gone or too large to be read."""
        raise NotImplementedError

    def discard(self, row_ids: Sequence[str]) -> Statement[int]:
        """Delete rows and say how many; passes over those that are gone or in somebody's hands."""
        raise NotImplementedError


class DelayedStoreTable(RecordTable, Protocol):
    """Statements on the table of a delayed message store."""

    def store(self, message: DelayedMessage) -> Statement[None]:
        """Keep a message; one of the same id stays as it is. Waits for who stores or removes that one."""
        raise NotImplementedError

    def fetch_next_due(self, at: datetime) -> Statement[DelayedMessage | None]:
        """Lock and return the earliest message due at an instant that nobody has locked; never waits."""
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
