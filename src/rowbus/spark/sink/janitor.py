"""The janitor: removes stages, prepared transactions and claims of batches that died, and finishes decided batches.

Spark does not tell executors that a task was superfluous, and a killed driver aborts nothing. Each commit tidies up
after its own sink; the janitor does so for sinks that never run again.

Invariants: removing what a batch in flight still needs never loses rows: its commit finds the part gone and fails, and
Spark writes the batch again; needs neither Spark nor Arrow.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from rowbus.database.location import resolve_dsn
from rowbus.database.postgresql.database import Database
from rowbus.spark.queue_source.claims import return_expired
from rowbus.spark.schema import is_installed
from rowbus.spark.sink.commit import batch, prepared_transactions
from rowbus.spark.sink.commit.batch import PREPARED_PREFIX

if TYPE_CHECKING:
    from rowbus.database.postgresql.connection import Session

DAY = timedelta(days=1)


class JanitorReport(NamedTuple):
    """Counts of what the janitor removed."""

    stages: int
    """Stages dropped."""

    rolled_back: int
    """Prepared transactions rolled back: none was decided to commit."""

    finished: int
    """Batches whose prepared transactions were decided to commit, and are committed now."""

    runs: int
    """Batch writes without an identity, deleted from the ledger."""

    returned: int
    """Messages of claims whose lease ended, back in their queues."""


def clean(session: Session, older_than: timedelta = DAY) -> JanitorReport:
    """Remove what is older than that, in no transaction; stages in use stay.

    Finishes decided batches of any age, and puts messages whose lease ended back into their queues. Waits only for
    sessions that end the same prepared transactions. Raises StorageError.
    """
    if not is_installed(session):
        return JanitorReport(0, 0, 0, 0, 0)
    before = datetime.now(UTC) - older_than
    unfinished = session.run(prepared_transactions.find_unfinished_batches())
    for key in unfinished:
        prepared_transactions.finish(session, key)
    doomed = session.run(prepared_transactions.find_unfinished_rollbacks())
    orphans = session.run(prepared_transactions.find_prepared(PREPARED_PREFIX, before))
    rolled_back = prepared_transactions.roll_back(session, dict.fromkeys([*doomed, *orphans]))
    stages = session.run(batch.drop_old_stages(before))
    runs = session.run(batch.purge_runs(before))
    return JanitorReport(stages, rolled_back, len(unfinished), runs, return_expired(session))


def janitor(dsn: str | None = None, *, older_than: timedelta = DAY) -> JanitorReport:
    """Remove leftovers of batches that died, and finish those that were decided; see `JanitorReport`.

    Each commit cleans up after its own sink, so this is for sinks that never run again; once a day is enough.
    `older_than` should be longer than any batch takes: a batch that loses its stages fails, and is written again.
    Raises StorageError.
    """
    with Database(resolve_dsn(dsn), application_name="rowbus spark janitor").session() as session:
        return clean(session, older_than)
