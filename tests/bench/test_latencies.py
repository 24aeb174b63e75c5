"""The latency of a message at rest: what a measurement must not lose while it waits."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from rowbus.bench.course import _time_one
from rowbus.transport.client import AsyncClient


class Interrupted:
    """A client whose message arrives as its sender is cancelled: as Ctrl-C does it."""

    def __init__(self, arrived: asyncio.Event) -> None:
        self._arrived = arrived

    async def send(self, _queue: str, _message: object) -> None:
        loop, sender = asyncio.get_running_loop(), asyncio.current_task()
        assert sender is not None
        loop.call_soon(loop.call_soon, self._arrive, sender)  # a turn later it waits

    def _arrive(self, sender: asyncio.Task[object]) -> None:
        self._arrived.set()
        sender.cancel()


async def test_an_interruption_that_comes_with_the_message_ends_the_measurement() -> None:
    arrived = asyncio.Event()
    timing = asyncio.create_task(_time_one(cast("AsyncClient", Interrupted(arrived)), arrived))

    with pytest.raises(asyncio.CancelledError):
        await timing
