"""The table of a saga in NServiceBus's layout, on PostgreSQL.

Invariant: a transaction that reads a row to change it holds its lock until it ends, as .NET's do.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from rowbus.database.statements import Statement, no_rows
from rowbus.sagas.nservicebus import table
from rowbus.transport.queues.records.postgresql import RecordTable

if TYPE_CHECKING:
    from rowbus.sagas.nservicebus.table import Correlation


class SagaTable(table.SagaTable, RecordTable):
    """Statements on one saga's table."""

    column_types = {"text": "varchar", "id": "uuid", "number": "int4"}  # noqa: RUF012 - never changed

    def create(self) -> list[Statement[None]]:
        """Create the table and its index if missing: to run in one transaction. Another creator may make this fail."""
        index = index_name(self.address.table, self._saga, self._correlation)
        return [
            Statement(self._load(self._creating, "Failed to create"), {}, no_rows),
            Statement(self._load("index", "Failed to index", correlation_index=index), {}, no_rows),
        ]


def index_name(table: str, saga: str, correlation: Correlation) -> str:
    """Return what NServiceBus calls the index of the column that finds a row."""
    text = f"{saga}/{correlation.name}".encode()
    digest = hashlib.sha1(text, usedforsecurity=False).hexdigest().upper()
    return f"{table.removesuffix(saga)}_i_{digest}"
