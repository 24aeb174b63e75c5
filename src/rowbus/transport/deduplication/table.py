"""The table of accepted messages: the operations on it, on every database.

Invariant: nothing here names a database.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rowbus.database.backends import bound_table
from rowbus.database.statements import Statement, no_rows
from rowbus.transport.queues.records.keys import key_of
from rowbus.transport.queues.records.table import INSTALL, OwnTable, RecordStatements

if TYPE_CHECKING:
    from datetime import timedelta

    from rowbus.messages.address import QueueAddress
    from rowbus.messages.addresses import Addresses


class InboxTable(RecordStatements):
    """Statements on the table of what an endpoint has processed; each runs in its runner's transaction."""

    folder = "transport/deduplication"
    variable = "inbox"
    remedy = (
        "the table does not exist; starting an endpoint with deduplicate_for creates it, as do "
        "`rowbus schema install MODULE:ENDPOINT` and Inbox.create()."
    )

    def __init__(self, address: QueueAddress) -> None:
        """Bind the SQL files to the table. No I/O."""
        super().__init__(address)
        self._accept = self._load("accept", "Failed to note a message in", prepare=True)
        self._take_back = self._load("take_back", "Failed to take a message back from")
        self._purge = self._load("purge", "Failed to forget old messages of")

    def accept(self, message_id: str) -> Statement[bool]:
        """Note a message, and say whether it is new.

        Waits for a transaction that has just noted the same: if that commits, it is not new.
        """
        raise NotImplementedError

    def take_back(self, message_id: str) -> Statement[None]:
        """Take back what was noted of a message, which was not processed after all."""
        return Statement(self._take_back, {"message_key": key_of(message_id)}, no_rows)

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


INBOX: Final = "Inbox"
"""The qualifier of the table: `Billing.Inbox`."""


def inbox_address(endpoint: str, addresses: Addresses) -> QueueAddress:
    """Return the table of what an endpoint has processed."""
    return addresses.for_endpoint(endpoint, qualifier=INBOX)
