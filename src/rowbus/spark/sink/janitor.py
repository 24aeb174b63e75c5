"""Removes what batches that died have left: stages, prepared transactions, claims; and finishes what was decided.

Spark tells nobody on an executor that a task was in vain, and a killed driver aborts nothing. Each batch that commits
tidies up after its own sink; the janitor does so for sinks that never run again.

Invariant: nothing that a batch in flight could still publish is removed unnoticed: its commit would find it gone, fail,
and Spark would write it again.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from rowbus.spark.queue_source.claims import return_expired
from rowbus.spark.schema.installer import is_installed
from rowbus.spark.sink.commit import ledger, prepared_transactions, resolution, stage
from rowbus.spark.sink.commit.batch import PREPARED_PREFIX

if TYPE_CHECKING:
    from rowbus.database.postgresql.connection import Session

DAY = timedelta(days=1)


class JanitorReport(NamedTuple):
    """What was found and removed."""

    stages: int
    """Stages dropped."""

    rolled_back: int
    """Prepared transactions rolled back: no batch had been decided to consist of them."""

    finished: int
    """Batches whose prepared transactions were decided, and are committed now."""

    runs: int
    """Batch writes without an identity, forgotten by the ledger."""

    returned: int
    """Messages that a query had claimed and not come back for within its lease, back in their queues."""


def clean(session: Session, older_than: timedelta = DAY) -> JanitorReport:
    """Remove what is older than that, in no transaction; stages that somebody reads or writes now stay.

    A batch that a driver decided and could not finish is finished, whatever its age, and messages whose lease is over
    go back to their queues. Raises StorageError. Waits for nobody, except for others who end the same prepared
    transactions.
    """
    if not is_installed(session):
        return JanitorReport(0, 0, 0, 0, 0)
    before = datetime.now(UTC) - older_than
    unfinished = session.run(prepared_transactions.find_unfinished_batches())
    for key in unfinished:
        resolution.finish(session, key)
    doomed = session.run(prepared_transactions.find_unfinished_rollbacks())
    orphans = session.run(prepared_transactions.find_prepared(PREPARED_PREFIX, before))
    rolled_back = resolution.roll_back(session, dict.fromkeys([*doomed, *orphans]))
    stages = session.run(stage.drop_old_stages(before))
    runs = session.run(ledger.purge_runs(before))
    return JanitorReport(stages, rolled_back, len(unfinished), runs, return_expired(session))
