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

    from rowbus.database.statements import Rows
    from rowbus.sagas.table import Beginning


class SagaTable(table.SagaTable, RecordTable):
    """Statements on one saga's table."""

    column_types = {"text": "nvarchar", "id": "uniqueidentifier", "number": "bigint"}  # noqa: RUF012 - never changed

    def create(self) -> list[Statement[None]]:
        """Create the table with its index if it is missing: in one transaction; waits for other creators."""
        index = f"Index_{self._correlation.column}"
        create = self._load(self._creating, "Failed to create", correlation_index=index)
        return [lock_creation(self._here), Statement(create, self._names, no_rows)]

    @property
    def _names(self) -> Mapping[str, object]:
        return {"shared_saga_name": self._here.qualified}

    def _lacking(self, rows: Rows, count: int) -> str | None:
        """Compare in small letters, in which some servers keep names."""
        mine = self._correlation.column
        return super()._lacking(
            [(mine,) if name.lower() == mine.lower() else (name,) for (name,) in rows], count
        )

    def _parameters(self, beginning: Beginning) -> Mapping[str, object]:
        lock = self._lock("saga", beginning.correlation)
        return {"resource": lock, **super()._parameters(beginning)}
