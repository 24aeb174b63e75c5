"""Signs of life of an endpoint, each period: from its event loop, and from a thread while a handler blocks the loop.

Invariant: an endpoint beats as long as its process runs and reaches the database; C code that keeps the interpreter to
itself keeps the thread waiting, too.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final

from rowbus.errors import RowbusError
from rowbus.platform.servicecontrol import logger
from rowbus.running.service import Periodic
from rowbus.running.threads import run_in_thread

if TYPE_CHECKING:
    from collections.abc import Callable

    from rowbus.database.sessions import Database
    from rowbus.platform.reports import Reporter
    from rowbus.platform.servicecontrol import HeartbeatPlan, Outbox
    from rowbus.running.host import Process

PATIENCE: Final = 1.0  # seconds that a stop waits for a beat that the thread is sending


class Heartbeats(Periodic):
    """Sends them. For one event loop."""

    def __init__(
        self, outbox: Outbox, reporter: Reporter, plan: HeartbeatPlan, process: Process, database: Database
    ) -> None:
        """Begin a period after the start, as .NET does. No I/O."""
        outages = outbox.outages("Heartbeats", "Could not send a heartbeat to ServiceControl")
        seconds = plan.every.total_seconds()
        super().__init__("rowbus heartbeats", outages, seconds, at_once=False)
        self._outbox = outbox
        self._reporter = reporter
        self._time_to_live = plan.time_to_live
        self._process = process
        self._started_at = datetime.now(UTC)
        self._is_registered = False
        self._pacemaker = Pacemaker(partial(self._beat_from_thread, database), seconds)

    async def prepare(self) -> None:
        """Have a thread watch the loop."""
        self._pacemaker.start()

    async def stop(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - a grace period
        """End, and the thread too. Harmless when stopped."""
        await super().stop(timeout)
        await self._pacemaker.stop()

    async def work(self) -> None:
        """Say once that the endpoint has started, then beat."""
        if not self._is_registered:
            startup = self._reporter.startup(self._process, self._started_at, self._time_to_live)
            await self._outbox.send([startup])
            self._is_registered = True
        await super().work()

    async def do(self) -> None:
        """Send a heartbeat."""
        await self._outbox.send([self._reporter.heartbeat(datetime.now(UTC), self._time_to_live)])

    def _beat_from_thread(self, database: Database) -> None:
        self._outbox.send_from_thread(
            self._reporter.heartbeat(datetime.now(UTC), self._time_to_live), database
        )


class Pacemaker:
    """A thread that beats each period in which the event loop does not answer."""

    def __init__(self, beat: Callable[[], None], seconds: float) -> None:
        """Beat by calling `beat`, which blocks and may raise RowbusError."""
        self._beat = beat
        self._seconds = seconds
        self._end = threading.Event()
        self._thread: threading.Thread | None = None
        self._asked_at: datetime | None = None
        self._is_told = False

    def start(self) -> None:
        """Watch the running loop."""
        self._end.clear()
        run = partial(self._run, asyncio.get_running_loop())
        self._thread = threading.Thread(target=run, name="rowbus pacemaker", daemon=True)
        self._thread.start()

    async def stop(self) -> None:
        """End; waits a moment for a beat on its way. Harmless when ended."""
        thread, self._thread = self._thread, None
        self._end.set()
        if thread is not None:
            await run_in_thread(thread.join, PATIENCE)

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        while not (self._end.wait(self._seconds) or loop.is_closed()):
            if self._asked_at is None:
                self._asked_at = datetime.now(UTC)
                with suppress(RuntimeError):  # the loop was closed just now
                    loop.call_soon_threadsafe(self._answer)
            else:
                self._help(self._asked_at)

    def _answer(self) -> None:
        self._asked_at, self._is_told = None, False

    def _help(self, since: datetime) -> None:
        try:
            self._beat()
        except RowbusError as error:
            logger.warning("Could not send a heartbeat while the event loop is blocked: %s", error)
            return
        if not self._is_told:
            self._is_told = True
            logger.warning(
                "Event loop blocked since %s at the latest: heartbeats come from a thread until it goes on",
                since.isoformat(timespec="seconds"),
            )
