"""The keys of changed rows, and which of them the rows of a table have.

Invariant: two keys are the same when all their columns have equal values; a NULL equals a NULL.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# PyArrow has no annotations of its own.

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Sequence

_compute: Any = pc  # its stubs lack many functions


class _Step(NamedTuple):
    """A column of the key: its values, and the numbers that they and those of the columns before make."""

    column: str
    values: Any
    numbers: Any


class RowKeys:
    """The keys of a table of changes, each with its place in it."""

    def __init__(self, changes: pa.Table, keys: Sequence[str]) -> None:
        """Give each key a number, column by column; numbers never exceed the square of the rows."""
        self._steps: list[_Step] = []
        numbers: Any = pa.repeat(pa.scalar(0, pa.int64()), changes.num_rows)
        for name in keys:
            column: Any = _comparable(changes.column(name))
            values = column.unique()
            wide = _wide(numbers, column, values)
            self._steps.append(_Step(name, values, _compute.unique(wide)))
            numbers = _index(wide, self._steps[-1].numbers)
        self._numbers: Any = numbers

    def places(self, rows: Any) -> Any:  # noqa: ANN401 - rows and an array, whose stubs are partial
        """Return for each row the place of the change that has its key; NULL where none has."""
        numbers: Any = pa.repeat(pa.scalar(0, pa.int64()), rows.num_rows)
        for step in self._steps:
            column = _comparable(rows.column(step.column)).cast(step.values.type)
            numbers = _index(_wide(numbers, column, step.values), step.numbers)
        return _compute.index_in(numbers, self._numbers, skip_nulls=True)


def _wide(numbers: Any, column: Any, values: Any) -> Any:  # noqa: ANN401 - arrays, whose stubs are partial
    return _compute.add(_compute.multiply(numbers, len(values)), _index(column, values))


def _index(column: Any, values: Any) -> Any:  # noqa: ANN401 - as above
    return _compute.index_in(column, values).cast(pa.int64())


def _comparable(column: Any) -> Any:  # noqa: ANN401 - as above
    """Return a column that Arrow can look up: lists as text."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if not pa.types.is_nested(column.type):
        return column
    return pa.array([None if value is None else repr(value) for value in column.to_pylist()], pa.string())
