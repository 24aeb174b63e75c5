"""Serves `/metrics`, `/livez` and `/readyz` from a thread, for a program that has no event loop of ours.

Invariant: what clients do here does not hold the program up, and the end of the process does not wait for them.
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING

from rowbus.running.telemetry.service import MeasuredService

if TYPE_CHECKING:
    from rowbus.running.telemetry.listener import Address


class _Program:
    """A program as a service: it runs already when it is to be told of, and ends by itself."""

    async def start(self) -> None:
        """Do nothing."""

    async def stop(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - a grace period
        """Do nothing."""


class _ToldProgram(MeasuredService):
    """A program that is told of to Prometheus and probes; what systemd hears is the program's to say."""

    def __init__(self, address: Address) -> None:
        super().__init__(_Program(), address)

    async def start(self) -> None:
        if self.listener is not None:
            await self.listener.start()
        self._is_ready = True

    async def stop(self, timeout: float | None = None) -> None:  # noqa: ARG002, ASYNC109 - as the base has it
        self._is_ready = False
        await self._end()

    @property
    def url(self) -> str:
        return "" if self.listener is None else self.listener.url


class Beside:
    """A thread that tells of this process. Ready is what has no outage; systemd is told by the program, if it wants."""

    def __init__(self, address: Address) -> None:
        """Take where to listen, and measure from now on. No I/O."""
        self._told = _ToldProgram(address)
        self._began: Future[str] = Future()
        self._end: asyncio.Event
        self._loop: asyncio.AbstractEventLoop
        self._thread = threading.Thread(target=self._run, name="rowbus metrics", daemon=True)

    def start(self) -> None:
        """Begin to listen. Raises ConfigurationError."""
        self._thread.start()
        self._began.result()

    @property
    def url(self) -> str:
        """Where the measurements are, once it has begun."""
        return self._began.result()

    def stop(self) -> None:
        """Stop, and wait until the thread has ended. To repeat that does nothing."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._end.set)
            self._thread.join()

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        try:
            await self._told.start()
        except Exception as error:  # noqa: BLE001 - `start` raises it
            self._began.set_exception(error)
            return
        self._began.set_result(self._told.url)
        await self._end.wait()
        await self._told.stop()
