"""The heartbeat of a subconsumer, so that no other subconsumer takes over the batch it works on.

Invariant: a subconsumer that has been removed stops working; its transaction is rolled back.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from rowbus.errors import BatchError, RowbusError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from rowbus.database.postgresql.connection import AsyncSession
    from rowbus.database.postgresql.database import Database
    from rowbus.log.consumers.table import ConsumerTable

logger = logging.getLogger("rowbus.log")


@asynccontextmanager
async def heartbeat(
    database: Database, table: ConsumerTable, period: float, batch: int
) -> AsyncGenerator[None]:
    """Show a sign of life every `period` seconds while the block lasts.

    The block is cancelled, and BatchError raised, when the subconsumer is no longer registered.
    """
    worker = asyncio.current_task()
    beating = asyncio.create_task(_beat(database, table, period), name=f"rowbus {table.name} heartbeat")

    def removed(task: asyncio.Task[None]) -> None:
        if not task.cancelled() and worker is not None:
            worker.cancel()

    beating.add_done_callback(removed)
    try:
        yield
    except asyncio.CancelledError:
        # When everything is cancelled the heart has not stopped by itself, and the block is to end as cancelled.
        stopped = beating.done() and not beating.cancelled()
        if stopped and worker is not None and worker.uncancel() == 0:
            raise BatchError(
                f"Batch {batch} of {table.name} was taken over: no sign of life in time.",
                log=table.log,
                consumer=table.consumer,
                batch=batch,
            ) from None
        raise
    finally:
        beating.remove_done_callback(removed)
        beating.cancel()


async def _beat(database: Database, table: ConsumerTable, period: float) -> None:
    """Touch until the subconsumer is no longer registered; during an outage, go on trying."""
    session: AsyncSession | None = None
    try:
        while True:
            await asyncio.sleep(period)
            try:
                session = session or await database.connect()
                if not await session.run(table.touch()):
                    return
            except RowbusError as error:
                logger.warning("No sign of life of %s could be given: %s", table.name, error)
                if session is not None:
                    await session.close()
                session = None
    finally:
        if session is not None:
            await session.close()
