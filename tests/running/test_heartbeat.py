"""A heartbeat that finds its member removed ends the block with BatchError, and cancels nothing after the block."""

from __future__ import annotations

import asyncio
import logging

import pytest

from rowbus.errors import BatchError
from rowbus.log.consumers.life import Heartbeat
from rowbus.log.consumers.table import ConsumerTable
from rowbus.running.critical import Alarm, ReportedBreaker

LONG = 3600.0


class Removed:
    """A database, and its session, in which the member is no longer one."""

    async def connect(self) -> Removed:
        return self

    async def run(self, _statement: object) -> bool:
        return False

    async def close(self) -> None:
        return


@pytest.fixture
def beating() -> Heartbeat:
    outages = ReportedBreaker("x", "x", logging.getLogger("rowbus.log"), Alarm(lambda *_: None))
    member = ConsumerTable("orders", "audit", "one")
    return Heartbeat(Removed(), member, 7, outages, LONG)  # type: ignore[arg-type]  # a double


async def test_the_block_is_cancelled_and_fails_with_a_batch_error(beating: Heartbeat) -> None:
    async def block() -> None:
        async with beating:
            await beating.do()
            await asyncio.Event().wait()

    with pytest.raises(BatchError, match="Batch 7 of orders/audit"):
        await block()
    await asyncio.sleep(0)  # nothing is cancelled any more


async def test_so_is_a_block_that_waits_for_nothing_any_more(beating: Heartbeat) -> None:
    with pytest.raises(BatchError):
        async with beating:
            await beating.do()
    await asyncio.sleep(0)


async def test_an_error_of_the_block_stays_what_it_is(beating: Heartbeat) -> None:
    with pytest.raises(ValueError, match="a bug"):
        async with beating:
            raise ValueError("a bug")


async def test_a_block_that_is_cancelled_from_outside_ends_as_cancelled(beating: Heartbeat) -> None:
    async def block() -> None:
        async with beating:
            await asyncio.Event().wait()

    task = asyncio.create_task(block())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
