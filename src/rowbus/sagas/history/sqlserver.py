"""A saga's history on SQL Server.

Invariant: lines are only inserted and deleted.
"""

from __future__ import annotations

from rowbus.sagas.history import table
from rowbus.transport.queues.records.sqlserver import RecordTable


class HistoryTable(table.HistoryTable, RecordTable):
    """Statements on the history of one saga class."""
