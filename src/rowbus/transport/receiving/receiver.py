"""Receives the messages of one queue: peek, then rounds of receives, then peek again (docs/wire-format.md#receive).

Invariant: `stop` lets the messages in hand finish; nothing is received after it began; the receiver waits for a
database that is away, with one log line when it goes and one when it returns.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from rowbus.database.sessions import connected
from rowbus.errors import (
    ConnectionLostError,
    RowbusError,
    TransactionConflictError,
)
from rowbus.messages.headers import Header
from rowbus.running.critical import Alarm, ReportedBreaker
from rowbus.running.service import Service
from rowbus.settings import LONGEST_ADVISED_PEEK_DELAY, TransactionMode
from rowbus.transport.lanes.lane_table import rewrite
from rowbus.transport.queues.table import Place, queue_table
from rowbus.transport.receiving.decisions import (
    FROM_THE_START,
    LARGEST,
    UNEXPLAINED,
    Interruption,
    Round,
    Unit,
    count_in,
    lost_connection,
    lost_server,
)
from rowbus.transport.receiving.interrupted_messages import InterruptedMessages
from rowbus.transport.receiving.processor import Processor
from rowbus.transport.receiving.remarks import about, headers_of, round_trips
from rowbus.transport.receiving.rounds import Look, Permits, QueueLooks, Seclusion, make_peeking
from rowbus.transport.receiving.slot import Slot
from rowbus.transport.receiving.unprocessable_rows import UnprocessableRows
from rowbus.work.book import Book

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable
    from datetime import datetime, timedelta

    from rowbus.database.sessions import AsyncSession, Database
    from rowbus.database.statements import Statement
    from rowbus.messages.address import QueueAddress
    from rowbus.messages.message import MessageRow
    from rowbus.settings import EndpointSettings
    from rowbus.transport.deduplication.table import InboxTable
    from rowbus.transport.lanes.order import Order
    from rowbus.transport.lanes.turns import Turns
    from rowbus.transport.limits.gate import Gate
    from rowbus.transport.limits.places import PlaceKeeper
    from rowbus.transport.pauses.table import Hold
    from rowbus.transport.receiving.delivery import Callbacks
    from rowbus.transport.receiving.dispatcher import Dispatcher
    from rowbus.transport.receiving.remarks import RoundTrips

logger = logging.getLogger("rowbus.receiving")

LOOKED_AT = 1000  # rows among which oversized ones are looked for, the oldest
# Seconds a round lasts before the receiver stops listening for notifications it does not need.
BUSY_AFTER = 0.1
HOLD_BACK = 30.0  # seconds, at most, until it is known why a message's connection broke
LAPSES_AFTER = 300.0  # seconds without a failure after which the next is an outage of its own


class Receiver(Service):
    """The receiving side of one queue. For one event loop."""

    hold: Hold | None = None
    """The hold that knows whether an operator has paused it."""

    order: Order | None = None
    """The order that knows which messages wait for others of their key; in a queue without order None."""

    places: PlaceKeeper | None = None
    """The places of keys that its endpoint's queues share, where limits of concurrency can be kept."""

    inbox: InboxTable | None = None
    """The table of the messages that its endpoint has processed, if that removes duplicates."""

    turns: Turns | None = None
    """The turns that it shares with other queues of its endpoint, if it does."""

    trips: RoundTrips | None = None
    """The notes of the round trips of the slots, in a process that traces."""

    _is_obstructed = False  # a full look found nothing, though something may be there
    _is_cured_by_a_look = True  # what failed last works again when a look finds nothing

    def __init__(
        self,
        database: Database,
        address: QueueAddress,
        settings: EndpointSettings,
        callbacks: Callbacks,
        dispatcher: Dispatcher,
        *,
        seclusion: Seclusion | None = None,
        gate: Gate | None = None,
    ) -> None:
        """Take the queue to receive from, and what processes its messages. No I/O.

        Receivers of one endpoint share `seclusion`, and `gate`, the rate limits.
        """
        alarm = Alarm(callbacks.on_critical_error, settings.time_to_trigger_circuit_breaker)
        peeking, self.processing = _breakers(address, alarm)
        super().__init__(f"rowbus {address} pump", peeking)
        self.database = database
        self.connect = database.connect_receiver
        self.address = address
        self.concurrency = settings.effective_concurrency
        self.transaction_mode = settings.effective_transaction_mode
        # Without a transaction a batch could not be put back: one failed send would lose the others' sends.
        is_single = self.transaction_mode is TransactionMode.NONE
        self._batch_size: int | Literal["auto"] = 1 if is_single else settings.batch_size
        self._look_again = asyncio.Event()  # ends a pause
        self.dispatcher = dispatcher
        self.book = Book(time.monotonic)
        self.processor = Processor(
            callbacks,
            address,
            self.dispatcher,
            settings,
            service=self,
            fault=database.fault,
        )
        self.permits = Permits()
        self._settings = settings
        self._callbacks, self.threads = callbacks, callbacks.threads
        self._table = queue_table(address)
        delay = settings.peek_delay.total_seconds()
        self._looks = QueueLooks(self._table, delay, self._look_again, peeking)
        self.peeking = make_peeking(database, self._looks, notifications=settings.notifications)
        self._unprocessable = UnprocessableRows(
            address, callbacks, self.book, most_bytes=settings.max_message_size, notify=settings.notifications
        )
        self.seclusion, self.gate = seclusion or Seclusion(), gate
        self._interrupted = InterruptedMessages(database, address, notify=settings.notifications)
        self._slots: dict[int, asyncio.Task[None]] = {}
        self.at_work: dict[int, Slot] = {}
        _warn_of_peek_delay(address, settings.peek_delay)

    # --- what an endpoint does with it

    async def prepare(self) -> None:
        """Begin with one slot that waits for the first round: a slot that has its permit begins the next."""
        self.permits = Permits()
        self.trips = round_trips(self.address.table)
        self.begin_slot(0)

    async def stop(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - a grace period
        """Receive no more, and wait until the messages in hand are done. Harmless when stopped.

        After `timeout` seconds, or when the caller is cancelled, handlers are cancelled and their messages go back to
        the queue (mode NONE: are lost).
        """
        self._look_again.set()
        self.permits.close()
        try:
            await super().stop(timeout)
        finally:
            self._slots.clear()
            self.processing.ended()

    def tasks(self, loop: asyncio.Task[None]) -> list[asyncio.Task[Any]]:
        """Return the pump and the slots."""
        return [loop, *self._slots.values()]

    def change_concurrency(self, concurrency: int) -> None:
        """Process this many messages at a time from now on; messages in hand beyond that finish first."""
        self.concurrency = concurrency
        if self._task is not None and not self._stopping.is_set():
            for index in range(concurrency):
                self.begin_slot(index)
            self.permits.wake_all()

    # --- what its slots ask of it

    def begin_slot(self, index: int) -> None:
        """Have a slot of this number, which is wanted, if it is not there."""
        running = self._slots.get(index)
        if running is None or running.done():
            slot = self.at_work[index] = Slot(self, index)
            name = f"rowbus {self.address} slot {index}"
            self._slots[index] = self._begin(slot.run, name, self.processing)

    def unit(self) -> Unit:
        """Return the first unit of a slot."""
        return Unit(self._batch_size, (self.places and self.places.most_at_once) or LARGEST)

    def look(self, most: int, *, travels: bool = False) -> Look:
        """Return the next look at the queue, for up to `most` messages; one that `travels` with a commit may wait."""
        passed_over = self.book.passed_over()
        if self.order is not None:  # what was committed late comes first, wherever the last look ended
            self._looks.bound.forget()
            self.order.passed_over(passed_over)
        bound, began = self._looks.bound.claim(), self._looks.clock()
        receive, places = self._table.receive, self.places
        if places is not None and places.guesses:
            receive = partial(places.receive, self._table)
        elif travels and self.inbox is not None:
            receive = partial(self.inbox.receive, self._table)
        most_bytes = self._settings.max_message_size
        return Look(receive(most, bound, most_bytes=most_bytes, passed_over=passed_over), bound, began)

    async def enter(self, session: AsyncSession, most: int) -> int:
        """Wait while it is paused, and at the endpoint's own limit; say for how many to receive, 0 when stopping."""
        hold, ended = self.hold, self._stopping.is_set
        if hold is not None and hold.clock() >= hold.due and not await hold.wait(session, self.pause, ended):
            return 0
        if self.gate is None:
            return most
        return await self.gate.enter(session, most, self.pause, self._stopping.is_set)

    def looked(self, look: Look, rows: list[MessageRow]) -> int:
        """Note what a look found and return how many messages."""
        self._looks.bound.looked(look.bound, look.began, rows[-1].seq if rows else None)
        self._is_obstructed = self._is_obstructed or (not rows and look.bound == FROM_THE_START)
        return len(rows)

    def taken_back(self, rows: Iterable[MessageRow]) -> list[Statement[None]]:
        """Return what forgets that messages were noted as processed when they were received."""
        inbox = self.inbox
        return [inbox.take_back(row.noted) for row in rows if inbox is not None and row.noted is not None]

    def put_back(self, rows: list[MessageRow]) -> None:
        """Note that these messages are in the queue again."""
        self._looks.bound.returned(rows[0].seq)

    def hold_back(self, row: MessageRow, seconds: float) -> None:
        """Pass a message over for so long, and in a queue with order those of its key that come after it."""
        if self.order is not None:
            self.order.note(row)
            asyncio.get_running_loop().call_later(seconds, self.look_again)
        self.book.hold_back(row.id, row.seq, seconds)

    def let_pass(self, seconds: float) -> None:
        """Have so much time pass for the messages that wait in a lane with order; see `rowbus.testing`."""
        self.book.let_pass(seconds)
        if self.order is not None:
            self.order.let_pass(seconds)
        self.look_again()

    def hold_early(self, order: Order, rows: list[MessageRow]) -> bool:
        """Hold those back for which it is too early; say whether there were some."""
        waiting = order.waiting(rows, self.book.held())
        for row in rows:
            if row.seq in waiting:
                self.hold_back(row, waiting[row.seq])
        return bool(waiting)

    async def postpone(self, row: MessageRow, headers: str, seconds: float) -> None:
        """Have a message wait where it is, with what its headers are to say of it. Raises StorageError."""
        async with connected(self.database) as session:
            await session.run(rewrite(self.address, row.id, row.seq, headers, keeps_expiry=False))
        self.book.forget(row.id)
        self.hold_back(row, seconds)

    async def server_started(self, session: AsyncSession) -> datetime | None:
        """Ask since when the server of a session runs; None where a break is not looked into. Raises StorageError."""
        if self.transaction_mode is TransactionMode.NONE:
            return None
        return await self._interrupted.server_started(session)

    @contextmanager
    def held_back(self, rows: list[MessageRow]) -> Generator[None]:
        """Pass messages over while it is found out what they did."""
        for row in rows:
            self.hold_back(row, HOLD_BACK)
        try:
            yield
        finally:
            for row in rows:
                self.book.release(row.id)
            self.look_again()

    async def interrupted(
        self, suspects: list[MessageRow], error: BaseException, since: datetime | None
    ) -> bool:
        """Find out whether only one connection broke; if so count it, put the messages back, and return True.

        Of several messages none is counted, because it is not known whose doing it was; they are received one by one
        from then on, by all receivers of the queue.
        """
        session = await self._interrupted.witness(since)
        if session is None:
            if len(suspects) == 1:
                self._count_lost_server(suspects[0], error)
            return False
        try:
            for row in suspects:
                await self._count_interruption(session, row, error, 1 if len(suspects) == 1 else 0)
        finally:
            await session.close()
        return True

    def _count_lost_server(self, row: MessageRow, error: BaseException) -> None:
        """Note that the server went away while a row was handled, and count that if it happens again and again.

        The kernel may have killed the session for the memory that the handler's statement took: then PostgreSQL ends
        all sessions, and the loss cannot be told from an outage but by its coming back.
        """
        entry = self.book.entry(row.id)
        entry.losses += 1
        if entry.losses >= UNEXPLAINED:
            failures = entry.total(count_in(row.headers), 1)
            entry.is_judged = False
            entry.restore(failures, Interruption(failures, lost_server(error)).error())

    async def _count_interruption(
        self, session: AsyncSession, row: MessageRow, error: BaseException, times: int
    ) -> None:
        said, before, entry = lost_connection(error), count_in(row.headers), self.book.entry(row.id)
        failures = entry.total(before, times)
        entry.clear()  # from now on its headers say it: another slot may have it at any moment
        now = None
        try:
            now = await self._interrupted.put_back(
                session,
                row.id,
                failures - before,
                said,
                Place(row.headers, row.seq),
                keeps_place=self.order is not None,
            )
        except RowbusError as refusal:
            logger.warning(
                "Row %s of %s could not be put back with its count of failures: %s",
                row.id,
                self.address,
                refusal,
            )
        if now is None and failures:  # this process counts on
            self.book.entry(row.id).restore(failures, Interruption(failures, said).error())
        logger.warning(
            "Handling message %s (row %s of %s) was interrupted (failed attempts: %s); it %s of the queue. %s",
            headers_of(row).get(Header.MESSAGE_ID) or row.id,
            row.id,
            self.address,
            failures if now is None else now.times,
            "goes to the end" if self.order is None else "stays at the front",
            said,
            extra=about(row, self.address),
        )

    def look_again(self) -> None:
        """Peek without waiting for the peek delay: a slot failed, and what it had or looked for is in the queue."""
        self._look_again.set()

    def completed(self) -> None:
        """Look again soon: a message was completed, and what answers it may come from software that does not notify."""
        if self._looks.pauses.worked():
            self.look_again()

    def found_nothing(self) -> None:
        """Note a look that found nothing: the database answers, but what failed with a message may fail again."""
        if self._is_cured_by_a_look:
            self.processing.succeeded()

    async def processing_failed(self, error: BaseException, *, with_message: bool) -> None:
        """Note that a slot failed through no fault of a handler; waits as the circuit breaker says."""
        if isinstance(error, TransactionConflictError):
            logger.info("A message of %s goes back to its queue: %s", self.address, error)
            return
        self._is_cured_by_a_look = not with_message or isinstance(error, ConnectionLostError)
        await self.pause(self.processing.failed(error))

    # --- the pump

    async def work(self) -> None:
        """Peek; then either a round of receives, or a pause."""
        self._look_again.clear()
        available = await self.peeking.look()
        found = available and await self._round()
        moved = available and (self._is_obstructed or not found) and await self._set_oversized_aside()
        if not self._stopping.is_set():
            await self.peeking.rest(worked=found or moved)

    async def release(self) -> None:
        """Close the session that peeks."""
        await self.peeking.release()

    async def _round(self) -> bool:
        """Have the slots receive until one finds nothing; say whether any found something.

        After `BUSY_AFTER` it is not waited for receives that travel with commits.
        """
        concurrency = (
            1 if self._outages.breaker.triggered or self.processing.breaker.triggered else self.concurrency
        )
        current = Round(concurrency=concurrency, records=self._settings.max_records_to_peek)
        self.permits.open(current)
        try:
            async with asyncio.timeout(BUSY_AFTER):
                await self.permits.over.wait()
        except TimeoutError:
            self.peeking.mute()
            await self.permits.only_travels.wait()
        return current.received > 0

    async def _set_oversized_aside(self) -> bool:
        """Move what is too large to be received out of the way: it may be why a receive found nothing."""
        self._is_obstructed = False
        async with self.peeking.session() as session:
            return await self._unprocessable.move_oversized(session, max(self.unit().size, LOOKED_AT))

    async def set_aside(self, row: MessageRow, error: BaseException) -> None:
        """Move a row that could not be completed again and again; one that cannot be moved stays and is passed over.

        Raises StorageError in an outage.
        """
        if self.order is not None:
            self.order.note(row)
        async with connected(self.database) as session:
            await self._unprocessable.move_stuck(session, row, error)

    async def rescue(self, row: MessageRow, error: BaseException) -> None:
        """Send a brief copy of a row that mode NONE has consumed, and whose own copy could not be sent."""
        try:
            await self.dispatcher.dispatch([self._unprocessable.brief_copy(row, error)])
        except RowbusError as refusal:
            logger.error("Row %s of %s is lost: %s", row.id, self.address, refusal)  # noqa: TRY400 - it says it all


def _breakers(address: QueueAddress, alarm: Alarm) -> tuple[ReportedBreaker, ReportedBreaker]:
    """Return the breaker of peeking, and that of processing."""
    return (
        ReportedBreaker(f"Peeking {address}", f"Failed to peek {address}", logger, alarm),
        ReportedBreaker(
            f"Receiving from {address}",
            f"Failed to receive from {address}",
            logger,
            alarm._replace(lapses_after=LAPSES_AFTER),
        ),
    )


def _warn_of_peek_delay(address: QueueAddress, delay: timedelta) -> None:
    if delay > LONGEST_ADVISED_PEEK_DELAY:
        logger.warning(
            "The peek delay of %s is %s; above 10 s messages may back up in the queue.", address, delay
        )
