"""The messages an endpoint has processed, so that those that come again are not processed again.

Invariant: what is noted commits with what processing the message did.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.database.sqlserver.values import lock_name, number, span, truth
from rowbus.database.statements import Statement
from rowbus.transport.deduplication.accepted import message_key
from rowbus.transport.queues.record_table import RecordTable

if TYPE_CHECKING:
    from datetime import timedelta

    from rowbus.messages.sqlserver_address import SqlServerAddress


class InboxTable(RecordTable):
    """Statements on one endpoint's table; each runs in its runner's transaction."""

    folder = "transport/deduplication/sql/sqlserver"
    variable = "inbox"
    remedy = (
        "the table does not exist; starting an endpoint with deduplicate_for creates it, as do "
        "`rowbus schema install MODULE:ENDPOINT` and Inbox.create()."
    )

    def __init__(self, address: SqlServerAddress) -> None:
        """Bind the SQL files to the table. No I/O."""
        super().__init__(address)
        self._accept = self._load("accept", "Failed to note a message in", prepare=True)

    def accept(self, message_id: str) -> Statement[bool]:
        """Note a message, and say whether it is new.

        Waits for a transaction that has just noted the same: if that commits, it is not new.
        """
        key = message_key(message_id)
        parameters = {"resource": lock_name("inbox", self.address, key), "message_key": key}
        return Statement(self._accept, parameters, truth)

    def purge(self, older_than: timedelta, batch_size: int) -> Statement[int]:
        """Forget up to `batch_size` messages accepted longer ago than that, and say how many."""
        query = self._load("purge", "Failed to forget old messages of")
        return Statement(query, {"batch_size": batch_size, **span("older_than", older_than)}, number)
