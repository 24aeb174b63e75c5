"""A saga's history on PostgreSQL.

Invariant: lines are only inserted and deleted.
"""

from __future__ import annotations

from rowbus.database.statements import Statement, no_rows
from rowbus.sagas.history import table
from rowbus.transport.queues.records.postgresql import RecordTable


class HistoryTable(table.HistoryTable, RecordTable):
    """Statements on the history of one saga class."""

    def create(self) -> list[Statement[None]]:
        """Create the table and its indexes if they are missing: in one transaction. Another may make it fail."""
        names = {
            f"history_{part}": self._named(f"saga_history_{part}") for part in ("key", "found", "completed")
        }
        return [self._created(part, names) for part in ("create", "create_found", "create_completed")]

    def _created(self, operation: str, names: dict[str, str]) -> Statement[None]:
        query = self._load(operation, "Failed to create", prepare=False, **names)
        return Statement(query, {}, no_rows)
