"""An error queue: the operations that put its messages back, on every database.

Invariant: nothing here names a database.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from rowbus.database.backends import bound_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowbus.database.statements import Statement
    from rowbus.messages.address import QueueAddress
    from rowbus.messages.message import PeekedMessage
    from rowbus.transport.queues.table import MovedMessage
    from rowbus.transport.recoverability.failed_message import FailedMessage


BEFORE_ALL: Final = -(2**31)
"""A position in a queue before that of every message."""


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
        """Delete rows and say how many; passes over those that are gone or in flight."""
        raise NotImplementedError


class Keep(Protocol):
    """A place for what is discarded."""

    def take(self, queue: QueueAddress, row_ids: Sequence[str]) -> Statement[int]:
        """Move rows of a queue there, and say how many; passes over those that are gone or in flight."""
        raise NotImplementedError


def error_queue_table(address: QueueAddress) -> ErrorQueueTable:
    """Return the statements on an error queue, for those who put its messages back. No I/O."""
    table: ErrorQueueTable = bound_table("rowbus.transport.recoverability", "ErrorQueueTable", address)
    return table
