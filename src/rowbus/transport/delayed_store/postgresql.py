"""The table of `PostgresDelayedMessageStore`: delayed messages by their id, found by when they are due.

NServiceBus's table for MSMQ, in PostgreSQL's types: `state` is the body, `time` when it is due
(docs/wire-format.md#delayed-message-store).

Invariant: only the session that has a row locked sends that message.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rowbus.database.statements import Query, Statement, affected, load, no_rows
from rowbus.messages.address import QueueAddress
from rowbus.transport.delayed.table import DelayedState
from rowbus.transport.delayed_store.protocol import DelayedMessage
from rowbus.transport.delayed_store.table import KeptMessage
from rowbus.transport.queues.postgresql import exists

if TYPE_CHECKING:
    from rowbus.database.statements import Rows
    from rowbus.messages.address import Addresses

_FOLDER = "transport/delayed_store/sql/postgresql"
_COLUMNS = frozenset({"id", "destination", "state", "time", "headers", "retry_count"})


class DelayedStoreTable:
    """Statements on one store's table; each runs in its runner's transaction."""

    def __init__(self, address: QueueAddress) -> None:
        """Bind the SQL files to the table. No I/O."""
        self.address = address
        self._store = self._load("store", "Failed to store a delayed message in")
        self._fetch = self._load("fetch_next_due", "Failed to fetch due messages from")
        self._remove = self._load("remove", "Failed to remove a delayed message from")
        self._increment = self._load("increment_failure_count", "Failed to count a failure in")
        self._next = self._load("next", "Failed to look into", prepare=False)

    def _load(self, operation: str, failing: str, *, prepare: bool = True) -> Query:
        return load(
            f"{_FOLDER}/{operation}.sql",
            identifiers={"schema": self.address.schema, "store": self.address.table},
            failing=f"{failing} {self.address}",
            prepare=prepare,
        )

    def exists(self) -> Statement[bool]:
        """Say whether the table exists."""
        return exists(self.address)

    def is_store(self) -> Statement[bool]:
        """Say whether the table has a store's columns. Locks nothing."""
        query = load(
            "transport/queues/sql/postgresql/find_columns.sql",
            failing=f"Failed to look for the columns of {self.address}",
            prepare=False,
        )
        names = {"schemas": [self.address.schema], "tables": [self.address.table]}
        return Statement(query, names, _is_store)

    def create(self) -> list[Statement[None]]:
        """Create the table if it is missing. Another creator at the same time may make this fail."""
        return [Statement(self._load("create", "Failed to create", prepare=False), {}, no_rows)]

    def grant(self, role: str) -> Statement[None]:
        """Let a role use the table, and nothing else."""
        query = load(
            f"{_FOLDER}/grant.sql",
            identifiers={"schema": self.address.schema, "store": self.address.table, "role": role},
            failing=f"Failed to grant privileges on {self.address} to {role}",
            prepare=False,
        )
        return Statement(query, {}, no_rows)

    def bound_session(self, *, lock_timeout: float, statement_timeout: float) -> list[Statement[None]]:
        """Have no statement of the session wait for a lock, or run, longer than so many seconds."""
        query = load(
            f"{_FOLDER}/bound_session.sql",
            failing=f"Failed to prepare a session for {self.address}",
            prepare=False,
        )
        limits = {
            "lock_timeout": round(lock_timeout * 1000),
            "statement_timeout": round(statement_timeout * 1000),
        }
        return [Statement(query, limits, no_rows)]

    def store(self, message: DelayedMessage) -> Statement[None]:
        """Keep a message; one of the same id stays as it is. Waits for who stores or removes that one."""
        parameters = {
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
        return Statement(self._remove, {"message_id": message_id}, affected)

    def increment_failure_count(self, message_id: str) -> Statement[int]:
        """Count a failure of a message and say how many there were, 1 or 0; waits for who has it locked."""
        return Statement(self._increment, {"message_id": message_id}, affected)

    def state(self, most: int) -> Statement[DelayedState]:
        """Count the messages, up to `most`. Locks nothing."""
        query = self._load("state", "Failed to count the messages of", prepare=False)
        return Statement(query, {"most": most}, _state)

    def peek(self, most: int) -> Statement[list[KeptMessage]]:
        """Look at the messages due next without taking them. Locks nothing."""
        return Statement(self._load("peek", "Failed to look into", prepare=False), {"most": most}, _kept)


def find_stores(_addresses: Addresses, schema: str | None) -> Statement[list[QueueAddress]]:
    """Find all tables of stores, or those of one schema."""
    query = load(f"{_FOLDER}/find.sql", failing="Failed to look for delayed message stores", prepare=False)
    return Statement(query, {"schema_name": schema}, _addresses_of)


def _is_store(rows: Rows, _count: int) -> bool:
    return any(set(columns) >= _COLUMNS for _schema, _name, _is_table, columns, *_ in rows)


def _message(rows: Rows, _count: int) -> DelayedMessage | None:
    for message_id, destination, time, headers, body, retries in rows:
        return DelayedMessage(
            message_id=message_id,
            destination=destination,
            time=time.astimezone(UTC),
            headers=headers,
            body=body,
            number_of_retries=retries,
        )
    return None


def _time(rows: Rows, _count: int) -> datetime | None:
    ((time,),) = rows
    return None if time is None else time.astimezone(UTC)


def _state(rows: Rows, _count: int) -> DelayedState:
    return DelayedState._make(rows[0])


def _kept(rows: Rows, _count: int) -> list[KeptMessage]:
    return [
        KeptMessage(
            message_id,
            due.astimezone(UTC),
            destination,
            headers.decode("utf-8", "backslashreplace"),
            size,
            failures,
        )
        for message_id, due, destination, headers, size, failures in rows
    ]


def _addresses_of(rows: Rows, _count: int) -> list[QueueAddress]:
    return [QueueAddress(schema, name) for schema, name in rows]
