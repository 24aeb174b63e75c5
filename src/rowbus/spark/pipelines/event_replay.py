"""Replay of archived events, chosen by time, type or a condition, into a log or a queue.

Invariant: a replay is written once for its id, in one transaction, however often it is repeated.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import unquote

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from rowbus.database.location import resolve_dsn
from rowbus.database.postgresql.database import Database
from rowbus.errors import ConfigurationError
from rowbus.log.archive import BASE64, TEXT
from rowbus.messages.address import QueueAddress
from rowbus.messages.headers import Header
from rowbus.spark.pipelines.policy import explain
from rowbus.spark.schema import ensure
from rowbus.spark.sink.commit import batch
from rowbus.spark.sink.commit.batch import BatchKey

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import Column, DataFrame, DataFrameWriter, SparkSession

    from rowbus.spark.pipelines.log_archive import Form

EVENT: Final = ("ev_type", "ev_data", "ev_extra1", "ev_extra2", "ev_extra3", "ev_extra4")
ORIGIN: Final = ("log", "tick_id", "ev_id")
_ID_LENGTH: Final = 16
_FILE: Final = "rowbus_file"
_AS_JSON: Final = json.dumps(
    {Header.CONTENT_TYPE: "application/json"}
)  # for events, whose bodies are bytes, too


@dataclass(frozen=True, slots=True)
class Choice:
    """A choice of archived events."""

    start: datetime | None = None
    """Written at this time or later."""

    end: datetime | None = None
    """Written before this time."""

    types: Sequence[str] = ()
    where: str | None = None
    """A condition in Spark's SQL, on the archive's columns."""


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """The result of a replay."""

    replay_id: str
    events: int
    target: str
    written: bool
    """False for a dry run, and for a replay that was done before."""

    done_before: bool = False


def replay(  # noqa: PLR0913 - an argument for each option
    spark: SparkSession,
    path: str | Path,
    *,
    into_log: str | None = None,
    into_queue: str | None = None,
    choice: Choice | None = None,
    dsn: str | None = None,
    form: Form = "parquet",
    lineage: str | None = None,
    replay_id: str | None = None,
    dry_run: bool = False,
) -> ReplayReport:
    """Write the chosen events of an archive to a log, or send them to a queue, in the order of their logs.

    In one transaction, once for each `replay_id`; by default the id is derived from the arguments. Archived messages
    are sent with their headers and body; of any other event the data becomes the body, and the type the message type.
    `lineage`, `ev_extra4` for example, names the field that holds an event's origin. `dry_run` only counts.

    Raises ConfigurationError for a condition that Spark cannot read, for events that cannot be messages, or without
    exactly one target; LogNotFoundError, QueueNotFoundError, StorageError.
    """
    target = _target(into_log, into_queue)
    chosen = choice or Choice()
    name = replay_id or _derived_id(str(Path(path).absolute()), form, target, chosen)
    key = BatchKey(f"replay:{name}", target, "", 0)
    try:
        events = _chosen(read_archive(spark, path, form), chosen)
        count = events.count()
        if into_queue is not None:
            _refuse_unsendable(events)
        if dry_run or _is_done(dsn, key):
            return ReplayReport(name, count, target, written=False, done_before=not dry_run)
        events = events.orderBy("log", "ev_id")
        writer = _into_log(events, into_log, lineage) if into_log else _into_queue(events, str(into_queue))
        if dsn is not None:
            writer.option("dsn", dsn)
        writer.option("txnAppId", key.sink_id).option("txnVersion", str(key.batch_id)).mode("append").save()
    except Exception as error:
        raise explain(error) from error
    return ReplayReport(name, count, target, written=True)


def read_archive(spark: SparkSession, path: str | Path, form: Form = "parquet") -> DataFrame:
    """Read an archive as Spark's data frame, also a Delta table without Delta's jar.

    Raises ConfigurationError for a Delta table without events.
    """
    if form == "parquet":
        return spark.read.parquet(str(path))
    from deltalake import DeltaTable  # noqa: PLC0415 - only for these

    table = DeltaTable(str(path))
    files = table.file_uris()
    if not files:
        raise ConfigurationError(f"The archive {path} has no events.")
    # Partition values are in the table's log, not in the files, and not always in their folders' names.
    known = spark.createDataFrame(_partitions(table))
    rows = spark.read.option("recursiveFileLookup", "true").parquet(*files)
    rows = rows.withColumn(_FILE, F.col("_metadata.file_name"))
    return rows.join(F.broadcast(known), _FILE).drop(_FILE)


def _partitions(table: DeltaTable) -> pa.Table:
    """Return the name and the partition values of each file."""
    actions: Any = pa.table(cast("Any", table.get_add_actions(flatten=True)))
    names = [PurePosixPath(unquote(path)).name for path in actions.column("path").to_pylist()]
    columns = {name: actions.column(f"partition.{name}") for name in table.metadata().partition_columns}
    return pa.table({_FILE: names, **columns})


def _target(log: str | None, queue: str | None) -> str:
    if (log is None) == (queue is None):
        raise ConfigurationError("Say where to: a log or a queue, not both.")
    if queue is None:
        return f"log:{log}"
    address = QueueAddress.from_user(queue)
    address.validate()
    return f"queue:{address}"


def _derived_id(*facts: object) -> str:
    return hashlib.sha256("\0".join(map(repr, facts)).encode()).hexdigest()[:_ID_LENGTH]


def _chosen(events: DataFrame, choice: Choice) -> DataFrame:
    if choice.start is not None:
        events = events.where(F.col("ev_time") >= F.lit(choice.start))
    if choice.end is not None:
        events = events.where(F.col("ev_time") < F.lit(choice.end))
    if choice.types:
        events = events.where(F.col("ev_type").isin(list(choice.types)))
    return events if choice.where is None else events.where(choice.where)


def _is_done(dsn: str | None, key: BatchKey) -> bool:
    with Database(resolve_dsn(dsn), application_name="rowbus spark replay").session() as session:
        ensure(session)
        return session.run(batch.find_writer(key)).writer is not None


def _into_log(events: DataFrame, log: str, lineage: str | None) -> DataFrameWriter:
    columns = EVENT if lineage is None else (*EVENT, *ORIGIN)
    writer = events.select(*columns).write.format("rowbus").option("deliver", "log").option("log", log)
    return writer if lineage is None else writer.option("lineage", lineage)


def _is_message() -> Column:
    return F.coalesce(F.col("ev_extra2").isin(TEXT, BASE64), F.expr("false"))


def _refuse_unsendable(events: DataFrame) -> None:
    lacking = events.where(~_is_message() & (F.col("ev_type").isNull() | F.col("ev_data").isNull())).count()
    if lacking:
        raise ConfigurationError(
            f"{lacking} of the events have no type or no data, so they cannot be messages; leave them out: "
            "where ev_type is not null and ev_data is not null."
        )


def _into_queue(events: DataFrame, queue: str) -> DataFrameWriter:
    is_base64 = F.coalesce(F.col("ev_extra2") == BASE64, F.expr("false"))
    body = F.when(is_base64, F.unbase64("ev_data")).otherwise(F.encode("ev_data", "UTF-8"))
    messages = events.select(
        body.alias("body"),
        F.when(_is_message(), F.col("ev_extra1")).otherwise(_AS_JSON).alias("headers"),
        F.when(~_is_message(), F.col("ev_type")).alias("message_type"),
    )
    return messages.write.format("rowbus").option("deliver", "queue").option("queue", queue)
