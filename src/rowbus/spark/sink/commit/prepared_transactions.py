"""Prepared transactions of the sink, and the decisions to commit or roll back.

A decision is a row in `rowbus_spark.decision`, written before the transaction is ended; its primary key makes the first
decision win. Each transaction also writes a mark that becomes visible when it commits. The mark tells a committed
transaction from one that was rolled back, after both are gone.

Invariant: a transaction that was decided to commit is never rolled back.
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
BUSY = "55006"  # another session is ending it

_FOLDER = "spark/sink/commit/sql/postgresql"


def find_limit() -> Statement[int]:
    """Return how many prepared transactions the server allows."""
    return Statement(_load("find_limit"), {}, scalar)


def limit_lock_wait(wait: str) -> Statement[None]:
    """Limit how long this transaction waits for a lock."""
    return Statement(_load("limit_lock_wait"), {"wait": wait}, no_rows)


def mark_part(gid: str) -> Statement[None]:
    """Write the mark of a transaction that is going to be prepared."""
    return Statement(_load("mark_part"), {"gid": gid}, no_rows)


def prepare(gid: str) -> Statement[None]:
    """Prepare the transaction of this session."""
    return _end("prepare", gid)


def commit_prepared(gid: str) -> Statement[None]:
    """Commit a prepared transaction; runs outside transactions."""
    return _end("commit_prepared", gid)


def roll_back_prepared(gid: str) -> Statement[None]:
    """Roll a prepared transaction back; runs outside transactions."""
    return _end("roll_back_prepared", gid)


def decide_commit(key: BatchKey, gids: Sequence[str]) -> Statement[None]:
    """Decide to commit these transactions of a batch; fails when one of them was decided to roll back."""
    return Statement(_load("decide_commit"), {**key._asdict(), "gids": list(gids)}, no_rows)


def decide_rollback(gid: str) -> Statement[bool]:
    """Decide to roll a transaction back; False when it was decided to commit."""
    return Statement(_load("decide_rollback"), {"gid": gid}, scalar)


def count_prepared(gids: Sequence[str]) -> Statement[int]:
    """Count those of these transactions that exist."""
    return Statement(_load("count_prepared"), {"gids": list(gids)}, scalar)


def find_prepared(prefix: str, before: datetime | None = None) -> Statement[list[str]]:
    """Return undecided transactions whose names begin so, prepared before a moment."""
    return Statement(_load("find_prepared"), {"prefix": prefix, "before": before}, _first_column)


def find_decided(key: BatchKey) -> Statement[list[str]]:
    """Return the transactions of a batch that were decided to commit and may not have committed yet."""
    return Statement(_load("find_decided"), key._asdict(), _first_column)


def lock_decided(key: BatchKey) -> Statement[list[str]]:
    """Return the same as `find_decided`, with their rows locked until the transaction ends."""
    return Statement(_load("lock_decided"), key._asdict(), _first_column)


def forget_parts(gids: Sequence[str]) -> Statement[int]:
    """Delete the marks of transactions; returns how many of them have committed."""
    return Statement(_load("forget_parts"), {"gids": list(gids)}, affected)


def forget_decisions(gids: Sequence[str]) -> Statement[None]:
    """Delete decisions that were carried out."""
    return Statement(_load("forget_decisions"), {"gids": list(gids)}, no_rows)


def find_unfinished_batches() -> Statement[list[BatchKey]]:
    """Return the batches that were decided and are not finished."""
    return Statement(_load("find_unfinished_batches"), {}, _keys)


def find_unfinished_rollbacks() -> Statement[list[str]]:
    """Return transactions that were decided to roll back and may still exist."""
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
