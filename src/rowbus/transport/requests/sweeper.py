"""Removes the queues of answers whose owners are gone without removing them.

Invariant: a queue is removed only under the lock of its owner, and only if it was without one at the look before, too.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from rowbus.errors import ConnectionLostError, StorageError
from rowbus.running.critical import ReportedBreaker
from rowbus.running.service import Periodic
from rowbus.transport.queues.table import queue_table
from rowbus.transport.requests.decisions import LeftBehind
from rowbus.transport.requests.table import answer_queue

if TYPE_CHECKING:
    from rowbus.database.sessions import AsyncSession, Database
    from rowbus.messages.address import QueueAddress
    from rowbus.running.critical import Alarm

logger = logging.getLogger("rowbus.requests")

PERIOD: Final = 60.0  # seconds between two looks


class Sweeper(Periodic):
    """Looks for queues left behind in the schema of an asker's own. For one event loop."""

    def __init__(
        self, database: Database, address: QueueAddress, alarm: Alarm, *, period: float = PERIOD
    ) -> None:
        """Look beside this queue, every `period` seconds, give or take a fifth, and first at the start. No I/O."""
        failure = "Could not remove the queues of askers that are gone"
        outages = ReportedBreaker("Removing the queues of askers that are gone", failure, logger, alarm)
        super().__init__(f"rowbus {address} sweeper", outages, period, at_once=True)
        self._database = database
        self._address = address
        self._left = LeftBehind()

    async def do(self) -> None:
        """Remove what was left behind. Raises ConnectionLostError."""
        session = await self._database.connect()
        try:
            await self._sweep(session)
        finally:
            await session.close()

    async def _sweep(self, session: AsyncSession) -> None:
        names = await session.run(answer_queue(self._address).beside())
        beside = {name: replace(self._address, table=name) for name in names if name != self._address.table}
        chosen = self._left.next(beside)
        unowned = [name for name in chosen if await session.run(answer_queue(beside[name]).own())]
        for name in sorted(self._left.looked(unowned)):
            await self._remove(session, beside[name])

    async def _remove(self, session: AsyncSession, address: QueueAddress) -> None:
        try:
            await session.run(queue_table(address).drop())
        except ConnectionLostError:
            raise
        except StorageError as error:
            logger.debug("The queue %s of an asker that is gone cannot be removed: %s", address, error)
        else:
            logger.info("Removed %s, the queue of an asker that is gone", address)
