"""Replicas: which tables are captured, what copies them, and how changes are applied to the copies.

Invariant: the snapshot of a copy is noted in the transaction that fills the table, and a batch in the one that applies
it, so that each change is in the replica once, wherever a process ended.
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
    """Say which database this is: two sessions that get the same answer are in the same one."""
    query = _load("identify_database", "Could not look which database this is")
    return Statement(query, {}, _pair)


def begin_copy() -> Statement[str]:
    """Return the snapshot of this transaction, which must be a repeatable read; sets its search_path."""
    return Statement(_load("begin_copy", "Could not begin to copy"), {}, scalar)


def describe_tables(log: str) -> Statement[list[CapturedTable]]:
    """List what is captured into a log; after `fix_snapshot`, in its transaction."""
    query = _load("describe_tables", f'Could not look for the tables captured into log "{log}"')
    return Statement(query, {"log": log}, _captured)


def hold_replica(replica: str) -> Statement[int | None]:
    """Take a replica for this transaction; made if it is missing. Answers its last batch. Waits for others."""
    return Statement(_load("hold_replica", _failing(replica)), {"replica": replica}, scalar)


def reset_replica(replica: str) -> Statement[None]:
    """Forget a replica's tables and how far it has come; its checkpoint may be another one from now on."""
    return Statement(_load("reset_replica", _failing(replica)), {"replica": replica}, no_rows)


def list_replica_tables(replica: str) -> Statement[list[ReplicaTable]]:
    """List a replica's tables; none when it is not there."""
    return Statement(_load("list_replica_tables", _failing(replica)), {"replica": replica}, _tables)


def prepare_table(replica: str, source: CapturedTable, schema: str, snapshot: str) -> Statement[str]:
    """Make or empty the copy of a table, and note its snapshot; answers the COPY that fills it.

    Locks the table until the transaction ends. Raises StorageError when a table is there that does not fit.
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
    """Apply the changes that wait in stages; answers how many, None for a batch that was applied before.

    In the caller's transaction. Raises StorageError when batches are missing, the checkpoint is another one, or a
    table was altered.
    """
    parameters = {"replica": replica, "query": query_id, "batch": batch, "stages": list(stages)}
    return Statement(
        _load("apply_changes", f'Could not bring replica "{replica}" up to date'), parameters, scalar
    )


def copying(text: str, table: str) -> Query:
    """Return a COPY that the server wrote as a query."""
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
