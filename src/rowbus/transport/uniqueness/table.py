"""The table of the values that unique messages for a queue have claimed, and the sweeper of those that are free again.

Invariant: nothing here names a database; who claims a value waits for its row alone.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.database.backends import bound_table
from rowbus.errors import ConfigurationError
from rowbus.running.critical import ReportedBreaker
from rowbus.running.service import Periodic
from rowbus.transport.queues.records.table import OwnTable, RecordStatements

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta

    from rowbus.database.sessions import SessionPool
    from rowbus.database.statements import Statement
    from rowbus.messages.address import QueueAddress
    from rowbus.messages.dispatch import AnySend
    from rowbus.messages.uniqueness import Claim, Uniqueness
    from rowbus.running.critical import Alarm

logger = logging.getLogger("rowbus.uniqueness")

UNIQUE: Final = "Unique"
"""The qualifier of the table: `Sales.Unique`."""


class UniqueSend(NamedTuple):
    """A message with the uniqueness that it is sent with, and the id that its row is to have."""

    send: AnySend
    uniqueness: Uniqueness
    row_id: str


class UniqueTable(RecordStatements):
    """Statements on the table of one queue's claimed values; each runs in its runner's transaction."""

    folder = "transport/uniqueness"
    variable = "claims"
    remedy = (
        "the queue, its table of delayed messages, or that of unique ones does not exist; starting its endpoint with "
        "EndpointSettings(takes_unique=True) creates them, as does `rowbus schema install MODULE:ENDPOINT`."
    )

    def send(self, unique: UniqueSend, *, notify: bool) -> Statement[Claim | None]:
        """Claim a message's value and send the message; say who has claimed it before: then nothing is sent.

        Locks the value's row, and waits for another transaction that has just claimed it.
        """
        raise NotImplementedError

    def find(self, row_id: str) -> Statement[bool]:
        """Lock a message in the queue; say whether it is there, not expired and in nobody's hand. Never waits."""
        raise NotImplementedError

    def find_delayed(self, row_id: str) -> Statement[bool]:
        """Lock a message that is delayed; say whether it is there. Waits for who moves it just now."""
        raise NotImplementedError

    def remove(self, row_id: str, *, is_due: bool) -> Statement[int]:
        """Delete a message that was found."""
        raise NotImplementedError

    def postpone(self, row_id: str, due: timedelta | datetime) -> Statement[int]:
        """Have a delayed message that was found wait longer; it never becomes due sooner."""
        raise NotImplementedError

    def release(self, value: str) -> Statement[int]:
        """Forget the claim on a value."""
        raise NotImplementedError

    def lock_some(self, after: str, most: int) -> Statement[list[str]]:
        """Lock claims that are older than a minute, in the order of their values; return these. Never waits."""
        raise NotImplementedError

    def sweep(self, values: Sequence[str]) -> Statement[int]:
        """Forget those of some locked claims that are free; say how many."""
        raise NotImplementedError

    def grant_keep(self, role: str) -> Statement[None]:
        """Let a role send unique messages: claim values, and lock, replace and postpone what waits."""
        raise NotImplementedError


def unique_address(queue: QueueAddress) -> QueueAddress:
    """Return the table of a queue's claimed values. Raises ConfigurationError where there can be none."""
    if queue.backend != "postgresql":
        raise ConfigurationError(f"{queue} can have no unique messages: they need PostgreSQL.")
    return queue.satellite(UNIQUE)


def unique_table(address: QueueAddress) -> UniqueTable:
    """Return the statements on a table of claimed values. No I/O."""
    table: UniqueTable = bound_table("rowbus.transport.uniqueness", "UniqueTable", address)
    return table


def own_claims(address: QueueAddress) -> OwnTable:
    """Return a table of claimed values as an endpoint has it."""
    table = unique_table(address)
    return OwnTable(table, "the table of unique messages", sender=table)


INTERVAL: Final = 60.0  # seconds, give or take a fifth, between two looks
BATCH: Final = 1000  # claims locked in one transaction


class UniqueSweeper(Periodic):
    """Keeps one queue's table of claimed values small. For one event loop."""

    def __init__(
        self, pool: SessionPool, table: UniqueTable, alarm: Alarm, *, interval: float = INTERVAL
    ) -> None:
        """Look so often. No I/O."""
        failure = f"Could not forget the free values of {table.address}"
        outages = ReportedBreaker(f"Forgetting free values of {table.address}", failure, logger, alarm)
        super().__init__(f"rowbus {table.address} sweeper", outages, interval, at_once=True)
        self._pool = pool
        self._table = table

    async def sweep(self) -> int:
        """Forget all claims that are free; return how many. Raises StorageError.

        A claim is locked before it is looked at, by a statement of its own: one that is renewed meanwhile stays.
        """
        total, values = 0, [""]
        async with self._pool.session() as session:
            while values:
                async with session.transaction():
                    values = await session.run(self._table.lock_some(values[-1], BATCH))
                    total += await session.run(self._table.sweep(values)) if values else 0
        return total

    async def do(self) -> None:
        """Forget, and log how many."""
        if swept := await self.sweep():
            logger.debug("Forgot %s free values of %s", swept, self._table.address)
