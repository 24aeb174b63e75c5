"""The history of a saga: the operations on its table, on every database, and what of it is kept.

Invariant: a line is written in the transaction of its transition, so it is there if and only if that happened.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rowbus.database.backends import bound_table
from rowbus.database.statements import Statement, no_rows
from rowbus.sagas.table import id_in
from rowbus.transport.queues.records.table import RecordStatements

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from rowbus.database.statements import Rows
    from rowbus.messages.address import Addresses, QueueAddress


class Transition(NamedTuple):
    """The effect of one message on a saga. `number` counts the transitions of a saga from 1; states are JSON."""

    saga_id: str
    number: int
    correlation: str
    message_id: str
    message_type: str
    before: str | None
    """None: the saga began."""
    after: str
    is_completed: bool


class Line(NamedTuple):
    """A transition as it is kept, with its time, which is aware."""

    transition: Transition
    at: datetime


class HistoryTable(RecordStatements):
    """Statements on the history of one saga class; each runs in its runner's transaction."""

    folder = "sagas/history"
    variable = "history"
    remedy = (
        "the saga keeps no history, or its endpoint has not been started since: declare it with history=True."
    )

    def __init__(self, address: QueueAddress) -> None:
        """Bind the SQL files to the table. No I/O."""
        super().__init__(address)
        self._record = self._load("record", "Failed to write the history", prepare=True)

    def record(self, transition: Transition) -> Statement[None]:
        """Keep a transition."""
        values = {**transition._asdict(), "is_completed": int(transition.is_completed)}
        return Statement(self._record, values, no_rows)

    def read(self, key: str) -> Statement[list[Line]]:
        """Read what the sagas did that have this id or were found by this text, the oldest first. Keeps no lock."""
        query = self._load("read", "Failed to read the history")
        return Statement(query, {"key": key, "id": id_in(key)}, self._lines)

    def forget(self, saga_id: str) -> Statement[None]:
        """Delete the lines of one saga."""
        return Statement(self._load("forget", "Failed to clear the history"), {"id": saga_id}, no_rows)

    def sweep(self, keep: timedelta) -> Statement[None]:
        """Delete the lines of two sagas at most that completed longer ago than this; passes over those being swept."""
        query = self._load("sweep", "Failed to sweep the history")
        return Statement(query, {"keep_seconds": int(keep.total_seconds())}, no_rows)

    def _lines(self, rows: Rows, _count: int) -> list[Line]:
        return [
            Line(Transition._make((*values, bool(done))), self._instant(at)) for *values, done, at in rows
        ]


class Keeping(NamedTuple):
    """The scope of a history: each transition, and a completed saga for how long (None: it is forgotten)."""

    all: bool = False
    completed: timedelta | None = None

    @property
    def needs_table(self) -> bool:
        """Whether anything is kept."""
        return self.all or self.completed is not None

    def statements(self, table: HistoryTable, transition: Transition) -> list[Statement[None]]:
        """Return what is to be done about a transition, in its transaction.

        Each completion sweeps two older ones, so what is kept does not grow, and no service is needed.
        """
        if not transition.is_completed:
            return [table.record(transition)] if self.all else []
        if self.completed is not None:
            return [table.record(transition), table.sweep(self.completed)]
        return [table.forget(transition.saga_id)] if self.all else []


def history_address(endpoint: str, saga: str, addresses: Addresses) -> QueueAddress:
    """Return the table of what an endpoint's saga did."""
    return addresses.for_endpoint(endpoint, qualifier=f"{saga}.History")


def history_table(address: QueueAddress) -> HistoryTable:
    """Return the statements on a saga's history. No I/O."""
    table: HistoryTable = bound_table("rowbus.sagas.history", "HistoryTable", address)
    return table
