"""A saga's table on PostgreSQL: one row for each saga that goes on.

Invariant: whoever reads a row to change it holds its lock until the transaction ends.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from rowbus.database.statements import Statement, affected, load, no_rows, scalar
from rowbus.sagas.table import KeptSaga, SagaRow, id_in

if TYPE_CHECKING:
    from rowbus.database.statements import Query, Rows
    from rowbus.messages.address import QueueAddress
    from rowbus.sagas.table import Beginning

_FOLDER = "sagas/sql/postgresql"
REMEDY = (
    "the table of the saga does not exist; starting its endpoint creates it, as does "
    "`rowbus schema install MODULE:ENDPOINT`."
)


class SagaTable:
    """Statements on one saga's table; each runs in its runner's transaction."""

    def __init__(self, address: QueueAddress) -> None:
        """Bind the SQL files to the table. No I/O."""
        self.address = address
        self._find = self._load("find", "Failed to find a saga in", prepare=True)
        self._find_by_id = self._load("find_by_id", "Failed to find a saga in", prepare=True)
        self._find_or_begin = self._load("find_or_begin", "Failed to begin a saga in", prepare=True)
        self._write = self._load("write", "Failed to write a saga into", prepare=True)
        self._delete = self._load("delete", "Failed to delete a saga from", prepare=True)

    def _load(self, operation: str, failing: str, *, prepare: bool = False, **identifiers: str) -> Query:
        address = self.address
        return load(
            f"{_FOLDER}/{operation}.sql",
            identifiers={"schema": address.schema, "saga": address.table, **identifiers},
            failing=f"{failing} {address}",
            remedy=REMEDY,
            prepare=prepare,
        )

    def create(self) -> list[Statement[None]]:
        """Create the table if it is missing: to run in one transaction. Another creator may make this fail."""
        digest = hashlib.md5(self.address.canonical.encode(), usedforsecurity=False).hexdigest()
        create = self._load("create", "Failed to create", correlation_key=f"saga_correlation_{digest}")
        return [Statement(create, {}, no_rows)]

    def exists(self) -> Statement[bool]:
        """Say whether the table exists."""
        query = self._load("exists", "Failed to look for")
        return Statement(query, {"table_name": str(self.address)}, scalar)

    def find(self, correlation: str) -> Statement[SagaRow | None]:
        """Lock the saga found by this text, and return its row. Waits for others who hold it."""
        return Statement(self._find, {"correlation": correlation}, found)

    def find_by_id(self, saga_id: str) -> Statement[SagaRow | None]:
        """Lock the saga of this id, and return its row. Waits for others who hold it."""
        return Statement(self._find_by_id, {"id": saga_id}, found)

    def find_or_begin(self, beginning: Beginning) -> Statement[SagaRow | None]:
        """Lock the saga, or write the row of one that begins. Waits for others who hold it, or who begin it.

        None: another began it in this instant and has committed; ask again.
        """
        return Statement(self._find_or_begin, beginning._asdict(), found)

    def peek(self, most: int) -> Statement[list[KeptSaga]]:
        """Look at up to so many sagas, those first that have changed least recently. Locks nothing."""
        return Statement(self._load("peek", "Failed to look into"), {"most": most}, kept)

    def look(self, key: str) -> Statement[list[KeptSaga]]:
        """Look at the saga of an id, or found by a text: one, none, or both. Locks nothing."""
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
        return Statement(self._write, parameters, affected)

    def delete(self, row: SagaRow) -> Statement[int]:
        """Delete a saga, if its row is as it was found; return how many rows were."""
        return Statement(self._delete, {"id": row.id, "concurrency": row.concurrency}, affected)

    def grant(self, role: str) -> Statement[None]:
        """Let a role begin, find, write and delete sagas."""
        return Statement(self._load("grant", f"Failed to grant {role} privileges on", role=role), {}, no_rows)


def found(rows: Rows, _count: int) -> SagaRow | None:
    """Return the row found, None for none."""
    return SagaRow(str(rows[0][0]), *rows[0][1:]) if rows else None


def kept(rows: Rows, _count: int) -> list[KeptSaga]:
    """Return the sagas looked at."""
    return [KeptSaga(SagaRow(str(row[0]), *row[1:8]), row[8], row[9]) for row in rows]
