"""The drain of a queue into a log: messages become events that keep them as they are (`log/archive.py`).

Invariant: a message leaves its queue and arrives in the log in the same transaction, so it is in exactly one of them
at every commit.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from rowbus.log.archive import archived_event
from rowbus.running.critical import Alarm, ReportedBreaker, log_critical
from rowbus.running.service import Service
from rowbus.running.waiting import pause_unless_notified
from rowbus.settings import LARGEST_MESSAGE
from rowbus.transport.events.table import log_table
from rowbus.transport.queues.table import queue_table
from rowbus.transport.receiving.decisions.lower_bound import FROM_THE_START, MARGIN

if TYPE_CHECKING:
    from rowbus.database.sessions import AsyncSession, Database
    from rowbus.messages.address import QueueAddress

logger = logging.getLogger("rowbus.bridge")

BATCH_SIZE = 100  # messages moved in one transaction
POLL_DELAY = 1.0  # seconds between looks at an empty queue, when no notification comes
MOST_PASSED_OVER = 10_000  # rows too large to be moved, at the head of a queue
ALARM = Alarm(log_critical(logger))


class QueueDrain(Service):
    """Moves the messages of a queue to a log; for one event loop. Several may work side by side."""

    def __init__(
        self,
        database: Database,
        queue: QueueAddress,
        log: str,
        *,
        batch_size: int = BATCH_SIZE,
        alarm: Alarm = ALARM,
    ) -> None:
        """Take the queue and the log, and how many messages a transaction moves. No I/O."""
        outages = ReportedBreaker(f"Draining {queue}", f"Draining {queue} failed", logger, alarm)
        super().__init__(f"rowbus drain {queue}", outages)
        self._database = database
        self._queue = queue_table(queue)
        self._log = log_table(log)
        self._batch_size = batch_size
        self._passed_over: list[int] = []
        self.moved = 0
        """How many messages have been moved so far."""

    async def drain(self) -> int:
        """Move all messages of the queue but those that are locked; return how many.

        Each batch is committed. Raises QueueNotFoundError, LogNotFoundError, StorageError: then the batch in hand is
        back in the queue.
        """
        before = self.moved
        session = await self._database.connect()
        try:
            await self._drain(session)
        finally:
            await session.close()
        return self.moved - before

    async def prepare(self) -> None:
        """Drain the queue. Raises as `drain`, for what it finds at first."""
        await self.drain()

    async def work(self) -> None:
        """Move what comes."""
        session = await self._database.connect()
        try:
            await session.run_all(self._queue.listen())
            while not self._stopping.is_set():
                await self._drain(session)
                self._outages.succeeded()
                await pause_unless_notified(session, self._stopping, POLL_DELAY)
        finally:
            await session.close()

    async def _drain(self, session: AsyncSession) -> None:
        """Move batches; as a receiver does, from a little below the last position, then once more from the start."""
        bound = FROM_THE_START
        while not self._stopping.is_set():
            last = await self._move(session, bound)
            if last is not None:
                bound = last - MARGIN
            elif bound == FROM_THE_START:
                if not await self._pass_over_oversized(session):
                    return
            else:
                bound = FROM_THE_START

    async def _move(self, session: AsyncSession, bound: int) -> int | None:
        """Move one batch in one transaction; return its last position, None when there was nothing."""
        async with session.transaction():
            receive = self._queue.receive(self._batch_size, bound, passed_over=self._passed_over)
            rows = await session.run(receive)
            if not rows:
                return None
            events = [archived_event(self._log.name, row, self._queue.address) for row in rows]
            await session.run(self._log.append_batch(events))
        self.moved += len(rows)
        logger.info("Moved %s messages from %s to log %s", len(rows), self._queue.address, self._log.name)
        return rows[-1].seq

    async def _pass_over_oversized(self, session: AsyncSession) -> bool:
        """Find messages too large to move: they stay in the queue, logged once. Return whether there were new ones."""
        most = self._batch_size + len(self._passed_over)
        oversized = await session.run(self._queue.find_oversized(most, most_bytes=LARGEST_MESSAGE))
        found = [message for message in oversized if message.seq not in self._passed_over]
        for message in found:
            logger.error(
                "Row %s of %s has %s bytes, more than %s; it stays in the queue.",
                message.id,
                self._queue.address,
                message.size,
                LARGEST_MESSAGE,
            )
        self._passed_over = [message.seq for message in oversized][:MOST_PASSED_OVER]
        return bool(found)
