"""The table of `PostgresDelayedMessageStore`: delayed messages by their id, found by when they are due.

NServiceBus's table for MSMQ, in PostgreSQL's types: `state` is the body, `time` when it is due
(docs/wire-format.md#delayed-message-store).

Invariant: only the session that has a row locked sends that message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.database.statements import Statement, load, no_rows
from rowbus.messages.address import QueueAddress
from rowbus.transport.delayed_store import table
from rowbus.transport.queues.records.postgresql import RecordTable

if TYPE_CHECKING:
    from rowbus.database.statements import Rows
    from rowbus.messages.address import Addresses

_COLUMNS = frozenset({"id", "destination", "state", "time", "headers", "retry_count"})


class DelayedStoreTable(table.DelayedStoreTable, RecordTable):
    """Statements on one store's table; each runs in its runner's transaction."""

    def is_store(self) -> Statement[bool]:
        """Say whether the table has a store's columns. Locks nothing."""
        query = load(
            "transport/queues/sql/postgresql/find_columns.sql",
            failing=f"Failed to look for the columns of {self.address}",
            prepare=False,
        )
        names = {"schemas": [self.address.schema], "tables": [self.address.table]}
        return Statement(query, names, _is_store)

    def bound_session(self, *, lock_timeout: float, statement_timeout: float) -> list[Statement[None]]:
        """Have no statement of the session wait for a lock, or run, longer than so many seconds."""
        limits = {
            "lock_timeout": round(lock_timeout * 1000),
            "statement_timeout": round(statement_timeout * 1000),
        }
        return [Statement(self._load("bound_session", "Failed to prepare a session for"), limits, no_rows)]


def find_stores(_addresses: Addresses, schema: str | None) -> Statement[list[QueueAddress]]:
    """Find all tables of stores, or those of one schema."""
    file = "transport/delayed_store/sql/postgresql/find.sql"
    query = load(file, failing="Failed to look for delayed message stores", prepare=False)
    return Statement(query, {"schema_name": schema}, _addresses_of)


def _is_store(rows: Rows, _count: int) -> bool:
    return any(set(columns) >= _COLUMNS for _schema, _name, _is_table, columns, *_ in rows)


def _addresses_of(rows: Rows, _count: int) -> list[QueueAddress]:
    return [QueueAddress(schema, name) for schema, name in rows]
