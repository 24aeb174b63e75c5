"""The life of a consumer: signs of it while handlers work, heartbeats of members, and whether anything ticks its log.

The server ends a session that is silent for too long (`limit_silence.sql`), and another process leads. The same
question, whether the session lives, tells a connection that was lost by the events in hand from a server that is away.

Invariants: the session is asked only while the consumer does not use it, by one asker at a time; a member that has been
removed stops working, and its transaction is rolled back; whether anything ticks is asked once a minute at most, on the
consumer's own session, and changes nothing.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from rowbus.errors import BatchError, StorageError
from rowbus.log.ticker.ticks import leaders
from rowbus.running.service import Periodic
from rowbus.running.waiting import pause

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator
    from typing import Self

    from rowbus.database.postgresql.database import Database
    from rowbus.database.sessions import AsyncSession
    from rowbus.database.statements import Statement
    from rowbus.log.consumers.chunk_worker import Chunk
    from rowbus.log.consumers.table import ConsumerTable
    from rowbus.running.critical import ReportedBreaker

logger = logging.getLogger("rowbus.log")

BEATS: Final = 4
"""Signs of life in the silence after which a session is ended, or a member counts as dead."""

ANSWER: Final = 5.0
"""Seconds in which a session that lives answers."""


class Life:
    """The signs of life of one session, which leads."""

    def __init__(self, session: AsyncSession, alive: Statement[bool], silence: float | None) -> None:
        """Take the session, the question, and the seconds of silence that end the session (None: none do). No I/O."""
        self._session = session
        self._alive = alive
        self._period = None if silence is None else silence / BEATS
        self._lock = asyncio.Lock()

    async def is_alive(self) -> bool:
        """Ask whether the session lives; waits for `ANSWER` seconds at most."""
        async with self._lock:
            try:
                async with asyncio.timeout(ANSWER):
                    return await self._session.run(self._alive)
            except (StorageError, TimeoutError):
                return False

    async def reading(self, chunks: AsyncIterator[Chunk]) -> AsyncGenerator[Chunk]:
        """Give what is read through the session, inside a block that beats."""
        while True:
            async with self._lock:
                try:
                    chunk = await anext(chunks)
                except StopAsyncIteration:
                    return
            yield chunk

    @asynccontextmanager
    async def beating(self) -> AsyncGenerator[None]:
        """Give signs of life in a block, which uses the session only by `reading`; a short block costs nothing."""
        if self._period is None:
            yield
            return
        done, beats = asyncio.Event(), list[asyncio.Task[None]]()
        timer = asyncio.get_running_loop().call_later(
            self._period,
            lambda: beats.append(asyncio.create_task(self._beat(done), name="rowbus signs of life")),
        )
        try:
            yield
        finally:
            timer.cancel()
            done.set()
            await asyncio.gather(*beats)

    async def _beat(self, done: asyncio.Event) -> None:
        while not done.is_set() and await self.is_alive():
            await pause(done, self._period or 0)


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
