"""Tables of facts on SQL Server: create them, find them, read what they answer.

Invariant: a subclass only adds what is its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rowbus.database.sqlserver.statements import instant, load, lock_name, number
from rowbus.database.statements import Statement, no_rows
from rowbus.transport.queues.records.table import RecordStatements
from rowbus.transport.queues.sqlserver import exists, lock_creation

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from rowbus.database.statements import Rows
    from rowbus.messages.sqlserver_address import SqlServerAddress


class RecordTable(RecordStatements):
    """Statements on one table; each runs in its runner's transaction.

    Where its files create it, `<variable>_name` is its full name.
    """

    loader = load

    def __init__(self, address: SqlServerAddress) -> None:
        """Bind the SQL files to the table. No I/O."""
        self._here = address
        super().__init__(address)

    def create(self) -> list[Statement[None]]:
        """Create the table with its index if it is missing: in one transaction; waits for other creators."""
        create = self._load("create", "Failed to create")
        names = {f"{self.variable}_name": self._here.qualified}
        return [lock_creation(self._here), Statement(create, names, no_rows)]

    def exists(self) -> Statement[bool]:
        """Say whether the table exists."""
        return exists(self._here)

    def _lock(self, kind: str, key: str) -> str:
        """Name the application lock on one row."""
        return lock_name(kind, self._here, key)

    def _place(self) -> Mapping[str, str]:
        return {"catalog": self._here.catalog, "schema": self._here.schema}

    def _counted(self, rows: Rows, count: int) -> int:
        return number(rows, count)

    def _instant(self, value: Any) -> datetime:  # noqa: ANN401 - as `instant`
        return instant(value)
