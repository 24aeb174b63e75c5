"""Prepared transactions of the sink, and the decisions on them.

Whoever wants one committed or rolled back writes that into `rowbus_spark.decision` first; its primary key lets the
first one win. Each transaction also leaves a mark that is seen when it has committed, by which "there is none of that
name" is told from "it was rolled back".

Invariant: nothing is rolled back that was decided to commit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.database.statements import Query, Statement, affected, load, no_rows, scalar
from rowbus.spark.sink.commit.batch import BatchKey

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from rowbus.database.statements import Rows

TIMED_OUT = "55P03"  # waiting for a lock
UNDEFINED = "42704"  # there is no prepared transaction of that name
BUSY = "55006"  # somebody else is ending it

_FOLDER = "spark/sink/commit/sql/postgresql"


def find_limit() -> Statement[int]:
    """Ask how many prepared transactions the server allows."""
    return Statement(_load("find_limit"), {}, scalar)


def limit_lock_wait(wait: str) -> Statement[None]:
    """Have this transaction wait for a lock no longer than that."""
    return Statement(_load("limit_lock_wait"), {"wait": wait}, no_rows)


def mark_part(gid: str) -> Statement[None]:
    """Leave the mark of a transaction that is going to be prepared."""
    return Statement(_load("mark_part"), {"gid": gid}, no_rows)


def prepare(gid: str) -> Statement[None]:
    """End the transaction, its fate open."""
    return _end("prepare", gid)


def commit_prepared(gid: str) -> Statement[None]:
    """Commit a prepared transaction; run it in no other one."""
    return _end("commit_prepared", gid)


def roll_back_prepared(gid: str) -> Statement[None]:
    """Roll a prepared transaction back; run it in no other one."""
    return _end("roll_back_prepared", gid)


def decide_commit(key: BatchKey, gids: Sequence[str]) -> Statement[None]:
    """Decide that a batch consists of these; fails when one of them is being rolled back."""
    return Statement(_load("decide_commit"), {**key._asdict(), "gids": list(gids)}, no_rows)


def decide_rollback(gid: str) -> Statement[bool]:
    """Decide that one is rolled back; False when it was decided that it commits."""
    return Statement(_load("decide_rollback"), {"gid": gid}, scalar)


def count_prepared(gids: Sequence[str]) -> Statement[int]:
    """Count those that there are."""
    return Statement(_load("count_prepared"), {"gids": list(gids)}, scalar)


def find_prepared(prefix: str, before: datetime | None = None) -> Statement[list[str]]:
    """Name those that begin so, were made before a moment, and are not decided to commit."""
    return Statement(_load("find_prepared"), {"prefix": prefix, "before": before}, _first_column)


def find_decided(key: BatchKey) -> Statement[list[str]]:
    """Name those that a batch consists of and that may not have committed yet."""
    return Statement(_load("find_decided"), key._asdict(), _first_column)


def lock_decided(key: BatchKey) -> Statement[list[str]]:
    """Name the same, and keep others from finishing them until the transaction ends."""
    return Statement(_load("lock_decided"), key._asdict(), _first_column)


def forget_parts(gids: Sequence[str]) -> Statement[int]:
    """Remove the marks of transactions; answers how many of them have committed."""
    return Statement(_load("forget_parts"), {"gids": list(gids)}, affected)


def forget_decisions(gids: Sequence[str]) -> Statement[None]:
    """Remove decisions that were carried out."""
    return Statement(_load("forget_decisions"), {"gids": list(gids)}, no_rows)


def find_unfinished_batches() -> Statement[list[BatchKey]]:
    """List batches that were decided and not finished."""
    return Statement(_load("find_unfinished_batches"), {}, _keys)


def find_unfinished_rollbacks() -> Statement[list[str]]:
    """Name transactions that were to be rolled back and perhaps were not."""
    return Statement(_load("find_unfinished_rollbacks"), {}, _first_column)


def _end(operation: str, gid: str) -> Statement[None]:
    return Statement(_load(operation, gid), {}, no_rows)


def _load(operation: str, gid: str | None = None) -> Query:
    literals = {} if gid is None else {"gid": gid}
    failing = "Failed to end a prepared transaction of Spark's"
    return load(f"{_FOLDER}/{operation}.sql", literals=literals, failing=failing, prepare=False)


def _first_column(rows: Rows, _count: int) -> list[str]:
    return [row[0] for row in rows]


def _keys(rows: Rows, _count: int) -> list[BatchKey]:
    return [BatchKey._make(row) for row in rows]
