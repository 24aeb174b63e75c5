"""The table of the values that unique messages for a queue have claimed, and the keeper that forgets free ones.

Invariant: nothing here names a database; who claims a value waits for its row alone.
"""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.database.backends import TABLES_KEPT, bound_table
from rowbus.errors import ConfigurationError
from rowbus.transport.queues.records.table import OwnTable, RecordKeeper, RecordStatements
from rowbus.transport.queues.table import destination_table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta

    from rowbus.database.sessions import AsyncSession
    from rowbus.database.statements import Statement
    from rowbus.messages.address import QueueAddress
    from rowbus.messages.dispatch import AnySend
    from rowbus.messages.outgoing import Claim, Uniqueness

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


@lru_cache(maxsize=TABLES_KEPT)
def claims_of(queue: QueueAddress) -> UniqueTable:
    """Return the statements on the values claimed of a queue that a call names; raises as `destination_table`, too."""
    return unique_table(unique_address(destination_table(queue).address))


def own_claims(address: QueueAddress) -> OwnTable:
    """Return a table of claimed values as an endpoint has it."""
    table = unique_table(address)
    return OwnTable(table, "the table of unique messages", sender=table)


BATCH: Final = 1000  # claims locked in one transaction


class UniqueKeeper(RecordKeeper):
    """Keeps one queue's table of claimed values small. For one event loop."""

    what = "free values"
    logger = logging.getLogger("rowbus.uniqueness")

    async def forget_on(self, session: AsyncSession) -> int:
        """Forget all claims that are free, on a session; return how many.

        A claim is locked before it is looked at, by a statement of its own: one that is renewed meanwhile stays.
        """
        table, total, values = unique_table(self._address), 0, [""]
        while values:
            async with session.transaction():
                values = await session.run(table.lock_some(values[-1], BATCH))
                total += await session.run(table.sweep(values)) if values else 0
        return total
