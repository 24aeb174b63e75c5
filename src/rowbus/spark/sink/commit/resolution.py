"""Resolution of prepared transactions: commit or roll back as decided, for the driver, for tasks and for the janitor.

Invariant: safe to repeat and to run several times at once. A transaction that was decided to commit and is missing is
an error, unless its mark says that it committed.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rowbus.errors import StorageError
from rowbus.spark.sink.commit import prepared_transactions
from rowbus.spark.sink.commit.batch import batch_prefix

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rowbus.database.postgresql.connection import Session
    from rowbus.database.statements import Statement
    from rowbus.spark.sink.commit.batch import BatchKey

_PATIENCE = 100  # looks at a transaction that another session is ending
_PAUSE = 0.05  # seconds between them


def finish(session: Session, key: BatchKey) -> None:
    """Commit the decided transactions of a batch; does nothing when that was done. In no transaction."""
    decided = session.run(prepared_transactions.find_decided(key))
    if not decided:
        return
    for name in decided:
        _end(session, prepared_transactions.commit_prepared(name))
    with session.transaction():
        names = session.run(prepared_transactions.lock_decided(key))
        if session.run(prepared_transactions.forget_parts(names)) != len(names):
            raise StorageError(
                f"Part of batch {key.batch_id} is lost: prepared transactions of it were rolled back by hand. They "
                f"are among those in rowbus_spark.decision; delete these rows and write the batch anew.",
                sqlstate=None,
                transient=False,
            )
        session.run(prepared_transactions.forget_decisions(names))


def roll_back(session: Session, names: Iterable[str]) -> int:
    """Roll back these prepared transactions, except those decided to commit; return how many were."""
    ended = 0
    for name in names:
        if session.run(prepared_transactions.decide_rollback(name)):
            ended += _end(session, prepared_transactions.roll_back_prepared(name))
            session.run(prepared_transactions.forget_decisions([name]))
    return ended


def clear_way(session: Session, key: BatchKey, own: str | None = None) -> None:
    """End the prepared transactions of earlier runs of a batch, whose locks would block this run for ever.

    Those of the writer `own` are of this run, and stay.
    """
    finish(session, key)
    prefix = batch_prefix(key)
    left = session.run(prepared_transactions.find_prepared(prefix))
    roll_back(session, [name for name in left if own is None or not name.startswith(f"{prefix}{own}:")])


def _end(session: Session, statement: Statement[None]) -> bool:
    """End a prepared transaction, waiting while another session ends it; False when it is gone."""
    for _look in range(_PATIENCE):
        try:
            session.run(statement)
        except StorageError as error:
            if error.sqlstate == prepared_transactions.UNDEFINED:
                return False
            if error.sqlstate != prepared_transactions.BUSY:
                raise
            time.sleep(_PAUSE)
        else:
            return True
    raise StorageError(
        "A prepared transaction of Spark's stays busy.", sqlstate=prepared_transactions.BUSY, transient=True
    )
