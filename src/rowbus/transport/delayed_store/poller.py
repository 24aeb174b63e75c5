"""Polls a delayed message store: forwards the messages that are due, then waits for the next due time.

Source: docs/wire-format.md#store-poller.

Invariant: at most `OVERLAP` messages are in hand, beside those that are held for their next attempt: the next is
fetched while one is sent. `stop` finishes them.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from rowbus.running.service import Service
from rowbus.running.waiting import pause
from rowbus.transport.delayed_store.decisions.due_schedule import DueSchedule

if TYPE_CHECKING:
    from datetime import datetime

    from rowbus.running.critical import ReportedBreaker
    from rowbus.transport.delayed_store.clock import DatabaseClock
    from rowbus.transport.delayed_store.forwarder import Forwarder
    from rowbus.transport.delayed_store.protocol import DelayedMessage

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
