"""Arrow record batches into PostgreSQL by binary COPY.

pgpq writes COPY's format from Arrow's memory; where it is not installed, psycopg does, value by value, a fifth as fast.

Invariant: the types that `Rows.types` names are exactly those whose binary form is sent: COPY checks no types, and
would store nonsense.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeArgument=false
# Above: pyarrow's classes are generic in types that its own functions leave unknown.

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any
from uuid import UUID

import msgspec
import psycopg
import pyarrow as pa

from rowbus.database.postgresql.faults import translate
from rowbus.errors import ConfigurationError

_Encoder: Any = None
with suppress(ImportError):  # there may be no wheel for this platform
    from pgpq import ArrowToPostgresBinaryEncoder as _Encoder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rowbus.database.postgresql.connection import Session
    from rowbus.database.statements import Query

_UUID = pa.binary(16)
_NAIVE = pa.timestamp("us")
_SIMPLE: dict[pa.DataType, str] = {
    pa.string(): "text",
    pa.large_string(): "text",
    pa.bool_(): "bool",
    pa.int8(): "int2",
    pa.int16(): "int2",
    pa.int32(): "int4",
    pa.int64(): "int8",
    pa.float32(): "float4",
    pa.float64(): "float8",
    pa.binary(): "bytea",
    pa.large_binary(): "bytea",
    pa.date32(): "date",
    _UUID: "uuid",
}


class Rows:
    """Record batches of one schema, in the shape in which they can be copied; counted while they are.

    Columns of types that COPY has no form for (maps, structs, lists of lists, intervals, …) become JSON texts.
    """

    def __init__(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
        """Take batches, each of the schema; they are read once, when they are copied."""
        self.schema = pa.schema([pa.field(field.name, _copied_type(field.type)) for field in schema])
        self.names: list[str] = list(schema.names)
        self.types = [_postgres_type(field.type) for field in self.schema]
        self._batches = batches
        self.count = 0

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Give the batches in the schema's types, counting their rows."""
        for batch in self._batches:
            self.count += batch.num_rows
            if batch.schema.types == self.schema.types:
                yield batch
            else:
                columns = list(map(_converted, batch.columns, self.schema.types))
                yield pa.RecordBatch.from_arrays(columns, schema=self.schema)


def copy_rows(session: Session, query: Query, rows: Rows) -> int:
    """Stream rows into the query's `copy … from stdin (format binary)`, all or nothing; return how many."""
    try:
        with session.connection.cursor() as cursor, cursor.copy(query.text) as copy:
            (_write_values if _Encoder is None else _write_encoded)(copy, rows)
    except psycopg.Error as error:
        raise translate(error, query) from error
    return rows.count


def _write_encoded(copy: psycopg.Copy, rows: Rows) -> None:
    encoder = _Encoder(rows.schema)
    copy.write(encoder.write_header())
    for batch in rows.batches():
        copy.write(encoder.write_batch(batch))
    copy.write(encoder.finish())


def _write_values(copy: psycopg.Copy, rows: Rows) -> None:
    copy.set_types(rows.types)
    readers = [_reader(kind) for kind in rows.schema.types]
    for batch in rows.batches():
        columns = [read(column) for read, column in zip(readers, batch.columns, strict=True)]
        for row in zip(*columns, strict=True):
            copy.write_row(row)


def _reader(kind: pa.DataType) -> Callable[[pa.Array[Any]], list[Any]]:
    if kind == _UUID:
        return lambda column: [None if value is None else UUID(bytes=value) for value in column.to_pylist()]
    if _is_list_of_moments(kind):
        return lambda column: _values(column.cast(pa.list_(_NAIVE)))
    return _values


def _values(column: pa.Array[Any]) -> list[Any]:
    return column.to_pylist()


# -------------------------------------------------------------------------------------------------------------- types


def _copied_type(kind: pa.DataType) -> pa.DataType:
    """Return the type in which a column is copied: its own, or text."""
    if kind in _SIMPLE or pa.types.is_decimal128(kind):
        return kind
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if pa.types.is_list(kind) and (kind.value_type in _SIMPLE or _is_list_of_moments(kind)):
        return kind
    return pa.string()


def _is_list_of_moments(kind: pa.DataType) -> bool:
    return pa.types.is_list(kind) and pa.types.is_timestamp(kind.value_type)


def _postgres_type(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        # pgpq writes elements with a time zone as ones without: the same bytes, under the other type's number.
        element = kind.value_type
        return "timestamp[]" if pa.types.is_timestamp(element) else f"{_SIMPLE[element]}[]"
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz is None else "timestamptz"
    return "numeric" if pa.types.is_decimal(kind) else _SIMPLE[kind]


def as_text(column: pa.Array[Any]) -> pa.Array[Any]:
    """Return a column as text: scalars as PostgreSQL reads them, anything that has parts as JSON.

    Raises ConfigurationError for bytes that are not UTF-8.
    """
    kind = column.type
    if kind == pa.string():
        return column
    if pa.types.is_nested(kind) or pa.types.is_duration(kind) or pa.types.is_interval(kind):
        write = _json if pa.types.is_nested(kind) else _span
        values = column.to_pylist(maps_as_pydicts="strict")
        return pa.array([None if value is None else write(value) for value in values], pa.string())
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid as error:
        raise ConfigurationError(f"Bytes where text is wanted: {error}") from error


def _converted(column: pa.Array[Any], kind: pa.DataType) -> pa.Array[Any]:
    if column.type == kind:
        return column
    return as_text(column) if kind == pa.string() else column.cast(kind)


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _span(value: object) -> str:
    """Write a span of time as ISO 8601 does, which is what JSON has between quotes."""
    return _json(value).strip('"')
