"""A look, once, whether anything ticks a log whose consumer has found nothing for a while.

Invariant: asks at most once, on the consumer's own session, and changes nothing.
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


class TickerWatch:
    """The look of one consumer; begins to wait when it is made."""

    def __init__(self, log: str) -> None:
        """Look in `WAIT` seconds at the earliest."""
        self._log = log
        self._due: float | None = asyncio.get_running_loop().time() + WAIT

    async def look(self, session: AsyncSession) -> None:
        """Warn if it is time and no ticker is at work; raises StorageError."""
        if self._due is None or asyncio.get_running_loop().time() < self._due:
            return
        self._due = None
        if not await session.run(leaders()):
            logger.warning(
                "No ticker is at work on this database, so the consumers of log %s get no events: start `rowbus "
                "ticker`, unless pgqd or cron ticks it",
                self._log,
            )
