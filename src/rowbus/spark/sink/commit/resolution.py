"""Ends prepared transactions of the sink as was decided: for the driver's commit and abort, for tasks, for the janitor.

Invariant: safe to repeat and to run several times at once; a transaction that was decided to commit and is not there is
an error unless its mark says that it did commit.
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

_PATIENCE = 100  # looks at a transaction that somebody else is just ending
_PAUSE = 0.05  # seconds between them


def finish(session: Session, key: BatchKey) -> None:
    """Commit what a batch was decided to consist of; nothing happens when that was done. In no transaction."""
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
    """Roll back those of some prepared transactions that were not decided to commit; return how many there were."""
    ended = 0
    for name in names:
        if session.run(prepared_transactions.decide_rollback(name)):
            ended += _end(session, prepared_transactions.roll_back_prepared(name))
            session.run(prepared_transactions.forget_decisions([name]))
    return ended


def clear_way(session: Session, key: BatchKey, own: str | None = None) -> None:
    """End what earlier runs of a batch left prepared: their locks would make this run wait for ever.

    `own` is the writer whose transactions are this run's, and stay.
    """
    finish(session, key)
    prefix = batch_prefix(key)
    left = session.run(prepared_transactions.find_prepared(prefix))
    roll_back(session, [name for name in left if own is None or not name.startswith(f"{prefix}{own}:")])


def _end(session: Session, statement: Statement[None]) -> bool:
    """End a prepared transaction, waiting for somebody who is just doing so; False when it is gone."""
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
