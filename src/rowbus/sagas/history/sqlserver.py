"""A saga's history on SQL Server.

Invariant: lines are only inserted and deleted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.database.sqlserver.values import instant
from rowbus.database.statements import Statement, no_rows
from rowbus.sagas.history.table import Line, Transition
from rowbus.sagas.table import id_in
from rowbus.transport.queues.record_table import RecordTable

if TYPE_CHECKING:
    from datetime import timedelta

    from rowbus.database.statements import Rows


class HistoryTable(RecordTable):
    """Statements on the history of one saga class; each runs in its runner's transaction."""

    folder = "sagas/history/sql/sqlserver"
    variable = "history"
    remedy = (
        "the saga keeps no history, or its endpoint has not been started since: declare it with history=True."
    )

    def record(self, transition: Transition) -> Statement[None]:
        """Keep a transition."""
        query = self._load("record", "Failed to write the history", prepare=True)
        values = {**transition._asdict(), "is_completed": int(transition.is_completed)}
        return Statement(query, values, no_rows)

    def read(self, key: str) -> Statement[list[Line]]:
        """Read what the sagas did that have this id or were found by this text, the oldest first. Keeps no lock."""
        query = self._load("read", "Failed to read the history")
        return Statement(query, {"key": key, "id": id_in(key)}, lines)

    def forget(self, saga_id: str) -> Statement[None]:
        """Delete the lines of one saga."""
        return Statement(self._load("forget", "Failed to clear the history"), {"id": saga_id}, no_rows)

    def sweep(self, keep: timedelta) -> Statement[None]:
        """Delete the lines of two sagas at most that completed longer ago than this; passes over those being swept."""
        query = self._load("sweep", "Failed to sweep the history")
        return Statement(query, {"keep_seconds": int(keep.total_seconds())}, no_rows)


def lines(rows: Rows, _count: int) -> list[Line]:
    """Return the lines read."""
    return [Line(Transition(*row[:8])._replace(is_completed=bool(row[7])), instant(row[8])) for row in rows]
