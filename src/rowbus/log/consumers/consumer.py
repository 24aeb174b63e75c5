"""Consumes a log: takes batches one after the other and has them worked off.

One session reads (and stands by, listens, takes and finishes batches); workers have a session each. Of several
processes with the same consumer's name one works and the others stand by.

Invariant: a batch is taken in a transaction of its own, so that it keeps its id, and with it its positions, until it is
finished. Stopping finishes what is in hand, or after a time rolls it back; nothing is left running.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING

from rowbus.database.locks.holders import name_holders
from rowbus.errors import BatchError, RowbusError, StorageError, TransactionConflictError
from rowbus.log.consumers.batch_reader import read_batch
from rowbus.log.consumers.chunk_worker import ChunkWorker
from rowbus.log.consumers.event_attempts import TransactionEndedError, Waiting
from rowbus.log.consumers.heartbeat import heartbeat
from rowbus.log.consumers.keys import resume_after
from rowbus.log.consumers.verdicts import Retries
from rowbus.log.range import LogRange
from rowbus.running.backoff import jittered
from rowbus.running.breaker import CircuitBreaker
from rowbus.running.waiting import finish, pause, pause_unless_notified

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from rowbus.database.postgresql.database import Database
    from rowbus.database.postgresql.read_session import ReadSession
    from rowbus.log.consumers.batch_reader import Chunk
    from rowbus.log.consumers.event_attempts import Handling
    from rowbus.log.consumers.keys import Mark
    from rowbus.log.consumers.table import ConsumerTable, TakenBatch
    from rowbus.log.event import Batch, Event
    from rowbus.settings import ConsumerSettings

logger = logging.getLogger("rowbus.log")

CRITICAL_AFTER = 30.0  # seconds of failures after which an outage is logged as an error
DEFAULT_RETRIES = 5
BEATS = 4  # signs of life in the time after which a member counts as dead
REGISTRATIONS = 3  # tries, when others register the same consumer at the same time


class LogConsumer:
    """One consumer of one log, or one member of a cooperative consumer. For one event loop."""

    def __init__(
        self, database: Database, table: ConsumerTable, settings: ConsumerSettings, handling: Handling
    ) -> None:
        """Say what to consume and who handles it. No I/O."""
        self._database = database
        self._table = table
        self._range = LogRange(table.log)
        self._settings = settings
        self._handling = handling
        self._workers = [
            ChunkWorker(database, table, handling, parts=settings.workers, part=part)
            for part in range(settings.workers)
        ]
        self._breaker = CircuitBreaker(CRITICAL_AFTER, time.monotonic)
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._retries: Retries
        self._isolated: int | None = None  # the whole batch that failed as a whole
        self.leading = asyncio.Event()
        """Set while this process, and not another of the same name, consumes."""

    async def start(self) -> None:
        """Register the consumer if it is not yet, and begin. Raises LogNotFoundError, StorageError."""
        if self._task is not None:
            return
        await self._register()
        self._stopping.clear()
        self._task = asyncio.create_task(self._run(), name=f"rowbus {self._table.name}")

    async def stop(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - a grace period
        """Take no more batches and finish what is in hand; a batch in chunks ends after the chunk in hand.

        After `timeout` seconds, or when the caller is cancelled, what is in hand is rolled back. Harmless when stopped.
        """
        task, self._task = self._task, None
        if task is None:
            return
        self._stopping.set()
        await finish(task, timeout)

    async def _register(self) -> None:
        session = await self._database.connect()
        try:
            await session.run(self._range.find())
            for left in reversed(range(REGISTRATIONS)):
                try:
                    await session.run(self._table.register(from_oldest=self._settings.from_oldest))
                except StorageError as error:
                    if error.sqlstate != "23505" or not left:
                        raise
                else:
                    return
        finally:
            await session.close()

    # --- the loop

    async def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                async with self._connected() as session:
                    await self._consume(session)
            except (BatchError, TransactionConflictError) as error:
                logger.info("%s goes on with its next batch: %s", self._table.name, error)
            except Exception as error:  # whatever it is, the consumer goes on
                if not isinstance(error, RowbusError):
                    logger.exception("Unexpected error while consuming %s", self._table.name)
                await self._failed(error)

    @asynccontextmanager
    async def _connected(self) -> AsyncGenerator[ReadSession]:
        session = await self._database.connect_reader()
        try:
            yield session
        finally:
            self.leading.clear()
            await session.close()
            for worker in self._workers:
                await worker.close()

    async def _consume(self, session: ReadSession) -> None:
        """Take and work off batches until the end, or an error."""
        await self._lead(session)
        self._retries = await self._find_retries(session)
        if self._settings.notifications:
            await session.run(self._range.listen(await session.run(self._range.find())))
        while not self._stopping.is_set():
            claim = await session.run(self._table.next_batch(self._settings))
            self._recovered()
            if claim is None:
                await pause_unless_notified(session, self._stopping, self._delay())
            else:
                await self._work_off(session, claim)

    async def _lead(self, session: ReadSession) -> None:
        """Wait until no other process consumes under this name."""
        said = not self._settings.stand_by
        while self._settings.stand_by and not self._stopping.is_set():
            if await session.run(self._table.try_lead()):
                break
            if not said:
                holder = await name_holders(session, self._table.leaders())
                logger.info("%s is at work in another process; standing by: %s", self._table.name, holder)
                said = True
            self._recovered()
            await pause(self._stopping, self._delay())
        self.leading.set()

    def _delay(self) -> float:
        return jittered(self._settings.poll_delay.total_seconds(), random.random)

    # --- one batch

    async def _work_off(self, session: ReadSession, claim: TakenBatch) -> None:
        if self._table.subconsumer is None:
            await self._work(session, claim)
            return
        period = self._settings.dead_after.total_seconds() / BEATS
        async with heartbeat(self._database, self._table, period, claim.batch.id):
            await self._work(session, claim)

    async def _work(self, session: ReadSession, claim: TakenBatch) -> None:
        batch, marks = claim
        waiting = await self._waiting(session)
        for worker in self._workers:
            marked = (
                mark.event for mark in marks if (mark.parts, mark.part) == (len(self._workers), worker.part)
            )
            worker.take(batch, next(marked, None), self._retries, waiting)
        chunks = read_batch(
            session, self._table, batch, after=resume_after(marks), size=self._settings.chunk_size
        )
        async with aclosing(chunks):
            if self._settings.whole_batches and not marks and batch.id != self._isolated:
                await self._work_whole(batch, chunks)
                return
            async for chunk in chunks:
                await self._work_chunk(session, batch, chunk, marks)
                if self._stopping.is_set():
                    return

    async def _work_whole(self, batch: Batch, chunks: AsyncGenerator[Chunk]) -> None:
        try:
            await self._workers[0].work_all(chunks)
        except (StorageError, TransactionEndedError) as error:
            if isinstance(error, StorageError) and error.transient:
                raise
            logger.warning("Batch %s failed as a whole; it is handled in chunks: %s", batch.id, error)
            self._isolated = batch.id

    async def _work_chunk(
        self, session: ReadSession, batch: Batch, chunk: Chunk, marks: Sequence[Mark]
    ) -> None:
        events = self._handling.keys.left(chunk.events, marks)
        upto = None if chunk.last else chunk.events[-1].id
        if len(self._workers) == 1 and (events or upto is not None):
            await self._workers[0].work(events, upto)
            return
        if events:
            await self._share(events, chunk.events[-1].id)
        if chunk.last:
            await session.run(self._table.finish_batch(batch.id))

    async def _share(self, events: Sequence[Event], upto: int) -> None:
        """Have each worker work off the events of its keys, at the same time; all have ended when this returns."""
        parts = self._handling.keys.split(events, len(self._workers))
        working = [worker.work(part, upto) for worker, part in zip(self._workers, parts, strict=True) if part]
        for result in await asyncio.gather(*working, return_exceptions=True):
            if isinstance(result, BaseException):
                raise result

    async def _waiting(self, session: ReadSession) -> Waiting:
        """Find the keys that wait for an event to be retried."""
        waiting = Waiting(self._handling.keys)
        if self._handling.keys:
            for seconds, event in await session.run(self._table.waiting_retries()):
                waiting.add(event, max(seconds, 0))
        return waiting

    async def _find_retries(self, session: ReadSession) -> Retries:
        settings = self._settings
        most = settings.max_retries
        if most is None:
            most = await session.run(self._range.max_retries())
        return Retries(
            DEFAULT_RETRIES if most is None else most,
            settings.retry_delay.total_seconds(),
            settings.longest_retry_delay.total_seconds(),
        )

    # --- trouble

    async def _failed(self, error: Exception) -> None:
        outage = self._breaker.failed()
        if outage.critical:
            logger.error("%s has been failing for long: %s", self._table.name, error)
        elif outage.first:
            logger.warning("%s failed; trying again until it works: %s", self._table.name, error)
        await pause(self._stopping, outage.wait)

    def _recovered(self) -> None:
        failures = self._breaker.succeeded()
        if failures:
            logger.info("%s works again after %s failures.", self._table.name, failures)
