"""The way of rows: columns in the order of a stage, and the statements that publish stages.

Invariants: a statement here reads one stage, writes as many rows as it has (a merge: at most as many), and runs in the
transaction that writes the batch into the ledger; a column that the target does not know is an error; it is never
dropped.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeArgument=false
# Above: pyarrow's classes are generic in types that its own functions leave unknown.

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from rowbus.database.postgresql.arrow_copy import as_text
from rowbus.database.statements import Query, Statement, affected, load, scalar
from rowbus.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import timedelta

    from rowbus.database.statements import Rows
    from rowbus.messages.address import QueueAddress
    from rowbus.spark.merge_rule import MergeRule
    from rowbus.spark.sink.commit.batch import Part
    from rowbus.transport.events import EventTable

_FOLDER = "spark/sink/targets/sql/postgresql"


class TargetColumn(NamedTuple):
    """A column of a data frame, with its name and type in the target; None where the target lacks it."""

    given: str
    there: str | None
    type: str | None


class TargetTable:
    """Statements on a user's table; its name is written as in SQL."""

    def __init__(self, name: str) -> None:
        """Take the name as written in SQL: `orders`, `shop.orders`, `"Shop"."Orders"`. No I/O."""
        self.name = name

    def find_columns(self, names: Sequence[str]) -> Statement[list[TargetColumn]]:
        """Find columns; an empty list when there is no such table."""
        return Statement(self._load("find_columns"), {"table": self.name, "names": list(names)}, _columns)

    def copy_statement(self, names: Sequence[str], types: Sequence[str]) -> Statement[Query | None]:
        """Return the COPY straight into the table; None when a column has another type there."""
        query = self._load("copy_statement")
        parameters = {"table": self.name, "names": list(names), "types": list(types)}
        return Statement(query, parameters, self._copy)

    def append_stage(self, part: Part) -> Statement[int]:
        """Append the rows of a stage, each column converted to its type in the table."""
        parameters = {
            "stage": part.place,
            "table": self.name,
            "names": list(part.names),
            "types": list(part.types),
        }
        return Statement(self._load("append_stage"), parameters, scalar)

    def merge_stages(self, parts: Sequence[Part], rule: MergeRule) -> Statement[int]:
        """Merge the rows of stages of the same columns; returns how many keys changed."""
        parameters = {
            "stages": [part.place for part in parts],
            "table": self.name,
            "names": list(parts[0].names),
            "types": list(parts[0].types),
            "keys": list(rule.keys),
            "sequence": rule.sequence,
            "delete": rule.delete,
            "delete_values": None if rule.delete_values is None else list(rule.delete_values),
        }
        return Statement(self._load("merge_stages"), parameters, scalar)

    def delete_rows(self) -> Statement[int]:
        """Delete all rows; readers see them until the commit."""
        return Statement(self._load("delete_rows"), {"table": self.name}, scalar)

    def _copy(self, rows: Rows, _count: int) -> Query | None:
        text: str | None = rows[0][0]
        if text is None:
            return None
        failing = f"Failed to write to table {self.name}"
        return Query(text.replace("%", "%%").encode(), text.encode(), (), failing, prepare=False)

    def _load(self, operation: str) -> Query:
        failing = f"Failed to write to table {self.name}"
        return load(f"{_FOLDER}/{operation}.sql", failing=failing, prepare=False)


def append_events(log: str, table: EventTable, stage: str, only: str | None) -> Statement[int]:
    """Append the rows of a stage to a log, in order; `only` selects those whose first column has this value."""
    by_function = not table.may_copy
    operation = "append_events_by_function" if by_function else "append_events"
    query = load(
        f"{_FOLDER}/{operation}.sql",
        identifiers={"schema": table.schema, "table": table.table, "stage": stage},
        failing=f'Failed to append to log "{log}"',
        log=log,
        prepare=False,
    )
    return Statement(query, {"log": log, "only": only}, affected)


def send_stage(address: QueueAddress, stage: str, time_to_be_received: timedelta | None) -> Statement[int]:
    """Send the messages of a stage whose first column is this address, in order."""
    query = load(
        f"{_FOLDER}/send_stage.sql",
        identifiers={"schema": address.schema, "queue": address.table, "stage": stage},
        failing=f"Failed to send messages to {address}",
        queue=str(address),
        prepare=False,
    )
    parameters = {"destination": str(address), "time_to_be_received": time_to_be_received}
    return Statement(query, parameters, affected)


def dead_letter_stage(log: str, consumer: str, stage: str) -> Statement[int]:
    """Write the rows of a stage as dead letters; returns how many: none without such a consumer."""
    query = load(
        f"{_FOLDER}/dead_letter_stage.sql",
        identifiers={"stage": stage},
        failing=f'Failed to write dead letters of log "{log}"',
        log=log,
        prepare=False,
    )
    return Statement(query, {"log": log, "consumer": consumer}, affected)


def find_destinations(stage: str) -> Statement[list[str | None]]:
    """Return the distinct destinations of a stage's rows: the values of the first column."""
    return Statement(_of_stage("find_destinations", stage), {}, _first_column)


def _of_stage(operation: str, stage: str) -> Query:
    failing = "Failed to publish a batch of Spark's"
    return load(f"{_FOLDER}/{operation}.sql", identifiers={"stage": stage}, failing=failing, prepare=False)


def _columns(rows: Rows, _count: int) -> list[TargetColumn]:
    return [TargetColumn._make(row) for row in rows]


def _first_column(rows: Rows, _count: int) -> list[str | None]:
    return [row[0] for row in rows]


def require_known(columns: Sequence[str], known: Collection[str], *, of: str) -> None:
    """Raise ConfigurationError for an unknown column, or one that comes twice; names match in any case."""
    if len({name.lower() for name in columns}) < len(columns):
        raise ConfigurationError(
            f"{of} takes each column once, in any case: drop one of {', '.join(columns)}."
        )
    if unknown := [name for name in columns if name.lower() not in known]:
        raise ConfigurationError(
            f"{of} takes the columns {', '.join(known)}, and not {', '.join(unknown)}; drop or rename it."
        )


def text_columns(batch: pa.RecordBatch, names: Sequence[str]) -> list[pa.Array[Any]]:
    """Return the columns of these names as text; nulls for those that the batch lacks."""
    places = {name.lower(): place for place, name in enumerate(batch.schema.names)}
    return [
        as_text(batch.column(places[name])) if name in places else pa.nulls(batch.num_rows, pa.string())
        for name in names
    ]


def text_schema(count: int) -> pa.Schema:
    """Return the schema of a stage with so many columns of text."""
    return pa.schema([pa.field(f"c{number}", pa.string()) for number in range(1, count + 1)])


def text_batch(columns: list[pa.Array[Any]], schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch of these columns."""
    return pa.RecordBatch.from_arrays(columns, schema=schema)
