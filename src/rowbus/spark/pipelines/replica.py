"""Statements on replicas: describe captured tables, prepare their copies, apply changes.

Invariant: the snapshot of a copy is recorded in the transaction that fills the table, and a batch in the one that
applies it. So each change is in the replica once, wherever a process died.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rowbus.database.statements import Query, Statement, control, load, no_rows, scalar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowbus.database.statements import Rows

_FOLDER = "spark/pipelines/sql/postgresql"

BEGIN = control(b"begin transaction isolation level repeatable read read only", "Could not begin to copy")
END = control(b"commit", "Could not end copying")


class CapturedTable(NamedTuple):
    """A table whose changes a trigger writes to the log; fields in the order of `describe_tables.sql`."""

    name: str
    """Schema and table joined by a dot, as events name it."""

    schema: str
    table: str
    format: str
    arguments: list[str]
    columns: list[str]
    types: list[str]
    required: list[str] | None
    key: list[str]
    copying: str
    """The COPY that writes its rows."""


class ReplicaTable(NamedTuple):
    """A table of a replica."""

    source: str
    target: str
    """Its quoted name."""

    columns: list[str]
    key: list[str]


def identify_database() -> Statement[tuple[str, str]]:
    """Return the identity of this database, the same for all its sessions."""
    query = _load("identify_database", "Could not look which database this is")
    return Statement(query, {}, _pair)


def begin_copy() -> Statement[str]:
    """Return the snapshot of this transaction, which must be a repeatable read; sets its search_path."""
    return Statement(_load("begin_copy", "Could not begin to copy"), {}, scalar)


def describe_tables(log: str) -> Statement[list[CapturedTable]]:
    """Return the tables captured into a log; run it after `begin_copy`, in the same transaction."""
    query = _load("describe_tables", f'Could not look for the tables captured into log "{log}"')
    return Statement(query, {"log": log}, _captured)


def hold_replica(replica: str) -> Statement[int | None]:
    """Lock a replica until the transaction ends, or create it; returns its last batch. Waits."""
    return Statement(_load("hold_replica", _failing(replica)), {"replica": replica}, scalar)


def reset_replica(replica: str) -> Statement[None]:
    """Delete the record of a replica's tables and position; it may have a new checkpoint from now on."""
    return Statement(_load("reset_replica", _failing(replica)), {"replica": replica}, no_rows)


def list_replica_tables(replica: str) -> Statement[list[ReplicaTable]]:
    """Return a replica's tables; none when it does not exist."""
    return Statement(_load("list_replica_tables", _failing(replica)), {"replica": replica}, _tables)


def prepare_table(replica: str, source: CapturedTable, schema: str, snapshot: str) -> Statement[str]:
    """Create or empty the copy of a table, and record its snapshot; returns the COPY that fills it.

    Locks the table until the transaction ends. Raises StorageError when a table with other columns exists.
    """
    parameters = {
        "replica": replica,
        "source": source.name,
        "schema": schema,
        "table": source.table,
        "columns": source.columns,
        "types": source.types,
        "required": source.required or [],
        "key": source.key,
        "snapshot": snapshot,
    }
    query = _load("prepare_table", f"Could not prepare the copy of {source.name}")
    return Statement(query, parameters, scalar)


def apply_changes(
    replica: str, query_id: str | None, batch: int, stages: Sequence[str]
) -> Statement[int | None]:
    """Apply staged changes; returns how many, None for a batch that was applied before.

    In the caller's transaction. Raises StorageError when batches are missing, the checkpoint is another one, or a
    table was altered.
    """
    parameters = {"replica": replica, "query": query_id, "batch": batch, "stages": list(stages)}
    return Statement(
        _load("apply_changes", f'Could not bring replica "{replica}" up to date'), parameters, scalar
    )


def copying(text: str, table: str) -> Query:
    """Return the query of a COPY that the server wrote."""
    return control(text.encode(), f"Could not copy {table}").query


def _failing(replica: str) -> str:
    return f'Could not look for replica "{replica}"'


def _load(operation: str, failing: str) -> Query:
    return load(f"{_FOLDER}/{operation}.sql", failing=failing, prepare=False)


def _pair(rows: Rows, _count: int) -> tuple[str, str]:
    return rows[0][0], rows[0][1]


def _captured(rows: Rows, _count: int) -> list[CapturedTable]:
    return [CapturedTable._make(row) for row in rows]


def _tables(rows: Rows, _count: int) -> list[ReplicaTable]:
    return [ReplicaTable._make(row) for row in rows]
