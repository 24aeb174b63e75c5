"""The hold of a stream on a log: a consumer's registration, from whose position on the log retains events.

The registration only follows the stream and opens no batch, because snapshots name what is read.

Invariant: `move_up_hold` goes forwards only. One process at a time is this consumer: it holds the session-level
advisory lock that the consumers of `rowbus.log` take, too (`ConsumerTable.try_lead`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rowbus.database.locks.names import hold_lock
from rowbus.database.statements import Statement, load, no_rows, scalar
from rowbus.log.consumers.table import ConsumerTable
from rowbus.messages.table_names import refuse_nul

if TYPE_CHECKING:
    from rowbus.database.locks.holder import LockHolder
    from rowbus.database.statements import Query, Rows

_FOLDER = "spark/log_source/sql/postgresql"


class HoldState(NamedTuple):
    """A consumer's registration."""

    owner: int
    """The subscription's number: events that were retried for this consumer carry it."""

    tick: int | None
    batch: int | None
    """A batch that another process has open as this consumer."""

    members: int
    """How many cooperative members the consumer has."""


class LogHold:
    """Statements on one consumer of one log; each runs in its runner's transaction."""

    def __init__(self, log: str, consumer: str) -> None:
        """Bind the SQL files to names; ConfigurationError if one holds NUL. No I/O."""
        for kind, name in (("log", log), ("consumer", consumer)):
            refuse_nul(kind, name)
        self.log = log
        self.consumer = consumer
        self._names = {"log": log, "consumer": consumer}

    def try_lock(self) -> Statement[bool]:
        """Try to lock the consumer until the session ends. Never waits."""
        return ConsumerTable(self.log, self.consumer).try_lead()

    def holders(self) -> Statement[list[LockHolder]]:
        """Return the holders of that lock."""
        return ConsumerTable(self.log, self.consumer).leaders()

    def find_hold(self) -> Statement[HoldState | None]:
        """Return the registration; None when there is none."""
        return Statement(self._load("find_hold"), self._names, _state)

    def place_hold(self, tick: int) -> Statement[int]:
        """Register at a tick, or move there, also backwards; returns 1 if it was registered now."""
        return Statement(self._load("place_hold"), {**self._names, "tick": tick}, scalar)

    def lock_hold(self) -> Statement[None]:
        """Lock the position until the transaction ends. Waits."""
        return Statement(self._load("lock_hold"), {"lock_name": hold_lock(self.log, self.consumer)}, no_rows)

    def move_up_hold(self, tick: int) -> Statement[int | None]:
        """Release events before a tick; returns the new position, None when it did not move.

        Run it after `lock_hold`, in the same transaction.
        """
        parameters = {**self._names, "tick": tick}
        return Statement(self._load("move_up_hold"), parameters, _moved)

    def _load(self, operation: str) -> Query:
        return load(
            f"{_FOLDER}/{operation}.sql",
            failing=f"Could not look after the position of {self.log}/{self.consumer}",
            log=self.log,
            prepare=False,
        )


def _state(rows: Rows, _count: int) -> HoldState | None:
    return HoldState._make(rows[0]) if rows else None


def _moved(rows: Rows, _count: int) -> int | None:
    return rows[0][0] if rows else None
