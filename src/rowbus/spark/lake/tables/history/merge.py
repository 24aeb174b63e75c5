"""The writing of versions: those that end are found by their key and begin, those that begin are added.

Invariant: everything that a batch or a copy changes is in one commit.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# PyArrow has no annotations of its own.

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake

from rowbus.spark.lake.delta import quoted
from rowbus.spark.lake.tables.history.columns import (
    BEGINS,
    DOES,
    END,
    ENDS,
    EVENT,
    GOES,
    ORIGIN,
    VALID_FROM,
    VALID_TO,
    kinds,
)
from rowbus.spark.lake.tables.net_changes import TIMES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from rowbus.spark.lake.tables.history.timeline import Mark


class HistoryMerge:
    """Writes to one table of versions."""

    def __init__(self, path: str, columns: pa.Schema, key: Sequence[str]) -> None:
        """Take the folder, the columns without a version's origin, and the key. No I/O."""
        self.path = path
        self.key = key
        self.schema = pa.schema(kinds(columns) | kinds(ORIGIN))
        self.rows = pa.schema(kinds(self.schema) | {DOES: pa.string()})
        """The columns of a merge's rows."""

    def write(self, versions: pa.Table, emptied: Mark | None, commit: CommitProperties) -> None:
        """Write versions, after what emptied the table has ended all others that are current."""
        if emptied is None and set(versions.column(DOES).to_pylist()) <= {BEGINS}:
            if versions.num_rows:
                added = versions.select(self.schema.names)
                write_deltalake(self.path, added, mode="append", commit_properties=commit)
            return
        merger = self._merger(versions, commit)
        if emptied is not None:
            merger = merger.when_not_matched_by_source_update(_ended(emptied), f"target.{VALID_TO} is null")
        merger.execute()

    def merge(self, rows: pa.RecordBatchReader, commit: CommitProperties) -> None:
        """Write the versions of a stream."""
        self._merger(rows, commit).execute()

    def begin_anew(self, rows: pa.RecordBatchReader, ended: Mark, commit: CommitProperties) -> None:
        """End all versions that are current, and write those of a stream."""
        merger = self._merger(rows, commit, same="false")
        merger.when_not_matched_by_source_update(_ended(ended), f"target.{VALID_TO} is null").execute()

    def _merger(self, rows: Any, commit: CommitProperties, same: str | None = None) -> Any:  # noqa: ANN401 - partial stubs
        table = DeltaTable(self.path)
        merger = table.merge(
            rows, same or self._same(), source_alias="source", target_alias="target", commit_properties=commit
        )
        does = f"source.{quoted(DOES)} ="
        merger = merger.when_matched_delete(f"{does} '{GOES}'")
        merger = merger.when_matched_update({name: f"source.{name}" for name in END}, f"{does} '{ENDS}'")
        values = {quoted(name): f"source.{quoted(name)}" for name in self.schema.names}
        return merger.when_not_matched_insert(values, f"{does} '{BEGINS}'")

    def _same(self) -> str:
        """Return by what a version is found; without a key no version is."""
        if not self.key:
            return "false"
        return " and ".join(
            [
                *(f"target.{quoted(name)} = source.{quoted(name)}" for name in self.key),
                f"target.{VALID_FROM} = source.{VALID_FROM}",
                f"coalesce(target.{EVENT}, 0) = coalesce(source.{EVENT}, 0)",
            ]
        )


def _ended(mark: Mark) -> dict[str, str]:
    """Return how versions end by a mark, none before it begins."""
    user = "null" if mark.user is None else "'" + mark.user.replace("'", "''") + "'"
    told = (f"'{mark.operation}'", "null" if mark.transaction is None else str(mark.transaction), user)
    return dict(zip(END, (f"greatest({_literal(mark.time)}, target.{VALID_FROM})", *told), strict=True))


def _literal(time: datetime) -> str:
    microseconds = pa.scalar(time, TIMES).value
    return f"""arrow_cast({microseconds}, 'Timestamp(Microsecond, Some("UTC"))')"""
