"""The table of accepted messages: the operations on it, on every database.

Invariant: nothing here names a database.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rowbus.database.backends import bound_table
from rowbus.transport.queues.records.table import INSTALL, OwnTable, RecordStatements

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import timedelta

    from rowbus.database.statements import Statement
    from rowbus.messages.address import QueueAddress


class InboxTable(RecordStatements):
    """Statements on the table of what an endpoint has processed; each runs in its runner's transaction."""

    folder = "transport/deduplication"
    variable = "inbox"
    remedy = (
        "the table does not exist; starting an endpoint with deduplicate_for creates it, as do "
        "`rowbus schema install MODULE:ENDPOINT` and Inbox.create()."
    )

    accepts_many: ClassVar[bool] = False
    """Whether there are `accept_all` and `take_back`."""

    def __init__(self, address: QueueAddress) -> None:
        """Bind the SQL files to the table. No I/O."""
        super().__init__(address)
        self._accept = self._load("accept", "Failed to note a message in", prepare=True)
        self._purge = self._load("purge", "Failed to forget old messages of")

    def accept(self, message_id: str) -> Statement[bool]:
        """Note a message, and say whether it is new.

        Waits for a transaction that has just noted the same: if that commits, it is not new.
        """
        raise NotImplementedError

    def accept_all(self, message_ids: Collection[str]) -> Statement[set[str]]:
        """Note messages, all different, and say which are new; waits as `accept` does."""
        raise NotImplementedError

    def take_back(self, message_id: str) -> Statement[None]:
        """Take back what the same transaction noted of a message, which was not processed after all."""
        raise NotImplementedError

    def purge(self, older_than: timedelta, batch_size: int) -> Statement[int]:
        """Forget up to `batch_size` messages accepted longer ago than that, and say how many."""
        raise NotImplementedError


def inbox_table(address: QueueAddress) -> InboxTable:
    """Return the statements on a table of processed messages. No I/O."""
    table: InboxTable = bound_table("rowbus.transport.deduplication", "InboxTable", address)
    return table


def own_inbox(address: QueueAddress) -> OwnTable:
    """Return a table of processed messages as an endpoint has it."""
    called = "the table of processed messages"
    return OwnTable(inbox_table(address), called, f"{INSTALL}, or do without: deduplicate_for=None")
