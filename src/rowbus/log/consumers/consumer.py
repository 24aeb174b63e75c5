"""A consumer of a log: waits for batches, has its handlers work them off, and measures and traces that.

One session reads: it stands by, listens, takes and finishes batches. Each worker has a session of its own. Of several
processes with the same consumer's name one works and the others stand by.

Invariants: a batch is taken in a transaction of its own, so that it keeps its id, and with it its positions, until it
is finished; `stop` finishes the chunk in hand, or after its limit rolls it back, and leaves nothing running; measuring
and tracing put nothing around the handlers without a wish, and change nothing of the events.
"""

from __future__ import annotations

import asyncio
import logging
import random
from contextlib import aclosing, contextmanager, nullcontext
from functools import partial
from time import time
from typing import TYPE_CHECKING

from rowbus.database.locks import name_holders
from rowbus.database.sessions import connected
from rowbus.errors import BatchError, StorageError, TransactionConflictError
from rowbus.errors.strangers import text_of
from rowbus.log.causes import NO_CAUSE, read_cause
from rowbus.log.consumers.chunk_worker import ChunkWorker, read_batch
from rowbus.log.consumers.event_attempts import BatchWork, Waiting, resume_after
from rowbus.log.consumers.life import BEATS, Heartbeat, Life, TickerWatch
from rowbus.log.consumers.policy import Retries, RetryAfter
from rowbus.log.consumers.table import ConsumerTable
from rowbus.log.range import LogRange
from rowbus.messages.address import DEFAULT_SCHEMA, QueueAddress
from rowbus.running.backoff import jittered
from rowbus.running.critical import ReportedBreaker
from rowbus.running.handling import concerning
from rowbus.running.service import ElectedService, Election
from rowbus.running.telemetry.instruments import instruments, tracing
from rowbus.running.waiting import pause_unless_notified
from rowbus.transport.pauses.table import PAUSES, Hold, PauseSubject
from rowbus.work.fate import Kind

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator, Mapping, Sequence

    from rowbus.database.postgresql.connection import ReadSession
    from rowbus.database.postgresql.database import Database
    from rowbus.database.sessions import Database as AnyDatabase
    from rowbus.log.consumers.chunk_worker import Chunk
    from rowbus.log.consumers.event_attempts import EventAttempt, Handling
    from rowbus.log.consumers.policy import Verdict
    from rowbus.log.consumers.table import Mark, TakenBatch
    from rowbus.log.event import Batch, Event
    from rowbus.running.critical import Alarm
    from rowbus.running.telemetry.instruments import Instruments
    from rowbus.settings import ConsumerSettings


logger = logging.getLogger("rowbus.log")

DEFAULT_RETRIES = 5
POLLS = 3  # times that an idle leader looks for a batch in the silence after which it is ended, at least
REGISTRATIONS = 3  # tries, when others register the same consumer at the same time


async def register(database: AnyDatabase, tables: Sequence[ConsumerTable], *, from_oldest: bool) -> None:
    """Register a consumer, with a member of it, or all of its lanes at once, where they are not yet.

    Raises LogNotFoundError, StorageError, and ConfigurationError where it has other lanes.
    """
    async with connected(database) as session:
        await session.run(LogRange(tables[0].log).find())
        for left in reversed(range(REGISTRATIONS)):
            try:
                async with session.transaction():
                    tables[0].refuse_others(await session.run(tables[0].names()))
                    for table in tables:
                        await session.run(table.register(from_oldest=from_oldest))
            except StorageError as error:
                if error.sqlstate != "23505" or not left:
                    raise
            else:
                return


class EventsSubject:
    """A batch in hand, and those of its events that a handler is called with: what lines and changes say of them."""

    __slots__ = ("_consumer", "_events", "_log", "handler", "id")

    def __init__(
        self, log: str, consumer: str, batch: Batch, events: Sequence[Event] = (), handler: str = ""
    ) -> None:
        """Take them as they are; nothing is read before something is changed."""
        self.id = str(batch.id)
        self.handler = handler
        self._log = log
        self._consumer = consumer
        self._events = events

    def fields(self) -> Mapping[str, object]:
        """Return what a log line says of the batch."""
        return {"log": self._log, "consumer": self._consumer, "batch_id": int(self.id)}

    def cause(self) -> Mapping[str, str]:
        """Return `log/event` as the message, `log/first-last` where there are several; their type, if all have one.

        Nothing without events, as these cause changes. One that tells a cause of its own, as that of a captured table
        does, goes on with the conversation, the user and the request.
        """
        if not self._events:
            return {}
        first, last = self._events[0], self._events[-1]
        types = {event.type or "" for event in self._events}
        earlier = read_cause(first.extra4) if first is last else NO_CAUSE
        return {
            "message_id": f"{self._log}/{first.id}" + ("" if first is last else f"-{last.id}"),
            "conversation_id": earlier.conversation_id or "",
            "message_type": types.pop() if len(types) == 1 else "",
            "handler": self.handler,
            "endpoint": self._consumer,
            "user": earlier.user or "",
            "request": earlier.request or "",
        }


class Telling:
    """Tells of the batches and events of one consumer, or of a lane of one."""

    def __init__(self, table: ConsumerTable) -> None:
        """Find out what is wanted, now: for as long as the consumer is started."""
        self._log = table.log
        self._consumer = table.consumer
        self._labels = (table.log, table.own_name, table.lane)
        self._measured = instruments()
        self._spans = tracing()

    @contextmanager
    def batch(self, batch: Batch) -> Generator[None]:
        """Tell of a batch that is worked off within."""
        started, measured, spans = time(), self._measured, self._spans
        if measured is not None:
            measured.consumer_lag.set(max(0.0, started - batch.to_time.timestamp()), self._labels)
        facts: dict[str, str | int] = {
            "rowbus.batch": batch.id,
            "messaging.consumer.group.name": self._labels[1],
        }
        span = nullcontext() if spans is None else spans.events("receive", self._log, (), facts)
        with concerning(EventsSubject(self._log, self._consumer, batch)), span:
            yield
        if measured is not None:
            measured.batches.add(self._labels)
            measured.batch_seconds.observe(time() - started, self._labels)

    def around(self, handling: Handling) -> Handling:
        """Return what handles events, measured and traced as it is wanted."""
        if self._spans is None and self._measured is None:
            return handling
        call, measured, spans = handling.call, self._measured, self._spans

        async def told(events: Sequence[Event], attempt: EventAttempt) -> None:
            if spans is None or (len(events) == 1 and events[0].extra4 is None):
                await call(events, attempt)
            else:
                facts: dict[str, str | int] = {"messaging.batch.message_count": len(events)}
                if len(events) == 1:
                    facts = {"messaging.message.id": str(events[0].id)}
                facts["messaging.consumer.group.name"] = self._labels[1]
                with spans.events("process", self._log, (event.extra4 for event in events), facts):
                    await call(events, attempt)
            if measured is not None:
                measured.events.add(self._labels, len(events))

        return handling._replace(
            call=told, judged=None if measured is None else partial(self._judged, measured)
        )

    def _judged(self, measured: Instruments, verdict: Verdict) -> None:
        kind = "retry" if isinstance(verdict, RetryAfter) else "dead letter"
        measured.events_failed.add((*self._labels, kind))


class LogConsumer(ElectedService["ReadSession"]):
    """One consumer of one log, or one member of a cooperative consumer. For one event loop."""

    def __init__(
        self,
        database: Database,
        table: ConsumerTable,
        settings: ConsumerSettings,
        handling: Handling,
        alarm: Alarm,
    ) -> None:
        """Take the subscription, and what handles its events. No I/O."""
        outages = ReportedBreaker(table.name, f"{table.name} failed", logger, alarm)
        super().__init__(f"rowbus {table.name}", outages)
        self._beats = ReportedBreaker(
            f"The heartbeat of {table.name}", f"The heartbeat of {table.name} failed", logger, alarm
        )
        self._database = database
        self._table = table
        self._range = LogRange(table.log)
        self._settings = settings
        self._handling = handling
        self._telling = Telling(table)
        told = self._telling.around(handling)
        self._workers = [
            ChunkWorker(database, table, told, (settings.workers, part), shown=settings.stand_by)
            for part in range(settings.workers)
        ]
        self._hold = Hold(
            QueueAddress(DEFAULT_SCHEMA, PAUSES),
            [PauseSubject("consumer", f"{table.log}/{name}") for name in {table.consumer, table.own_name}],
        )
        self._retries: Retries
        self._life: Life
        self._isolated: int | None = None  # the whole batch that failed as a whole

    async def prepare(self) -> None:
        """Register the consumer if it is not yet; raises as `register`. Lanes are registered together, before."""
        table = self._table
        if table.own_name == table.consumer:
            main = [] if table.subconsumer is None else [ConsumerTable(table.log, table.consumer)]
            await register(self._database, [*main, table], from_oldest=self._settings.from_oldest)

    # --- the loop

    async def open(self) -> ReadSession:
        """Open the session that reads."""
        return await self._database.connect_reader()

    def election(self, session: ReadSession) -> Election | None:
        """Return the election of the one process that consumes under this name, if others are to stand by."""
        if not self._settings.stand_by:
            return None
        return Election(
            lambda: session.run(self._table.try_lead()),
            lambda: name_holders(session, self._table.leaders()),
            f"{self._table.name} is at work in another process; standing by",
            self._settings.poll_delay.total_seconds(),
        )

    async def work(self) -> None:
        """Consume when it is this process's turn, as long as the session lasts."""
        try:
            await super().work()
        except (BatchError, TransactionConflictError) as error:
            logger.info("%s goes on with its next batch: %s", self._table.name, error)
        finally:
            for worker in self._workers:
                await worker.close()

    async def lead(self, session: ReadSession) -> None:
        """Take and work off batches until the end, or an error."""
        await self._take_over(session)
        self.leads.set()
        if not self._outages.is_failing:  # else it says so when it works again
            logger.info("%s is at work", self._table.name)
        tickers = TickerWatch(self._table.log)
        self._retries = await self._find_retries(session)
        if self._settings.notifications:
            await session.run(self._range.listen(await session.run(self._range.find())))
        while not self._stopping.is_set():
            if not await self._hold.wait(session, self.pause, self._stopping.is_set):
                return
            claim = await session.run(self._table.next_batch(self._settings))
            if claim is None:
                self._outages.succeeded()
                await tickers.look(session)
                delay = jittered(self._settings.poll_delay.total_seconds(), random.random)
                await pause_unless_notified(session, self._stopping, delay)
            else:
                await self._work_off(session, claim)

    async def _take_over(self, session: ReadSession) -> None:
        """End what a former leader may have left, and limit this one's silence, if others stand by."""
        silence = self._silence()
        self._life = Life(session, self._table.alive(), silence)
        if self._settings.stand_by and (ended := await session.run(self._table.end_workers())):
            logger.warning("%s: %s sessions of a former leader were ended.", self._table.name, ended)
        if silence is not None:
            await session.run(self._table.limit_silence(silence))

    def _silence(self) -> float | None:
        """Return the seconds of silence after which the leader's session is ended; None: it is not."""
        settings = self._settings
        if settings.silence_timeout is None or not settings.stand_by:
            return None
        return max(settings.silence_timeout, POLLS * settings.poll_delay).total_seconds()

    # --- one batch

    async def _work_off(self, session: ReadSession, claim: TakenBatch) -> None:
        with self._telling.batch(claim.batch):
            if self._table.subconsumer is None:
                await self._work(session, claim)
                return
            period = self._settings.dead_after.total_seconds() / BEATS
            async with Heartbeat(self._database, self._table, claim.batch.id, self._beats, period):
                if claim.was_open:
                    await self._end_lost_workers(session)
                await self._work(session, claim)

    async def _end_lost_workers(self, session: ReadSession) -> None:
        """End what a member that lost its batch by silence may have left: a frozen process would lock rows for ever."""
        if ended := await session.run(self._table.end_lost_workers()):
            logger.warning("%s: %s sessions of a silent member were ended.", self._table.name, ended)

    async def _work(self, session: ReadSession, claim: TakenBatch) -> None:
        batch, marks = claim.batch, claim.marks
        read = {(mark.parts, mark.part): mark.event for mark in marks}
        waiting = await self._waiting(session)
        work = BatchWork(batch, read, self._retries, waiting, self._life.is_alive, self.is_cut_off)
        for worker in self._workers:
            worker.take(claim, work)
        chunks = read_batch(
            session, self._table, batch, after=resume_after(marks), size=self._settings.chunk_size
        )
        async with aclosing(chunks):
            if self._settings.whole_batches and not marks and batch.id != self._isolated:
                await self._work_whole(batch, chunks)
                return
            async for chunk in chunks:
                await self._work_chunk(session, work, chunk, marks)
                self._outages.succeeded()
                if self._stopping.is_set():
                    return

    async def _work_whole(self, batch: Batch, chunks: AsyncGenerator[Chunk]) -> None:
        async with self._life.beating():
            fate = await self._workers[0].work_all(self._life.reading(chunks))
        if fate.kind is Kind.DONE:
            self._outages.succeeded()
            return
        if fate.kind is not Kind.OUTAGE:
            self._isolated = batch.id
        if fate.kind in {Kind.OUTAGE, Kind.LOST} and fate.cause is not None:
            raise fate.cause
        logger.warning(
            "Batch %s failed as a whole; it is handled in chunks: %s", batch.id, text_of(fate.cause)
        )

    async def _work_chunk(
        self, session: ReadSession, work: BatchWork, chunk: Chunk, marks: Sequence[Mark]
    ) -> None:
        events = self._handling.keys.left(chunk.events, marks)
        upto = None if chunk.last else chunk.events[-1].id
        if len(self._workers) == 1 and (events or upto is not None):
            async with self._life.beating():
                await self._workers[0].work(events, upto)
            return
        if events:
            async with self._life.beating():
                await self._share(events, chunk.events[-1].id)
        if chunk.last:
            await session.run(self._table.finish_batch(work.batch.id, work.marks))

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
