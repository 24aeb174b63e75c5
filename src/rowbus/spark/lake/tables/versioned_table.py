"""A followed Delta table with the table of its versions, under the verbs of a followed table.

A lake that keeps versions of a table goes on to keep them, also in a run that does not ask for them: there is no gap.

Invariant: both have the same copies and the same batches, at the end of each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.errors import ConfigurationError
from rowbus.spark.lake.tables.history.columns import refuse_taken_names
from rowbus.spark.lake.tables.history.table import HistoryTable

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from rowbus.spark.captured.source_table import SourceTable
    from rowbus.spark.lake.table import AppTransaction
    from rowbus.spark.lake.tables.folder import LakeFolder
    from rowbus.spark.lake.tables.followed_table import FollowedTable
    from rowbus.spark.lake.tables.net_changes import StagedChange


class VersionedTable:
    """A table of a lake, and the versions of its rows."""

    def __init__(self, table: FollowedTable, history: HistoryTable) -> None:
        """Take both. No I/O."""
        self._table = table
        self._history = history
        self.path = table.path

    def bring_to_shape(self) -> int | None:
        """Copy the table as `FollowedTable` does, also when its versions are to begin; return the copy's rows."""
        rows = self._table.bring_to_shape(again=not self._history.exists())
        self._follow_copy()
        return rows

    def apply(self, changes: Sequence[StagedChange], batch: AppTransaction) -> None:
        """Apply the changes of a batch to both, once to each."""
        self._table.apply(changes, batch)
        self._follow_copy()
        self._history.apply(changes, batch)

    def versions(self) -> dict[str, int]:
        """Return the Delta tables' versions, by their names."""
        return self._table.versions() | {self._history.name: self._history.version()}

    def _follow_copy(self) -> None:
        copy = self._table.copy()
        if copy is not None:
            self._history.follow_copy(self._table.number(), copy, self._table.path)


def with_history(
    table: FollowedTable, folder: LakeFolder, source: SourceTable, others: Collection[str], *, asked: bool
) -> FollowedTable | VersionedTable:
    """Return a table with its versions, if they are asked for or there. Raises ConfigurationError for taken names."""
    history = HistoryTable(folder, source)
    if not asked and not history.exists():
        return table
    refuse_taken_names(source)
    if history.name in others or history.is_another():
        raise ConfigurationError(
            f"The table of the versions of {source.name} would be {history.name}, and there is a table of that name; "
            "leave one of them out with --tables, or remove its folder from the lake.",
            table=history.name,
        )
    return VersionedTable(table, history)
