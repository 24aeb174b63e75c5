"""A lake's tables, read by Spark and by polars, against the database's rows: each value, by no code of the product's.

Invariant: what a lake's column holds as text must be what PostgreSQL itself prints, in UTC.
"""

# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import math
import os
import struct
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import psycopg
import pyarrow as pa
from psycopg import sql

from tests.fixtures.ducklake import attached, quoted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

Reader = Callable[[str], "pa.Table"]
COLUMNS = """
    select array_agg(attname::text order by attnum) from pg_attribute
    where attrelid = %s::regclass and attnum > 0 and not attisdropped and attgenerated <> 'v'
"""
SHOWN = 3
"""Differing rows of each side that are shown."""


def with_polars(form: str) -> Reader:
    """Give a reader that is neither ours nor Spark's."""

    def read(path: str) -> pa.Table:
        import polars as pl  # noqa: PLC0415 - takes a moment, and one run needs it

        frame = pl.scan_delta(path) if form == "delta" else pl.scan_iceberg(_iceberg(path))
        return frame.collect().to_arrow()

    return read


def with_duckdb(dsn: str) -> Reader:
    """Give a reader of a DuckLake whose catalogue is in a database."""

    def read(path: str) -> pa.Table:
        with attached(dsn) as duck:
            return duck.execute(f"from {quoted(path.rpartition('/')[2])}").to_arrow_table()

    return read


def with_spark(form: str, spark: SparkSession) -> Reader:
    """Give a reader that has Spark read the files of a table's newest version."""

    def read(path: str) -> pa.Table:
        files, schema = _delta_files(path) if form == "delta" else _iceberg_files(path)
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        spark.conf.set("spark.sql.parquet.fieldId.read.enabled", "true")
        if not files:
            return schema.empty_table()
        return spark.read.schema(_columns(schema)).parquet(*files).toArrow()

    return read


def _columns(schema: pa.Schema) -> StructType:
    """Give the table's columns to Spark: files of before a column lack it, and Iceberg knows columns by number."""
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415 - as above

    columns = from_arrow_schema(schema, prefer_timestamp_ntz=True)
    for column, field in zip(columns.fields, schema, strict=True):
        number = (field.metadata or {}).get(b"PARQUET:field_id")
        column.metadata = {} if number is None else {"parquet.field.id": int(number)}
    return columns


def _delta_files(path: str) -> tuple[list[str], pa.Schema]:
    from deltalake import DeltaTable  # noqa: PLC0415 - as above

    table = DeltaTable(path)
    return table.file_uris(), pa.schema(table.schema())  # type: ignore[arg-type]  # Arrow's interface


def _iceberg(path: str) -> Any:  # noqa: ANN401 - a table of pyiceberg's
    from pyiceberg.catalog.sql import SqlCatalog  # noqa: PLC0415 - as above

    folder, _, name = path.rpartition("/")
    here = f"sqlite:///{folder}/catalog.db"
    uri = os.environ["PYICEBERG_CATALOG__ROWBUS__URI"] if "://" in folder else here
    catalog = SqlCatalog("rowbus", uri=uri, **{"s3.endpoint": os.environ.get("AWS_ENDPOINT_URL", "")})
    return catalog.load_table(tuple(name.split(".", 1)))


def _iceberg_files(path: str) -> tuple[list[str], pa.Schema]:
    table = _iceberg(path)
    return [task.file.file_path for task in table.scan().plan_files()], table.schema().as_arrow()


def difference(connection: psycopg.Connection[Any], name: str, found: pa.Table) -> str | None:
    """Say how a table of the lake differs from that of the database; None where all rows are the same."""
    (columns,) = connection.execute(COLUMNS, [name]).fetchone() or ([],)
    if sorted(found.column_names) != sorted(columns):
        return f"{name} has the columns {found.column_names} instead of {columns}"
    found = found.select(
        columns
    )  # delta-rs keeps their order where only that is another, as after a swap of names
    there = _rows(connection, name, found.schema)
    here = Counter(zip(*(map(_plain, column.to_pylist()) for column in found.columns), strict=True))
    if there == here:
        return None
    return f"{name} lacks {_shown_rows(there - here)} and has beside {_shown_rows(here - there)}; columns {columns}"


def _shown_rows(rows: Counter[tuple[Any, ...]]) -> str:
    some = sorted(rows.elements(), key=repr)[:SHOWN]
    return f"{rows.total()} rows, {some}"


def _rows(connection: psycopg.Connection[Any], name: str, schema: pa.Schema) -> Counter[tuple[Any, ...]]:
    fields = sql.SQL(", ").join(_shown(schema.field(place)) for place in range(len(schema)))
    query = sql.SQL("select {} from {}").format(fields, sql.Identifier(*name.split(".")))
    rows = connection.execute(query).fetchall()
    single = [pa.types.is_float32(type_) for type_ in schema.types]
    return Counter(tuple(map(_plain, _as_single(row, single))) for row in rows)


def _shown(field: pa.Field[Any]) -> sql.Composable:
    """Give a column as the lake is to have it: as text where it is text there, else as it is."""
    shown = "{}"
    if _is_text(field.type):
        shown = "case when num_nulls({}) = 0 then format('%s', {}) end"
    elif _is_list(field.type) and _is_text(field.type.value_type):
        shown = "{}::text[]"
    return sql.SQL(shown).format(*[sql.Identifier(field.name)] * shown.count("{}"))


def _is_text(type_: Any) -> bool:  # noqa: ANN401 - a type of Arrow's
    return pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_)


def _is_list(type_: Any) -> bool:  # noqa: ANN401 - as above
    return pa.types.is_list(type_) or pa.types.is_large_list(type_)


def _as_single(row: Iterable[Any], single: list[bool]) -> Iterable[Any]:
    for value, is_single in zip(row, single, strict=True):
        finite = is_single and value is not None and math.isfinite(value)
        yield struct.unpack("f", struct.pack("f", value))[0] if finite else value


def _plain(value: object) -> object:
    """Give a value that is equal to itself, and differs from one of another type."""
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, date | datetime | time):
        return value.isoformat()
    return tuple(map(_plain, value)) if isinstance(value, list) else value
