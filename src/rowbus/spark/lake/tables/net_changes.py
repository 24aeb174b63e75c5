"""The changes of a micro-batch in one table: whether it is emptied, of each key the last row, its origin.

Invariants: changes that the table's copy shows already are left out, and the order is that of the events; the changes
and their order are those of `changes_of`.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# PyArrow has no annotations of its own.

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rowbus.log.event import ALTER, DELETE, INSERT, RENAME, TRUNCATE
from rowbus.spark.captured import COLUMNS, STAGED, changes_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from rowbus.spark.log_source.offset import TxidSnapshot

Row = dict[str, Any]
RowOf = Callable[[Row], Row]
"""Gives a row the columns that its table has now."""

KeysOf = Callable[[Sequence[Row]], Sequence[str]]
"""Gives the keys of rows, equal for the same key however its text was written."""


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
    written: list[Row]
    deleted: list[Row]
    """Rows whose keys go."""

    @property
    def columns(self) -> set[frozenset[str]]:
        """The columns of the rows, in each of their combinations."""
        return {frozenset(row) for row in (*self.written, *self.deleted)}


def rows_of(changes: Iterable[StagedChange]) -> list[StagedChange]:
    """Return the changes of rows, without those of the table's shape or name."""
    return [change for change in changes if change.operation not in {ALTER, RENAME}]


def is_renamed(changes: Iterable[StagedChange], copied_in: TxidSnapshot) -> bool:
    """Say whether a table has or had another name since its copy: rows may have been written under that."""
    return any(it.operation == RENAME and not copied_in.sees(it.transaction) for it in changes)


def net_changes(
    changes: Iterable[StagedChange], keys: KeysOf | None, copied_in: TxidSnapshot, fit: RowOf
) -> NetChanges:
    """Return what changes come to, after a copy in a snapshot; without keys only new rows count."""
    new = sorted([change for change in changes if not copied_in.sees(change.transaction)])
    truncated = max([place for place, it in enumerate(new) if it.operation == TRUNCATE], default=-1)
    rows = [(change.operation, fit(json.loads(change.row))) for change in new[truncated + 1 :]]
    if keys is None:
        return NetChanges(truncated >= 0, [row for operation, row in rows if operation == INSERT], [])
    last = dict(zip(keys([row for _, row in rows]), rows, strict=True))
    return NetChanges(
        truncated >= 0,
        [row for operation, row in last.values() if operation != DELETE],
        [row for operation, row in last.values() if operation == DELETE],
    )


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
