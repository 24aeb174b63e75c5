"""The table of a saga in NServiceBus's layout, on PostgreSQL.

Invariant: a transaction that reads a row to change it holds its lock until it ends, as .NET's do.
"""

from __future__ import annotations

from rowbus.database.statements import Statement, no_rows
from rowbus.sagas.nservicebus import table
from rowbus.sagas.nservicebus.layout import index_name
from rowbus.transport.queues.records.postgresql import RecordTable


class SagaTable(table.SagaTable, RecordTable):
    """Statements on one saga's table."""

    def create(self) -> list[Statement[None]]:
        """Create the table and its index if missing: to run in one transaction. Another creator may make this fail."""
        create = "create_text" if self._correlation.is_text else "create"
        index = index_name(self.address.table, self._saga, self._correlation)
        return [
            Statement(self._load(create, "Failed to create"), {}, no_rows),
            Statement(self._load("index", "Failed to index", correlation_index=index), {}, no_rows),
        ]
