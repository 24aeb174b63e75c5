"""A saga's table on SQL Server: one row for each saga that goes on.

Invariant: whoever reads a row to change it holds its lock until the transaction ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.database.sqlserver.values import instant, lock_name, number
from rowbus.database.statements import Statement
from rowbus.sagas.table import KeptSaga, SagaRow, id_in
from rowbus.transport.queues.record_table import RecordTable

if TYPE_CHECKING:
    from rowbus.database.statements import Rows
    from rowbus.messages.sqlserver_address import SqlServerAddress
    from rowbus.sagas.table import Beginning


class SagaTable(RecordTable):
    """Statements on one saga's table; each runs in its runner's transaction."""

    folder = "sagas/sql/sqlserver"
    variable = "saga"
    remedy = (
        "the table of the saga does not exist; starting its endpoint creates it, as does "
        "`rowbus schema install MODULE:ENDPOINT`."
    )

    def __init__(self, address: SqlServerAddress) -> None:
        """Bind the SQL files to the table. No I/O."""
        super().__init__(address)
        self._find = self._load("find", "Failed to find a saga in", prepare=True)
        self._find_by_id = self._load("find_by_id", "Failed to find a saga in", prepare=True)
        self._find_or_begin = self._load("find_or_begin", "Failed to begin a saga in", prepare=True)
        self._write = self._load("write", "Failed to write a saga into", prepare=True)
        self._delete = self._load("delete", "Failed to delete a saga from", prepare=True)

    def find(self, correlation: str) -> Statement[SagaRow | None]:
        """Lock the saga found by this text, and return its row. Waits for others who hold it."""
        return Statement(self._find, {"correlation": correlation}, found)

    def find_by_id(self, saga_id: str) -> Statement[SagaRow | None]:
        """Lock the saga of this id, and return its row. Waits for others who hold it."""
        return Statement(self._find_by_id, {"id": saga_id}, found)

    def find_or_begin(self, beginning: Beginning) -> Statement[SagaRow | None]:
        """Lock the saga, or write the row of one that begins. Waits for others who hold it, or who begin it."""
        resource = lock_name("saga", self.address, beginning.correlation)
        return Statement(self._find_or_begin, {"resource": resource, **beginning._asdict()}, found)

    def peek(self, most: int) -> Statement[list[KeptSaga]]:
        """Look at up to so many sagas, those first that have changed least recently; passes over those in hand."""
        return Statement(self._load("peek", "Failed to look into"), {"most": most}, kept)

    def look(self, key: str) -> Statement[list[KeptSaga]]:
        """Look at the saga of an id, or found by a text: one, none, or both. Waits for who has it in hand."""
        return Statement(self._load("look", "Failed to look into"), {"key": key, "id": id_in(key)}, kept)

    def write(self, row: SagaRow, state: str, version: int, timeouts: str | None = None) -> Statement[int]:
        """Write a saga's state, and its timeouts, if its row is as it was found; return how many rows were."""
        parameters = {
            "id": row.id,
            "concurrency": row.concurrency,
            "state": state,
            "version": version,
            "timeouts": timeouts,
        }
        return Statement(self._write, parameters, number)

    def delete(self, row: SagaRow) -> Statement[int]:
        """Delete a saga, if its row is as it was found; return how many rows were."""
        return Statement(self._delete, {"id": row.id, "concurrency": row.concurrency}, number)


def found(rows: Rows, _count: int) -> SagaRow | None:
    """Return the row found, None for none."""
    return SagaRow(*rows[0]) if rows else None


def kept(rows: Rows, _count: int) -> list[KeptSaga]:
    """Return the sagas looked at."""
    return [KeptSaga(SagaRow(*row[:8]), instant(row[8]), instant(row[9])) for row in rows]
