"""The messages an endpoint has processed, so that those that come again are not processed again.

Invariant: what is noted commits with what processing the message did.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.database.statements import Statement, no_rows
from rowbus.transport.deduplication import table
from rowbus.transport.queues.records.keys import key_of
from rowbus.transport.queues.records.postgresql import RecordTable

if TYPE_CHECKING:
    from datetime import timedelta

    from rowbus.database.statements import Rows


class InboxTable(table.InboxTable, RecordTable):
    """Statements on one endpoint's table."""

    def create(self) -> list[Statement[None]]:
        """Create the table if it is missing: to run in one transaction. Another creator may make this fail."""
        failing, name = "Failed to create the index of", self._named("inbox_accepted")
        index = self._load("create_index", failing, accepted_index=name)
        return [*super().create(), Statement(index, {}, no_rows)]

    def accept(self, message_id: str) -> Statement[bool]:
        """Note a message, and say whether it is new: with a row; see the base."""
        return Statement(self._accept, {"message_key": key_of(message_id)}, _is_new)

    def purge(self, older_than: timedelta, batch_size: int) -> Statement[int]:
        """Forget up to `batch_size` messages accepted longer ago than that, and say how many."""
        parameters = {"older_than": older_than, "batch_size": batch_size}
        return Statement(self._purge, parameters, self._counted)


def _is_new(rows: Rows, _count: int) -> bool:
    return bool(rows)
