"""Signals that end a serving process: the first drains, the second interrupts, or a limit that was set.

Invariant: the process's own signal handlers are put back afterwards.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from contextlib import suppress
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING

from rowbus.errors import ConfigurationError
from rowbus.running.service import Stoppable
from rowbus.running.setting_types import require_type
from rowbus.running.telemetry.service import MeasuredService
from rowbus.running.waiting import cancel
from rowbus.running.workers import leaves_by_itself

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Self

logger = logging.getLogger("rowbus.endpoint")

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Blocks:
    """The `async with` blocks that are open on a service: within each other, or in tasks that run at once."""

    def __init__(self) -> None:
        """Begin with none."""
        self._open = 0
        self._loop: asyncio.AbstractEventLoop | None = None

    async def enter(self, start: Callable[[], Awaitable[None]]) -> None:
        """Begin one, which uses the service; see `leave`. Those of a loop that is closed are forgotten."""
        if self._loop is None or self._loop.is_closed():
            self._loop, self._open = asyncio.get_running_loop(), 0
        self._open += 1
        try:
            await start()
        except BaseException:
            self._open -= 1
            raise

    async def leave(self, stop: Callable[[], Awaitable[None]]) -> None:
        """End one, and the service with the last: the others still use it."""
        self._open -= 1
        if self._open < 1:
            await stop()


class Serving(Stoppable):
    """A service that can be a process of its own, or run as long as a block of code."""

    @cached_property
    def _blocks(self) -> Blocks:
        return Blocks()

    def run(self, *, drain: timedelta | None = None) -> None:
        """Serve until SIGTERM or SIGINT, then finish the work in hand; a second signal interrupts it.

        So does the end of the time to `drain`; None: there is no limit. Blocks. Raises as `start`.
        """
        require_type("drain", drain, timedelta | None, "a datetime.timedelta, or None")
        _refuse_elsewhere(type(self).__name__)
        asyncio.run(
            run_until_signalled(MeasuredService(self), None if drain is None else drain.total_seconds())
        )

    async def __aenter__(self) -> Self:
        """Start; see `start`."""
        await self._blocks.enter(self.start)
        return self

    async def __aexit__(self, *_error: object) -> None:
        """Stop at the end of the last block that is open; see `stop`."""
        await self._blocks.leave(self.stop)


def _refuse_elsewhere(service: str) -> None:
    """Raise ConfigurationError where an event loop runs, as in a notebook, and in a thread, which hears no signals."""
    name = service.lower()
    way_out = f"write `async with {name}: …`, or `await {name}.start()` and in the end `await {name}.stop()`"
    with suppress(RuntimeError):
        asyncio.get_running_loop()
        raise ConfigurationError(
            f"{name}.run() needs an event loop of its own, and one is running here already: {way_out}."
        )
    if threading.current_thread() is not threading.main_thread():
        raise ConfigurationError(
            f"{name}.run() ends by signals, which Python gives to the main thread only: in another thread {way_out}, "
            "in a coroutine for asyncio.run."
        )


async def run_until_signalled(service: Stoppable, drain: float | None = None) -> None:
    """Start, wait for SIGTERM or SIGINT, drain, and interrupt after `drain` seconds or at the second signal."""
    signals: asyncio.Queue[int] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in SIGNALS}
    for number in SIGNALS:
        loop.add_signal_handler(number, signals.put_nowait, number)
    try:
        await _serve(service, signals, drain)
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL if handler is None else handler)  # None: not Python's


async def _serve(service: Stoppable, signals: asyncio.Queue[int], drain: float | None) -> None:
    starting, first = asyncio.ensure_future(service.start()), asyncio.ensure_future(signals.get())
    try:
        await asyncio.wait([starting, first], return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            starting.result()
        name = signal.Signals(await first).name
    except asyncio.CancelledError:
        await cancel([starting])
        raise
    finally:
        first.cancel()
    logger.info("%s: finishing what is in hand; a second signal interrupts it", name)
    draining = asyncio.ensure_future(_drain(service, starting))
    again = asyncio.ensure_future(_interruption(signals))
    await asyncio.wait([draining, again], timeout=drain, return_when=asyncio.FIRST_COMPLETED)
    if not draining.done():
        logger.warning("Interrupting what is in hand")
        draining.cancel()
    again.cancel()
    ended, _ = await asyncio.gather(draining, again, return_exceptions=True)
    if isinstance(ended, Exception):
        raise ended


async def _drain(service: Stoppable, starting: asyncio.Future[None]) -> None:
    """Let the start end, then what is in hand; a cancellation interrupts either."""
    await starting
    await service.stop()


async def _interruption(signals: asyncio.Queue[int]) -> None:
    """Wait for the second signal from outside; a worker that asked to be replaced has had none yet."""
    if leaves_by_itself():
        await signals.get()
    await signals.get()
