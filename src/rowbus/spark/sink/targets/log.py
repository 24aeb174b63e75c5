"""`deliver=log`: appends rows to a log, as events.

A staged micro-batch is one transaction in the log, so no tick divides it. The columns are those of the log source; an
event's origin (`log`, `tick_id`, `ev_id`, …) is kept only on request.

Invariant: the log's current table is looked up in the transaction that writes to it, which keeps rotation away.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeArgument=false
# Above: pyarrow's classes are generic in types that its own functions leave unknown.

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from rowbus.database.postgresql.arrow_copy import Rows
from rowbus.errors import ConfigurationError
from rowbus.spark.options import Option, choice, text
from rowbus.spark.sink.targets import publication
from rowbus.spark.sink.targets.publication import require_known, text_batch, text_columns, text_schema
from rowbus.transport.events import EventTable, log_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rowbus.database.postgresql.connection import Session
    from rowbus.database.statements import Query
    from rowbus.spark.sink.commit.batch import BatchKey, Part

_EXTRAS: Final = ("ev_extra1", "ev_extra2", "ev_extra3", "ev_extra4")
_STAGED: Final = ("log", "ev_type", "ev_data", *_EXTRAS)
_KNOWN: Final = (*_STAGED, "ev_id", "ev_time", "ev_txid", "ev_retry", "tick_id")
_ORIGIN: Final = ("log", "tick_id", "ev_id")
_PLAIN: Final = 2  # type and data
_EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)

OPTIONS = (
    Option("log", text, None, "The log; without, the column `log` names one for each row."),
    Option(
        "lineage",
        choice(*_EXTRAS),
        None,
        'Which extra field says where an event came from: `{"log": …, "tick_id": …, "ev_id": …}` as far as the '
        "data frame has these columns.",
    ),
)
"""The options of `deliver=log`, beside those of every target."""


@dataclass(frozen=True)
class LogTarget:
    """Appends to one log, or to those that a column names."""

    log: str | None
    lineage: str | None
    extras: bool
    """Whether the data frame has columns beside type and data."""

    @property
    def name(self) -> str:
        """The target's name in the ledger."""
        return "logs" if self.log is None else f"log:{self.log}"

    def staged(self, batches: Iterator[pa.RecordBatch], _schema: pa.Schema) -> Rows:
        """Stage log, type, data and extras, as text."""
        shaped = text_schema(len(_STAGED))
        return Rows(shaped, (text_batch(self._columns(batch), shaped) for batch in batches))

    def direct(
        self, session: Session, batches: Iterator[pa.RecordBatch], _schema: pa.Schema
    ) -> tuple[Query, Rows] | None:
        """Copy straight into the current table of the one log, where this role may."""
        if self.log is None:
            return None
        table = log_table(self.log)
        found = session.run(table.current_table())
        if not found.may_copy:
            return None
        count = 1 + _PLAIN + (len(_EXTRAS) if self.extras else 0)
        shaped = text_schema(count).set(0, pa.field("time", pa.timestamp("us", "UTC")))
        rows = Rows(shaped, (_timed(self._columns(batch), found, shaped) for batch in batches))
        return table.copy(found, extras=self.extras), rows

    def publish(self, session: Session, parts: Sequence[Part], _key: BatchKey) -> frozenset[str]:
        """Append the stages' rows, in the order of the partitions."""
        for part in parts:
            if self.log is not None:
                _append(session, self.log, part, None)
                continue
            for log in session.run(publication.find_destinations(part.place)):
                _append(session, _named(log), part, log)
        return frozenset()

    def announce(self, session: Session, told: frozenset[str]) -> None:
        """Do nothing: consumers are woken by the ticker."""

    def _columns(self, batch: pa.RecordBatch) -> list[pa.Array[Any]]:
        columns = text_columns(batch, _STAGED)
        if self.lineage is not None:
            columns[_STAGED.index(self.lineage)] = _origins(batch)
        return columns


def make(options: Mapping[str, Any], columns: tuple[str, ...], *, overwrite: bool) -> LogTarget:
    """Return the target that the options describe; raises ConfigurationError."""
    there = {name.lower() for name in columns}
    if overwrite:
        raise ConfigurationError("A log is appended to: use mode append (a stream's output mode: append).")
    require_known(columns, _KNOWN, of="A log")
    if not there & {"ev_type", "ev_data"}:
        raise ConfigurationError("A log needs a column ev_data or ev_type; rename yours.")
    if options["log"] is None and "log" not in there:
        raise ConfigurationError("Which log? Give the option 'log', or a column log.", option="log")
    extras = options["lineage"] is not None or bool(there & set(_EXTRAS))
    return LogTarget(options["log"], options["lineage"], extras)


def _append(session: Session, log: str, part: Part, only: str | None) -> None:
    table = session.run(log_table(log).current_table())
    session.run(publication.append_events(log, table, part.place, only))


def _named(log: str | None) -> str:
    if log is None:
        raise ConfigurationError("A row has NULL in column log, and no option 'log' says where it goes.")
    return log


def _origins(batch: pa.RecordBatch) -> pa.Array[Any]:
    """Return the origin of each row, as JSON."""
    origin = [name for name in _ORIGIN if name in batch.schema.names]
    rows = batch.select(origin).to_pylist()
    return pa.array([json.dumps(row) for row in rows], pa.string())


def _timed(columns: list[pa.Array[Any]], table: EventTable, schema: pa.Schema) -> pa.RecordBatch:
    """Put the transaction's time before type, data and as many extras as the schema has."""
    moment = int.from_bytes(table.time, signed=True) + int(_EPOCH.timestamp()) * 1_000_000
    time = pa.repeat(pa.scalar(moment, pa.timestamp("us", "UTC")), len(columns[0]))
    return text_batch([time, *columns[1 : len(schema)]], schema)
