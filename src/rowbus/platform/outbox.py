"""One queue of ServiceControl's, and the metrics that an endpoint sends there each period.

Invariants: what is not sent raises; nothing here reaches the endpoint's critical-error callback; that ServiceControl
cannot be reached harms nothing else: it is logged, and tried again; what could not be sent is sent later, as far as the
meter keeps it.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from rowbus.errors import QueueNotFoundError, RowbusError
from rowbus.messages.dispatch import Send
from rowbus.platform.forms import is_countable
from rowbus.running.critical import Alarm, ReportedBreaker, log_lasting
from rowbus.running.service import Periodic

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

    from rowbus.database.sessions import Database
    from rowbus.messages.address import QueueAddress
    from rowbus.messages.message import OutgoingMessage
    from rowbus.platform.connection import MetricsPlan
    from rowbus.platform.meter import Meter
    from rowbus.platform.reports import Reporter
    from rowbus.transport.receiving.dispatcher import Dispatcher

logger = logging.getLogger("rowbus.platform")


LAST_WAIT: Final = 5.0
"""Seconds that an endpoint which stops waits for its last measurements to be sent."""


class Outbox:
    """Sends to one queue."""

    def __init__(self, dispatcher: Dispatcher, queue: QueueAddress) -> None:
        """Send to `queue`, which ServiceControl made. No I/O."""
        self._dispatcher = dispatcher
        self._queue = queue

    async def send(self, messages: Iterable[OutgoingMessage]) -> None:
        """Send them in one transaction of their own. Raises QueueNotFoundError, StorageError."""
        with self._naming_its_maker():
            await self._dispatcher.dispatch([Send(self._queue, message) for message in messages])

    def send_from_thread(self, message: OutgoingMessage, database: Database) -> None:
        """Send one without the event loop, on a connection of its own. Blocks; raises as `send`."""
        statements = self._dispatcher.statements([Send(self._queue, message)])
        with self._naming_its_maker(), database.session() as session:
            session.run_all(statements)

    @contextmanager
    def _naming_its_maker(self) -> Generator[None]:
        try:
            yield
        except QueueNotFoundError as error:
            raise QueueNotFoundError(
                f"{self._queue} does not exist: ServiceControl makes it when it is set up, in the schema of its "
                "connection string",
                queue=error.queue,
            ) from error

    def outages(self, activity: str, failure: str) -> ReportedBreaker:
        """Return the breaker of a service that sends here; what fails for long is logged, and no more."""
        return ReportedBreaker(activity, f"{failure} ({self._queue})", logger, Alarm(log_lasting(logger)))


class Metrics(Periodic):
    """Sends them. For one event loop."""

    def __init__(
        self, outbox: Outbox, reporter: Reporter, plan: MetricsPlan, meter: Meter, address: QueueAddress
    ) -> None:
        """Send what `meter` measures, first at the start; and where `address` is, if monitoring can count it."""
        outages = outbox.outages("Metrics", "Could not send metrics to ServiceControl's monitoring")
        super().__init__("rowbus metrics", outages, plan.every.total_seconds(), at_once=True)
        self._outbox = outbox
        self._reporter = reporter
        self._meter = meter
        self._is_counted = is_countable(address)
        if not self._is_counted:
            logger.info(
                "ServicePulse does not show the length of %s: one of its names would need quotes", address
            )

    async def stop(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - a grace period
        """End, then send what was measured since the last time: to be called when nothing is measured any more."""
        was_started = self._task is not None
        await super().stop(timeout)
        if not was_started or not self._meter.has_measured:
            return
        try:
            async with asyncio.timeout(LAST_WAIT):
                await self.do()
        except (RowbusError, TimeoutError) as error:
            logger.warning(
                "The last measurements are lost: %s", str(error) or f"not sent within {LAST_WAIT} s"
            )

    async def do(self) -> None:
        """Send what there is."""
        taken = await self._meter.take()
        messages = [self._reporter.metadata()] if self._is_counted else []
        try:
            for kind, found in taken.items():
                for message in self._reporter.measurements(kind, found):
                    messages.append(message)
                    await asyncio.sleep(0)  # messages are handled meanwhile
            await self._outbox.send(messages)
        except BaseException:
            self._meter.put_back(taken)
            raise
