"""Commits to a Delta table through delta-rs: each batch of an application once.

The table's log records, with the files, the application and the batch's number (`txn`). After a conflict with another
commit the table is read again, and the record checked.

Invariant: a batch's files and its number enter the log in one commit, or neither does.
"""

from __future__ import annotations

import json
import time
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction

from rowbus.spark.lake.files import LONGEST, in_milliseconds
from rowbus.spark.lake.table import AppTransaction, refuse_other_columns, retried

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rowbus.spark.lake.files import DataFile, Layout


class DeltaLake:
    """A Delta table in a folder."""

    def __init__(self, layout: Layout) -> None:
        """Take the layout; the table is made by the first commit."""
        self._layout = layout

    def commit(self, files: Sequence[DataFile], batch: AppTransaction | None, *, overwrite: bool) -> bool:
        """Add the files to the table, or replace its contents; False if the batch is there already."""
        return retried(lambda: self._try(files, batch, overwrite=overwrite), CommitFailedError)

    def referenced(self) -> set[str]:
        """Return the files of the newest version, by their paths within the folder."""
        if not DeltaTable.is_deltatable(self._layout.path):
            return set()
        actions = pa.table(cast("Any", DeltaTable(self._layout.path).get_add_actions()))
        return set(map(str, actions.column("path").to_pylist()))

    def _try(self, files: Sequence[DataFile], batch: AppTransaction | None, *, overwrite: bool) -> bool:
        layout = self._layout
        columns = list(layout.partition_by)
        table = DeltaTable.create(layout.path, layout.schema, mode="ignore", partition_by=columns)
        refuse_other_columns(
            layout, pa.schema(cast("Any", table.schema())), tuple(table.metadata().partition_columns)
        )
        if batch is not None and _holds(table, batch):
            return False
        table.create_write_transaction(
            [_action(file) for file in files],
            "overwrite" if overwrite else "append",
            layout.schema,
            columns,
            commit_properties=_properties(batch),
        )
        return True


def _holds(table: DeltaTable, batch: AppTransaction) -> bool:
    newest = table.transaction_version(batch.app)
    return newest is not None and newest >= batch.number


def _properties(batch: AppTransaction | None) -> CommitProperties:
    if batch is None:
        return CommitProperties(max_commit_retries=0)
    return CommitProperties(app_transactions=[Transaction(batch.app, batch.number)], max_commit_retries=0)


def _action(file: DataFile) -> AddAction:
    return AddAction(
        path=file.path,
        size=file.size,
        partition_values={name: _text(value) for name, value in file.partition.items()},
        modification_time=int(time.time() * 1000),
        data_change=True,
        stats=json.dumps(_statistics(file)),
    )


def _text(value: object) -> str | None:
    """Return a partition's value as text, as the Delta protocol has it."""
    if value is None or isinstance(value, str):
        return value or None
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
            written[name] = in_milliseconds(value + slack)
        elif isinstance(value, date):
            written[name] = value.isoformat()
        elif (isinstance(value, int) and not isinstance(value, bool)) or (
            isinstance(value, str) and len(value) <= LONGEST
        ):
            written[name] = value
    return written
