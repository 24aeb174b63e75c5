"""A look, now and then, whether anything ticks a log whose consumer has found nothing for a while.

Invariant: asks once a minute at most, on the consumer's own session, says what changed, and changes nothing.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from rowbus.log.ticker.ticks import leaders

if TYPE_CHECKING:
    from rowbus.database.postgresql.connection import AsyncSession

logger = logging.getLogger("rowbus.log")

WAIT = 10.0  # seconds that a ticker has to begin, when both are started together
AGAIN = 60.0  # seconds between two looks


class TickerWatch:
    """The looks of one consumer; begins to wait when it is made."""

    def __init__(self, log: str) -> None:
        """Look in `WAIT` seconds at the earliest."""
        self._log = log
        self._due = asyncio.get_running_loop().time() + WAIT
        self._is_missed = False

    async def look(self, session: AsyncSession) -> None:
        """Warn if it is time and no ticker is at work, and say when one is again; raises StorageError."""
        now = asyncio.get_running_loop().time()
        if now < self._due:
            return
        self._due = now + AGAIN
        was_missed, self._is_missed = self._is_missed, not await session.run(leaders())
        if was_missed and not self._is_missed:
            logger.info("A ticker is at work again; log %s has events", self._log)
        elif self._is_missed and not was_missed:
            logger.warning(
                "No ticker is at work on this database, so the consumers of log %s get no events: start `rowbus "
                "ticker`, unless pgqd or cron ticks it",
                self._log,
            )
