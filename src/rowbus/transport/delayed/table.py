"""A table of delayed messages: the operations on it, on every database.

Invariant: nothing here names a database.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple, Protocol

from rowbus.database.backends import bound_table
from rowbus.transport.delayed.waiting import MOST_READ
from rowbus.transport.queues.table import MessageTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowbus.database.locks import LockHolder
    from rowbus.database.statements import Statement
    from rowbus.messages.address import Addresses, QueueAddress
    from rowbus.messages.message import OutgoingMessage
    from rowbus.settings import NativeDelayedDelivery
    from rowbus.transport.delayed.policy import DueMessage, PassedOver
    from rowbus.transport.delayed.waiting import (
        LookedAtMessage,
        WaitingMessage,
        WaitingPlace,
    )

Due = timedelta | datetime
"""After how long a message is due, by the database's clock, or when: an aware datetime."""


class MovedBatch(NamedTuple):
    """The messages that were due, up to a batch, and how many of them went to the queue they were expected to."""

    due: int
    moved: int


class DelayedState(NamedTuple):
    """The state of a table: counts stop at the limit given; `next_due` may be past; `at` is the database's time."""

    waiting: int
    overdue: int
    next_due: datetime | None
    at: datetime


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

    def take_due_behind(self, batch_size: int, place: PassedOver) -> Statement[list[DueMessage]]:
        """Lock due messages as `take_due` does, but for those that are passed over."""
        raise NotImplementedError

    def next_due_behind(self, place: PassedOver) -> Statement[float | None]:
        """Ask in how many seconds the next message is due that is not passed over; None, there is none."""
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

    def cancel(self, message_id: str) -> Statement[int]:
        """Cancel the message of this id, if it waits here for the first time; say for how many rows that was so.

        Reads the whole table. Locks the row, waiting for a mover that is moving it.
        """
        raise NotImplementedError

    def cancel_at(self, message_id: str, due: datetime) -> Statement[int]:
        """Cancel the message of this id that is due at this instant; say for how many rows that was so.

        Finds it by its time. Locks the row, waiting for a mover that is moving it.
        """
        raise NotImplementedError

    def waits_at(self, message_id: str, due: datetime) -> Statement[bool]:
        """Say whether the message of this id waits that is due at this instant. Finds it by its time; keeps no lock."""
        raise NotImplementedError

    def take(self, message_id: str, due: datetime | None = None) -> Statement[list[DueMessage]]:
        """Lock the message of this id to move it before it is due, passing over it if a mover has it; none: not there.

        Reads the whole table, unless it is known when the message is due. Never waits (Babelfish: for who has a row).
        """
        raise NotImplementedError

    def find(
        self, text: str, after: WaitingPlace | None, most: int, most_read: int = MOST_READ
    ) -> Statement[list[WaitingMessage]]:
        """Look through the messages behind a place for those with a text in their headers (empty: any), in any case.

        The first `most` of the next `most_read`, in the order of their time. Locks nothing.
        """
        raise NotImplementedError

    def reach(self, after: WaitingPlace | None, most_read: int = MOST_READ) -> Statement[WaitingPlace | None]:
        """Say where a search from behind a place stops; None: it comes to the end. Locks nothing."""
        raise NotImplementedError

    def look(self, row_id: str, most_bytes: int) -> Statement[LookedAtMessage | None]:
        """Look at one message by its row and at the beginning of its body; None: it is not there. Locks nothing."""
        raise NotImplementedError

    def count_between(self, first: datetime | None, last: datetime | None, most: int) -> Statement[int]:
        """Count the messages due from one instant until before another, up to `most`. Locks nothing."""
        raise NotImplementedError

    def next_due(self) -> Statement[float | None]:
        """Ask in how many seconds the next message is due: not positive, one is due now; None, there is none."""
        raise NotImplementedError

    def has_any(self) -> Statement[int]:
        """Ask whether there is a message, due or not: 1 or 0."""
        raise NotImplementedError

    def try_lead(self) -> Statement[bool]:
        """Become the one mover of this table until the session ends; say whether that worked. Never waits."""
        raise NotImplementedError

    def unlisten(self) -> list[Statement[None]]:
        """Have the session no longer notified."""
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


def delayed_table(address: QueueAddress) -> DelayedTable:
    """Return the statements on a table of delayed messages. No I/O."""
    table: DelayedTable = bound_table("rowbus.transport.delayed", "DelayedTable", address)
    return table


def delayed_address(endpoint: str, native: NativeDelayedDelivery, addresses: Addresses) -> QueueAddress:
    """Return where an endpoint's delayed messages wait."""
    return addresses.for_endpoint(endpoint, qualifier=native.table_suffix)
