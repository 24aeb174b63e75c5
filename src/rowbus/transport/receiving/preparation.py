"""Preparation of a queue: purge it if the settings say so, inspect its table, delete what has expired.

A receiver consumes expired messages anyway, without a handler; purging is for queues where they pile up.

Invariants: only a missing queue keeps an endpoint from starting; every other problem is a warning; the purger waits for
no lock: it passes over the rows that receivers have locked, a batch a transaction.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rowbus.database.sessions import connected
from rowbus.errors import QueueNotFoundError, RowbusError, TransactionConflictError
from rowbus.running.critical import ReportedBreaker
from rowbus.running.service import Periodic

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Sequence
    from datetime import timedelta

    from rowbus.database.sessions import AsyncSession, Database, SessionPool
    from rowbus.database.statements import Statement
    from rowbus.running.critical import Alarm
    from rowbus.settings import EndpointSettings
    from rowbus.transport.queues.table import QueueTable

logger = logging.getLogger("rowbus.receiving")


async def purge_expired(session: AsyncSession, table: QueueTable, batch_size: int) -> int:
    """Delete a queue's expired messages, batch by batch until one is short; return how many.

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


class ExpiredPurger(Periodic):
    """Keeps queues free of expired messages. For one event loop."""

    def __init__(
        self,
        pool: SessionPool,
        tables: Sequence[QueueTable],
        alarm: Alarm,
        *,
        period: timedelta,
        batch_size: int,
    ) -> None:
        """Look at these queues every `period`, give or take a fifth, and first after one. No I/O."""
        outages = ReportedBreaker(
            "Purging expired messages", "Could not purge expired messages", logger, alarm
        )
        super().__init__("rowbus expired messages purger", outages, period.total_seconds(), at_once=False)
        self._pool = pool
        self._tables = tables
        self._batch_size = batch_size

    async def do(self) -> None:
        """Delete the expired messages of all queues. Raises RowbusError."""
        async with self._pool.session() as session:
            for table in self._tables:
                await purge_expired(session, table, self._batch_size)


async def prepare(database: Database, tables: Iterable[QueueTable], settings: EndpointSettings) -> None:
    """Purge queues as the settings say, and warn of what in a table makes receiving slow or headers unreadable.

    Raises QueueNotFoundError, and ConnectionLostError when there is something to do and no connection.
    """
    purges = settings.purge_expired_on_startup or settings.purge_expired_every is not None
    inspections = [(table, table.inspect(purges=purges)) for table in tables]
    if not (
        settings.purge_on_startup or settings.purge_expired_on_startup or any(one for _, one in inspections)
    ):
        return
    async with connected(database) as session:
        for table, inspection in inspections:
            await _prepare(session, table, inspection, settings)


async def _prepare(
    session: AsyncSession,
    table: QueueTable,
    inspection: Sequence[Statement[list[str]]],
    settings: EndpointSettings,
) -> None:
    if settings.purge_on_startup:
        with _warning("Queue %s could not be purged: %s", table):
            purged = await session.run(table.purge())
            logger.info("%s messages purged from queue %s", purged, table.address)
    if settings.purge_expired_on_startup:
        with _warning("Expired messages of queue %s could not be purged: %s", table):
            await purge_expired(session, table, settings.purge_expired_batch_size)
    for statement in inspection:
        for warning in await session.run(statement):
            logger.warning("Queue %s: %s", table.address, warning)


@contextmanager
def _warning(text: str, table: QueueTable) -> Generator[None]:
    try:
        yield
    except QueueNotFoundError:
        raise
    except RowbusError as error:
        logger.warning(text, table.address, error)
