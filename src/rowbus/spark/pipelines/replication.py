"""Replication of captured tables into another schema or database, kept up to date by the log.

The consumer is registered, then the tables are copied in one snapshot, then changes are applied, each micro-batch in
one transaction of the target. Changes of transactions that the snapshot sees are skipped. So there is neither a gap
nor an overlap, and an interrupted run is continued by the next one.

Invariant: readers of the replica see the source as it was at a tick, in all tables.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rowbus.database.location import resolve_dsn
from rowbus.database.postgresql.database import Database
from rowbus.errors import StorageError
from rowbus.spark.pipelines import replica
from rowbus.spark.pipelines.query_run import Most, check_listeners, options_of, run
from rowbus.spark.pipelines.release import put_stranger_aside, release, releasing
from rowbus.spark.pipelines.replica import ALL, ReplicaPlan, ReplicaTable, copy_tables
from rowbus.spark.session import loaded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from rowbus.spark.pipelines.query_run import Progress, Stop, Watch

CONSUMER: Final = "replica"
COLUMNS: Final = "ev_id,ev_txid,ev_type,ev_data,ev_extra1,ev_extra2"  # of the log's events, what changes need

logger = logging.getLogger("rowbus.spark")


@dataclass(frozen=True, slots=True)
class ReplicaReport:
    """The result of a run."""

    tables: dict[str, str]
    """The copies, by their sources."""

    copied: dict[str, int]
    """Rows of the tables that this run copied."""

    batches: int
    events: int
    released: dict[str, int]
    faults: dict[str, str]
    """Why tables stand still while the others go on, by the tables' names."""


def stands_still(faults: Mapping[str, str]) -> str:
    """Return a sentence that names the tables that stand still, why, and what to do."""
    told = "; ".join(f"{table}: {fault.rstrip('.')}" for table, fault in faults.items())
    return (
        f"Standing still, while other tables go on: {told}. Mend it, then copy such a table anew by --resync"
    )


class FaultWatch:
    """Says of each table of a replica that stands still why, once."""

    def __init__(self, target: Database, replica: str, watch: Watch | None) -> None:
        """Take where the replica is, and who else watches."""
        self._target = target
        self._replica = replica
        self._watch = watch
        self._told: dict[str, str] = {}

    def __call__(self, progress: Progress) -> None:
        """Look after a batch."""
        with suppress(StorageError):
            self.look()
        if self._watch is not None:
            self._watch(progress)

    def look(self) -> list[ReplicaTable]:
        """Return the tables of the replica; log the faults that are new."""
        with self._target.session() as session:
            tables = session.run(replica.list_replica_tables(self._replica))
        faults = {table.source: table.fault for table in tables if table.fault}
        if new := dict(faults.items() - self._told.items()):
            logger.warning("%s", stands_still(new))
        self._told = faults
        return tables


def replicate(  # noqa: PLR0913 - an argument for each option
    spark: SparkSession,
    log: str,
    *,
    checkpoint: str | Path,
    source: str | None = None,
    target: str | None = None,
    schema: str | None = "replica",
    tables: Sequence[str] | None = None,
    consumer: str = CONSUMER,
    follow: bool = False,
    copy_again: bool = False,
    resync: Sequence[str] = (),
    max_events_per_batch: int | None = None,
    max_bytes_per_batch: int | None = None,
    read_dsn: str | None = None,
    watch: Watch | None = None,
    tell: Callable[[str], object] | None = None,
    stop: Stop | None = None,
) -> ReplicaReport:
    """Bring a replica of the tables captured into a log up to date, or with `follow` keep it so until `stop`.

    `source` is the log's database, `target` the replica's, by default the same. `schema` is that of the copies; with
    None each copy has its source's. `tables` chooses tables, by default all captured ones; a table that is captured
    later is copied at the next run. `consumer` also names the replica. `copy_again` copies all tables again, after the
    checkpoint was lost; `resync` copies those that it names, as `shop.orders` or `shop.*`, and the others go on. A
    table that does not take its rows, because of what people have made of it, stands still, and the others go on. With
    `*` among them the replica also outlives a source that was restored: then the checkpoint is put aside.

    Each change exactly once, all tables of a micro-batch in one transaction. Raises ConfigurationError for tables that
    are not captured, or not in a format that can be replicated; LogNotFoundError, ConsumerBusyError, DataLossError,
    StorageError: for example when a source table was altered.
    """
    check_listeners(watch, tell)
    origin = resolve_dsn(source)
    place = resolve_dsn(source if target is None else target)
    aside = put_stranger_aside(Path(checkpoint), consumer, origin) if ALL in resync else None
    plan = ReplicaPlan(log, consumer, consumer, schema, tables, copy_again or aside is not None, resync)
    databases = [
        Database(dsn, application_name=f"rowbus spark replica {consumer}") for dsn in (origin, place)
    ]
    copied: dict[str, int] = {}

    wanted, watching = plan, FaultWatch(databases[1], consumer, watch)

    def copy() -> None:
        """Copy what is missing or altered; what was asked for again only once."""
        nonlocal wanted
        copied.update(copy_tables(databases[0], databases[1], wanted, tell or _say_nothing))
        wanted = plan._replace(again=False, resync=(), begun=True)
        watching.look()

    name = f"replicate {consumer}"
    places, most = (origin, read_dsn, place), Most(max_events_per_batch, max_bytes_per_batch)
    make = partial(_changes, spark, plan, places, most, str(checkpoint))
    with releasing(spark, consumer, origin, query=name):
        done = run(make, follow=follow, name=name, prepare=copy, watch=watching, stop=stop)
    release(done.ends, consumer=consumer, dsn=origin)
    return _report(watching.look(), copied, done)


def _report(held: Sequence[ReplicaTable], copied: dict[str, int], done: Progress) -> ReplicaReport:
    found = {table.source: table.target for table in held if table.target}
    faults = {table.source: table.fault for table in held if table.fault}
    return ReplicaReport(found, copied, done.batches, done.events, done.ends, faults)


def _say_nothing(_line: str) -> None:
    """Ignore a line of progress."""


def _changes(
    spark: SparkSession, plan: ReplicaPlan, places: tuple[str, str | None, str], most: Most, checkpoint: str
) -> DataStreamWriter:
    origin, read_dsn, target = places
    reader = spark.readStream.format("rowbus")
    options_of(
        reader,
        {
            "log": plan.log,
            "consumer": plan.consumer,
            "dsn": origin,
            "readDsn": read_dsn,
            "columns": COLUMNS,
            "startingOffsets": "committed",
            "maxOffsetsPerTrigger": most.events,
            "maxBytesPerTrigger": most.bytes,
            "cutTicks": "false",
        },
    )
    writer = loaded(spark, reader).writeStream.format("rowbus").option("deliver", "changes")
    return writer.options(replica=plan.replica, dsn=target, checkpointLocation=checkpoint)
