"""Changes with their origin: the time of the event, and the user that a trigger was asked to note in `ev_extra3`.

Invariant: the changes and their order are those of `changes_of`.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# PyArrow has no annotations of its own.

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from rowbus.spark.sink.targets.changes import COLUMNS, STAGED, changes_of

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
