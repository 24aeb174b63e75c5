"""Waits of services: what ends them, and what must not be forgotten when that happens."""

from __future__ import annotations

import asyncio

import pytest

from rowbus.running.waiting import pause


async def test_a_pause_ends_with_its_event() -> None:
    event = asyncio.Event()
    pausing = asyncio.create_task(pause(event, 60))
    await asyncio.sleep(0)
    event.set()

    await pausing


async def test_a_pause_ends_after_its_time() -> None:
    await pause(asyncio.Event(), 0.001)


async def test_a_pause_that_is_cancelled_as_its_event_happens_is_cancelled() -> None:
    event = asyncio.Event()
    pausing = asyncio.create_task(pause(event, 60))
    for _ in range(2):  # until it waits, in a task of its own perhaps
        await asyncio.sleep(0)
    event.set()
    pausing.cancel()

    with pytest.raises(asyncio.CancelledError):
        await pausing
