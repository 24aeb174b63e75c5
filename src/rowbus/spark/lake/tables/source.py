"""The tables of a database as a lake copies them: their columns, and their rows in one snapshot.

Invariant: the rows of a copy, and the snapshot that is recorded with it, are of one transaction.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# PyArrow has no annotations of its own.

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from rowbus.database.postgresql.arrow import Access, arrow_session
from rowbus.database.statements import Query, control, load
from rowbus.errors import ConfigurationError
from rowbus.spark.options import tables_named

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from rowbus.spark.captured import SourceTable

_FOLDER = "spark/lake/tables/sql/postgresql"
_CHANGED_BY: Final = ("ev_type=", "ev_data=", "ev_extra1=", "ev_extra2=", "when=", "deny")
"""Arguments of triggers that make events differ from the table's rows; `ev_extra3` and 4 are beside the row."""


def chosen(captured: Sequence[SourceTable], patterns: Sequence[str], log: str) -> list[SourceTable]:
    """Return the tables that a pattern names; raises ConfigurationError for none, and for those that cannot follow."""
    names = [table.name for table in captured]
    wanted = {name for pattern in patterns for name in tables_named(names, pattern)}
    found = [table for table in captured if table.name in wanted]
    if not found:
        there = ", ".join(table.name for table in captured) or "no table"
        raise ConfigurationError(
            f'No table captured into log "{log}" is named {" or ".join(patterns)}; captured is {there}. '
            f"Capture a table with `rowbus log capture TABLE --log {log} --arg backup`."
        )
    for table in found:
        _check(table)
    return found


def _check(table: SourceTable) -> None:
    how = table.obstacle(_CHANGED_BY)
    if how is not None:
        raise ConfigurationError(
            f"{table.name} is captured {how}, so its events are not its rows; "
            "capture it with --format json and another --trigger into another log.",
            table=table.name,
        )


class TableRows(NamedTuple):
    """The rows of a table, and the snapshot that they are of."""

    snapshot: str
    moment: int
    """When the snapshot had been taken, in microseconds since 1970."""

    began: int
    """When it was yet to be taken, likewise."""

    is_as_described: bool
    """Whether the snapshot shows the table in the form of its description."""

    batches: Iterable[pa.RecordBatch]


@contextmanager
def reading_rows(dsn: str, table: SourceTable) -> Generator[TableRows]:
    """Read the rows of a table in one snapshot, for as long as the block lasts."""
    isolate = control(
        b"set transaction isolation level repeatable read, read only", "Could not begin to copy"
    ).query
    with arrow_session(Access(dsn, application_name="rowbus spark lake"), isolate) as session:
        begun = session.value(_load("begin_table_copy", "Could not begin to copy"))
        snapshot, moment, began = begun.split(" ")
        version, query = (
            control(text.encode(), f"Could not copy {table.name}").query
            for text in (table.versioning, table.reading)
        )
        described = session.value(version) == table.version
        with closing(cast("Generator[pa.RecordBatch]", session.batches(query))) as batches:
            yield TableRows(snapshot, int(moment), int(began), described, batches)


def _load(operation: str, failing: str) -> Query:
    return load(f"{_FOLDER}/{operation}.sql", failing=failing, prepare=False)
