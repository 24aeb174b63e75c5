"""Record batches of a log's events, as changes of one table: operation, old row and new row in the types of the table.

Invariant: a change's rows come from its own event only, and a value that the type of its column cannot hold is never
rounded or cut: it is null, and the event counts as one that does not fit.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# PyArrow has no annotations of its own.

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rowbus.errors import ConfigurationError
from rowbus.spark.captured.row_change import DELETE, INSERT, TRUNCATE, UPDATE, kind_of
from rowbus.spark.json_rows.decoder import judged
from rowbus.spark.log_source.changes.layout import AFTER, BEFORE, FROM_EVENT, OPERATION
from rowbus.spark.log_source.changes.rows import RowDecoder

if TYPE_CHECKING:
    from rowbus.spark.log_source.changes.layout import ChangeLayout

    Column = Any  # the stubs know arrays by their type only

OPERATIONS: Final = {INSERT: "insert", UPDATE: "update", DELETE: "delete", TRUNCATE: "truncate"}
"""What the column `op` says, by the letter."""

_compute: Any = pc  # its functions are made at run time


class _Kind(NamedTuple):
    """What an event's type says: the operation, None where no row can be read, and how rows are written."""

    operation: str | None
    is_json: bool


def changes_decoded(batches: Iterator[pa.RecordBatch], layout: ChangeLayout) -> Iterator[pa.RecordBatch]:
    """Give the changes in batches of events of the table; events that no trigger wrote are left out."""
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415 - Spark's, and slow to import

    decoder = ChangeDecoder(layout, to_arrow_schema(layout.struct, timezone="UTC"))
    for batch in batches:
        yield decoder.decode(batch)


class ChangeDecoder:
    """Decodes the batches of one task."""

    def __init__(self, layout: ChangeLayout, schema: pa.Schema) -> None:
        """Take the layout and its Arrow types."""
        self._layout = layout
        self._schema = schema
        self._rows = RowDecoder(schema.field(AFTER).type, layout.types, layout.bare)

    def decode(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the changes in a batch. Raises MessageDeserializationError by mode=FAILFAST."""
        events, operations, is_json = _operations(batch)
        data, old = events.column("ev_data"), events.column("ev_extra2")
        updated = _is(operations, UPDATE)
        after = self._rows.decode(_where(_is(operations, INSERT, UPDATE), data), is_json)
        shown = _where(_is(operations, DELETE), data, _where(updated, old))
        before = self._rows.decode(shown, is_json)
        unknown = _compute.is_null(operations)
        wrong = _compute.or_(unknown, _compute.or_(after.wrong, before.wrong))
        columns = {name: events.column(source) for name, source in FROM_EVENT.items()}
        columns |= {OPERATION: operations, BEFORE: before.rows, AFTER: after.rows}
        if self._layout.corrupt is not None:
            only_old = _compute.and_(updated, _compute.invert(after.wrong))
            columns[self._layout.corrupt] = _where(wrong, _compute.if_else(only_old, old, data))
        return judged(self._batch(columns), wrong, self._layout.mode, self._layout.corrupt)

    def _batch(self, columns: dict[str, Column]) -> pa.RecordBatch:
        arrays = [
            columns[name].cast(kind)
            for name, kind in zip(self._schema.names, self._schema.types, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def _operations(batch: pa.RecordBatch) -> tuple[Any, Column, Column]:
    """Return the events that a trigger wrote, their operations, and which of them are JSON."""
    types: Any = batch.column("ev_type").dictionary_encode()
    kinds = [_kind(type_) for type_ in types.dictionary.to_pylist()]
    known = pa.array([kind is not None for kind in kinds], pa.bool_()).take(types.indices)
    operations = pa.array([kind and kind.operation for kind in kinds], pa.string()).take(types.indices)
    is_json = pa.array([kind is not None and kind.is_json for kind in kinds], pa.bool_()).take(types.indices)
    chosen = _compute.fill_null(known, fill_value=False)
    return batch.filter(chosen), operations.filter(chosen), is_json.filter(chosen)


def _kind(type_: str | None) -> _Kind | None:
    try:
        found = kind_of(type_)
    except ConfigurationError:  # the format sql: the end of a statement
        return _Kind(None, is_json=False)
    return None if found is None else _Kind(OPERATIONS[found.operation], found.is_json)


def _is(operations: Column, *letters: str) -> Column:
    words = pa.array([OPERATIONS[letter] for letter in letters], pa.string())
    return _compute.is_in(operations, words)


def _where(condition: Column, values: Column, otherwise: Column | None = None) -> Column:
    return _compute.if_else(
        condition, values, pa.scalar(None, pa.string()) if otherwise is None else otherwise
    )
