"""Prepared transactions of the sink: commit or roll back as decided, for the driver, for tasks and for the janitor.

A decision is a row in `rowbus_spark.decision`, written before the transaction is ended; its primary key makes the first
decision win. Each transaction also writes a mark that becomes visible when it commits. The mark tells a committed
transaction from one that was rolled back, after both are gone.

Invariants: a transaction that was decided to commit is never rolled back. Safe to repeat and to run several times at
once. A transaction that was decided to commit and is missing is an error, unless its mark says that it committed.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rowbus.database.statements import Query, Statement, affected, load, no_rows, scalar
from rowbus.errors import StorageError
from rowbus.spark.sink.commit.batch import BatchKey, batch_prefix, sink_prefix

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from rowbus.database.postgresql.connection import Session
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


_PATIENCE = 100  # looks at a transaction that another session is ending
_PAUSE = 0.05  # seconds between them


def finish(session: Session, key: BatchKey) -> None:
    """Commit the decided transactions of a batch; does nothing when that was done. In no transaction."""
    decided = session.run(find_decided(key))
    if not decided:
        return
    for name in decided:
        _end_patiently(session, commit_prepared(name))
    with session.transaction():
        names = session.run(lock_decided(key))
        if session.run(forget_parts(names)) != len(names):
            raise StorageError(
                f"Part of batch {key.batch_id} is lost: prepared transactions of it were rolled back by hand. They "
                f"are among those in rowbus_spark.decision; delete these rows and write the batch anew.",
                sqlstate=None,
                transient=False,
            )
        session.run(forget_decisions(names))


def roll_back(session: Session, names: Iterable[str]) -> int:
    """Roll back these prepared transactions, except those decided to commit; return how many were."""
    ended = 0
    for name in names:
        if session.run(decide_rollback(name)):
            ended += _end_patiently(session, roll_back_prepared(name))
            session.run(forget_decisions([name]))
    return ended


def clear_way(session: Session, key: BatchKey, own: str | None = None) -> None:
    """End the prepared transactions of earlier runs of a batch, whose locks would block this run for ever.

    Those of the writer `own` are of this run, and stay.
    """
    finish(session, key)
    prefix = batch_prefix(key)
    left = session.run(find_prepared(prefix))
    roll_back(session, [name for name in left if own is None or not name.startswith(f"{prefix}{own}:")])


def end_late(session: Session, key: BatchKey) -> None:
    """End what attempts of a stream's earlier batches prepared too late: it holds vacuum back, and never commits."""
    prefix = sink_prefix(key)
    left = session.run(find_prepared(prefix))
    roll_back(session, [name for name in left if int(name[len(prefix) :].partition(":")[0]) < key.batch_id])


def _end_patiently(session: Session, statement: Statement[None]) -> bool:
    """End a prepared transaction, waiting while another session ends it; False when it is gone."""
    for _look in range(_PATIENCE):
        try:
            session.run(statement)
        except StorageError as error:
            if error.sqlstate == UNDEFINED:
                return False
            if error.sqlstate != BUSY:
                raise
            time.sleep(_PAUSE)
        else:
            return True
    raise StorageError("A prepared transaction of Spark's stays busy.", sqlstate=BUSY, transient=True)
