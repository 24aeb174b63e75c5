"""Archives of logs: all events, each once, as Parquet or as a Delta table, partitioned by log and date.

The archive is bronze: events as they were written, from which every other table can be rebuilt. It holds events that
the log has rotated away, so it must never be begun again by mistake: without its checkpoint Spark would take the
batches in the folder for done, and skip as many new ones.

A Delta table names its files relative to its folder, so renaming the folder is enough. `_spark_metadata`, Spark's list
of the files of a Parquet archive, names them by absolute path. An archive that is put aside does without the list: the
files that Spark reads stay, the others get names that readers skip, and the list is deleted.

Compaction has Delta Lake merge the small files of an archive into larger ones. Parquet archives are refused: only Spark
may change the list of the files that count.

Invariants: an archive with data is only continued, by the checkpoint that made it, or put aside as a whole; the
operating system releases the lock when its process ends, however it ends; no file with events is deleted or changed;
each event is in the archive once, before, during and after a compaction.
"""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from rowbus.errors import ConfigurationError
from rowbus.spark.checkpoint import is_elsewhere, local_folder, names_in, newest_batch, refuse_older
from rowbus.spark.pipelines.query_run import check_listeners, options_of, run
from rowbus.spark.pipelines.release import release, releasing
from rowbus.spark.session import loaded

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from rowbus.spark.pipelines.query_run import Stop, Watch


DELTA_LOG: Final = "_delta_log"
SINK_LOG: Final = "_spark_metadata"
TARGET_BYTES: Final = 128 * 2**20

_LOCK: Final = "_lock"

CHECKPOINT: Final = "_checkpoint"
"""The folder of an archive's checkpoint; readers skip names that begin with `_`."""

CONSUMER: Final = "archive"
PARTITIONS: Final = ("log", "date")
_MARKS: Final = (SINK_LOG, DELTA_LOG)  # folders that each archive with data has one of

Form = Literal["parquet", "delta"]


@dataclass(frozen=True, slots=True)
class CompactionReport:
    """The number of files that the archive had, and has."""

    path: str
    files_before: int
    files_after: int


def compact(path: str | Path, *, target_bytes: int = TARGET_BYTES) -> CompactionReport:
    """Merge the small files of a Delta archive into files of about `target_bytes`.

    One Delta commit, so readers, streams and a running archive see each event once. Needs no Java. Raises
    ConfigurationError for a Parquet archive and for a folder without an archive.
    """
    folder = Path(path)
    refuse_other_formats(folder)
    from deltalake import DeltaTable  # noqa: PLC0415 - its import takes half a second

    table = DeltaTable(str(folder))
    before = len(table.file_uris())
    table.optimize.compact(target_size=target_bytes)
    return CompactionReport(str(folder), before, len(table.file_uris()))


def refuse_other_formats(folder: Path) -> None:
    """Raise ConfigurationError unless a folder holds a Delta table."""
    if (folder / DELTA_LOG).is_dir():
        return
    if (folder / SINK_LOG).is_dir():
        raise ConfigurationError(
            f"{folder} is a Parquet archive; only Delta archives can be compacted. Archive into a new folder with "
            "--format delta, or rewrite this archive with Spark into a new folder."
        )
    raise ConfigurationError(f"{folder} is no archive: it has no folder {DELTA_LOG}.")


@contextmanager
def locked(folder: Path) -> Generator[None]:
    """Lock an archive, without waiting; raises ConfigurationError while another process holds the lock."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / _LOCK).open("a", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigurationError(
                f"Another process is writing {folder}; stop it, then archive again."
            ) from None
        yield


def put_aside(spark: SparkSession, folder: Path) -> Path:
    """Rename an archive to say until when it was in use; return where it is now."""
    if (folder / SINK_LOG).is_dir():
        _hide(_uncommitted(spark, folder))
    target = folder.with_name(f"{folder.name}.until-{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}")
    folder.rename(target)
    shutil.rmtree(target / SINK_LOG, ignore_errors=True)
    return target


def _uncommitted(spark: SparkSession, folder: Path) -> set[Path]:
    """Find the files of failed batches: those that Spark does not read."""
    rows = spark.read.schema("ev_id bigint").parquet(
        folder.as_uri()
    )  # no schema could be inferred from no files
    read = {local_folder(address) for address in rows.inputFiles()}
    written = {
        file.absolute() for file in folder.glob("*=*/**/*.parquet") if not file.name.startswith(("_", "."))
    }
    return written - read


def _hide(files: set[Path]) -> None:
    for file in files:
        file.rename(file.with_name(f"_{file.name}"))


@dataclass(frozen=True, slots=True)
class ArchiveReport:
    """The result of a run."""

    path: str
    checkpoint: str
    batches: int
    events: int
    released: dict[str, int]
    """The ticks before which the logs released events."""

    aside: str | None = None
    """The new folder of an archive that was put aside."""


def archive(  # noqa: PLR0913 - an argument for each option
    spark: SparkSession,
    logs: str | Sequence[str],
    path: str | Path,
    *,
    dsn: str | None = None,
    read_dsn: str | None = None,
    consumer: str = CONSUMER,
    form: Form = "parquet",
    follow: bool = False,
    starting: str = "earliest",
    checkpoint: str | Path | None = None,
    max_events_per_batch: int | None = None,
    max_bytes_per_batch: int | None = None,
    start_over: bool = False,
    options: Mapping[str, str] | None = None,
    watch: Watch | None = None,
    stop: Stop | None = None,
) -> ArchiveReport:
    """Archive events of logs that are not archived yet, or with `follow` continue until `stop`.

    Each event once, after any interruption and repetition. `consumer` is the name under which the logs retain events
    for this archive, one for each archive; `starting` is where a new archive begins. `options` are further options of
    the log source. `start_over` renames an archive that has lost its checkpoint, and begins a new one with the events
    that the logs retain. Raises ConfigurationError, LogNotFoundError, ConsumerBusyError,
    DataLossError, StorageError.
    """
    check_listeners(watch)
    names = [logs] if isinstance(logs, str) else list(logs)
    folder = str(path)
    position = str(checkpoint or f"{folder.rstrip('/')}/{CHECKPOINT}")
    asked = {
        "logs": ",".join(names),
        "consumer": consumer,
        "dsn": dsn,
        "readDsn": read_dsn,
        "startingOffsets": starting,
        "maxOffsetsPerTrigger": max_events_per_batch,
        "maxBytesPerTrigger": max_bytes_per_batch,
        **(options or {}),
    }
    with ExitStack() as stack:
        aside = _guard(spark, folder, position, start_over=start_over, stack=stack)
        name = f"archive {consumer}"

        def make() -> DataStreamWriter:
            return _writer(_events(spark, asked), form, folder, position)

        stack.enter_context(releasing(spark, consumer, dsn, query=name))
        done = run(make, follow=follow, name=name, watch=watch, stop=stop)
    release(done.ends, consumer=consumer, dsn=dsn)
    return ArchiveReport(folder, position, done.batches, done.events, done.ends, aside)


def _guard(
    spark: SparkSession, path: str, checkpoint: str, *, start_over: bool, stack: ExitStack
) -> str | None:
    """Lock the archive, and refuse to begin one again that has lost its checkpoint."""
    if is_elsewhere(path):
        _protect_elsewhere(spark, path, checkpoint)
        return None
    stack.enter_context(locked(local_folder(path)))
    aside = protect(spark, path, checkpoint, start_over=start_over)
    if aside:
        stack.enter_context(locked(local_folder(path)))
    return aside


def protect(spark: SparkSession, path: str, checkpoint: str, *, start_over: bool = False) -> str | None:
    """Raise ConfigurationError for data without a checkpoint; with `start_over` put it aside and return its folder."""
    if _continues(path, checkpoint, lambda place: names_in(local_folder(place))):
        return None
    if not start_over:
        raise _emptied(path, checkpoint)
    return str(put_aside(spark, local_folder(path)))


def _protect_elsewhere(spark: SparkSession, path: str, checkpoint: str) -> None:
    """Do the same where only Spark can read: on HDFS, in an object store."""
    if not _continues(path, checkpoint, partial(_names, spark)):
        raise _emptied(path, checkpoint)


def _continues(path: str, checkpoint: str, listed: Callable[[str], Sequence[str]]) -> bool:
    """Return whether an archive is empty, or has its checkpoint. Raises ConfigurationError for an older one.

    Spark skips a batch that its list of files has, or has a later one of, and does not look what the batch reads.
    """
    begun = newest_batch(listed(f"{checkpoint}/offsets"))
    if begun is not None:
        refuse_older(path, begun, newest_batch(listed(f"{path}/{SINK_LOG}")))
    return begun is not None or not any(listed(f"{path}/{mark}") for mark in _MARKS)


def _names(spark: Any, folder: str) -> list[str]:  # noqa: ANN401 - reaches into Java
    place = spark._jvm.org.apache.hadoop.fs.Path(folder)  # noqa: SLF001 - PySpark has no public way to file systems
    files = place.getFileSystem(spark._jsc.hadoopConfiguration())  # noqa: SLF001 - as above
    return [file.getPath().getName() for file in files.listStatus(place)] if files.exists(place) else []


def _emptied(path: str, checkpoint: str) -> ConfigurationError:
    return ConfigurationError(
        f"{path} is an archive, but its checkpoint {checkpoint} is gone or empty. Begun anew, it would hold events "
        "twice and miss others. Restore the checkpoint; or have the archive put aside and a new one begun with "
        "what the logs still retain: --start-over.",
        path=path,
    )


def _events(spark: SparkSession, options: Mapping[str, str | int | None]) -> DataFrame:
    reader = spark.readStream.format("rowbus")
    options_of(reader, options)
    return loaded(spark, reader).withColumn("date", F.to_date("ev_time"))


def _writer(events: DataFrame, form: Form, path: str, checkpoint: str) -> DataStreamWriter:
    if form == "delta":
        writer = (
            events.writeStream.format("rowbus")
            .option("deliver", "delta")
            .option("partitionBy", ",".join(PARTITIONS))
        )
    else:
        events.sparkSession.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        writer = events.writeStream.format("parquet").partitionBy(*PARTITIONS)
    return writer.option("path", path).option("checkpointLocation", checkpoint)
