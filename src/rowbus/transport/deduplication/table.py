"""The table of accepted messages: the operations on it, on every database.

Invariant: nothing here names a database.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from rowbus.database.backends import bound_table
from rowbus.transport.queues.table import RecordTable

if TYPE_CHECKING:
    from datetime import timedelta

    from rowbus.database.statements import Statement
    from rowbus.messages.address import QueueAddress


class InboxTable(RecordTable, Protocol):
    """Statements on the table of what an endpoint has processed."""

    def accept(self, message_id: str) -> Statement[bool]:
        """Note a message, and say whether it is new.

        Waits for a transaction that has just noted the same: if that commits, it is not new.
        """
        raise NotImplementedError

    def purge(self, older_than: timedelta, batch_size: int) -> Statement[int]:
        """Forget up to `batch_size` messages accepted longer ago than that, and say how many."""
        raise NotImplementedError


def inbox_table(address: QueueAddress) -> InboxTable:
    """Return the statements on a table of processed messages. No I/O."""
    table: InboxTable = bound_table("rowbus.transport.deduplication", "InboxTable", address)
    return table
