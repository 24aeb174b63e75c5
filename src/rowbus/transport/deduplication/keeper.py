"""The keeper of an inbox: deletes, once a minute, the entries that are older than the retention.

Invariant: it waits for no lock: it passes over rows that another keeper deletes, a batch a transaction.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from rowbus.running.periodic import Periodic
from rowbus.running.reported_breaker import ReportedBreaker

if TYPE_CHECKING:
    from datetime import timedelta

    from rowbus.database.sessions import SessionPool
    from rowbus.running.reported_breaker import Alarm
    from rowbus.transport.deduplication.table import InboxTable

logger = logging.getLogger("rowbus.inbox")

INTERVAL: Final = 60.0  # seconds, give or take a fifth, between two looks
BATCH: Final = 1000  # rows deleted in one transaction


class InboxKeeper(Periodic):
    """Keeps one endpoint's inbox within its retention. For one event loop."""

    def __init__(
        self,
        pool: SessionPool,
        table: InboxTable,
        remember: timedelta,
        alarm: Alarm,
        *,
        interval: float = INTERVAL,
    ) -> None:
        """Forget what was accepted longer ago than `remember`. No I/O."""
        activity = f"Forgetting old messages of {table.address}"
        failure = f"Could not forget old messages of {table.address}"
        outages = ReportedBreaker(activity, failure, logger, alarm)
        super().__init__(f"rowbus {table.address} keeper", outages, interval, at_once=True)
        self._pool = pool
        self._table = table
        self._remember = remember

    async def forget(self) -> int:
        """Forget all messages older than the retention; return how many. Raises StorageError."""
        total = 0
        async with self._pool.session() as session:
            while forgotten := await session.run(self._table.purge(self._remember, BATCH)):
                total += forgotten
        return total

    async def do(self) -> None:
        """Forget, and log how many messages."""
        if forgotten := await self.forget():
            logger.debug("Forgot %s messages of %s", forgotten, self._table.address)
