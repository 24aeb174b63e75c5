"""Rows of a table as triggers wrote them into events, in the types of the table.

Arrow parses the rows of a batch at once: those that triggers write in JSON, where numbers and booleans are bare and all
other values are text. What it refuses is halved until few rows are left, and these are read one by one, as are
URL-encoded rows. Either way the text of a value becomes the value by `captured.types`.

Invariant: a column that the row does not have is null, and one that the table does not have is ignored.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# PyArrow has no annotations of its own.

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import pyarrow as pa
import pyarrow.compute as pc

from rowbus.spark.captured.row_change import decode_row
from rowbus.spark.captured.types import Unfit, converted
from rowbus.spark.json_rows.decoder import ONE_BY_ONE, parsed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    Column = Any  # the stubs know arrays by their type only
    Texts = dict[str, str | None]

_compute: Any = pc  # its functions are made at run time


class DecodedRows(NamedTuple):
    """Rows as an array of structures, null where there is none, and which of them do not fit."""

    rows: Column
    wrong: Column


class RowDecoder:
    """Decodes rows of one table."""

    def __init__(self, kind: Any, types: Sequence[str], bare: Sequence[bool]) -> None:  # noqa: ANN401 - a struct
        """Take the row's Arrow type, the names of the database's types, and which of them are bare in JSON."""
        self._fields: list[Any] = list(kind)
        self._types = types
        self._wire = pa.struct(
            [
                (field.name, field.type if is_bare else pa.string())
                for field, is_bare in zip(self._fields, bare, strict=True)
            ]
        )

    def decode(self, bodies: Column, is_json: Column) -> DecodedRows:
        """Decode rows, of which there are none where a body is null."""
        if bodies.null_count == len(bodies):
            return DecodedRows(pa.nulls(len(bodies), pa.struct(self._fields)), _none_of(bodies))
        if _compute.all(is_json).as_py():
            return self._halved(bodies, is_json)
        return self._one_by_one(bodies, is_json)

    def _halved(self, bodies: Column, is_json: Column) -> DecodedRows:
        values = parsed(bodies, self._wire)
        if values is not None:
            return self._typed(values.flatten(), _compute.is_null(values), _none_of(bodies))
        if len(bodies) <= ONE_BY_ONE:
            return self._one_by_one(bodies, is_json)
        middle = len(bodies) // 2
        return _joined(
            [
                self._halved(bodies.slice(0, middle), is_json.slice(0, middle)),
                self._halved(bodies.slice(middle), is_json.slice(middle)),
            ]
        )

    def _one_by_one(self, bodies: Column, is_json: Column) -> DecodedRows:
        rows = [
            _read(body, is_json=said)
            for body, said in zip(bodies.to_pylist(), is_json.to_pylist(), strict=True)
        ]
        columns = [
            pa.array([row and row.get(field.name) for row in rows], pa.string()) for field in self._fields
        ]
        missing = pa.array([row is None for row in rows], pa.bool_())
        return self._typed(columns, missing, _compute.and_(missing, _compute.is_valid(bodies)))

    def _typed(self, columns: Sequence[Column], missing: Column, wrong: Column) -> DecodedRows:
        arrays: list[Column] = []
        for column, field, type_name in zip(columns, self._fields, self._types, strict=True):
            values, unfit = _fitting(column, field, type_name)
            arrays.append(values)
            wrong = wrong if unfit is None else _compute.or_(wrong, unfit)
        return DecodedRows(pa.StructArray.from_arrays(arrays, fields=self._fields, mask=missing), wrong)


def _fitting(column: Column, field: Any, type_name: str) -> tuple[Column, Column | None]:  # noqa: ANN401 - Arrow's
    """Return values in the type of their column, null where they do not fit, and where that is."""
    try:
        return converted(field.name, type_name, column, field.type), None
    except Unfit:
        if len(column) == 1:
            return pa.nulls(1, field.type), pa.array([True])
    middle = len(column) // 2
    halves = [_fitting(half, field, type_name) for half in (column.slice(0, middle), column.slice(middle))]
    wrong = [
        pa.repeat(pa.scalar(value=False), len(values)) if unfit is None else unfit for values, unfit in halves
    ]
    return pa.concat_arrays([values for values, _ in halves]), pa.concat_arrays(wrong)


def _read(body: str | None, *, is_json: bool) -> Texts | None:
    """Return a row's values as text; None where there is no row."""
    if body is None:
        return None
    if not is_json:
        return decode_row(body)
    try:
        found: Any = json.loads(body, parse_int=str, parse_float=str, parse_constant=str)
        return dict(_texts(found)) if isinstance(found, dict) else None
    except (ValueError, RecursionError):
        return None


def _texts(row: dict[str, Any]) -> Iterator[tuple[str, str | None]]:
    for name, value in row.items():
        text = value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        if text is not None:
            text.encode()  # half a surrogate pair is no text
        yield name, text


def _none_of(bodies: Column) -> Column:
    return pa.repeat(pa.scalar(value=False), len(bodies))


def _joined(halves: Sequence[DecodedRows]) -> DecodedRows:
    rows, wrong = zip(*halves, strict=True)
    return DecodedRows(cast("Any", pa).concat_arrays(rows), cast("Any", pa).concat_arrays(wrong))
