"""The messages an endpoint has processed, so that those that come again are not processed again.

Invariant: what is noted commits with what processing the message did.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.database.sqlserver.statements import span, truth
from rowbus.database.statements import Statement
from rowbus.transport.deduplication import table
from rowbus.transport.queues.records.keys import key_of
from rowbus.transport.queues.records.sqlserver import RecordTable

if TYPE_CHECKING:
    from datetime import timedelta


class InboxTable(table.InboxTable, RecordTable):
    """Statements on one endpoint's table."""

    def accept(self, message_id: str) -> Statement[bool]:
        """Note a message, and say whether it is new: 1 or 0; see the base."""
        key = key_of(message_id)
        parameters = {"resource": self._lock("inbox", key), "message_key": key}
        return Statement(self._accept, parameters, truth)

    def purge(self, older_than: timedelta, batch_size: int) -> Statement[int]:
        """Forget up to `batch_size` messages accepted longer ago than that, and say how many."""
        parameters = {"batch_size": batch_size, **span("older_than", older_than)}
        return Statement(self._purge, parameters, self._counted)
