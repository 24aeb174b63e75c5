"""The producing side of a log: events put into schema `pgq`.

Statements on PgQ's own functions and tables, so that stock producers and these may share a log.

Invariant: an event's `ev_id` comes from the log's sequence, and its transaction has its number before the current table
is read; otherwise the ticker would not hear of the event, or a rotation hide it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from rowbus.database.statements import Statement, affected, load, scalar
from rowbus.messages.address import refuse_nul
from rowbus.messages.dispatch import AppendedEvent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowbus.database.statements import Query, Rows

_FOLDER = "transport/events/sql/postgresql"


class EventTable(NamedTuple):
    """The table that takes a log's events during this transaction.

    `time` is the transaction's start as COPY's binary format has it. A role that may not write to the table
    (`may_copy`) can still append through functions.
    """

    schema: str
    table: str
    may_copy: bool
    time: bytes


class LogTable:
    """Statements that append to one log; each runs in its runner's transaction and never waits."""

    def __init__(self, name: str) -> None:
        """Bind the SQL files to the log's name, any text without NUL (ConfigurationError). No I/O."""
        refuse_nul("log", name)
        self.name = name
        self._append = self._load("append")
        self._append_batch = self._load("append_batch")

    def _load(self, operation: str, identifiers: dict[str, str] | None = None) -> Query:
        return load(
            f"{_FOLDER}/{operation}.sql",
            identifiers=identifiers,
            failing=f'Failed to append to log "{self.name}"',
            log=self.name,
        )

    def append(self, event: AppendedEvent) -> Statement[int]:
        """Put one event into the log and answer its id; it exists when the transaction commits."""
        return Statement(self._append, event._asdict(), scalar)

    def append_batch(self, events: Sequence[AppendedEvent]) -> Statement[int]:
        """Put several events into the log, in this order, in one statement; answers how many."""
        _, types, datas, *extras = map(list, zip(*events, strict=True))
        parameters = {f"extra{number}s": extra for number, extra in enumerate(extras, start=1)}
        return Statement(
            self._append_batch, {"log": self.name, "types": types, "datas": datas, **parameters}, affected
        )

    def current_table(self) -> Statement[EventTable]:
        """Ask which table takes the log's events, for `copy` in the same transaction."""
        return Statement(self._load("current_table"), {"log": self.name}, _event_table)

    def copy(self, table: EventTable, *, extras: bool) -> Query:
        """Return the COPY into the current table; its rows are `table.time`, type, data and, asked for, four extras."""
        operation = "copy_with_extras" if extras else "copy"
        return self._load(operation, {"schema": table.schema, "table": table.table})


def _event_table(rows: Rows, _count: int) -> EventTable:
    return EventTable._make(rows[0])


@lru_cache(maxsize=256)
def log_table(name: str) -> LogTable:
    """Return the statements that append to a log: its SQL is bound once. No I/O."""
    return LogTable(name)
