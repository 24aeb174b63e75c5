"""A captured table, as the catalogue describes it now: its columns with their types, its key, and how it is captured.

Invariant: the columns are those that events show: without those that its trigger ignores, and in the table's order.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# PyArrow has no annotations of its own.

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from rowbus.database.statements import Query, Statement, load
from rowbus.spark.captured.types import converted, lake_type

if TYPE_CHECKING:
    from collections.abc import Collection

    from rowbus.database.statements import Rows

_FOLDER = "spark/captured/sql/postgresql"


class SourceTable(NamedTuple):
    """A captured table; fields in the order of `describe_source_tables.sql`."""

    name: str
    """Schema and table joined by a dot, as events name it."""

    format: str
    arguments: list[str]
    key: list[str]
    columns: list[str]
    types: list[str]
    """The names of their types, below domains."""

    modifiers: list[int]
    bare: list[bool]
    """Whether triggers write a column in JSON as a number or a boolean, and not as the text of its value."""

    virtual: list[str]
    """Columns that are computed when they are read: triggers do not see their values, and the lake has none of them."""

    shape: str
    """Differs after every ALTER TABLE, with another key, and with other partitions."""

    reading: str
    """The query that reads its rows."""

    form: str
    """A `TableForm` as JSON: by it a lake's table follows a change of shape without a copy."""

    version: str
    """Another text after each change of the table's shape; `versioning` is the query for it."""

    versioning: str

    def obstacle(self, arguments: tuple[str, ...]) -> str | None:
        """Say what of its capture keeps events from showing its rows, given the arguments that do; None for nothing."""
        if self.format == "sql":
            return "in the format sql"
        if missing := ", ".join(sorted(set(self.key) - set(self.columns))):
            return f"by a key whose column {missing} it does not have, or does not write"
        found = (text for text in self.arguments if text.startswith(arguments))
        return next((f"with the argument {text}" for text in found), None)

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


class Whereabouts(NamedTuple):
    """Whether there is a table of a name, and the logs that it is captured into."""

    is_there: bool
    logs: list[str]


def locate_table(name: str) -> Statement[Whereabouts]:
    """Say whether there is a table, and into which logs it is captured."""
    return Statement(_load("locate_table", f"Could not look for {name}"), {"table": name}, _whereabouts)


def _load(operation: str, failing: str) -> Query:
    return load(f"{_FOLDER}/{operation}.sql", failing=failing, prepare=False)


def _tables(rows: Rows, _count: int) -> list[SourceTable]:
    return [SourceTable._make(row) for row in rows]


def _whereabouts(rows: Rows, _count: int) -> Whereabouts:
    return Whereabouts._make(rows[0])
