"""Delta tables, written through delta-rs by tasks, or as they follow a table of the database: each batch once.

The table's log records, with the files, the application and the batch's number (`txn`). After a conflict with another
commit the table is read again, and the record checked.

Invariant: a batch's files and its number enter the log in one commit, or neither does.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# PyArrow has no annotations of its own.

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import date, datetime, timedelta
from itertools import chain
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Schema, TableFeatures, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, RemoveAction, create_table_with_add_actions
from pyarrow.fs import SubTreeFileSystem

from rowbus.errors import ConfigurationError
from rowbus.spark.captured import Unfit
from rowbus.spark.lake.files import (
    LONGEST,
    Files,
    Layout,
    conformed,
    in_milliseconds,
    read_groups,
)
from rowbus.spark.lake.merge import DELETED, RowKeys, newest
from rowbus.spark.lake.policy import SMALL, to_merge
from rowbus.spark.lake.storage import file_system
from rowbus.spark.lake.table import AppTransaction, own_errors, refuse_other_columns, retried

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rowbus.spark.lake.files import DataFile, Rows
    from rowbus.spark.lake.tables.evolution import Reshaping
    from rowbus.spark.merge_rule import MergeRule

_compute: Any = pc  # its stubs lack many functions


class DeltaLake:
    """A Delta table in a folder."""

    def __init__(self, layout: Layout) -> None:
        """Take the layout; the table is made by the first commit."""
        self._layout = layout

    def commit(self, files: Sequence[DataFile], batch: AppTransaction | None, *, overwrite: bool) -> bool:
        """Add the files to the table, or replace its contents; False if the batch is there already."""
        return retried(lambda: self._try(files, batch, overwrite=overwrite), CommitFailedError)

    def merge(self, rows: pa.Table, batch: AppTransaction | None, rule: MergeRule) -> bool:
        """Write the newest row of each key, or delete it; False if the batch is there already."""
        changes = newest(rows, rule)
        return retried(lambda: self._try_merge(changes, batch, rule), CommitFailedError)

    def referenced(self) -> set[str]:
        """Return the files of the newest version, by their paths within the folder."""
        if not DeltaTable.is_deltatable(self._layout.path):
            return set()
        actions = pa.table(cast("Any", DeltaTable(self._layout.path).get_add_actions()))
        return set(map(str, actions.column("path").to_pylist()))

    def _try_merge(self, changes: pa.Table, batch: AppTransaction | None, rule: MergeRule) -> bool:
        table, written = self._table(), changes.filter(_compute.invert(changes.column(DELETED)))
        for name in self._layout.partition_by:
            any(map(_text, written.column(name).unique().to_pylist()))  # raises for an empty text
        if batch is not None and batch.is_in(self._layout.path, table.transaction_version(batch.app)):
            return False
        merge_changes(table, changes, rule.keys, batch, sequence=rule.sequence)
        return True

    def _table(self) -> DeltaTable:
        """Open the table, or create it; raises ConfigurationError if it has other columns."""
        layout = self._layout
        table = DeltaTable.create(
            layout.path, layout.schema, mode="ignore", partition_by=list(layout.partition_by)
        )
        refuse_other_columns(
            layout, pa.schema(cast("Any", table.schema())), tuple(table.metadata().partition_columns)
        )
        return table

    def _try(self, files: Sequence[DataFile], batch: AppTransaction | None, *, overwrite: bool) -> bool:
        layout, table = self._layout, self._table()
        if batch is not None and batch.is_in(self._layout.path, table.transaction_version(batch.app)):
            return False
        table.create_write_transaction(
            [_action(file) for file in files],
            "overwrite" if overwrite else "append",
            layout.schema,
            list(layout.partition_by),
            commit_properties=commit_properties(batch),
        )
        return True


def merge_changes(
    table: DeltaTable,
    changes: pa.Table,
    keys: Sequence[str],
    batch: AppTransaction | None,
    *,
    sequence: str | None = None,
) -> None:
    """Merge rows, one for each key, in one commit; with a sequence, a row older than the table's changes nothing."""
    values = {quoted(name): f"source.{quoted(name)}" for name in changes.schema.names if name != DELETED}
    gone = f"source.{quoted(DELETED)}"
    nulls = {name for name in keys if changes.column(name).null_count}  # where the whole row is the key
    same = " and ".join(
        f"(target.{quoted(name)} {'is not distinct from' if name in nulls else '='} source.{quoted(name)})"
        for name in keys
    )
    late = f"source.{quoted(sequence)} < target.{quoted(sequence)}" if sequence else "false"
    fresh = f"not coalesce({late}, false)"
    merger = table.merge(
        changes,
        same,
        source_alias="source",
        target_alias="target",
        commit_properties=commit_properties(batch),
    )
    merger = merger.when_matched_delete(f"{gone} and {fresh}").when_matched_update(values, fresh)
    merger.when_not_matched_insert(values, f"not {gone}").execute()


def quoted(name: str) -> str:
    """Return a column's name as expressions of merges have it."""
    return "`" + name.replace("`", "``") + "`"


def commit_properties(batch: AppTransaction | None) -> CommitProperties:
    """Return what a commit records: the batch, if there is one; conflicts are the caller's."""
    if batch is None:
        return CommitProperties(max_commit_retries=0)
    return CommitProperties(app_transactions=[Transaction(batch.app, batch.number)], max_commit_retries=0)


def _removed(paths: Iterable[str], *, changes: bool = True) -> list[RemoveAction]:
    now = int(time.time() * 1000)
    return [RemoveAction(path, changes, now) for path in paths]


def _action(file: DataFile, *, changes: bool = True) -> AddAction:
    return AddAction(
        path=file.path,
        size=file.size,
        partition_values={name: _text(value) for name, value in file.partition.items()},
        modification_time=int(time.time() * 1000),
        data_change=changes,
        stats=json.dumps(_statistics(file)),
    )


def _text(value: object) -> str | None:
    """Return a partition's value as text, as the Delta protocol has it."""
    if not value and isinstance(value, str):
        text = (
            "An empty text cannot be a partition of a Delta table, which would take it for NULL: replace it."
        )
        raise ConfigurationError(text, option="partitionBy")
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    return value.isoformat() if isinstance(value, date) else str(value)


def _statistics(file: DataFile) -> dict[str, Any]:
    """Return a file's statistics as JSON; inexact bounds are left out or widened."""
    return {
        "numRecords": file.rows,
        "minValues": _bounds(file.least, timedelta()),
        "maxValues": _bounds(file.greatest, timedelta(milliseconds=1)),
        "nullCount": file.nulls,
    }


def _bounds(values: Mapping[str, object], slack: timedelta) -> dict[str, object]:
    written: dict[str, object] = {}
    for name, value in values.items():
        if isinstance(value, datetime):
            with suppress(OverflowError):  # at the end of the year 9999 there is no such bound
                written[name] = in_milliseconds(value + slack)
        elif isinstance(value, date):
            written[name] = value.isoformat()
        elif (isinstance(value, int) and not isinstance(value, bool)) or (
            isinstance(value, str) and len(value) <= LONGEST
        ):
            written[name] = value
    return written


# --------------------------------------------------------------------------- a table that follows one of the database


class StoredDelta:
    """A Delta table in a folder."""

    def __init__(self, path: str) -> None:
        """Take the folder. No I/O."""
        self._path = path

    def fitted(self, schema: pa.Schema) -> pa.Schema:
        """Return the columns as they are."""
        return schema

    def newest(self, app: str) -> int | None:
        """Return the number of an application's newest batch; None before its first."""
        if not DeltaTable.is_deltatable(self._path):
            return None
        return DeltaTable(self._path).transaction_version(app)

    def version(self) -> int:
        """Return the version in the table's log."""
        return DeltaTable(self._path).version()

    def replace(
        self, schema: pa.Schema, rows: Iterable[pa.RecordBatch], batch: AppTransaction | None
    ) -> None:
        """Replace columns and contents, or make the table."""
        added, recorded = list(map(_action, self._files(schema).write(rows))), commit_properties(batch)
        if DeltaTable.is_deltatable(self._path):
            table = DeltaTable(self._path)
            _allow_local_times(table, schema)
            _commit(table, schema, added, recorded, "overwrite")
        else:
            described = Schema.from_arrow(schema)
            create_table_with_add_actions(self._path, described, added, commit_properties=recorded)

    def reshape(self, schema: pa.Schema, change: Reshaping, batch: AppTransaction) -> None:
        """Add columns to the table's description; for other changes write its rows anew."""
        held = data_set(self._path)
        if change.only_adds_nulls and held.schema.types == schema.types[: len(held.schema.types)]:
            commit = commit_properties(batch)
            rows = schema.empty_table()
            write_deltalake(self._path, rows, mode="append", schema_mode="merge", commit_properties=commit)
            return
        with own_errors((change.rows(rows, schema) for rows in held.to_batches()), Unfit) as rewritten:
            self.replace(schema, rewritten, batch)

    def write(self, rows: Iterable[pa.RecordBatch], batch: AppTransaction, *, emptied: bool) -> None:
        """Add rows, or replace the contents by them."""
        table, held = self._opened()
        added = self._files(held.schema).write(rows)
        _commit(
            table,
            held.schema,
            map(_action, added),
            commit_properties(batch),
            "overwrite" if emptied else "append",
        )

    def merge(self, changed: pa.Table, rows: Rows, keys: Sequence[str], batch: AppTransaction) -> None:
        """Write rows instead of those with the keys of changes.

        Each file that has one is written anew without it: delta-rs holds whole files, and batches by numbers of rows.
        """
        table, held = self._opened()
        index = RowKeys(changed, keys)
        gone = [path for path in _around(held, changed, keys) if index.has_any(_read(held, path, keys))]
        kept = (rows.filter(index.places(rows).is_null()) for path in gone for rows in _read(held, path))
        added = self._files(held.schema).write(chain(kept, rows))
        actions: Any = chain(_removed(gone), map(_action, added))
        _commit(table, held.schema, actions, commit_properties(batch))

    def _opened(self) -> tuple[DeltaTable, Any]:
        """Return the table as it is now, and its rows."""
        table = DeltaTable(self._path)
        return table, data_set(self._path, table)

    def _files(self, schema: pa.Schema) -> Files:
        return Files(Layout(self._path, schema, (), 2 * SMALL, ()), "part")

    def compact(self) -> int:
        """Merge small files, if there are many."""
        if not DeltaTable.is_deltatable(self._path):
            return 0
        table, held = self._opened()
        files: Any = pa.table(cast("Any", table.get_add_actions()))
        paths = files.column("path").to_pylist()
        small = [str(paths[place]) for place in to_merge(files.column("size_bytes").to_pylist())]
        if not small:
            return 0
        added = self._files(held.schema).write(rows for path in small for rows in _read(held, path))
        actions: Any = chain(_removed(small, changes=False), (_action(file, changes=False) for file in added))
        try:
            _commit(table, held.schema, actions, commit_properties(None))
        except CommitFailedError:
            return 0
        return len(small)

    def columns(self) -> list[str]:
        """Return the names of the columns; a column that came again keeps its place."""
        return [str(name) for name in data_set(self._path).schema.names]

    def read(self) -> Iterator[pa.RecordBatch]:
        """Read all rows."""
        yield from data_set(self._path).to_batches()

    def unneeded(self, older_than: timedelta, noted: int | None) -> list[str]:
        """Return files that were replaced that long ago, and those that no commit named."""
        if not DeltaTable.is_deltatable(self._path):
            return []
        return DeltaTable(self._path).vacuum(
            retention_hours=int(older_than.total_seconds() // 3600),
            dry_run=True,
            enforce_retention_duration=False,
            full=True,
            keep_versions=None if noted is None else [noted],
        )


def data_set(path: str, table: DeltaTable | None = None) -> Any:  # noqa: ANN401 - a data set, whose stubs are partial
    """Return a table's rows, to be read through PyArrow's own file system.

    The file system of delta-rs is in Python. PyArrow's threads may hold its objects when the interpreter ends, and then
    abort the process.
    """
    system, root = file_system(path)
    return (table or DeltaTable(path)).to_pyarrow_dataset(filesystem=SubTreeFileSystem(root, system))


def _around(held: Any, changed: pa.Table, keys: Sequence[str]) -> list[str]:  # noqa: ANN401 - as above
    """Return the files that may have the keys of changes, as their statistics say.

    Of a name with a dot delta-rs takes statistics for those of a field within another, and finds none: no file has it.
    """
    wanted: Any = pc.scalar(True)  # noqa: FBT003 - a value
    for name in keys:
        if "." in name:
            continue
        values: Any = changed.column(name)
        if (pa.types.is_integer(values.type) or pa.types.is_string(values.type)) and not values.null_count:
            bounds = _compute.min_max(values)
            field = _compute.field(name)
            wanted = wanted & (field >= bounds["min"]) & (field <= bounds["max"])
    return [str(fragment.path) for fragment in held.get_fragments(filter=wanted)]


def _read(held: Any, path: str, columns: Sequence[str] | None = None) -> Iterator[Any]:  # noqa: ANN401 - as above
    """Read a file of a table in the columns that the table has now."""
    schema = held.schema if columns is None else pa.schema([held.schema.field(name) for name in columns])
    with held.filesystem.open_input_file(path) as file:
        for rows in read_groups(file, schema.names):
            yield conformed(rows, schema)


def _allow_local_times(table: DeltaTable, schema: pa.Schema) -> None:
    """Have the table take times without a zone, in a commit of its own: delta-rs adds that to none that it overwrites.

    Readers refuse a table that has such times and does not say so.
    """
    feature = TableFeatures.TimestampWithoutTimezone
    if "timestamp_ntz" in Schema.from_arrow(schema).to_json() and "timestampNtz" not in (
        table.protocol().reader_features or ()
    ):
        table.alter.add_feature(feature, allow_protocol_versions_increase=True)


def _commit(
    table: DeltaTable,
    schema: pa.Schema,
    actions: Iterable[AddAction | RemoveAction],
    recorded: CommitProperties,
    mode: str = "append",
) -> None:
    table.create_write_transaction(list(actions), mode, schema, commit_properties=recorded)
