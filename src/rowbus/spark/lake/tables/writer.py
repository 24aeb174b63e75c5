"""`deliver=tables`: applies changes of captured tables to those of a lake, each micro-batch once.

| Spark does | here |
|---|---|
| runs a task again, or twice at once | each attempt stages a file of its own; only the successful one's is read |
| commits a batch again, after a crash | each table says which batches it has; the others get it |
| aborts | nothing: the tables that have the batch keep it, and the batch comes again |

Invariants: a table's rows and the number of the batch enter it in one commit; with any values of them each change is in
the lake once.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# PyArrow has no annotations of its own.

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from rowbus.database.location import resolve_dsn
from rowbus.database.postgresql.database import Database
from rowbus.errors import ConfigurationError, StorageError
from rowbus.spark.captured import COLUMNS, STAGED, changes_of, describe_source_tables
from rowbus.spark.checkpoint import find_end, positions
from rowbus.spark.datasource import spare_collections
from rowbus.spark.lake.files import GROUP, DataFile, Files, Layout, in_pieces, read, read_groups, remove
from rowbus.spark.lake.storage import address, file_system
from rowbus.spark.lake.table import AppTransaction
from rowbus.spark.lake.tables.folder import CHECKPOINT, STATE, LakeFolder
from rowbus.spark.lake.tables.followed_table import FollowedTable, chosen
from rowbus.spark.lake.tables.history.table import VersionedTable, with_history
from rowbus.spark.lake.tables.net_changes import (
    STAGED_WITH_ORIGINS,
    WITH_ORIGINS,
    StagedChange,
    changes_with_origins,
)
from rowbus.spark.lake.tables.query_record import QUERY, QueryRecord, keep, read_checkpoint
from rowbus.spark.lake.tables.upkeep import look_after
from rowbus.spark.options import (
    REQUIRED,
    Option,
    boolean,
    choice,
    integer,
    names,
    parse_options,
    tables_named,
    text,
)
from rowbus.spark.sink.commit.task import current_stream_task

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from rowbus.spark.lake.tables.folder import TableFormat

_compute: Any = pc  # its stubs lack many functions

COMPACT_EVERY: Final = 20
KEEP_HOURS: Final = 168

TABLES_SINK: Final = (
    Option("deliver", choice("tables"), None, "tables in a lake that follow those of a database"),
    Option("path", text, REQUIRED, "the lake's folder, with a table for each table"),
    Option(
        "tableFormat",
        choice("delta", "iceberg", "ducklake"),
        None,
        "their format; without, that of the folder, Delta in a new one",
    ),
    Option("log", text, REQUIRED, "the log that the tables are captured into"),
    Option("tables", names, ("*",), "which of them, as `shop.orders` or `shop.*`"),
    Option("history", boolean, False, "keep the versions of rows, too, in a table beside each"),
    Option("compactEvery", integer(0), COMPACT_EVERY, "merge small files after so many batches; 0: never"),
    Option(
        "keepHours",
        integer(1),
        KEEP_HOURS,
        "how old files become that no version needs any more; they are deleted at every tenth compaction",
    ),
    Option("dsn", text, None, "the database of the tables; without, that of ROWBUS_DATABASE"),
    Option(
        "keptCheckpoint",
        text,
        None,
        "for tables in an object store: the checkpoint's folder, of which what a next run needs is kept beside them",
    ),
)
"""The options of `deliver=tables`."""


_TARGET_BYTES = 2**40  # one file a task
_DESCRIPTIONS = 5
_OTHERWISE = ("42", "22")  # no such column or table, another type
_UNTOLD = "22"  # ADBC does not say the state of what fails while rows come
Done = TypeVar("Done")


@dataclass
class StagedFiles(WriterCommitMessage):
    """The changes that a task has staged, and its query."""

    query: str
    files: list[DataFile]


@dataclass(frozen=True, slots=True)
class TablesSettings:
    """The options, parsed."""

    path: str
    log: str
    tables: tuple[str, ...]
    dsn: str
    format: TableFormat | None = None
    """None: that of the folder, Delta in a new one."""

    history: bool = False
    """Whether to keep the versions of every table, and not only of those whose versions are kept already."""

    origins: bool = False
    """Whether changes are staged with what versions need."""

    compact_every: int = 0
    """After how many batches small files are merged; 0: never."""

    keep_hours: int = KEEP_HOURS
    """The age of files that no version needs any more."""

    kept_checkpoint: str | None = None
    """The folder of the checkpoint of which what a next run needs is kept beside the tables."""

    catalog: str | None = None
    """The catalogue of Iceberg tables, by its name or URL; None: that of the folder."""

    @property
    def checkpoint(self) -> Path:
        """The folder of the checkpoint of the query that keeps the lake."""
        return Path(self.kept_checkpoint or f"{self.path}/{STATE}/{CHECKPOINT}")

    @property
    def staged(self) -> Layout:
        """Where and how tasks stage changes."""
        schema = STAGED_WITH_ORIGINS if self.origins else STAGED
        return Layout(f"{self.path}/{STATE}", schema, (), _TARGET_BYTES, ())


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> NoReturn:  # noqa: FBT001 - Spark's
    """Raise ConfigurationError: tables follow a stream."""
    del options, schema, overwrite
    raise ConfigurationError("deliver=tables is for streams: use `writeStream`.", option="deliver")


def stream_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> TablesWriter:  # noqa: FBT001 - Spark's
    """Return the writer of micro-batches; raises ConfigurationError."""
    given = parse_options(options, TABLES_SINK, of="the sink of tables in a lake")
    needed = WITH_ORIGINS if given["history"] else COLUMNS
    missing = [name for name in needed if name not in schema.names]
    if missing or overwrite:
        raise ConfigurationError(
            f"Tables follow a log's events, in mode append, with the columns {', '.join(needed)}"
            + (f"; {', '.join(missing)} missing." if missing else ".")
        )
    origins = set(WITH_ORIGINS) <= set(schema.names)
    place = (address(given["path"]), given["log"], given["tables"], resolve_dsn(given["dsn"]))
    upkeep = (given["compactEvery"], given["keepHours"], given["keptCheckpoint"])
    return TablesWriter(TablesSettings(*place, given["tableFormat"], given["history"], origins, *upkeep))


class TablesWriter(DataSourceStreamArrowWriter):
    """Apply the micro-batches of a log to the tables of a lake."""

    def __init__(self, settings: TablesSettings) -> None:
        """Take the settings. No I/O."""
        self._settings = settings

    def write(  # type: ignore[override]  # Spark's own
        self, iterator: Iterator[pa.RecordBatch]
    ) -> WriterCommitMessage:
        """Stage a task's changes in a file of its own."""
        task = current_stream_task()
        query = task.query_id or ""
        return self.stage(query, f"{query[:8]}-{task.partition}", iterator)

    def stage(self, query: str, label: str, batches: Iterator[pa.RecordBatch]) -> StagedFiles:
        """Stage changes."""
        staging = changes_with_origins if self._settings.origins else changes_of
        changes = (_by_name(staging(piece)) for piece in in_pieces(batches))
        files = Files(self._settings.staged, label).write(changes)
        spare_collections()
        return StagedFiles(query, files)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Apply the changes to each table that does not have the batch; then look after the tables, if that is due."""
        staged = [message for message in messages if isinstance(message, StagedFiles)]
        files = [file for message in staged for file in message.files]
        folder = LakeFolder(self._settings.path, self._settings.dsn)
        record = self._begin(folder, batchId)
        if files or (staged and folder.asked()):
            batch = AppTransaction(staged[0].query, batchId)
            changes = staged_changes(self._settings.staged, files) if files else {}
            followed = apply_batch(self._settings, changes, batch)
            remove(self._settings.staged.path, [file.path for file in files])
        else:
            followed = _still_followed(folder, self._settings)
        note_end(folder, self._settings, followed, batchId)
        if record:
            folder.state.write(QUERY, record._replace(done=True)._asdict())
        look_after(folder, batchId, every=self._settings.compact_every, keep_hours=self._settings.keep_hours)

    def _begin(self, folder: LakeFolder, batch: int) -> QueryRecord | None:
        """Keep where a batch ends, before a table has it; raises StorageError if another run went on meanwhile."""
        if self._settings.kept_checkpoint is None:
            return None
        record = read_checkpoint(Path(self._settings.kept_checkpoint), batch)
        keep(folder.state, record)
        return record

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - as above
        """Undo nothing: the batch comes again."""


def followed_tables(
    settings: TablesSettings, folder: LakeFolder | None = None, *, begun: bool = False
) -> dict[str, FollowedTable | VersionedTable]:
    """Return the tables as they are in the database now, in a folder of these settings. Raises as `chosen` does."""
    with Database(settings.dsn, application_name="rowbus spark lake").session() as session:
        captured = session.run(describe_source_tables(settings.log))
    kind = settings.format or (folder or LakeFolder(settings.path)).format()
    tables = chosen(captured, settings.tables, settings.log, kind, begun=begun)
    folder = folder or settled_folder(settings)
    names = {table.name for table in tables}
    return {
        table.name: with_history(
            FollowedTable(folder, settings.dsn, table), folder, table, names, asked=settings.history
        )
        for table in tables
    }


def settled_folder(settings: TablesSettings) -> LakeFolder:
    """Return the folder, its format settled. Raises ConfigurationError, with nothing done."""
    folder = LakeFolder(settings.path, settings.dsn)
    if settings.history and (settings.format or folder.format()) != "delta":
        raise ConfigurationError(
            "Versions of rows are kept beside Delta tables only: leave out the history, or give another folder and the "
            "format delta.",
            option="history",
        )
    folder.settle(settings.format, settings.catalog)
    return folder


def apply_batch(
    settings: TablesSettings, changes: Mapping[str, Iterable[StagedChange]], batch: AppTransaction
) -> list[str]:
    """Bring the tables to their shape, copy those asked for, apply a batch, and note which versions belong together.

    Returns the tables.
    """
    folder = settled_folder(settings)
    asked = folder.asked()
    again = set(chain.from_iterable(asked.values()))

    def apply() -> tuple[list[str], dict[str, int]]:
        tables = followed_tables(settings, folder, begun=True)
        with folder.together():
            for name, table in tables.items():
                told = changes.get(name, ())
                table.bring_to_shape(again=name in again or table.is_renamed(told))
                if told:
                    table.apply(told, batch)
            return [*tables], {
                name: version for table in tables.values() for name, version in table.versions().items()
            }

    followed, versions = by_new_description(apply)
    folder.note_tick(batch.number, versions)
    for file in asked:
        folder.state.remove(file)
    return followed


def note_end(
    folder: LakeFolder, settings: TablesSettings, followed: Iterable[str], batch: int | None
) -> None:
    """Note how far the tables are after a batch of this lake's checkpoint; without one, how far their copies are.

    A batch's end is in the checkpoint before the batch runs, and the same when it runs again.
    """
    found = None if batch is None else find_end(settings.checkpoint, batch)
    end = positions(found).get(settings.log) if found else None
    folder.note_complete(followed, end.at if end else None)


def _still_followed(folder: LakeFolder, settings: TablesSettings) -> list[str]:
    """Return the tables of which something is known, and that these settings name: others may be another job's."""
    known = folder.complete()
    return sorted({name for pattern in settings.tables for name in tables_named(known, pattern)})


def by_new_description(work: Callable[[], Done]) -> Done:
    """Do what describes tables and copies them; again if one is altered between the two, which the copy refuses."""
    for _ in range(_DESCRIPTIONS - 1):
        try:
            return work()
        except StorageError as error:
            if error.transient or not (error.sqlstate or _UNTOLD).startswith(_OTHERWISE):
                raise
    return work()


def _by_name(changes: Any) -> pa.RecordBatch:  # noqa: ANN401 - a batch, whose stubs are partial
    """Sort changes by their tables, so that few row groups have those of one."""
    sorted_rows: pa.RecordBatch = changes.take(_compute.sort_indices(changes.column(0)))
    return sorted_rows


@dataclass(frozen=True, slots=True)
class StagedGroups:
    """The changes of a table that are too many for memory: row groups of files, read when they are gone through."""

    layout: Layout
    table: str
    groups: list[tuple[DataFile, int]]

    def __iter__(self) -> Iterator[StagedChange]:
        """Read the changes, in no order."""
        system, root = file_system(self.layout.path)
        for file, group in self.groups:
            with system.open_input_file(f"{root}/{file.path}") as content:
                for rows in read_groups(content, groups=[group]):
                    yield from _by_table(rows).get(self.table, ())


def staged_changes(layout: Layout, files: Sequence[DataFile]) -> Mapping[str, Iterable[StagedChange]]:
    """Return the changes of each table: in memory if they are few, else to be read as often as needed."""
    system, root = file_system(layout.path)
    found, size = defaultdict[str, list[tuple[DataFile, int]]](list), 0
    for file in files:
        with system.open_input_file(f"{root}/{file.path}") as content:
            parquet: Any = pq.ParquetFile(content, pre_buffer=False)
            for group in range(parquet.num_row_groups):
                size += parquet.metadata.row_group(group).total_byte_size
                [tables] = parquet.read_row_group(group, ["c1"]).columns
                for table in tables.unique().to_pylist():
                    found[table].append((file, group))
    if size <= GROUP:
        return _by_table(read(layout, files))
    return {table: StagedGroups(layout, table, groups) for table, groups in found.items()}


def _by_table(staged: Any) -> dict[str, list[StagedChange]]:  # noqa: ANN401 - a table or a batch
    found = defaultdict[str, list[StagedChange]](list)
    columns: list[list[Any]] = [column.to_pylist() for column in staged.columns]
    for name, *change in zip(*columns, strict=True):
        found[name].append(StagedChange(*change))
    return found
