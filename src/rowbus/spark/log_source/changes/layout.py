"""The columns of the changes of a captured table, and what decoding them needs to know.

The frame's columns are fixed when it is loaded. What decoding needs of the catalogue travels in the metadata of the
first column, which Spark hands on whenever it reads: no task, and no later query, asks the catalogue again.

Invariant: no I/O.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rowbus.errors import ConfigurationError
from rowbus.spark.json_rows.layout import PERMISSIVE

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyspark.sql.types import StructType

    from rowbus.spark.captured.source_table import SourceTable

FROM_EVENT: Final = {
    "transaction_time": "ev_time",
    "transaction": "ev_txid",
    "ev_id": "ev_id",
    "tick_id": "tick_id",
}
"""Columns that are an event's, and which; between them and the first three."""

NEEDED: Final = ("ev_id", "ev_time", "ev_txid", "ev_type", "ev_data", "ev_extra2", "tick_id")
"""The log's columns to read from the database."""

OPERATION: Final = "op"
BEFORE: Final = "before"
AFTER: Final = "after"

_TABLE: Final = "rowbus.changes"


class ChangeLayout(NamedTuple):
    """The columns to give to Spark; travels to the tasks."""

    struct: StructType
    table: str
    types: tuple[str, ...]
    """The names of the database's types, in the order of the columns of `before` and `after`."""

    bare: tuple[bool, ...]
    """Which of them triggers write as numbers and booleans of JSON."""

    mode: str

    @property
    def needed(self) -> tuple[str, ...]:
        """The log's columns to read from the database."""
        return NEEDED

    @property
    def corrupt(self) -> str | None:
        """The column for rows that cannot be decoded, if there is one."""
        name: str = self.struct.names[-1]
        return None if name in FROM_EVENT else name


def change_columns(table: SourceTable, mode: str, corrupt: str) -> StructType:
    """Return the columns of a table's changes, all nullable, with one for what cannot be decoded by mode=PERMISSIVE."""
    from pyspark.sql import types as spark  # noqa: PLC0415 - only where Spark is

    row = _row(table)
    known = {"table": table.name, "types": table.types, "bare": table.bare}
    fields = [
        spark.StructField(OPERATION, spark.StringType(), metadata={_TABLE: json.dumps(known)}),
        spark.StructField(BEFORE, row),
        spark.StructField(AFTER, row),
        spark.StructField("transaction_time", spark.TimestampType()),
        *(spark.StructField(name, spark.LongType()) for name in list(FROM_EVENT)[1:]),
    ]
    if mode == PERMISSIVE:
        _check_free(corrupt, [field.name for field in fields])
        fields.append(spark.StructField(corrupt, spark.StringType()))
    return spark.StructType(fields)


def change_layout(struct: StructType, table: str, mode: str) -> ChangeLayout:
    """Return what a task needs, by the columns that the source has given; raises ConfigurationError for others."""
    known: dict[str, Any] = json.loads((struct[0].metadata or {}).get(_TABLE, "{}")) if len(struct) else {}
    if known.get("table") != table:
        raise ConfigurationError(
            f"Option 'changes' takes the columns of {table} from the catalogue: leave the schema out.",
            option="changes",
        )
    return ChangeLayout(struct, table, tuple(known["types"]), tuple(known["bare"]), mode)


def _row(table: SourceTable) -> StructType:
    from pyspark.sql import types as spark  # noqa: PLC0415 - only where Spark is
    from pyspark.sql.pandas.types import from_arrow_type  # noqa: PLC0415 - as above

    columns: Any = table.schema(())
    return spark.StructType(
        [
            spark.StructField(column.name, from_arrow_type(column.type, prefer_timestamp_ntz=True))
            for column in columns
        ]
    )


def _check_free(corrupt: str, names: Collection[str]) -> None:
    if corrupt in names:
        raise ConfigurationError(
            f"Option 'columnNameOfCorruptRecord' says {corrupt!r}, which is a column of the changes.",
            option="columnNameOfCorruptRecord",
        )
