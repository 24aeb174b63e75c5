"""Tables in a lake that follow the captured tables of a database.

The consumer is registered, then each table is copied in a snapshot, then changes are merged, each micro-batch once.
Changes of transactions that a table's snapshot sees are skipped. An interrupted run is continued by the next one: a
table whose copy is there is not copied again. The query's checkpoint is in the lake's folder, or made for a run of what
an object store keeps.

Invariants: after each micro-batch the tables, in the versions that are noted, are the database as it was at a tick; in
an object store only what is kept there counts: a query begins, also again, with nothing else.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from rowbus.database.location import resolve_dsn
from rowbus.database.postgresql.database import Database
from rowbus.log.consumers.table import ConsumerTable, log_not_found
from rowbus.spark.checkpoint import find_committed
from rowbus.spark.lake.storage import check_storage, is_remote
from rowbus.spark.lake.tables.folder import CHECKPOINT, STATE, LakeFolder
from rowbus.spark.lake.tables.net_changes import WITH_ORIGINS
from rowbus.spark.lake.tables.query_record import kept_record, put_aside, write_checkpoint
from rowbus.spark.lake.tables.writer import (
    COMPACT_EVERY,
    KEEP_HOURS,
    TablesSettings,
    by_new_description,
    followed_tables,
    note_end,
    settled_folder,
)
from rowbus.spark.log_source.snapshot_range import list_logs
from rowbus.spark.pipelines.query_run import Most, check_listeners, options_of, run
from rowbus.spark.pipelines.release import put_stranger_aside, release, releasing
from rowbus.spark.pipelines.replica import ALL, named
from rowbus.spark.pipelines.replication import COLUMNS
from rowbus.spark.session import loaded

if TYPE_CHECKING:
    from collections.abc import Generator

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from rowbus.spark.lake.tables.folder import TableFormat
    from rowbus.spark.pipelines.query_run import Stop, Watch


CONSUMER: Final = "lake"


class LakeCheckpoint:
    """A checkpoint in a folder of this machine."""

    def __init__(self, lake: LakeFolder, path: Path, *, kept_elsewhere: bool) -> None:
        """Take the folder. No I/O."""
        self.path = path
        self.kept = str(path) if kept_elsewhere else None
        """The folder, if what a next run needs of it is kept elsewhere."""

        self._lake = lake

    def prepare(self) -> None:
        """Have the folder be as the lake's store has it; nothing for a lake in a folder."""
        if self.kept is None:
            return
        shutil.rmtree(self.path, ignore_errors=True)
        if kept := kept_record(self._lake.state):
            write_checkpoint(kept, self.path)

    def begin_anew(self, consumer: str, dsn: str) -> str | None:
        """Say nothing of the tables until all are copied; put a prepared checkpoint of another history aside.

        Returns where it is then. What was said may be of the database before a restore, which numbers its transactions
        from an earlier one on again.
        """
        self._lake.note_complete((), None)
        aside = put_stranger_aside(self.path, consumer, dsn)
        if aside and self.kept:
            return f"{self._lake.path}/{STATE}/{put_aside(self._lake.state)}"
        return str(aside) if aside else None


@contextmanager
def checkpoint_of(lake: LakeFolder) -> Generator[LakeCheckpoint]:
    """Give the checkpoint of a lake, for a run."""
    if not is_remote(lake.path):
        yield LakeCheckpoint(lake, Path(lake.path, STATE, CHECKPOINT), kept_elsewhere=False)
        return
    with TemporaryDirectory(prefix="rowbus-lake-", ignore_cleanup_errors=True) as folder:
        yield LakeCheckpoint(lake, Path(folder, CHECKPOINT), kept_elsewhere=True)


@dataclass(frozen=True, slots=True)
class LakeReport:
    """The result of a run."""

    tables: dict[str, str]
    """The folders of the tables, by their sources."""

    copied: dict[str, int]
    """Rows of the tables that this run copied before it applied changes."""

    batches: int
    events: int
    versions: dict[str, int]
    """The versions in which the tables are the database as it was at the last tick."""


def lake(  # noqa: PLR0913 - an argument for each option
    spark: SparkSession,
    log: str,
    *,
    to: str | Path,
    format: TableFormat | None = None,  # noqa: A002 - the option's name
    catalog: str | None = None,
    dsn: str | None = None,
    tables: Sequence[str] = ("*",),
    resync: Sequence[str] = (),
    consumer: str = CONSUMER,
    history: bool = False,
    compact_every: int = COMPACT_EVERY,
    keep_hours: int = KEEP_HOURS,
    follow: bool = False,
    max_events_per_batch: int | None = None,
    max_bytes_per_batch: int | None = None,
    read_dsn: str | None = None,
    watch: Watch | None = None,
    tell: Callable[[str], object] | None = None,
    stop: Stop | None = None,
) -> LakeReport:
    """Bring a lake's tables up to date with the tables captured into a log, or keep them so until `stop`.

    `tables` are names as `shop.orders` or `shop.*`. Tables that are captured later are copied when the next change
    comes, or at the next run; altered ones follow in place, or are copied. Those of `resync` are copied anew; with `*`
    among them the lake also outlives a database that was restored: then its checkpoint is put aside. `history` keeps
    the versions of rows, in a table beside each; where they are kept, they are also in runs without it. Each change
    once. After every `compact_every` batches (0: never) small files are merged, and at every tenth time files are
    deleted that no version needs and that are older than `keep_hours`.
    Without `format` the tables are of the folder's, Delta in a new one. `catalog` has Iceberg tables: a URL, or a name
    that pyiceberg is configured with; or a DuckLake's: a schema of the database. Raises ConfigurationError for tables
    not captured, or not as can be followed, a folder of another format or catalogue, and versions beside other tables
    than Delta's; LogNotFoundError, ConsumerBusyError, DataLossError, StorageError.
    """
    check_listeners(watch, tell)
    origin, folder = resolve_dsn(dsn), LakeFolder(to)
    settings = TablesSettings(
        *(folder.path, log, tuple(tables), origin, format, history),
        compact_every=compact_every,
        keep_hours=keep_hours,
        catalog=catalog,
    )
    check_tables(settings, consumer)
    with Database(origin, application_name="rowbus spark lake").session() as session:
        session.run(ConsumerTable(log, consumer).register())
    name = f"lake {consumer}"
    with checkpoint_of(folder) as checkpoint:
        settings = replace(settings, kept_checkpoint=checkpoint.kept)
        checkpoint.prepare()
        if ALL in resync and (aside := checkpoint.begin_anew(consumer, origin)):
            (tell or _say_nothing)(f"Put the checkpoint aside: {aside}")
        copied = copy_new_tables(settings, tell or _say_nothing, resync)
        most = Most(max_events_per_batch, max_bytes_per_batch)

        def make() -> DataStreamWriter:
            return _merged(_events(spark, settings, consumer, read_dsn, most), settings)

        with releasing(spark, consumer, origin, query=name):
            done = run(make, follow=follow, name=name, prepare=checkpoint.prepare, watch=watch, stop=stop)
    release(done.ends, consumer=consumer, dsn=origin)
    found = {source: table.path for source, table in followed_tables(settings, begun=True).items()}
    return LakeReport(found, copied, done.batches, done.events, folder.versions())


def check_tables(settings: TablesSettings, consumer: str) -> None:
    """Raise what speaks against following these tables, before anything is begun or registered."""
    folder = LakeFolder(settings.path)
    check_storage(folder.path)
    with Database(settings.dsn, application_name="rowbus spark lake").session() as session:
        if not session.run(list_logs([settings.log])):
            raise log_not_found(settings.log)
    followed_tables(settings)
    folder.belong(settings.log, consumer)


def ask(settings: TablesSettings, consumer: str, resync: Sequence[str]) -> list[str]:
    """Ask the process that keeps this lake to copy tables anew before its next batch; return them, none without one.

    Only that process writes to the tables: a copy of another's would undo its batch. Raises ConfigurationError.
    """
    with Database(settings.dsn, application_name="rowbus spark lake").session() as session:
        live = session.run(ConsumerTable(settings.log, consumer).leaders())
    again = sorted(named(followed_tables(settings), resync))
    if not live or not again:
        return []
    LakeFolder(settings.path).ask(again)
    return again


def _events(
    spark: SparkSession, settings: TablesSettings, consumer: str, read_dsn: str | None, most: Most
) -> DataFrame:
    """Return the log's events, from where the consumer is."""
    reader = spark.readStream.format("rowbus")
    options_of(
        reader,
        {
            "log": settings.log,
            "consumer": consumer,
            "dsn": settings.dsn,
            "readDsn": read_dsn,
            "columns": _columns(settings),
            "startingOffsets": "committed",
            "maxOffsetsPerTrigger": most.events,
            "maxBytesPerTrigger": most.bytes,
            "cutTicks": "false",
            "skipEmptyTicks": "false",  # so that an hour in which nothing changed is complete, too
        },
    )
    return loaded(spark, reader)


def _merged(events: DataFrame, settings: TablesSettings) -> DataStreamWriter:
    """Return what merges events into the tables."""
    return events.writeStream.format("rowbus").options(
        deliver="tables",
        path=settings.path,
        log=settings.log,
        tables=",".join(settings.tables),
        dsn=settings.dsn,
        history=settings.history,
        compactEvery=settings.compact_every,
        keepHours=settings.keep_hours,
        checkpointLocation=str(settings.checkpoint),
        **({"keptCheckpoint": settings.kept_checkpoint} if settings.kept_checkpoint else {}),
    )


def copy_new_tables(
    settings: TablesSettings, tell: Callable[[str], object], resync: Sequence[str] = ()
) -> dict[str, int]:
    """Copy the tables that the lake lacks, that cannot follow in place, or that `resync` names; return their rows.

    Raises ConfigurationError when `resync` names none.
    """
    folder, copied = settled_folder(settings), dict[str, int]()

    def copy() -> list[str]:
        tables = followed_tables(settings, folder)
        if folder.ducklake():
            copied.clear()  # of an attempt before, which came to nothing
        with folder.together():
            again = named(tables, resync) - copied.keys()
            for name, table in tables.items():
                rows = table.bring_to_shape(again=name in again)
                if rows is not None:
                    copied[name] = rows
                    tell(f"Copied {rows:,} rows of {name}")
        return [*tables]

    followed = by_new_description(copy)
    committed = find_committed(settings.checkpoint)
    note_end(folder, settings, followed, committed.batch if committed else None)
    return copied


def _columns(settings: TablesSettings) -> str:
    """Return the columns of events that are read; versions say more of them."""
    origins = settings.history or LakeFolder(settings.path).keeps_history()
    return ",".join(WITH_ORIGINS) if origins else COLUMNS


def _say_nothing(_line: str) -> None:
    """Ignore a line of progress."""
