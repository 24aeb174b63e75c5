"""The tables of a database as a lake copies them: their columns, and their rows in one snapshot.

Invariant: the rows of a copy, and the snapshot that is recorded with it, are of one transaction.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# PyArrow has no annotations of its own.

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import closing, contextmanager
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import pyarrow as pa

from rowbus.database.postgresql.arrow import Access, arrow_session
from rowbus.database.statements import Query, Statement, control, load
from rowbus.errors import ConfigurationError
from rowbus.spark.lake.tables.types import converted, lake_type

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from rowbus.database.statements import Rows

_FOLDER = "spark/lake/tables/sql/postgresql"
_CHANGED_BY = (
    "ev_",
    "when=",
    "deny",
)  # arguments of triggers that make events differ from the table's rows …
_BESIDE = ("ev_extra3=", "ev_extra4=")  # … but not these, for fields beside the row


class SourceTable(NamedTuple):
    """A captured table; fields in the order of `describe_source_tables.sql`."""

    name: str
    """Schema and table joined by a dot, as events name it."""

    format: str
    arguments: list[str]
    key: list[str]
    columns: list[str]
    types: list[str]
    modifiers: list[int]
    virtual: list[str]
    """Columns that are computed when they are read: triggers do not see their values, and the lake has none of them."""

    shape: str
    """Differs after every ALTER TABLE, and with another key."""

    reading: str
    """The query that reads its rows."""

    def schema(self, as_text: Collection[str]) -> pa.Schema:
        """Return the columns of the lake's table; those of `as_text` are text."""
        return pa.schema(
            [
                (name, pa.string() if name in as_text else lake_type(type_name, modifier))
                for name, type_name, modifier in zip(self.columns, self.types, self.modifiers, strict=True)
            ]
        )

    def convert(self, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
        """Give rows the types of the lake; raises Unfit."""
        given: Any = batch
        columns = zip(self.columns, self.types, given.columns, schema.types, strict=True)
        arrays: Any = [converted(name, type_name, values, kind) for name, type_name, values, kind in columns]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


def describe_source_tables(log: str) -> Statement[list[SourceTable]]:
    """Return the tables captured into a log."""
    query = _load("describe_source_tables", f'Could not look for the tables captured into log "{log}"')
    return Statement(query, {"log": log}, _tables)


def chosen(captured: Sequence[SourceTable], patterns: Sequence[str], log: str) -> list[SourceTable]:
    """Return the tables that a pattern names; raises ConfigurationError for none, and for those that cannot follow."""
    found = [
        table for table in captured if any(fnmatchcase(table.name, _full(pattern)) for pattern in patterns)
    ]
    if not found:
        there = ", ".join(table.name for table in captured) or "no table"
        raise ConfigurationError(
            f'No table captured into log "{log}" is named {" or ".join(patterns)}; captured is {there}. '
            f"Capture a table with `rowbus log capture TABLE --log {log} --arg backup`."
        )
    for table in found:
        _check(table)
    return found


def _full(pattern: str) -> str:
    return pattern if "." in pattern or pattern == "*" else f"public.{pattern}"


def _check(table: SourceTable) -> None:
    changed_by = [
        text for text in table.arguments if text.startswith(_CHANGED_BY) and not text.startswith(_BESIDE)
    ]
    if table.format == "sql" or changed_by:
        how = f"with the argument {changed_by[0]}" if changed_by else "in the format sql"
        raise ConfigurationError(
            f"{table.name} is captured {how}, so its events are not its rows; "
            "capture it with --format json and another --trigger into another log.",
            table=table.name,
        )


class TableRows(NamedTuple):
    """The rows of a table, and the snapshot that they are of."""

    snapshot: str
    moment: int
    """When the snapshot was taken, in microseconds since 1970."""

    batches: Iterable[pa.RecordBatch]


@contextmanager
def reading_rows(dsn: str, table: SourceTable) -> Generator[TableRows]:
    """Read the rows of a table in one snapshot, for as long as the block lasts."""
    isolate = control(
        b"set transaction isolation level repeatable read, read only", "Could not begin to copy"
    ).query
    with arrow_session(Access(dsn, application_name="rowbus spark lake"), isolate) as session:
        snapshot, _, moment = session.value(_load("begin_table_copy", "Could not begin to copy")).partition(
            " "
        )
        query = control(table.reading.encode(), f"Could not copy {table.name}").query
        with closing(cast("Generator[pa.RecordBatch]", session.batches(query))) as batches:
            yield TableRows(snapshot, int(moment), batches)


def _load(operation: str, failing: str) -> Query:
    return load(f"{_FOLDER}/{operation}.sql", failing=failing, prepare=False)


def _tables(rows: Rows, _count: int) -> list[SourceTable]:
    return [SourceTable._make(row) for row in rows]
