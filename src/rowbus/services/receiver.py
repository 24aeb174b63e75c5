"""Receives the messages of one queue: peek, then rounds of receives, then peek again (reference §4.1, §10).

Invariant: stopping lets what is in hand finish; nothing is received after `stop` began; a database that is away is
waited for, with one log line when it goes and one when it returns.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from typing import TYPE_CHECKING

from rowbus.errors import RowbusError, TransactionConflictError
from rowbus.model.backoff import jittered
from rowbus.model.breaker import CircuitBreaker
from rowbus.model.lower_bound import LowerBound
from rowbus.model.round import Round
from rowbus.services.preparing import prepare
from rowbus.services.processor import Processor
from rowbus.services.slot import Slot
from rowbus.services.tickets import Tickets
from rowbus.services.waiting import cancel, pause, pause_unless_notified
from rowbus.settings import LONGEST_ADVISED_PEEK_DELAY, TransactionMode
from rowbus.tables.messaging import queue_table

if TYPE_CHECKING:
    from rowbus.database.sessions import AsyncSession, Database
    from rowbus.database.statements import Statement
    from rowbus.model.address import QueueAddress
    from rowbus.model.breaker import Outage
    from rowbus.model.message import MessageRow
    from rowbus.services.delivery import Callbacks
    from rowbus.services.dispatcher import Dispatcher
    from rowbus.settings import EndpointSettings
    from rowbus.tables.message_tables import QueueTable

logger = logging.getLogger("rowbus.receiving")

BUSY_AFTER = (
    0.1  # seconds a round lasts before the receiver stops listening for notifications it does not need
)


class Look:
    """One look at the queue: the statement, and the lower bound's bookkeeping."""

    def __init__(self, table: QueueTable, most: int, bound: LowerBound, started: float) -> None:
        """Begin a look at `started`."""
        self._bound = bound
        self._from = bound.claim()
        self._started = started
        self.statement: Statement[list[MessageRow]] = table.receive(most, self._from)

    def saw(self, rows: list[MessageRow]) -> int:
        """Note what was found and return how many."""
        self._bound.looked(self._from, self._started, rows[-1].seq if rows else None)
        return len(rows)


class Receiver:
    """The receiving side of one queue. For one event loop."""

    def __init__(
        self,
        database: Database,
        address: QueueAddress,
        settings: EndpointSettings,
        callbacks: Callbacks,
        dispatcher: Dispatcher,
    ) -> None:
        """Say what to receive and who processes it. No I/O. Logs a warning if the peek delay is above 10 s."""
        self.database = database
        self.address = address
        self.concurrency = settings.effective_concurrency
        self.transaction_mode = settings.effective_transaction_mode
        # Without a transaction a batch could not be put back: one failed send would lose the others' sends.
        self.batch_size = 1 if self.transaction_mode is TransactionMode.NONE else settings.batch_size
        self._stopping = asyncio.Event()
        self._look_again = asyncio.Event()  # ends a pause
        self.dispatcher = dispatcher
        self.processor = Processor(
            callbacks,
            address,
            self.dispatcher,
            in_transaction=settings.transaction_mode is not TransactionMode.NONE,
            handling=settings.failure_handling,
            is_stopping=self._stopping.is_set,
        )
        self.tickets = Tickets()
        self._settings = settings
        self._callbacks = callbacks
        self._table = queue_table(address)
        self._clock = time.monotonic
        self._bound = LowerBound(self._clock)
        trigger_after = settings.time_to_trigger_circuit_breaker.total_seconds()
        self._peeking = CircuitBreaker(trigger_after, self._clock)
        self._processing = CircuitBreaker(trigger_after, self._clock)
        self._watch: AsyncSession | None = None
        self._listening = False
        self._pump: asyncio.Task[None] | None = None
        self._slots: dict[int, asyncio.Task[None]] = {}
        if settings.peek_delay > LONGEST_ADVISED_PEEK_DELAY:
            logger.warning(
                "The peek delay of %s is %s; above 10 s messages may back up in the queue.",
                address,
                settings.peek_delay,
            )

    # --- what an endpoint does with it

    async def initialize(self) -> None:
        """Purge the queue if the settings say so, and look at its table; raises as `services.preparing`."""
        await prepare(self.database, self._table, self._settings)

    def start(self) -> None:
        """Begin to receive; returns at once. Harmless when it is already receiving."""
        if self._pump is not None:
            return
        self._stopping.clear()
        self.tickets = Tickets()
        self._pump = asyncio.create_task(self._run(), name=f"rowbus {self.address} pump")
        self._fill_slots()

    async def stop(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - a grace period, not a deadline for the call
        """Receive no more and wait until what is in hand is done; harmless when stopped.

        After `timeout` seconds, or when the caller is cancelled, handlers are cancelled and what they had goes back
        to the queue (mode NONE: is lost).
        """
        if self._pump is None:
            return
        self._stopping.set()
        self._look_again.set()
        self.tickets.close()
        tasks = [self._pump, *self._slots.values()]
        try:
            await asyncio.wait(tasks, timeout=timeout)
        finally:
            await cancel(tasks)
            self._pump = None
            self._slots.clear()

    def change_concurrency(self, concurrency: int) -> None:
        """Process this many messages at a time from now on; what is in hand beyond that finishes first."""
        self.concurrency = concurrency
        if self._pump is not None and not self._stopping.is_set():
            self._fill_slots()
            self.tickets.wake_all()

    # --- what its slots ask of it

    def look(self, most: int) -> Look:
        """Return the next look at the queue, for up to `most` messages."""
        return Look(self._table, most, self._bound, self._clock())

    def put_back(self, rows: list[MessageRow]) -> None:
        """Note that these messages are in the queue again."""
        self._bound.returned(rows[0].seq)

    def look_again(self) -> None:
        """Peek without waiting for the peek delay: a slot failed, and what it had or looked for is in the queue."""
        self._look_again.set()

    def processing_succeeded(self) -> None:
        """Note that the database did what a slot asked."""
        self._recovered(self._processing, "receiving from")

    async def processing_failed(self, error: BaseException) -> None:
        """Note that a slot failed through no fault of a handler; waits as the circuit breaker says."""
        if isinstance(error, TransactionConflictError):
            logger.info("A message of %s goes back to its queue: %s", self.address, error)
            return
        await self._failed(self._processing, f"Failed to receive from {self.address}", error)

    # --- the pump

    async def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                await self._turn()
        finally:
            await self._close_watch()

    async def _turn(self) -> None:
        """Peek; then either a round of receives, or a pause."""
        self._look_again.clear()
        try:
            available = await self._peek()
            if available and await self._round():
                return
            await self._idle()
        except Exception as error:  # whatever it is, the endpoint goes on looking
            if not isinstance(error, RowbusError):
                logger.exception("Unexpected error while receiving from %s", self.address)
            await self._close_watch()
            await self._failed(self._peeking, f"Failed to peek {self.address}", error)

    async def _peek(self) -> int:
        if self._watch is None:
            self._watch = await self.database.connect()
        if self._settings.notifications and not self._listening:
            await self._watch.run_all(self._table.listen())
            self._listening = True
        started, bound = self._clock(), self._bound.value()
        available = await self._watch.run(self._table.count_available(1, bound))
        if not available:  # else the first receive looks from the same place, and notes it
            self._bound.looked(bound, started, None)
        self._recovered(self._peeking, "peeking")
        return available

    async def _round(self) -> bool:
        """Have the slots receive until one finds nothing; say whether any found something."""
        concurrency = 1 if self._peeking.triggered or self._processing.triggered else self.concurrency
        current = Round(concurrency=concurrency, records=self._settings.max_records_to_peek)
        self.tickets.open(current)
        try:
            async with asyncio.timeout(BUSY_AFTER):
                await self.tickets.over()
        except TimeoutError:
            await self._unlisten()
            await self.tickets.over()
        return current.received > 0

    async def _idle(self) -> None:
        """Wait for a notification, the next look, a slot that wants one now, or the end."""
        if self._watch is None or self._stopping.is_set():
            return
        delay = jittered(self._settings.peek_delay.total_seconds(), random.random)
        await pause_unless_notified(self._watch, self._look_again, delay)

    async def _unlisten(self) -> None:
        if self._listening and self._watch is not None:
            await self._watch.run_all(self._table.unlisten())
            self._listening = False

    async def _close_watch(self) -> None:
        self._listening = False
        if self._watch is not None:
            watch, self._watch = self._watch, None
            await watch.close()

    def _fill_slots(self) -> None:
        for index in range(self.concurrency):
            running = self._slots.get(index)
            if running is None or running.done():
                task = asyncio.create_task(
                    Slot(self, index).run(), name=f"rowbus {self.address} slot {index}"
                )
                self._slots[index] = task

    # --- trouble

    async def _failed(self, breaker: CircuitBreaker, what: str, error: BaseException) -> None:
        outage = breaker.failed()
        self._report(outage, what, error)
        await pause(self._stopping, outage.wait)

    def _report(self, outage: Outage, what: str, error: BaseException) -> None:
        if outage.critical:
            self._callbacks.report(what, error)
        elif outage.first:
            logger.warning("%s; trying again until it works: %s", what, error)
        else:
            logger.debug("%s: %s", what, error)

    def _recovered(self, breaker: CircuitBreaker, what: str) -> None:
        failures = breaker.succeeded()
        if failures:
            logger.info("%s %s works again after %s failures.", what.capitalize(), self.address, failures)
