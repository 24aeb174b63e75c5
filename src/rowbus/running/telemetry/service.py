"""Serves a service, and tells of it: to Prometheus and to probes, if they are to ask, and to systemd, if it started us.

Invariant: the service starts, drains and ends as without; `/livez` answers from before its start to after its end.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from rowbus.running.telemetry import outages, systemd
from rowbus.running.telemetry.exposition import CONTENT_TYPE, exposition
from rowbus.running.telemetry.instruments import turn_on
from rowbus.running.telemetry.listener import Address, Answer, Listener
from rowbus.running.telemetry.process import process_families

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from rowbus.running.service import Stoppable
    from rowbus.running.telemetry.series import Family

FOLDER_VARIABLE = "_ROWBUS_TELEMETRY"
"""In a worker's environment: the folder in which its supervisor finds its socket, `<process>.sock`."""


class Told:
    """A service whose life and measurements are told, from `start` to `stop`. For one event loop."""

    def __init__(
        self,
        service: Stoppable,
        address: Address | None = None,
        more: Callable[[], Awaitable[Sequence[Family]]] | None = None,
    ) -> None:
        """Serve this; without an address only systemd is told. `more` measures when `/metrics` is asked. No I/O."""
        self._more = more
        self._service = service
        self._is_ready = False
        self._beating: asyncio.Task[None] | None = None
        self.listener = None if address is None else Listener(address, self._pages())
        self._instruments = None if address is None else turn_on()

    def _pages(self) -> dict[str, Callable[[], Awaitable[Answer]]]:
        return {"/metrics": self.metrics, "/livez": self.live, "/readyz": self.ready}

    async def start(self) -> None:
        """Begin to listen, then to serve, and say so. Raises ConfigurationError, and as the service's `start`."""
        if self.listener is not None:
            await self.listener.start()
        self._beating = _beating()
        try:
            await self._service.start()
        except BaseException:
            await self._end()
            raise
        self._is_ready = True
        systemd.tell(systemd.READY)

    async def stop(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - a grace period
        """Say that it ends, drain as the service does, and end."""
        self._is_ready = False
        systemd.tell(systemd.STOPPING)
        try:
            await self._service.stop(timeout)
        finally:
            await self._end()

    async def _end(self) -> None:
        if self._beating is not None:
            self._beating.cancel()
        if self.listener is not None:
            await self.listener.stop()

    async def metrics(self) -> Answer:
        """Return what was measured."""
        own = [] if self._instruments is None else self._instruments.families()
        more: Sequence[Family] = () if self._more is None else await self._more()
        process = process_families(is_ready=await self.is_ready())
        return Answer(exposition([*own, *more, *process]), type=CONTENT_TYPE)

    async def live(self) -> Answer:
        """Say that the event loop runs."""
        return Answer("alive\n")

    async def ready(self) -> Answer:
        """Say whether it serves: it has started, does not stop, and nothing that it needs is away."""
        if await self.is_ready():
            return Answer("ready\n")
        failing = await self.troubles()
        why = "".join(f"{activity}: fails\n" for activity in failing) or "starting, or stopping\n"
        return Answer(f"not ready\n{why}", 503)

    async def is_ready(self) -> bool:
        """Say whether it serves."""
        return self._is_ready and not await self.troubles()

    async def troubles(self) -> Sequence[str]:
        """Return what fails now."""
        return outages.going_on()


def worker_address() -> Address | None:
    """Return where a worker's supervisor wants to ask it; None: nowhere."""
    folder = os.environ.get(FOLDER_VARIABLE)
    return Address("", 0, f"{folder}/{os.getpid()}.sock") if folder else None


def _beating() -> asyncio.Task[None] | None:
    """Tell the manager now and then that this event loop lives, if it wants to know."""
    period = systemd.watchdog_period()
    return None if period is None else asyncio.create_task(_beat(period), name="rowbus watchdog")


async def _beat(period: float) -> None:
    while True:
        systemd.tell(systemd.ALIVE)
        await asyncio.sleep(period)
