"""The table of a saga in NServiceBus's layout, on SQL Server.

Invariant: a transaction that reads a row to change it holds its lock until it ends, as .NET's do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.database.statements import Statement, no_rows
from rowbus.sagas.nservicebus import table
from rowbus.transport.queues.records.sqlserver import RecordTable
from rowbus.transport.queues.sqlserver import lock_creation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rowbus.sagas.table import Beginning


class SagaTable(table.SagaTable, RecordTable):
    """Statements on one saga's table."""

    column_types = {"text": "nvarchar", "id": "uniqueidentifier", "number": "bigint"}  # noqa: RUF012 - never changed

    def create(self) -> list[Statement[None]]:
        """Create the table with its index if it is missing: in one transaction; waits for other creators."""
        index = f"Index_{self._correlation.column}"
        create = self._load(self._creating, "Failed to create", correlation_index=index)
        names = {"shared_saga_name": self._here.qualified}
        return [lock_creation(self._here), Statement(create, names, no_rows)]

    def _parameters(self, beginning: Beginning) -> Mapping[str, object]:
        lock = self._lock("saga", beginning.correlation)
        return {"resource": lock, **super()._parameters(beginning)}
