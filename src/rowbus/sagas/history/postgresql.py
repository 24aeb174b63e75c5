"""A saga's history on PostgreSQL.

Invariant: lines are only inserted and deleted.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from rowbus.database.statements import Statement, load, no_rows, scalar
from rowbus.sagas.history.table import Line, Transition
from rowbus.sagas.table import id_in

if TYPE_CHECKING:
    from datetime import timedelta

    from rowbus.database.statements import Query, Rows
    from rowbus.messages.address import QueueAddress

_FOLDER = "sagas/history/sql/postgresql"
REMEDY = (
    "the saga keeps no history, or its endpoint has not been started since: declare it with history=True."
)


class HistoryTable:
    """Statements on the history of one saga class; each runs in its runner's transaction."""

    def __init__(self, address: QueueAddress) -> None:
        """Bind the SQL files to the table. No I/O."""
        self.address = address
        self._record = self._load("record", "Failed to write the history", prepare=True)

    def _load(self, operation: str, failing: str, *, prepare: bool = False, **identifiers: str) -> Query:
        names = {"schema": self.address.schema, "history": self.address.table, **identifiers}
        return load(
            f"{_FOLDER}/{operation}.sql",
            identifiers=names,
            failing=f"{failing} {self.address}",
            remedy=REMEDY,
            prepare=prepare,
        )

    def create(self) -> list[Statement[None]]:
        """Create the table and its indexes if they are missing: in one transaction. Another may make it fail."""
        digest = hashlib.md5(self.address.canonical.encode(), usedforsecurity=False).hexdigest()
        names = {f"history_{part}": f"saga_history_{part}_{digest}" for part in ("key", "found", "completed")}
        return [self._created(part, names) for part in ("create", "create_found", "create_completed")]

    def _created(self, operation: str, names: dict[str, str]) -> Statement[None]:
        query = self._load(operation, "Failed to create", prepare=False, **names)
        return Statement(query, {}, no_rows)

    def exists(self) -> Statement[bool]:
        """Say whether the table exists."""
        query = self._load("exists", "Failed to look for")
        return Statement(query, {"table_name": str(self.address)}, scalar)

    def grant(self, role: str) -> Statement[None]:
        """Let a role write, read and delete history."""
        return Statement(self._load("grant", f"Failed to grant {role} privileges on", role=role), {}, no_rows)

    def record(self, transition: Transition) -> Statement[None]:
        """Keep a transition."""
        return Statement(self._record, transition._asdict(), no_rows)

    def read(self, key: str) -> Statement[list[Line]]:
        """Read what the sagas did that have this id or were found by this text, the oldest first. Locks nothing."""
        query = self._load("read", "Failed to read the history")
        return Statement(query, {"key": key, "id": id_in(key)}, lines)

    def forget(self, saga_id: str) -> Statement[None]:
        """Delete the lines of one saga."""
        return Statement(self._load("forget", "Failed to clear the history"), {"id": saga_id}, no_rows)

    def sweep(self, keep: timedelta) -> Statement[None]:
        """Delete the lines of two sagas at most that completed longer ago than this; passes over those being swept."""
        return Statement(self._load("sweep", "Failed to sweep the history"), {"keep": keep}, no_rows)


def lines(rows: Rows, _count: int) -> list[Line]:
    """Return the lines read."""
    return [Line(Transition(str(row[0]), *row[1:8]), row[8]) for row in rows]
