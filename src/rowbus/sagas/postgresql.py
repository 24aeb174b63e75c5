"""A saga's table on PostgreSQL: one row for each saga that goes on.

Invariant: a transaction that reads a row to change it holds its lock until it ends.
"""

from __future__ import annotations

from rowbus.database.statements import Statement, no_rows
from rowbus.sagas import table
from rowbus.transport.queues.records.postgresql import RecordTable


class SagaTable(table.SagaTable, RecordTable):
    """Statements on one saga's table."""

    def create(self) -> list[Statement[None]]:
        """Create the table if it is missing: to run in one transaction. Another creator may make this fail."""
        create = self._load("create", "Failed to create", correlation_key=self._named("saga_correlation"))
        return [Statement(create, {}, no_rows)]
