"""The statements of a measurement, beside those of queues and logs.

Invariant: each names the schema that was made for the measurement, and no other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.bench.figures import Settings
from rowbus.database.statements import Statement, affected, load, no_rows, scalar

if TYPE_CHECKING:
    from rowbus.database.statements import Decode, Rows, T
    from rowbus.messages.address import QueueAddress


def create_schema(schema: str) -> Statement[None]:
    """Create the schema; raises AlreadyThereError, PermissionDeniedError."""
    return _once("create_schema", f"Failed to create the schema {schema}", no_rows, schema=schema)


def drop_schema(schema: str) -> Statement[None]:
    """Drop the schema with all that is in it; waits for transactions that use it."""
    return _once("drop_schema", f"Failed to drop the schema {schema}", no_rows, schema=schema)


def grant_create(database: str, role: str) -> Statement[None]:
    """Let a role create schemas; for people to run."""
    return _once("grant_create", "Failed to grant", no_rows, database=database, role=role)


def create_orders(schema: str) -> Statement[None]:
    """Create the table that handlers write to."""
    return _once("create_orders", "Failed to create a table for handlers", no_rows, schema=schema)


def insert_order(schema: str, order_id: str, total: float) -> Statement[None]:
    """Write what a handler writes."""
    query = load("bench/sql/postgresql/insert_order.sql", identifiers={"schema": schema})
    return Statement(query, {"order_id": order_id, "total": total}, no_rows)


def truncate(address: QueueAddress) -> Statement[None]:
    """Empty a table."""
    return _once(
        "truncate", f"Failed to empty {address}", no_rows, schema=address.schema, table=address.table
    )


def vacuum(address: QueueAddress) -> Statement[None]:
    """Have the planner know how full a table is; on a session in autocommit mode."""
    return _once("vacuum", f"Failed to vacuum {address}", no_rows, schema=address.schema, table=address.table)


def fill(address: QueueAddress, messages: int, headers: str, body: bytes) -> Statement[int]:
    """Put so many messages into a queue."""
    return _fill("fill", address, messages, headers, body)


def fill_delayed(address: QueueAddress, messages: int, headers: str, body: bytes) -> Statement[int]:
    """Put so many messages that are due into a table of delayed messages."""
    return _fill("fill_delayed", address, messages, headers, body)


def move_due(address: QueueAddress, queue: QueueAddress, batch_size: int) -> Statement[int]:
    """Move a batch of due messages by hand; say how many."""
    names = {"schema": address.schema, "table": address.table, "queue": queue.table}
    query = load(
        "bench/sql/postgresql/move_due.sql", identifiers=names, failing=f"Failed to move from {address}"
    )
    return Statement(query, {"batch_size": batch_size}, affected)


def select_one() -> Statement[int]:
    """Ask for nothing."""
    return Statement(load("bench/sql/postgresql/select_one.sql"), {}, scalar)


def settings() -> Statement[Settings]:
    """Read the server's settings."""
    return _once("settings", "Failed to read the server's settings", _settings)


def wal_position() -> Statement[int]:
    """Ask how many bytes of WAL there are."""
    return _once("wal_position", "Failed to read the position in the WAL", scalar)


def _fill(name: str, address: QueueAddress, messages: int, headers: str, body: bytes) -> Statement[int]:
    query = load(
        f"bench/sql/postgresql/{name}.sql",
        identifiers={"schema": address.schema, "table": address.table},
        failing=f"Failed to fill {address}",
        prepare=False,
    )
    return Statement(query, {"messages": messages, "headers": headers, "body": body}, affected)


def _once(name: str, failing: str, decode: Decode[T], **identifiers: str) -> Statement[T]:
    query = load(f"bench/sql/postgresql/{name}.sql", identifiers=identifiers, failing=failing, prepare=False)
    return Statement(query, {}, decode)


def _settings(rows: Rows, _count: int) -> Settings:
    return Settings._make(rows[0])
