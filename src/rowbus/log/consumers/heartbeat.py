"""Heartbeats of a member of a cooperative consumer: without them another member takes over the batch it works on.

Invariant: a member that has been removed stops working, and its transaction is rolled back.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rowbus.errors import BatchError
from rowbus.running.service import Periodic

if TYPE_CHECKING:
    from typing import Self

    from rowbus.database.postgresql.connection import AsyncSession
    from rowbus.database.postgresql.database import Database
    from rowbus.log.consumers.table import ConsumerTable
    from rowbus.running.critical import ReportedBreaker


class Heartbeat(Periodic):
    """Shows a sign of life every `period` seconds while a block lasts.

    The block is cancelled, and BatchError raised, when the subconsumer is no longer registered.
    """

    def __init__(
        self, database: Database, table: ConsumerTable, batch: int, outages: ReportedBreaker, period: float
    ) -> None:
        """Take the member, and the batch that it works on. No I/O."""
        super().__init__(f"rowbus {table.name} heartbeat", outages, period, at_once=False)
        self._database = database
        self._table = table
        self._batch = batch
        self._session: AsyncSession | None = None
        self._worker: asyncio.Task[object] | None = None
        self._removed = False

    async def __aenter__(self) -> Self:
        """Begin."""
        self._worker = asyncio.current_task()
        await self.start()
        return self

    async def __aexit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        """End; raise BatchError if the heartbeat has cancelled the block, and nothing else has."""
        worker, self._worker = self._worker, None
        try:
            await self.stop(0)
        except asyncio.CancelledError as cancelled:  # it came after the block's last wait
            error = cancelled
        if not isinstance(error, asyncio.CancelledError):
            return
        if self._removed and worker is not None and worker.uncancel() == 0:
            raise BatchError(
                f"Batch {self._batch} of {self._table.name} was taken over: no sign of life in time.",
                log=self._table.log,
                consumer=self._table.consumer,
                batch=self._batch,
            ) from None
        raise error

    async def do(self) -> None:
        """Show a sign of life; cancel the block when the member is no longer one."""
        self._session = self._session or await self._database.connect()
        if not await self._session.run(self._table.touch()):
            self._stopping.set()
            if self._worker is not None:
                self._removed = self._worker.cancel()

    async def release(self) -> None:
        """Close the session."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()
