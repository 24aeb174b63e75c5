"""The history of a saga: the operations on its table, on every database, and what of it is kept.

Invariant: a line is written in the transaction of its transition, so it is there if and only if that happened.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from rowbus.database.backends import bound_table
from rowbus.transport.queues.table import RecordTable

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from rowbus.database.statements import Statement
    from rowbus.messages.address import QueueAddress
    from rowbus.messages.addresses import Addresses


class Transition(NamedTuple):
    """What one message did to a saga. `number` counts the transitions of a saga from 1; states are JSON."""

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


class HistoryTable(RecordTable, Protocol):
    """Statements on the history of one saga class."""

    def record(self, transition: Transition) -> Statement[None]:
        """Keep a transition."""
        raise NotImplementedError

    def read(self, key: str) -> Statement[list[Line]]:
        """Read what the sagas did that have this id or were found by this text, the oldest first. Locks nothing."""
        raise NotImplementedError

    def forget(self, saga_id: str) -> Statement[None]:
        """Delete the lines of one saga."""
        raise NotImplementedError

    def sweep(self, keep: timedelta) -> Statement[None]:
        """Delete the lines of two sagas at most that completed longer ago than this; passes over those being swept."""
        raise NotImplementedError


class Keeping(NamedTuple):
    """What is kept: each transition, and a completed saga for how long (None: it is forgotten)."""

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
