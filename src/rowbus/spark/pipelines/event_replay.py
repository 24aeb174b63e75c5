"""Replays archived events: those of a span of time, of some types, or any condition, back into a log or a queue.

Invariant: one replay, by its id, is written once, in one transaction, however often it is asked for.
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

from rowbus.bridges.archive import BASE64, TEXT
from rowbus.database.location import resolve_dsn
from rowbus.database.postgresql.database import Database
from rowbus.errors import ConfigurationError
from rowbus.messages.address import QueueAddress
from rowbus.messages.headers import Header
from rowbus.spark.pipelines.query_run import explain
from rowbus.spark.schema.installer import ensure
from rowbus.spark.sink.commit import ledger
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
)  # of an event: its body is in bytes, too


@dataclass(frozen=True, slots=True)
class Choice:
    """Which of the archived events."""

    start: datetime | None = None
    """Written at this time or later."""

    end: datetime | None = None
    """Written before this time."""

    types: Sequence[str] = ()
    where: str | None = None
    """A condition in Spark's SQL, on the archive's columns."""


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """What was replayed."""

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

    In one transaction, once for each `replay_id`; without one the same arguments are the same replay. Events that keep
    messages of a queue are sent as these were; of others the data is the body, and the type the message's. `lineage`
    names the extra field of a log's event that says where it came from: `ev_extra4`. `dry_run` only counts.

    Raises ConfigurationError for a condition that Spark cannot read, for events that cannot be messages, or unless
    there is one target; LogNotFoundError, QueueNotFoundError, StorageError.
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
        raise _explained(error) from error
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
    # What a table is partitioned by is in its log only, not in the files, nor always in their folders' names.
    known = spark.createDataFrame(_partitions(table))
    rows = spark.read.option("recursiveFileLookup", "true").parquet(*files)
    rows = rows.withColumn(_FILE, F.col("_metadata.file_name"))
    return rows.join(F.broadcast(known), _FILE).drop(_FILE)


def _partitions(table: DeltaTable) -> pa.Table:
    """Return for each file of a table its name, and what it is partitioned by."""
    actions: Any = pa.table(cast("Any", table.get_add_actions(flatten=True)))
    names = [PurePosixPath(unquote(path)).name for path in actions.column("path").to_pylist()]
    columns = {name: actions.column(f"partition.{name}") for name in table.metadata().partition_columns}
    return pa.table({_FILE: names, **columns})


def _target(log: str | None, queue: str | None) -> str:
    if (log is None) == (queue is None):
        raise ConfigurationError("Say where to: a log or a queue, and not both.")
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
        return session.run(ledger.find_writer(key)) is not None


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


def _explained(error: Exception) -> Exception:
    from pyspark.errors import AnalysisException, ParseException  # noqa: PLC0415 - only for what went wrong

    if isinstance(error, (AnalysisException, ParseException)) and "rowbus.errors" not in str(error):
        return ConfigurationError(f"Spark cannot read this: {str(error).splitlines()[0]}")
    return explain(error)
