"""The table of `SqlServerDelayedMessageStore`: delayed messages by their id, found by when they are due.

NServiceBus's own table for MSMQ (docs/wire-format.md#delayed-message-store): `State` is the body, `Time` when the
message is due.

Invariant: only the session that has a row locked sends that message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.database.sqlserver.statements import aware, instant, load, lock_name, number
from rowbus.database.statements import Query, Statement, no_rows
from rowbus.messages.sqlserver_address import SqlServerAddress
from rowbus.transport.delayed.table import DelayedState
from rowbus.transport.delayed_store.protocol import DelayedMessage
from rowbus.transport.delayed_store.table import KeptMessage
from rowbus.transport.queues.sqlserver import exists, known_columns, lock_creation

if TYPE_CHECKING:
    from datetime import datetime

    from rowbus.database.statements import Rows
    from rowbus.messages.address import QueueAddress
    from rowbus.messages.sqlserver_address import SqlServerAddresses

_FOLDER = "transport/delayed_store/sql/sqlserver"
_COLUMNS = frozenset({"id", "destination", "state", "time", "headers", "retrycount"})


class DelayedStoreTable:
    """Statements on one store's table; each runs in its runner's transaction."""

    def __init__(self, address: SqlServerAddress) -> None:
        """Bind the SQL files to the table. No I/O."""
        self.address = address
        self._store = self._load("store", "Failed to store a delayed message in")
        self._fetch = self._load("fetch_next_due", "Failed to fetch due messages from")
        self._remove = self._load("remove", "Failed to remove a delayed message from")
        self._increment = self._load("increment_failure_count", "Failed to count a failure in")
        self._next = self._load("next", "Failed to look into", prepare=False)

    def _load(self, operation: str, failing: str, *, prepare: bool = True, **names: str) -> Query:
        address = self.address
        identifiers = {"catalog": address.catalog, "schema": address.schema, "store": address.table}
        return load(
            f"{_FOLDER}/{operation}.sql",
            identifiers=identifiers | names,
            failing=f"{failing} {address}",
            prepare=prepare,
        )

    def exists(self) -> Statement[bool]:
        """Say whether the table exists."""
        return exists(self.address)

    def is_store(self) -> Statement[bool]:
        """Say whether the table has a store's columns. Locks nothing."""
        probe = known_columns(self.address)
        return Statement(probe.query, probe.parameters, _is_store)

    def create(self) -> list[Statement[None]]:
        """Create the table if it is missing: in one transaction; waits for other creators."""
        create = self._load("create", "Failed to create", prepare=False)
        return [
            lock_creation(self.address),
            Statement(create, {"store_name": self.address.qualified}, no_rows),
        ]

    def grant(self, role: str) -> Statement[None]:
        """Let a role use the table, and nothing else."""
        failing = f"Failed to grant privileges to {role} on"
        return Statement(self._load("grant", failing, prepare=False, role=role), {}, no_rows)

    def bound_session(self, *, lock_timeout: float, statement_timeout: float) -> list[Statement[None]]:  # noqa: ARG002 - SET takes no parameter
        """Have no statement wait for a lock longer than ten seconds.

        SQL Server has no limit for what a statement takes: who calls gives up in time, and the driver then interrupts
        the statement on the server.
        """
        return [
            Statement(
                self._load("bound_session", "Failed to prepare a session for", prepare=False), {}, no_rows
            )
        ]

    def store(self, message: DelayedMessage) -> Statement[None]:
        """Keep a message; one of the same id stays as it is. Waits for a transaction that stores that one."""
        parameters = {
            "resource": lock_name("delayed message", self.address, message.message_id),
            "message_id": message.message_id,
            "destination": message.destination,
            "time": message.time,
            "headers": message.headers,
            "body": message.body,
        }
        return Statement(self._store, parameters, no_rows)

    def fetch_next_due(self, at: datetime) -> Statement[DelayedMessage | None]:
        """Lock and return the earliest message that is due at an instant and not locked; never waits."""
        return Statement(self._fetch, {"at": at}, _message)

    def next(self) -> Statement[datetime | None]:
        """Ask when the earliest message is due, locked or not."""
        return Statement(self._next, {}, _time)

    def remove(self, message_id: str) -> Statement[int]:
        """Delete a message and say how many there were, 1 or 0; waits for who has it locked."""
        return Statement(self._remove, {"message_id": message_id}, number)

    def increment_failure_count(self, message_id: str) -> Statement[int]:
        """Count a failure of a message and say how many there were, 1 or 0; waits for who has it locked."""
        return Statement(self._increment, {"message_id": message_id}, number)

    def state(self, most: int) -> Statement[DelayedState]:
        """Count the messages, up to `most`; keeps no lock."""
        query = self._load("state", "Failed to count the messages of", prepare=False)
        return Statement(query, {"most": most}, _state)

    def peek(self, most: int) -> Statement[list[KeptMessage]]:
        """Look at the messages due next without taking them; keeps no lock."""
        return Statement(self._load("peek", "Failed to look into", prepare=False), {"most": most}, _kept)


def find_stores(addresses: SqlServerAddresses, schema: str | None) -> Statement[list[QueueAddress]]:
    """Find all tables of stores in the session's catalog, or those of one schema."""
    query = load(f"{_FOLDER}/find.sql", failing="Failed to look for delayed message stores", prepare=False)

    def decode(rows: Rows, _count: int) -> list[QueueAddress]:
        return [SqlServerAddress(where, name, addresses.catalog) for where, name in rows]

    return Statement(query, {"schema_name": schema}, decode)


def _is_store(rows: Rows, _count: int) -> bool:
    return {name for (name,) in rows} >= _COLUMNS


def _message(rows: Rows, _count: int) -> DelayedMessage | None:
    for message_id, destination, time, headers, body, retries in rows:
        return DelayedMessage(
            message_id=message_id,
            destination=destination,
            time=instant(time),
            headers=headers,
            body=body or b"",
            number_of_retries=retries,
        )
    return None


def _time(rows: Rows, _count: int) -> datetime | None:
    return aware(rows[0][0])


def _state(rows: Rows, _count: int) -> DelayedState:
    waiting, overdue, next_due, at = rows[0]
    return DelayedState(waiting, overdue, aware(next_due), instant(at))


def _kept(rows: Rows, _count: int) -> list[KeptMessage]:
    return [
        KeptMessage(
            message_id,
            instant(due),
            destination or "",
            headers.decode("utf-8", "backslashreplace"),
            size,
            failures,
        )
        for message_id, due, destination, headers, size, failures in rows
    ]
