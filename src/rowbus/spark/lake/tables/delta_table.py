"""A Delta table that follows a table of the database.

Invariant: a batch's number is in the commit of its rows, as `txn`.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# PyArrow has no annotations of its own.

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError
from pyarrow.fs import SubTreeFileSystem

from rowbus.spark.captured import Unfit
from rowbus.spark.lake.delta import commit_properties, merge_changes
from rowbus.spark.lake.policy import SMALL, to_merge
from rowbus.spark.lake.storage import file_system
from rowbus.spark.lake.table import own_errors

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from rowbus.spark.lake.table import AppTransaction
    from rowbus.spark.lake.tables.evolution import Reshaping

PIECE: Final = 2**20
"""Bytes, about, that delta-rs is given at once: it takes 26 pieces before it has written the first."""


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
        write_deltalake(
            self._path,
            pa.RecordBatchReader.from_batches(schema, in_pieces(rows)),
            mode="overwrite",
            schema_mode="overwrite",
            commit_properties=commit_properties(batch),
        )

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

    def write(self, rows: pa.Table, batch: AppTransaction, *, emptied: bool) -> None:
        """Add rows, or replace the contents by them."""
        mode: Any = "overwrite" if emptied else "append"
        write_deltalake(self._path, rows, mode=mode, commit_properties=commit_properties(batch))

    def merge(self, changes: pa.Table, keys: Sequence[str], batch: AppTransaction) -> None:
        """Write or delete rows, one for each key."""
        merge_changes(DeltaTable(self._path), changes, keys, batch)

    def compact(self) -> int:
        """Merge small files, if there are many."""
        if not DeltaTable.is_deltatable(self._path):
            return 0
        table = DeltaTable(self._path)
        actions: Any = pa.table(cast("Any", table.get_add_actions()))
        if not to_merge(actions.column("size_bytes").to_pylist()):
            return 0
        try:
            done = table.optimize.compact(
                target_size=2 * SMALL, max_concurrent_tasks=1, commit_properties=commit_properties(None)
            )
        except CommitFailedError:
            return 0
        return int(done["numFilesRemoved"])

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


def data_set(path: str) -> Any:  # noqa: ANN401 - a data set, whose stubs are partial
    """Return a table's rows, to be read through PyArrow's own file system.

    The file system of delta-rs is in Python. PyArrow's threads may hold its objects when the interpreter ends, and then
    abort the process.
    """
    system, root = file_system(path)
    return DeltaTable(path).to_pyarrow_dataset(filesystem=SubTreeFileSystem(root, system))


def in_pieces(rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Cut batches, of which ADBC makes one of 16 MB, so that few of them are in memory at a time."""
    for batch in rows:
        most = max(1, batch.num_rows * PIECE // max(batch.nbytes, 1))
        for begin in range(0, batch.num_rows, most):
            yield batch.slice(begin, most)
