"""Polls a delayed message store: forwards the messages that are due, then waits for the next due time.

Source: docs/wire-format.md#store-poller.

Hosts whose clocks differ must agree on when a message is due; asking the server each time would be a round trip. The
server reads its clock at some moment between the question and the answer, so the difference is known to lie between
two bounds: `reached` goes by the lower and `reaching` by the upper one.

Invariants: at most `OVERLAP` messages are in hand, beside those that are held for their next attempt: the next is
fetched while one is sent. `stop` finishes them. `reached() <= the server's time <= reaching()`, but for what the two
clocks drift apart in a minute; so a message that is due `reaching() + delay` is due after the delay at least, and due,
when `reached()` says so.
"""

from __future__ import annotations

import asyncio
import logging
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from rowbus.errors import RowbusError
from rowbus.running.service import Service
from rowbus.running.waiting import pause
from rowbus.transport.delayed_store.decisions import DueSchedule

if TYPE_CHECKING:
    from collections.abc import Callable

    from rowbus.database.sessions import AsyncSession, SessionPool
    from rowbus.running.critical import ReportedBreaker
    from rowbus.transport.delayed_store.forwarder import Forwarder
    from rowbus.transport.delayed_store.protocol import DelayedMessage
    from rowbus.transport.queues.catalog.table import Catalog

logger = logging.getLogger("rowbus.delaying")

OVERLAP = 2


class DelayedStorePoller(Service):
    """Polls one store, from `start` to `stop`. For one event loop."""

    def __init__(self, forwarder: Forwarder, clock: DatabaseClock, looking: ReportedBreaker) -> None:
        """Take what forwards, and the breaker that watches the looks for the next message. No I/O."""
        super().__init__("rowbus delayed store poller", looking)
        self._forwarder = forwarder
        self._clock = clock
        self._schedule = DueSchedule()
        self._wake = asyncio.Event()
        self._polls: set[asyncio.Task[None]] = set()

    async def stop(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - a grace period
        """Finish the messages in hand, then end; see `Service.stop`."""
        self._wake.set()
        await super().stop(timeout)

    def tasks(self, loop: asyncio.Task[None]) -> list[asyncio.Task[Any]]:
        """Return the loop and the polls that it has begun."""
        return [loop, *self._polls]

    def expect(self, due: datetime) -> None:
        """Look into the store when this is due: a message is being stored, and perhaps not committed yet."""
        if self._schedule.expect(due, self._clock.reached()):
            self._wake.set()

    async def work(self) -> None:
        """Begin one poll, or wait until there is something to forward."""
        self._wake.clear()
        await self._free_hand()
        if not self._stopping.is_set() and await self._begin_poll() is False:
            await self._idle()

    async def _free_hand(self) -> None:
        if len(self._polls) - self._forwarder.held >= OVERLAP:
            await asyncio.wait(self._polls, return_when=asyncio.FIRST_COMPLETED)

    async def _begin_poll(self) -> bool | None:
        """Begin to forward the next due message; say whether there is one, without waiting until it is sent.

        None: fetching failed, and its hand waits as the circuit breaker says.
        """
        found: asyncio.Future[bool | None] = asyncio.get_running_loop().create_future()
        poll = asyncio.create_task(self._poll(found), name="rowbus delayed store poll")
        self._polls.add(poll)
        poll.add_done_callback(self._polls.discard)
        return await found

    async def _poll(self, found: asyncio.Future[bool | None]) -> None:
        def fetched(message: DelayedMessage | None) -> None:
            if message is not None:
                self._schedule.found(message.time)
            if not found.done():
                found.set_result(message is not None)

        try:
            await self._forwarder.forward_next(fetched)
        finally:
            if not found.done():
                found.set_result(None)

    async def _idle(self) -> None:
        """Wait until the next message is due, another is stored, or we are to stop."""
        await self._clock.measure()
        try:
            next_due = await self._forwarder.next_due()
        except Exception as error:  # noqa: BLE001 - a store may raise anything
            await self._forwarder.look_failed(error)
            return
        seconds = self._schedule.wait(self._clock.reached(), next_due)
        if not self._stopping.is_set():
            await pause(self._wake, seconds)


MEASURED_EVERY = 60.0  # seconds
SAMPLES = 3  # the best bounds of so many: one that waited for a processor says little


class _Bounds(NamedTuple):
    """The server's time when the local clock stood at 0, at least and at most; `at` is when that was found out."""

    least: datetime
    most: datetime
    at: float | None


class DatabaseClock:
    """Tells the time of one database's server."""

    def __init__(
        self, pool: SessionPool, catalog: Catalog, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Go by the local time of day until the first measurement. No I/O."""
        self._pool = pool
        self._catalog = catalog
        self._clock = clock
        started = datetime.now(UTC) - timedelta(seconds=clock())
        self._bounds = _Bounds(started, started, None)

    def reached(self) -> datetime:
        """Return a time that the server's clock has reached, as late as is sure; aware, in UTC."""
        return self._bounds.least + timedelta(seconds=self._clock())

    def reaching(self) -> datetime:
        """Return a time that the server's clock has not passed, as early as is sure; aware, in UTC."""
        return self._bounds.most + timedelta(seconds=self._clock())

    async def measure(self) -> None:
        """Ask the server for its time, if that was long ago; a server that is away leaves the clock as it was."""
        measured = self._bounds.at
        if measured is not None and self._clock() < measured + MEASURED_EVERY:
            return
        try:
            async with self._pool.session() as session:
                samples = [await self._sample(session) for _ in range(SAMPLES)]
        except RowbusError as error:
            logger.debug("The database's clock could not be read: %s", error)
            return
        least, most = max(least for least, _ in samples), min(most for _, most in samples)
        self._bounds = _Bounds(least, max(least, most), self._clock())

    async def _sample(self, session: AsyncSession) -> tuple[datetime, datetime]:
        before = self._clock()
        there = await session.run(self._catalog.clock())
        after = self._clock()
        return there - timedelta(seconds=after), there - timedelta(seconds=before)
