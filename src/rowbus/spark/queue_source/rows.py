"""Rows of a queue as record batches for Spark.

Rows of other software may hold anything: headers that are not JSON, malformed timestamps, bodies that are not text. A
value that cannot be read becomes null; `headers_text` and `body` always hold the original.

Invariant: no row makes reading fail, and none is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import pyarrow as pa

from rowbus.database.postgresql.arrow import Access, arrow_session
from rowbus.errors import InvalidTimestampError, MalformedHeadersError
from rowbus.messages.headers import Header, decode_headers, parse_enclosed_types
from rowbus.messages.timestamps import parse_timestamp
from rowbus.spark.datasource import spare_collections
from rowbus.spark.filters import NO_CONDITIONS
from rowbus.spark.json_rows.decoder import as_text, decoded
from rowbus.spark.json_rows.layout import struct_of
from rowbus.spark.queue_source.claim_table import prepare_reading
from rowbus.spark.queue_source.options import in_headers

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql.types import StructType

    from rowbus.database.statements import Query
    from rowbus.spark.filters import Conditions
    from rowbus.spark.json_rows.layout import Layout

    Column = pa.Array[Any]  # of any type: the stubs know arrays by their type only

Headers = Mapping[str, str | None]

_TYPES: Final = {
    "time_sent": "timestamp",
    "expires": "timestamp",
    "seq": "bigint",
    "headers": "map<string,string>",
}
"""The types of the columns that are not text."""


class Shape(NamedTuple):
    """The columns to read, and the type of bodies: `string` or `binary`."""

    columns: tuple[str, ...]
    body_as: str
    layout: Layout | None = None
    """The layout by which rows are made of the columns, if the user gave a schema."""

    where: Conditions = NO_CONDITIONS
    """Rows for which these are not true are left out."""

    def types(self) -> dict[str, str]:
        """Return the type of each column, as Spark writes it."""
        given = {**_TYPES, "body": self.body_as}
        return {name: given.get(name, "string") for name in self.columns}

    def struct(self) -> StructType:
        """Return the columns as Spark's type, all nullable."""
        return struct_of(self.types())


def read_rows(access: Access, query: Query, queue: str, shape: Shape) -> Iterator[pa.RecordBatch]:
    """Stream the rows (id, expires, headers, body, seq) of a query without parameters, in one snapshot."""
    batches = _read(access, query, queue, shape)
    return decoded(batches, shape.layout) if shape.layout is not None else batches


def _read(access: Access, query: Query, queue: str, shape: Shape) -> Iterator[pa.RecordBatch]:
    schema = _arrow_schema(shape)
    with arrow_session(access, prepare_reading()) as session:
        for rows in session.batches(query):
            yield to_batch(rows, queue, shape, schema)
    spare_collections()


def to_batch(rows: pa.RecordBatch, queue: str, shape: Shape, schema: pa.Schema) -> pa.RecordBatch:
    """Convert rows to a record batch of Spark's schema."""
    tested = in_headers(shape.where)
    texts: Column = cast("Any", rows).column("headers")
    parsed = [_parsed(text) for text in texts.to_pylist()] if _PARSED & {*shape.columns, *tested} else []
    if tested:
        kept = [row for row, headers in enumerate(parsed) if _is_wanted(headers, shape.where, tested)]
        rows, parsed = cast("Any", rows).take(pa.array(kept, pa.int64())), [parsed[row] for row in kept]
        texts = cast("Any", rows).column("headers")
    given: dict[str, Column] = {name: rows.column(name) for name in ("id", "expires", "seq", "body")}
    given |= {"queue": pa.repeat(queue, rows.num_rows), "headers_text": texts}
    if shape.body_as == "string" and "body" in shape.columns:
        given["body"] = as_text(given["body"])
    arrays: list[Any] = [
        _array(name, given, parsed, kind) for name, kind in zip(shape.columns, schema.types, strict=True)
    ]
    made: pa.RecordBatch = cast("Any", pa.RecordBatch).from_arrays(arrays, schema=schema)
    return made


def _is_wanted(headers: Headers | None, where: Conditions, tested: Sequence[str]) -> bool:
    """Say whether the conditions on what headers hold are true."""
    return all(
        where.of(column).allow(None if headers is None else _FROM_HEADERS[column](headers))
        for column in tested
    )


def _array(
    name: str, given: Mapping[str, Column], parsed: Sequence[Headers | None], kind: pa.DataType
) -> Column:
    if (read := _FROM_HEADERS.get(name)) is not None:
        return pa.array([None if headers is None else read(headers) for headers in parsed], kind)
    column: Column = cast("Any", given[name]).cast(kind)
    return column


def _arrow_schema(shape: Shape) -> pa.Schema:
    """Return the schema that Spark expects of batches."""
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415 - Spark's, and slow to import

    return to_arrow_schema(shape.struct(), timezone="UTC")


def _parsed(text: str | None) -> Headers | None:
    try:
        return decode_headers(text)
    except MalformedHeadersError:
        return None


def _header(name: str) -> Callable[[Headers], object]:
    return lambda headers: headers.get(name)


def _message_type(headers: Headers) -> str | None:
    return next(iter(parse_enclosed_types(headers.get(Header.ENCLOSED_MESSAGE_TYPES))), None)


def _time_sent(headers: Headers) -> datetime | None:
    try:
        return parse_timestamp(headers.get(Header.TIME_SENT) or "")
    except InvalidTimestampError:
        return None


def _pairs(headers: Headers) -> list[tuple[str, str | None]]:
    return list(headers.items())


_FROM_HEADERS: Final[dict[str, Callable[[Headers], Any]]] = {
    "message_id": _header(Header.MESSAGE_ID),
    "correlation_id": _header(Header.CORRELATION_ID),
    "message_type": _message_type,
    "time_sent": _time_sent,
    "headers": _pairs,
}
_PARSED: Final = frozenset(_FROM_HEADERS)
