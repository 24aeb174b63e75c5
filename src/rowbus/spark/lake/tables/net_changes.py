"""The changes of a micro-batch in one table: whether it is emptied, of each key the last row, its origin.

They are gone through twice, in the same order: which of them count is known after the first time, and only those are
written. So what is in memory are keys, and rows few at a time.

Invariants: changes that the table's copy shows already are left out, and the order is that of the events; the changes
and their order are those of `changes_of`.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# PyArrow has no annotations of its own.

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rowbus.log.event import ALTER, DELETE, INSERT, RENAME, TRUNCATE
from rowbus.spark.captured import COLUMNS, STAGED, changes_of
from rowbus.spark.lake.files import PIECE
from rowbus.spark.lake.merge import comparable

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

    written: bytearray
    """A flag for each change, as they were gone through: 1 if its row is in the table from now on."""

    keys: pa.Table | None
    """The keys of all changed rows, each once; None where rows have none."""


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


_compute: Any = pc  # its stubs lack many functions

_KINDS: Final[dict[str, pa.DataType]] = {
    "number": pa.int64(),  # among all changes
    "event": pa.int64(),
    "part": pa.int32(),
    "deletes": pa.bool_(),
    "shape": pa.int32(),  # of the row: the number of its combination of columns
}
_FACTS: Final = pa.schema(_KINDS)


def net_changes(parts: Iterable[Sequence[LoadedChange]], keys: KeysOf | None) -> NetChanges:
    """Return the net effect of changes in any order; without keys only new rows count."""
    emptied, facts, named = (-1, -1), [_FACTS.empty_table()], list[pa.Table]()
    shapes, count = dict[frozenset[str], int](), 0
    for part in parts:
        rows = [
            (number, change)
            for number, change in enumerate(part, count)
            if (change.operation != TRUNCATE if keys else change.operation == INSERT)
        ]
        emptied = max([emptied, *(change.place for change in part if change.operation == TRUNCATE)])
        facts.append(_facts(rows, shapes))
        named += [keys([change.row for _, change in rows])] if keys else []
        count += len(part)
    keyed: Any = pa.concat_tables(named) if named else None
    last, combinations = _last(pa.concat_tables(facts), keyed, emptied), list(shapes)
    columns = {combinations[shape] for shape in last.column("shape").unique().to_pylist()}
    written = bytearray(count)
    for number in last.filter(_compute.invert(last.column("deletes"))).column("number").to_pylist():
        written[number] = 1
    kept = None if keyed is None else keyed.take(last.column("row"))
    return NetChanges(emptied >= (0, 0), columns, written, kept)


def _facts(changes: Sequence[tuple[int, LoadedChange]], shapes: dict[frozenset[str], int]) -> pa.Table:
    """Return what counts of changes, and number the combinations of columns."""
    found = [
        (number, *place, operation == DELETE, shapes.setdefault(frozenset(row), len(shapes)))
        for number, (place, operation, row) in changes
    ]
    columns = zip(*found, strict=True) if found else repeat((), len(_FACTS))
    return pa.table(list(map(pa.array, columns, _FACTS.types)), schema=_FACTS)


def _last(facts: Any, keyed: Any, emptied: Place) -> Any:  # noqa: ANN401 - tables, whose stubs are partial
    """Return of each key the last change after a table was emptied; without keys, each change."""
    ranks: Any = pa.array(range(facts.num_rows), pa.int64())
    order = _compute.sort_indices(facts, sort_keys=[("event", "ascending"), ("part", "ascending")])
    keys: list[Any] = [ranks] if keyed is None else [comparable(column) for column in keyed.columns]
    names = [f"key {number}" for number in range(len(keys))]
    ranked: Any = pa.table([*[key.take(order) for key in keys], ranks], names=[*names, "rank"])
    newest = ranked.group_by(names, use_threads=False).aggregate([("rank", "max")]).column("rank_max")
    rows = order.take(newest)
    last, (event, part) = facts.take(rows).append_column("row", rows), emptied
    later = _compute.greater(last.column("event"), event)
    after = _compute.and_(
        _compute.equal(last.column("event"), event), _compute.greater(last.column("part"), part)
    )
    return last.filter(_compute.or_(later, after))


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
