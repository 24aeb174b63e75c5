"""Forgets, now and then, the messages that an endpoint accepted long enough ago.

Invariant: never in anybody's way: it passes over what others forget, a batch a transaction.
"""

from __future__ import annotations

import asyncio
import logging
import random
from typing import TYPE_CHECKING, Final

from rowbus.errors import StorageError
from rowbus.model.backoff import jittered
from rowbus.services.waiting import cancel

if TYPE_CHECKING:
    from datetime import timedelta

    from rowbus.database.sessions import SessionPool
    from rowbus.tables.record_tables import InboxTable

logger = logging.getLogger("rowbus.inbox")

INTERVAL: Final = 60.0  # seconds, give or take a fifth, between two looks
BATCH: Final = 1000  # rows deleted in one transaction


class InboxKeeper:
    """Keeps one endpoint's inbox from growing beyond what is to be remembered. For one event loop."""

    def __init__(
        self, pool: SessionPool, table: InboxTable, remember: timedelta, *, interval: float = INTERVAL
    ) -> None:
        """Forget what was accepted longer ago than `remember`. No I/O."""
        self._pool = pool
        self._table = table
        self._remember = remember
        self._interval = interval
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin; returns at once."""
        self._task = asyncio.create_task(self._run(), name=f"rowbus {self._table.address} keeper")

    async def stop(self) -> None:
        """End; a batch that is under way is rolled back."""
        if self._task is not None:
            await cancel([self._task])
            self._task = None

    async def forget(self) -> int:
        """Forget all there is to forget, and say how many messages. Raises StorageError."""
        total = 0
        async with self._pool.session() as session:
            while forgotten := await session.run(self._table.purge(self._remember, BATCH)):
                total += forgotten
        return total

    async def _run(self) -> None:
        while True:
            try:
                if forgotten := await self.forget():
                    logger.debug("Forgot %s messages of %s", forgotten, self._table.address)
            except StorageError as error:  # of no consequence until the next time
                logger.info("Could not forget old messages of %s: %s", self._table.address, error)
            await asyncio.sleep(jittered(self._interval, random.random))
