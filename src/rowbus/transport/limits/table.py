"""The table of an endpoint's rate limits: the operations on it, and the sweeper of keys that no message has.

Invariants: each statement is to run in a transaction of its own, so that no lock here lasts as long as a handler; the
sweeper waits for no lock, and changes the limit of no key.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from rowbus.database.backends import bound_table
from rowbus.running.critical import ReportedBreaker
from rowbus.running.service import Periodic
from rowbus.transport.queues.records.table import OwnTable, RecordStatements

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rowbus.database.sessions import SessionPool
    from rowbus.database.statements import Statement
    from rowbus.messages.address import QueueAddress
    from rowbus.messages.message import MessageRow
    from rowbus.running.critical import Alarm
    from rowbus.transport.limits.decisions import TokenGrant, TokenRequest
    from rowbus.transport.limits.rate import Bucket

logger = logging.getLogger("rowbus.limits")


class LimitTable(RecordStatements):
    """Statements on the table of an endpoint's tokens."""

    folder = "transport/limits"
    variable = "limits"
    remedy = (
        "the table does not exist; starting an endpoint with a rate limit creates it, as does "
        "`rowbus schema install MODULE:ENDPOINT`."
    )

    def take(self, asked: Sequence[TokenRequest], *, defers: bool) -> Statement[dict[str, TokenGrant]]:
        """Take tokens, as many as there are, and say for each key what was granted; a key without a row is left out.

        `defers` says whether what gets none now is deferred, so that its turn is kept free. Locks the keys' rows, in
        the order of the keys, waiting for other instances that take of them just now.
        """
        raise NotImplementedError

    def begin(self, keys: Iterable[str]) -> Statement[int]:
        """Begin keys that have no row, with all the tokens that they can have. Waits for others who begin the same."""
        raise NotImplementedError

    def give_back(self, unused: Sequence[tuple[Bucket, int]]) -> Statement[int]:
        """Give tokens back that were not used. Locks the keys' rows, waiting as `take`."""
        raise NotImplementedError

    def receive_these(self, queue: QueueAddress, rows: Sequence[MessageRow]) -> Statement[list[MessageRow]]:
        """Take messages that were received and put back a moment ago, in their order; without those that are gone.

        Deletes and so locks them; passes over what others have locked, never waiting.
        """
        raise NotImplementedError

    def sweep(self, batch_size: int) -> Statement[int]:
        """Forget up to so many keys that have had all their tokens for a minute; say how many. Never waits."""
        raise NotImplementedError


def limit_table(address: QueueAddress) -> LimitTable:
    """Return the statements on a table of limits. No I/O."""
    table: LimitTable = bound_table("rowbus.transport.limits", "LimitTable", address)
    return table


def own_limits(address: QueueAddress) -> OwnTable:
    """Return a table of limits as an endpoint has it."""
    return OwnTable(limit_table(address), "the table of rate limits")


INTERVAL: Final = 60.0  # seconds, give or take a fifth, between two looks
BATCH: Final = 1000  # rows deleted in one transaction


class LimitSweeper(Periodic):
    """Keeps one endpoint's table of limits small. For one event loop."""

    def __init__(
        self, pool: SessionPool, table: LimitTable, alarm: Alarm, *, interval: float = INTERVAL
    ) -> None:
        """Look so often. No I/O."""
        failure = f"Could not forget idle keys of {table.address}"
        outages = ReportedBreaker(f"Forgetting idle keys of {table.address}", failure, logger, alarm)
        super().__init__(f"rowbus {table.address} sweeper", outages, interval, at_once=True)
        self._pool = pool
        self._table = table

    async def sweep(self) -> int:
        """Forget all idle keys; return how many. Raises StorageError."""
        total = 0
        async with self._pool.session() as session:
            while swept := await session.run(self._table.sweep(BATCH)):
                total += swept
        return total

    async def do(self) -> None:
        """Forget, and log how many keys."""
        if swept := await self.sweep():
            logger.debug("Forgot %s idle keys of %s", swept, self._table.address)
