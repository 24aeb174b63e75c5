"""The changes of a micro-batch in one table: whether it is emptied, of each key the last row, its origin.

They are gone through twice: which of them count is known after the first time, and only those are written. So what is
in memory are keys, and rows few at a time.

Invariants: changes that the table's copy shows already are left out, and the order is that of the events; the changes
and their order are those of `changes_of`.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# PyArrow has no annotations of its own.

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rowbus.log.event import ALTER, DELETE, INSERT, RENAME, TRUNCATE
from rowbus.spark.captured import COLUMNS, STAGED, changes_of
from rowbus.spark.lake.files import PIECE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from rowbus.spark.log_source.offset import TxidSnapshot

Row = dict[str, Any]
RowOf = Callable[[Row], Row]
"""Gives a row the columns that its table has now."""

KeysOf = Callable[[Sequence[Row]], pa.Table]
"""Gives the keys of rows, as values of the lake."""

Place = tuple[int, int]
"""A change's place among others: its event, and its part of it."""


_SHORT: Final = 64  # characters of a key that is kept as it is


class StagedChange(NamedTuple):
    """A change of a row, as tasks stage it; sorted by event and part."""

    event: int
    part: int
    transaction: int
    operation: str
    row: str
    time: datetime | None = None
    """The event's; staged for versions only."""

    user: str | None = None
    """The user whom the capture noted; staged for versions only."""


class NetChanges(NamedTuple):
    """The work to be done on a table."""

    truncated: bool
    columns: set[frozenset[str]]
    """The columns of the rows, in each of their combinations."""

    written: set[Place]
    """The changes whose rows are in the table from now on."""

    keys: pa.Table | None
    """The keys of all changed rows, each once; None where rows have none."""

    @property
    def are_none(self) -> bool:
        """Whether there is nothing to do."""
        return not (self.truncated or self.columns)


class _Last(NamedTuple):
    """The last change of a row: its place, whether it deletes, the row's columns, and where its key is."""

    place: Place
    deletes: bool
    columns: frozenset[str]
    key: int


class LoadedChange(NamedTuple):
    """A change, its row read."""

    place: Place
    operation: str
    row: Row


LoadsChanges = Callable[[], Iterable[Sequence[LoadedChange]]]
"""Loads the changes of a table, few at a time, each time that it is called."""


def rows_of(changes: Iterable[StagedChange]) -> Iterator[StagedChange]:
    """Give the changes of rows, without those of the table's shape or name."""
    return (change for change in changes if change.operation not in {ALTER, RENAME})


def is_renamed(changes: Iterable[StagedChange], copied_in: TxidSnapshot) -> bool:
    """Say whether a table has or had another name since its copy: rows may have been written under that."""
    return any(it.operation == RENAME and not copied_in.sees(it.transaction) for it in changes)


def loaded(
    changes: Iterable[StagedChange], copied_in: TxidSnapshot, fit: RowOf
) -> Iterator[list[LoadedChange]]:
    """Give the changes of rows after a copy in a snapshot, few at a time, their rows in the columns of now."""
    found, size = list[LoadedChange](), 0
    for change in rows_of(changes):
        if not copied_in.sees(change.transaction):
            found.append(
                LoadedChange((change.event, change.part), change.operation, fit(json.loads(change.row)))
            )
            size += len(change.row)
        if size > PIECE:
            yield found
            found, size = [], 0
    if found:
        yield found


def net_changes(parts: Iterable[Sequence[LoadedChange]], keys: KeysOf | None) -> NetChanges:
    """Return the net effect of changes in any order; without keys only new rows count."""
    last, emptied, told, places = dict[object, _Last](), list[Place](), list[pa.Table](), 0
    for part in parts:
        rows = [
            change
            for change in part
            if (change.operation != TRUNCATE if keys else change.operation == INSERT)
        ]
        emptied += [change.place for change in part if change.operation == TRUNCATE]
        found = keys([change.row for change in rows]) if keys else None
        for number, (key, change) in enumerate(zip(_names(rows, found), rows, strict=True), places):
            if (known := last.get(key)) is None or known.place < change.place:
                deletes = change.operation == DELETE
                last[key] = _Last(change.place, deletes, frozenset(change.row), number)
        places += len(rows)
        told += [found] if found is not None else []
    after = max(emptied, default=(-1, -1))
    counted = [it for it in last.values() if it.place > after]
    kept: Any = (
        pa.concat_tables(told).take(pa.array([it.key for it in counted], pa.int64())) if told else None
    )
    written = {it.place for it in counted if not it.deletes}
    return NetChanges(bool(emptied), {it.columns for it in counted}, written, kept)


def _names(rows: Sequence[LoadedChange], keys: Any) -> Iterable[object]:  # noqa: ANN401 - a table, or None
    """Name the row of each change: by its key, or by its place, where each is a row of its own."""
    if keys is None:
        return [change.place for change in rows]
    return map(_short, zip(*(column.to_pylist() for column in keys.columns), strict=True))


def _short(key: object) -> object:
    text = repr(key)
    return text if len(text) <= _SHORT else sha256(text.encode()).digest()


_compute: Any = pc  # its stubs lack many functions

TIMES: Final = pa.timestamp("us", "UTC")
WITH_ORIGINS: Final = (*COLUMNS, "ev_time", "ev_extra3")
"""The columns of the log source that it reads."""

_NAMES = (f"c{len(STAGED) + 1}", f"c{len(STAGED) + 2}")
_FIELDS: dict[str, pa.DataType] = dict(
    zip((*STAGED.names, *_NAMES), (*STAGED.types, TIMES, pa.string()), strict=True)
)
STAGED_WITH_ORIGINS: Final = pa.schema(_FIELDS)


def changes_with_origins(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the row changes of events, each with the time and the user of its event."""
    changes: Any = changes_of(batch)
    places = _compute.index_in(changes.column(1), value_set=batch.column("ev_id"))
    times = _compute.take(batch.column("ev_time").cast(TIMES), places)
    users = _compute.take(batch.column("ev_extra3"), places)
    return pa.RecordBatch.from_arrays([*changes.columns, times, users], schema=STAGED_WITH_ORIGINS)
