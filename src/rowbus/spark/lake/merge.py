"""The changes of a micro-batch in a table: of each key its newest row; and which of the keys the table has.

Invariants: the result depends on the rows of a batch, not on their order nor on the tasks that wrote them; two keys are
the same when all their columns have equal values; a NULL equals a NULL.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# PyArrow has no annotations of its own.

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rowbus.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rowbus.spark.merge_rule import MergeRule

DELETED: Final = "rowbus deleted"
"""The column of a batch that says whether a row deletes; not in the table."""

_PLACE: Final = "rowbus place"

_compute: Any = pc  # its stubs lack many functions


def newest(rows: pa.Table, rule: MergeRule) -> pa.Table:
    """Return the newest row of each key, with the column `DELETED` and without that of the rule's deletion.

    Raises ConfigurationError for a key or a sequence that is NULL, or a key that comes twice where nothing says which
    row is newer.
    """
    for name in rule.keys:
        if rows.column(name).null_count:
            raise ConfigurationError(f"A row has no key: its {name} is NULL.", option="mergeKeys")
    if rule.sequence is not None and rows.column(rule.sequence).null_count:
        text = f"Nothing says how new a row is: its {rule.sequence} is NULL."
        raise ConfigurationError(text, option="sequenceBy")
    given: Any = rows
    ordered = given.sort_by([(rule.sequence, "descending")]) if rule.sequence else given
    places = pa.array(range(rows.num_rows), pa.int64())
    keyed = ordered.select(list(rule.keys)).append_column(_PLACE, places)
    first = keyed.group_by(list(rule.keys), use_threads=False).aggregate([(_PLACE, "min")])
    if rule.sequence is None and first.num_rows < rows.num_rows:
        raise ConfigurationError(
            f"A batch has several rows with the same {', '.join(rule.keys)}. Give the option sequenceBy: the column "
            "that says which of them is the newest.",
            option="sequenceBy",
        )
    return _with_deletions(ordered.take(first.column(f"{_PLACE}_min")), rule)


def _with_deletions(rows: Any, rule: MergeRule) -> pa.Table:  # noqa: ANN401 - a table, whose stubs are partial
    """Say of each row whether it deletes."""
    if rule.delete is None:
        deleted: Any = pa.repeat(pa.scalar(False), rows.num_rows)  # noqa: FBT003 - a value of the column
    elif rule.delete_values is None:
        try:
            deleted = _compute.fill_null(rows.column(rule.delete).cast(pa.bool_()), False)  # noqa: FBT003 - as above
        except pa.ArrowException as error:
            text = (
                f"Whether a row deletes is no boolean: {error}. Name the values that delete: {rule.delete}=D"
            )
            raise ConfigurationError(text, option="deleteWhen") from error
    else:
        texts = rows.column(rule.delete).cast(pa.string())
        deleted = _compute.is_in(texts, pa.array(list(rule.delete_values), pa.string()))
    kept = [name for name in rows.schema.names if name != rule.delete]
    table: pa.Table = rows.select(kept).append_column(DELETED, deleted)
    return table


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
            column: Any = comparable(changes.column(name))
            values = column.unique()
            wide = _wide(numbers, column, values)
            self._steps.append(_Step(name, values, _compute.unique(wide)))
            numbers = _index(wide, self._steps[-1].numbers)
        self._numbers: Any = numbers

    def places(self, rows: Any) -> Any:  # noqa: ANN401 - rows and an array, whose stubs are partial
        """Return for each row the place of the change that has its key; NULL where none has."""
        numbers: Any = pa.repeat(pa.scalar(0, pa.int64()), rows.num_rows)
        for step in self._steps:
            column = comparable(rows.column(step.column)).cast(step.values.type)
            numbers = _index(_wide(numbers, column, step.values), step.numbers)
        return _compute.index_in(numbers, self._numbers, skip_nulls=True)

    def has_any(self, batches: Iterable[Any]) -> bool:
        """Return whether a row has the key of a change."""
        return any(self.places(rows).null_count < rows.num_rows for rows in batches)


def _wide(numbers: Any, column: Any, values: Any) -> Any:  # noqa: ANN401 - arrays, whose stubs are partial
    return _compute.add(_compute.multiply(numbers, len(values)), _index(column, values))


def _index(column: Any, values: Any) -> Any:  # noqa: ANN401 - as above
    return _compute.index_in(column, values).cast(pa.int64())


def comparable(column: Any) -> Any:  # noqa: ANN401 - as above
    """Return a column that Arrow can look up: lists as text."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if not pa.types.is_nested(column.type):
        return column
    return pa.array([None if value is None else repr(value) for value in column.to_pylist()], pa.string())
