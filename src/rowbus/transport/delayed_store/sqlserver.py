"""The table of `SqlServerDelayedMessageStore`: delayed messages by their id, found by when they are due.

NServiceBus's own table for MSMQ (docs/wire-format.md#delayed-message-store): `State` is the body, `Time` when the
message is due.

Invariant: only the session that has a row locked sends that message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.database.sqlserver.statements import load
from rowbus.database.statements import Statement, no_rows
from rowbus.messages.sqlserver_address import SqlServerAddress
from rowbus.transport.delayed_store import table
from rowbus.transport.queues.records.sqlserver import RecordTable
from rowbus.transport.queues.sqlserver import known_columns

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rowbus.database.statements import Rows
    from rowbus.messages.address import QueueAddress
    from rowbus.messages.sqlserver_address import SqlServerAddresses
    from rowbus.transport.delayed_store.protocol import DelayedMessage

_COLUMNS = frozenset({"id", "destination", "state", "time", "headers", "retrycount"})


class DelayedStoreTable(table.DelayedStoreTable, RecordTable):
    """Statements on one store's table; each runs in its runner's transaction."""

    def is_store(self) -> Statement[bool]:
        """Say whether the table has a store's columns. Locks nothing."""
        probe = known_columns(self._here)
        return Statement(probe.query, probe.parameters, _is_store)

    def bound_session(self, *, lock_timeout: float, statement_timeout: float) -> list[Statement[None]]:  # noqa: ARG002 - SET takes no parameter
        """Have no statement wait for a lock longer than ten seconds.

        SQL Server has no limit for what a statement takes: who calls gives up in time, and the driver then interrupts
        the statement on the server.
        """
        return [Statement(self._load("bound_session", "Failed to prepare a session for"), {}, no_rows)]

    def _parameters(self, message: DelayedMessage) -> Mapping[str, object]:
        lock = self._lock("delayed message", message.message_id)
        return {"resource": lock, **super()._parameters(message)}


def find_stores(addresses: SqlServerAddresses, schema: str | None) -> Statement[list[QueueAddress]]:
    """Find all tables of stores in the session's catalog, or those of one schema."""
    file = "transport/delayed_store/sql/sqlserver/find.sql"
    query = load(file, failing="Failed to look for delayed message stores", prepare=False)

    def decode(rows: Rows, _count: int) -> list[QueueAddress]:
        return [SqlServerAddress(where, name, addresses.catalog) for where, name in rows]

    return Statement(query, {"schema_name": schema}, decode)


def _is_store(rows: Rows, _count: int) -> bool:
    return {name for (name,) in rows} >= _COLUMNS
