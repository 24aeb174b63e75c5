"""Preparation of a queue before the first receive: purge it if the settings say so, inspect its table.

Invariant: only a missing queue keeps an endpoint from starting; every other problem is a warning.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from rowbus.errors import QueueNotFoundError, RowbusError
from rowbus.transport.receiving.expired_purger import purge_expired

if TYPE_CHECKING:
    from rowbus.database.sessions import AsyncSession, Database
    from rowbus.settings import EndpointSettings
    from rowbus.transport.queues.table import QueueTable

logger = logging.getLogger("rowbus.receiving")


async def prepare(database: Database, table: QueueTable, settings: EndpointSettings) -> None:
    """Purge a queue as the settings say, and warn of what in its table makes receiving slow or headers unreadable.

    Raises QueueNotFoundError, and ConnectionLostError when there is something to do and no connection.
    """
    purges = settings.purge_expired_on_startup or settings.purge_expired_every is not None
    inspection = table.inspect(purges=purges)
    if not (settings.purge_on_startup or settings.purge_expired_on_startup or inspection):
        return
    session = await database.connect()
    try:
        if settings.purge_on_startup:
            await _purge(session, table)
        if settings.purge_expired_on_startup:
            await _purge_expired(session, table, settings.purge_expired_batch_size)
        for statement in inspection:
            for warning in await session.run(statement):
                logger.warning("Queue %s: %s", table.address, warning)
    finally:
        await session.close()


async def _purge(session: AsyncSession, table: QueueTable) -> None:
    try:
        purged = await session.run(table.purge())
    except QueueNotFoundError:
        raise
    except RowbusError as error:
        logger.warning("Queue %s could not be purged: %s", table.address, error)
    else:
        logger.info("%s messages purged from queue %s", purged, table.address)


async def _purge_expired(session: AsyncSession, table: QueueTable, batch_size: int) -> None:
    try:
        await purge_expired(session, table, batch_size)
    except QueueNotFoundError:
        raise
    except RowbusError as error:
        logger.warning("Expired messages of queue %s could not be purged: %s", table.address, error)
