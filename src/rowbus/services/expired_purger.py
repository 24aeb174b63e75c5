"""Deletes messages whose time to be received is over: once when an endpoint starts, or now and then, or both.

A receiver consumes them anyway when it comes to them, without a handler; purging is for queues where they pile up.

Invariant: never in anybody's way: it passes over what receivers have in hand, a batch a transaction.
"""

from __future__ import annotations

import asyncio
import logging
import random
from typing import TYPE_CHECKING

from rowbus.errors import RowbusError, TransactionConflictError
from rowbus.model.backoff import jittered
from rowbus.services.waiting import cancel

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from rowbus.database.sessions import AsyncSession, SessionPool
    from rowbus.tables.message_tables import QueueTable

logger = logging.getLogger("rowbus.receiving")


async def purge_expired(session: AsyncSession, table: QueueTable, batch_size: int) -> int:
    """Delete a queue's expired messages, batch by batch until one is short; say how many there were.

    A deadlock with receivers ends it with a warning. Raises QueueNotFoundError, StorageError.
    """
    total, in_batch = 0, batch_size
    try:
        while in_batch == batch_size:
            in_batch = await session.run(table.purge_expired(batch_size))
            total += in_batch
    except TransactionConflictError as error:
        logger.warning("Purging expired messages of %s gave way to receivers: %s", table.address, error)
    if total:
        logger.info("%s expired messages purged from queue %s", total, table.address)
    return total


class ExpiredPurger:
    """Keeps queues free of expired messages. For one event loop."""

    def __init__(
        self, pool: SessionPool, tables: Sequence[QueueTable], period: timedelta, batch_size: int
    ) -> None:
        """Look at these queues every `period`, give or take a fifth. No I/O."""
        self._pool = pool
        self._tables = tables
        self._period = period.total_seconds()
        self._batch_size = batch_size
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin; returns at once. The first look comes after a period."""
        self._task = asyncio.create_task(self._run(), name="rowbus expired messages purger")

    async def stop(self) -> None:
        """End; a batch that is under way is rolled back."""
        if self._task is not None:
            await cancel([self._task])
            self._task = None

    async def purge(self) -> int:
        """Delete what is expired, and say how many messages. Raises RowbusError."""
        async with self._pool.session() as session:
            return sum([await purge_expired(session, table, self._batch_size) for table in self._tables])

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(jittered(self._period, random.random))
            try:
                await self.purge()
            except RowbusError as error:  # of no consequence until the next time
                logger.info("Could not purge expired messages: %s", error)
