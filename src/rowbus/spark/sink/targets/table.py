"""`deliver=table`: appends rows to a table, or replaces the table's rows with mode overwrite.

Invariant: nothing is written unless the table has every column of the data frame; a value that does not fit fails the
batch, none is cut.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rowbus.database.postgresql.arrow_copy import Rows
from rowbus.errors import ConfigurationError
from rowbus.spark.options import REQUIRED, Option, text
from rowbus.spark.sink.targets.publication import TargetTable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa

    from rowbus.database.postgresql.connection import Session
    from rowbus.database.statements import Query
    from rowbus.spark.sink.commit.batch import BatchKey, Part

OPTIONS = (Option("table", text, REQUIRED, "The table, as SQL writes its name: `orders`, `shop.orders`."),)
"""The options of `deliver=table`, beside those of every target."""


@dataclass(frozen=True)
class TableTarget:
    """Appends to a table, or replaces its rows."""

    table: str
    overwrite: bool

    @property
    def name(self) -> str:
        """The target's name in the ledger."""
        return f"table:{self.table}"

    def staged(self, batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Rows:
        """Stage the columns as they are."""
        return Rows(schema, batches)

    def direct(
        self, session: Session, batches: Iterator[pa.RecordBatch], schema: pa.Schema
    ) -> tuple[Query, Rows] | None:
        """Copy straight into the table if every column has the table's type."""
        rows = Rows(schema, batches)
        table = TargetTable(self.table)
        require_columns(session, table, rows.names)
        query = session.run(table.copy_statement(rows.names, rows.types))
        return None if query is None else (query, rows)

    def publish(self, session: Session, parts: Sequence[Part], _key: BatchKey) -> frozenset[str]:
        """Append the stages' rows; with overwrite, first delete the table's rows."""
        table = TargetTable(self.table)
        if self.overwrite:
            session.run(table.delete_rows())
        for part in parts:
            require_columns(session, table, part.names)
            session.run(table.append_stage(part))
        return frozenset()

    def announce(self, session: Session, told: frozenset[str]) -> None:
        """Do nothing: no receiver waits for these rows."""


def make(options: Mapping[str, Any], _columns: tuple[str, ...], *, overwrite: bool) -> TableTarget:
    """Return the target that the options describe."""
    if overwrite and options["exactlyOnce"] != "staged":
        raise ConfigurationError(
            "Mode overwrite replaces all rows in one transaction, which only exactlyOnce=staged does.",
            option="exactlyOnce",
        )
    return TableTarget(options["table"], overwrite)


def require_columns(session: Session, table: TargetTable, names: Sequence[str]) -> None:
    """Raise ConfigurationError unless the table exists and has these columns."""
    found = session.run(table.find_columns(names))
    if not found:
        raise ConfigurationError(
            f"There is no table {table.name}; create it, or name another.", option="table"
        )
    missing = [column.given for column in found if column.there is None]
    if missing:
        raise ConfigurationError(
            f"Table {table.name} has no column {', '.join(missing)}; drop it from the data frame, or add it there."
        )
