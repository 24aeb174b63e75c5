"""Forgets keys that no message has had lately: a key without a row has all its tokens.

Invariant: it waits for no lock, and changes the limit of no key.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from rowbus.running.critical import ReportedBreaker
from rowbus.running.service import Periodic

if TYPE_CHECKING:
    from rowbus.database.sessions import SessionPool
    from rowbus.running.critical import Alarm
    from rowbus.transport.limits.table import LimitTable

logger = logging.getLogger("rowbus.limits")

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
