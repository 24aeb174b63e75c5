"""A saga's table on SQL Server: one row for each saga that goes on.

Invariant: a transaction that reads a row to change it holds its lock until it ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.sagas import table
from rowbus.transport.queues.records.sqlserver import RecordTable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rowbus.sagas.table import Beginning


class SagaTable(table.SagaTable, RecordTable):
    """Statements on one saga's table."""

    def _parameters(self, beginning: Beginning) -> Mapping[str, object]:
        return {"resource": self._lock("saga", beginning.correlation), **beginning._asdict()}
