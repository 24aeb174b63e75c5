"""The ledger: which batches have been published.

Invariant: a batch enters the ledger in the transaction that publishes it, or that decides its prepared transactions;
only `claim_batch` adds one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.database.statements import Query, Statement, affected, load, no_rows

if TYPE_CHECKING:
    from datetime import datetime

    from rowbus.database.statements import Rows
    from rowbus.spark.sink.commit.batch import BatchKey

_FOLDER = "spark/sink/commit/sql/postgresql"


def set_durable() -> Statement[None]:
    """Make the commit of this transaction durable, and its scans begin at a table's first row."""
    return Statement(_load("set_durable"), {}, no_rows)


def claim_batch(key: BatchKey, guarantee: str, rows: int, written_by: str | None) -> Statement[bool]:
    """Write the batch into the ledger; False when it is there already. Waits for others that claim the batch."""
    parameters = {
        **key._asdict(),
        "guarantee": guarantee,
        "row_count": rows,
        "written_by": written_by or "",
    }
    return Statement(_load("claim_batch"), parameters, _any)


def find_writer(key: BatchKey) -> Statement[str | None]:
    """Return the query that wrote the batch (empty: a batch write); None when the ledger does not have it."""
    return Statement(_load("find_writer"), key._asdict(), _one_or_none)


def purge_ledger(key: BatchKey, keep: int) -> Statement[int]:
    """Delete batches of the sink that are more than `keep` older than this one, and a week old."""
    return Statement(_load("purge_ledger"), {**key._asdict(), "keep": keep}, affected)


def purge_runs(before: datetime) -> Statement[int]:
    """Delete batch writes without an identity."""
    return Statement(_load("purge_runs"), {"before": before}, affected)


def _load(operation: str) -> Query:
    return load(f"{_FOLDER}/{operation}.sql", failing="Failed to commit a batch of Spark's", prepare=False)


def _one_or_none(rows: Rows, _count: int) -> str | None:
    return rows[0][0] if rows else None


def _any(_rows: Rows, count: int) -> bool:
    return count > 0
