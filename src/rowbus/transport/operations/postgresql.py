"""The log of operations on PostgreSQL.

Invariant: as in `operations/table.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.database.statements import Statement, no_rows, scalar
from rowbus.transport.operations import table
from rowbus.transport.operations.table import OperationRow
from rowbus.transport.queues.records.postgresql import RecordTable

if TYPE_CHECKING:
    from rowbus.database.statements import Rows


class OperationsTable(table.OperationsTable, RecordTable):
    """Statements on one log of operations."""

    def create(self) -> list[Statement[None]]:
        """Create the table if it is missing: to run in one transaction. Another creator may make this fail."""
        name = self._named("operations_began")
        index = self._load("create_index", "Failed to create the index of", operations_began=name)
        return [*super().create(), Statement(index, {}, no_rows)]

    def note(self, identity: str, done: int, stayed: int) -> Statement[str | None]:
        """Add what this transaction did, and return the state; see the base."""
        query = self._load("note", "Failed to note an operation in")
        return Statement(query, {"id": identity, "done": done, "stayed": stayed}, _state)

    def role(self) -> Statement[str]:
        """Say as which role the session works."""
        return Statement(self._load("role", "Failed to ask for the role at"), {}, scalar)

    def beside(self, identity: str) -> Statement[list[OperationRow]]:
        """Find what others did to the same queue meanwhile; see the base."""
        return Statement(self._load("beside", "Failed to look into"), {"id": identity}, _operations)

    def list(self, most: int) -> Statement[list[OperationRow]]:
        """Return the latest operations, the latest first."""
        return Statement(self._load("list", "Failed to look into"), {"most": most}, _operations)

    def look(self, identity: str) -> Statement[OperationRow | None]:
        """Return one operation, None if it is not there."""
        return Statement(self._load("look", "Failed to look into"), {"id": identity}, _operation)


def _state(rows: Rows, _count: int) -> str | None:
    return str(rows[0][0]) if rows else None


def _operations(rows: Rows, _count: int) -> list[OperationRow]:
    return [OperationRow._make(row) for row in rows]


def _operation(rows: Rows, _count: int) -> OperationRow | None:
    return OperationRow._make(rows[0]) if rows else None
