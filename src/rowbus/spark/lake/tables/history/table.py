"""A Delta table with the versions of a followed table's rows: each change ends a version, and begins one.

A copy of the table ends the versions of rows that it shows otherwise or not at all, and begins theirs. A batch and a
copy are told once: their numbers are in the commit that writes the versions, as in the table itself.

A lake that keeps versions of a table goes on to keep them, also in a run that does not ask for them: there is no gap.

Invariants: after a copy, and after each batch, the current versions are the rows of the table; both have the same
copies and the same batches, at the end of each.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# PyArrow has no annotations of its own.

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake

from rowbus.errors import ConfigurationError
from rowbus.spark.captured import Unfit
from rowbus.spark.lake.delta import StoredDelta, commit_properties, data_set
from rowbus.spark.lake.table import AppTransaction, own_errors
from rowbus.spark.lake.tables.followed_table import COPY as COPIES
from rowbus.spark.lake.tables.history.columns import (
    ORIGIN,
    VALID_TO,
    fitted,
    held_versions,
    keys_of,
    kinds,
    of_table,
    refuse_taken_names,
    rows_of,
    versions_table,
)
from rowbus.spark.lake.tables.history.copy import begin_versions, tell_copy
from rowbus.spark.lake.tables.history.merge import HistoryMerge
from rowbus.spark.lake.tables.history.timeline import Epoch, changed_versions, told_changes
from rowbus.spark.lake.tables.net_changes import TIMES
from rowbus.spark.lake.tables.net_changes import rows_of as changes_of_rows
from rowbus.spark.log_source.offset import TxidSnapshot

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from rowbus.spark.captured import SourceTable
    from rowbus.spark.lake.tables.folder import Copy, LakeFolder
    from rowbus.spark.lake.tables.followed_table import FollowedTable
    from rowbus.spark.lake.tables.history.timeline import Change, Key, Mark, ToldChange
    from rowbus.spark.lake.tables.net_changes import StagedChange

SUFFIX: Final = "_history"
_BEGIN: Final = datetime(1970, 1, 1, tzinfo=UTC)

_compute: Any = pc  # its stubs lack many functions


class HistoryTable:
    """The versions of one table."""

    def __init__(self, folder: LakeFolder, source: SourceTable) -> None:
        """Take where it is, and which table it is of. No I/O."""
        self._folder = folder
        self._source = source
        self.name = source.name + SUFFIX
        self.path = folder.table(self.name)

    def exists(self) -> bool:
        """Return whether the table is there."""
        return bool(self._folder.epochs(self.name)) and DeltaTable.is_deltatable(self.path)

    def is_another(self) -> bool:
        """Return whether there is a table in its place that is none of versions."""
        return not self._folder.epochs(self.name) and DeltaTable.is_deltatable(self.path)

    def version(self) -> int:
        """Return the Delta table's version."""
        return DeltaTable(self.path).version()

    def follow_copy(self, number: int, copy: Copy, path: str) -> None:
        """Tell once what a copy shows, which is in a Delta table at `path`."""
        held = self._held()
        if held >= number:
            return
        self._folder.note_epoch(self.name, number, copy, after=held)
        batch = AppTransaction(COPIES, number)
        moment = _moment(copy.moment)
        if not held:
            begin_versions(self.path, path, moment, batch)
            return
        columns = of_table(data_set(path).schema)
        comparable = self._bring_to_columns(columns) and bool(self._source.key)
        merge = HistoryMerge(self.path, self._columns(), self._source.key)
        tell_copy(merge, path, self._source, moment, commit_properties(batch), comparable=comparable)

    def apply(self, changes: Sequence[StagedChange], batch: AppTransaction) -> None:
        """Tell the changes of a batch, once."""
        known = DeltaTable(self.path).transaction_version(batch.app)
        if known is not None and known >= batch.number:
            return
        epochs = self._epochs()
        told = told_changes(changes, self._source.key, epochs)
        while told and (unfit := self._told(told, epochs, batch)):
            self._rewrite({unfit.column: pa.string()})

    def current(self, columns: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Read the current versions, in columns of the table; raises Unfit."""
        dataset = data_set(self.path)
        for batch in dataset.to_batches(filter=_compute.field(VALID_TO).is_null()):
            yield pa.RecordBatch.from_arrays(fitted(batch, columns, self._source), schema=columns)

    def _held(self) -> int:
        return (DeltaTable(self.path).transaction_version(COPIES) or 0) if self.exists() else 0

    def _epochs(self) -> list[Epoch]:
        held, found = self._held(), self._folder.epochs(self.name)
        return [
            Epoch(TxidSnapshot.parse(snapshot), _moment(moment))
            for number, (snapshot, moment) in sorted(found.items())
            if number <= held
        ]

    def _columns(self) -> pa.Schema:
        return of_table(data_set(self.path).schema)

    # ------------------------------------------------------------------------------------------------- columns

    def _bring_to_columns(self, wanted: pa.Schema) -> bool:
        """Give the table the columns of a copy; return whether its key and its types are still the same."""
        there = kinds(self._columns())
        asked = kinds(wanted)
        other = {name: kind for name, kind in asked.items() if name in there and not there[name].equals(kind)}
        if set(asked) - set(there):
            added = pa.schema(
                there | {name: asked[name] for name in asked if name not in there} | kinds(ORIGIN)
            )
            write_deltalake(self.path, added.empty_table(), mode="append", schema_mode="merge")
        for name, kind in other.items():
            self._widen(name, there[name], kind)
        return not other and set(self._source.key) <= set(there) & set(asked)

    def _widen(self, name: str, there: pa.DataType, kind: pa.DataType) -> None:
        """Give a column a type, or make it text where the type does not hold every value."""
        try:
            self._rewrite({name: kind})
        except Unfit:
            if not pa.types.is_string(there):
                self._rewrite({name: pa.string()})

    def _rewrite(self, others: Mapping[str, pa.DataType]) -> None:
        """Write all versions with other types of columns; raises Unfit, with nothing done."""
        rows = data_set(self.path)
        schema = pa.schema(kinds(rows.schema) | dict(others))
        if schema.equals(rows.schema):
            raise Unfit(", ".join(others))
        batches = (
            pa.RecordBatch.from_arrays(fitted(batch, schema, self._source), schema=schema)
            for batch in rows.to_batches()
        )
        with own_errors(batches, Unfit) as rewritten:
            StoredDelta(self.path).replace(schema, rewritten, None)

    # ------------------------------------------------------------------------------------------------- changes

    def _told(
        self, told: Sequence[ToldChange], epochs: Sequence[Epoch], batch: AppTransaction
    ) -> Unfit | None:
        """Tell changes; return what was in the way."""
        try:
            self._tell(told, epochs, batch)
        except Unfit as unfit:
            return unfit
        return None

    def _tell(self, told: Sequence[ToldChange], epochs: Sequence[Epoch], batch: AppTransaction) -> None:
        """Write the versions that changes end and begin; raises Unfit, with nothing done."""
        schema = self._columns()
        rows = rows_of([change.row for change in told], schema, self._source)
        keys = self._keys_of_changes(told, rows)
        there = self._there(told, keys, rows, epochs)
        changes = [
            (key, change.at(there.num_rows + place))
            for place, (key, change) in enumerate(zip(keys, told, strict=True))
        ]
        held = zip(keys_of(there, self._source.key), held_versions(there), strict=True)
        wanted = None if _late_truncation(told, epochs) else set(keys)
        known = [(key, version) for key, version in held if wanted is None or key in wanted]
        columns = pa.concat_tables([there.select(schema.names), rows])
        found = changed_versions(changes, known, epochs, partial(_same, columns))
        merge = HistoryMerge(self.path, schema, self._source.key)
        merge.write(versions_table(columns, found), _emptied(changes, epochs), commit_properties(batch))

    def _keys_of_changes(self, told: Sequence[ToldChange], rows: pa.Table) -> list[Key | None]:
        """Return the key of each change: None for one of all rows; without a key each row has its own."""
        key = self._source.key
        keys = keys_of(rows, key) if key else [(it.change.event, it.change.part) for it in told]
        return [None if change.truncates else found for change, found in zip(told, keys, strict=True)]

    def _there(
        self, told: Sequence[ToldChange], keys: Sequence[Key | None], rows: pa.Table, epochs: Sequence[Epoch]
    ) -> pa.Table:
        """Read the versions of the changed rows that are current, or ended since the first of the changes."""
        dataset = data_set(self.path)
        if not self._source.key:
            nothing: pa.Table = dataset.schema.empty_table()
            return nothing
        since = min(change.time for change in told)
        wanted = _compute.field(VALID_TO).is_null() | (_compute.field(VALID_TO) >= pa.scalar(since, TIMES))
        if not _late_truncation(told, epochs):
            changed = rows.filter(pa.array([key is not None for key in keys]))
            for name in self._source.key:
                wanted &= _compute.field(name).isin(changed.column(name).combine_chunks())
        found: pa.Table = dataset.to_table(filter=wanted)
        return found


def _same(rows: Any, one: int, other: int) -> bool:  # noqa: ANN401 - a table, whose stubs are partial
    return repr(rows.slice(one, 1).to_pylist()) == repr(rows.slice(other, 1).to_pylist())


def _late_truncation(told: Sequence[ToldChange], epochs: Sequence[Epoch]) -> bool:
    return any(change.truncates and change.epoch < len(epochs) - 1 for change in told)


def _emptied(changes: Sequence[tuple[Key | None, Change]], epochs: Sequence[Epoch]) -> Mark | None:
    """Return what ends all versions that are current: the first TRUNCATE since the last copy."""
    last = len(epochs) - 1
    found = next((change.mark for key, change in changes if key is None and change.epoch == last), None)
    return found and found._replace(time=max(found.time, epochs[last].moment))


def _moment(microseconds: int) -> datetime:
    return _BEGIN + timedelta(microseconds=microseconds)


class VersionedTable:
    """A table of a lake, and the versions of its rows."""

    def __init__(self, table: FollowedTable, history: HistoryTable) -> None:
        """Take both. No I/O."""
        self._table = table
        self._history = history
        self.path = table.path

    def bring_to_shape(self, *, again: bool = False) -> int | None:
        """Copy the table as `FollowedTable` does, also when its versions are to begin; return the copy's rows."""
        rows = self._table.bring_to_shape(again=again or not self._history.exists(), in_place=False)
        self._follow_copy()
        return rows

    def is_renamed(self, changes: Iterable[StagedChange]) -> bool:
        """Say whether changes tell that the table had another name since it was copied."""
        return self._table.is_renamed(changes)

    def apply(self, changes: Iterable[StagedChange], batch: AppTransaction) -> None:
        """Apply the changes of a batch to both, once to each; those to versions are all in memory."""
        self._table.apply(changes, batch)
        self._follow_copy()
        self._history.apply(list(changes_of_rows(changes)), batch)

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
