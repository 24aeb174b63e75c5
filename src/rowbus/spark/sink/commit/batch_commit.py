"""The commit of a batch, in the driver: publish the parts of all tasks once, or remove them.

Invariant: a batch is published if and only if the ledger has it, however often Spark asks and wherever a process dies.
A part that is not as its task left it fails the batch, and Spark writes the batch again.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from rowbus.errors import ConfigurationError, RowbusError, StorageError
from rowbus.spark.checkpoint import refuse_older
from rowbus.spark.sink.commit import batch, prepared_transactions
from rowbus.spark.sink.commit.batch import PREPARED, STAGED, query_id_of

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from rowbus.database.postgresql.connection import Session
    from rowbus.spark.sink.commit.batch import BatchKey, Part
    from rowbus.spark.sink.commit.task import Target

logger = logging.getLogger("rowbus.spark")

KEEP = 1000
"""Batches that the ledger keeps at least; Spark's checkpoints keep 100 (`spark.sql.streaming.minBatchesToRetain`)."""

_PURGING = 50  # batches from one purge of the ledger to the next
_UNDEFINED_TABLE = "42P01"


def commit(
    session: Session,
    target: Target,
    key: BatchKey,
    guarantee: str,
    parts: Sequence[Part],
    *,
    keep: int | None = None,
) -> bool:
    """Publish a batch unless it was published before; return whether it was done now. In no transaction.

    `keep` is how many batches of a stream the ledger keeps; None for a batch write, which it keeps for ever. Raises
    StorageError when a part is not as its task left it; then nothing is published.
    """
    parts = sorted(parts, key=lambda part: part.partition)
    if guarantee == PREPARED:
        done = _commit_prepared(session, target, key, parts)
    else:
        prepared_transactions.clear_way(session, key)  # an earlier run may have had another guarantee
        done = _publish(session, target, key, parts)
    _tidy(session, key, parts, keep)
    return done


def abort(session: Session, key: BatchKey | None, parts: Sequence[Part]) -> None:
    """Remove the parts of a failed batch. A batch in the ledger stays: a failed commit may have committed."""
    if key is not None and session.run(batch.find_writer(key)).writer is not None:
        logger.info("Batch %s was committed before Spark gave it up; the next run finds it so", key)
    _drop_stages(session, [part.place for part in parts if part.guarantee == STAGED and part.place])
    prepared_transactions.roll_back(session, [part.place for part in parts if part.guarantee == PREPARED])


def _commit_prepared(session: Session, target: Target, key: BatchKey, parts: Sequence[Part]) -> bool:
    """Record the batch's prepared transactions unless that was done, commit them, and roll back its others."""
    done = _decide(session, key, parts)
    prepared_transactions.finish(session, key)
    if done:
        target.announce(session, frozenset[str]().union(*(part.told for part in parts)))
    prepared_transactions.clear_way(session, key)
    return done


def _publish(session: Session, target: Target, key: BatchKey, parts: Sequence[Part]) -> bool:
    """Publish the stages in the transaction that writes the batch into the ledger."""
    staged = [part for part in parts if part.place]
    with session.transaction():
        session.run(batch.set_durable())
        if not _claim(session, key, STAGED, parts):
            return False
        _require_written(key, parts)
        for part in staged:
            _require_whole(session, part)
        target.announce(session, target.publish(session, staged, key))
        session.run(batch.drop_stages([part.place for part in staged]))
    return True


def is_done(session: Session, key: BatchKey, query_id: str | None) -> bool:
    """Return whether a batch is published. Raises ConfigurationError when another query published it, or a later one.

    Another query has only a name that the user gave; skipping the batch would lose its rows silently.
    """
    writer, newest = session.run(batch.find_writer(key))
    if writer and query_id and writer != query_id:
        raise ConfigurationError(
            f"Batch {key.batch_id} of the sink {key.sink_id!r} was written by another query ({writer}), whose "
            f"checkpoint this one does not have. Give a new checkpoint a new txnAppId, or none.",
            option="txnAppId",
        )
    if query_id:
        refuse_older(key.target, key.batch_id, newest)
    return writer is not None


def _claim(session: Session, key: BatchKey, guarantee: str, parts: Sequence[Part]) -> bool:
    """Write the batch into the ledger; False when this query has done so before."""
    query_id = query_id_of(parts)
    rows = sum(part.rows for part in parts)
    return session.run(batch.claim_batch(key, guarantee, rows, query_id)) or not is_done(
        session, key, query_id
    )


def _require_written(key: BatchKey, parts: Sequence[Part]) -> None:
    """Refuse parts that tasks skipped because the ledger had the batch, if the ledger has lost it since."""
    if any(part.rows and not part.place for part in parts):
        raise StorageError(
            f"Batch {key.batch_id} left the ledger while it was being written; start the query again.",
            sqlstate=None,
            transient=True,
        )


def _require_whole(session: Session, part: Part) -> None:
    """Refuse a stage that is gone, or that a crash of the server has emptied: stages are unlogged."""
    try:
        found = session.run(batch.count_stage(part.place))
    except StorageError as error:
        if error.sqlstate != _UNDEFINED_TABLE:
            raise
        found = -1
    if found != part.rows:
        raise StorageError(
            f"The stage {part.place} has lost its {part.rows} rows, perhaps in a crash of the server. Nothing was "
            f"published; Spark writes the batch again when the query is started again.",
            sqlstate=None,
            transient=True,
        )


def _decide(session: Session, key: BatchKey, parts: Sequence[Part]) -> bool:
    """Record the prepared transactions of the batch, all of which must exist; False if that was done before."""
    names = [part.place for part in parts if part.place]
    with session.transaction():
        session.run(batch.set_durable())
        if not _claim(session, key, PREPARED, parts):
            return False
        _require_written(key, parts)
        session.run(prepared_transactions.decide_commit(key, names))
        if session.run(prepared_transactions.count_prepared(names)) != len(
            names
        ):  # asked last: no other session rolls them back now
            raise StorageError(
                "A prepared transaction of this batch is gone. Nothing was published; Spark writes the batch again "
                "when the query is started again.",
                sqlstate=None,
                transient=True,
            )
    return True


def _tidy(session: Session, key: BatchKey, parts: Sequence[Part], keep: int | None) -> None:
    """Remove stages, what came too late, and old ledger rows. After a failure the next batch or the janitor does it."""
    with suppress(RowbusError):
        own = [part.place for part in parts if part.guarantee == STAGED and part.place]
        _drop_stages(session, {*own, *session.run(batch.find_stages(key))})
    if keep is None:
        return
    with suppress(RowbusError):
        prepared_transactions.end_late(session, key)
    if key.batch_id % _PURGING == 0:
        with suppress(RowbusError):
            session.run(batch.purge_ledger(key, keep))


def _drop_stages(session: Session, names: Collection[str]) -> None:
    if names:
        with session.transaction():
            session.run(batch.drop_stages(sorted(names)))
