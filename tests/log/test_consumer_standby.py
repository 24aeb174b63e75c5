"""Two processes with the same consumer's name: one works, the other stands by and takes over."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import rowbus
from rowbus.settings import ConsumerSettings
from tests.log.orders import QUICK, Orders, note, times, until


class Process:
    """A log with one consumer, as a process of its own would have it."""

    def __init__(self, orders: Orders, name: str, settings: ConsumerSettings = QUICK) -> None:
        self.log = orders.log()
        self.handled = asyncio.Semaphore(0)
        self.go_on = asyncio.Event()
        self.go_on.set()

        @self.log.consumer("one", settings=settings)
        async def one(event: rowbus.Event, context: rowbus.LogContext) -> None:
            self.handled.release()
            await self.go_on.wait()
            await note(context, event._replace(data=f"{event.data} {name}"))


async def test_of_two_processes_only_one_is_given_events(orders: Orders) -> None:
    first, second = Process(orders, "first"), Process(orders, "second")
    async with first.log:
        orders.deliver("a")
        await orders.finished()
        async with second.log:
            for data in "bcd":
                orders.deliver(data)
                await orders.finished()
    assert orders.seen() == ["a first", "b first", "c first", "d first"]


async def test_the_second_is_not_given_what_the_first_has_in_hand(orders: Orders) -> None:
    first, second = Process(orders, "first"), Process(orders, "second")
    first.go_on.clear()
    async with first.log:
        orders.deliver("a")
        await times(first.handled)
        async with second.log:
            for _ in range(10):  # as many looks as it likes
                await asyncio.sleep(0.03)
            given = not second.handled.locked()
            first.go_on.set()
            await orders.finished()
    assert not given


async def test_the_second_takes_over_when_the_first_stops(orders: Orders) -> None:
    first, second = Process(orders, "first"), Process(orders, "second")
    await first.log.start()
    orders.deliver("a")
    await orders.finished()
    async with second.log:
        await first.log.stop()
        orders.deliver("b")
        await orders.finished()
    assert orders.seen() == ["a first", "b second"]


async def test_the_second_takes_over_the_batch_of_the_first_when_that_one_dies(orders: Orders) -> None:
    first, second = Process(orders, "first"), Process(orders, "second")
    first.go_on.clear()
    await first.log.start()
    orders.deliver("a")
    await times(first.handled)
    async with second.log:
        await first.log.stop(timeout=0)
        await orders.finished()
    assert orders.seen() == ["a second"]


async def test_a_process_that_lost_its_lead_cannot_commit_what_it_had_in_hand(orders: Orders) -> None:
    """Only the session with the lock breaks; the worker's goes on and must be fenced off."""
    settings = replace(QUICK, chunk_size=1)
    first, second = Process(orders, "first", settings), Process(orders, "second", settings)
    first.go_on.clear()
    await first.log.start()
    orders.deliver("a", "b")
    await times(first.handled)
    orders.connection.execute(
        "select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory' and granted and pid in "
        "(select pid from pg_stat_activity where application_name = 'rowbus orders/one')"
    )
    async with second.log:
        await orders.finished()
        assert orders.seen() == ["a second", "b second"]
        first.go_on.set()
        orders.deliver("c")
        await orders.finished()
    await first.log.stop()
    assert [data for data in orders.seen() if data[0] in "ab"] == ["a second", "b second"]


async def test_without_standing_by_still_only_one_commits(orders: Orders) -> None:
    """Behind a pooler there is no lock of a session: both may handle a batch, one of them in vain."""
    settings = replace(QUICK, stand_by=False)
    first, second = Process(orders, "first", settings), Process(orders, "second", settings)
    first.go_on.clear()
    second.go_on.clear()
    async with first.log, second.log:
        tick = orders.deliver("a")
        await times(first.handled)
        await times(second.handled)
        first.go_on.set()
        second.go_on.set()
        await orders.finished(tick=tick)
    assert len(orders.seen()) == 1


async def test_moving_a_consumer_takes_the_batch_in_hand_from_it(orders: Orders) -> None:
    process = Process(orders, "first")
    process.go_on.clear()
    async with process.log:
        orders.deliver("a")
        orders.deliver("b")
        await times(process.handled)
        process.log.seek("one")
        process.go_on.set()
        await until(lambda: orders.position()[1] is None)
        orders.deliver("c")
        await orders.finished()
    assert orders.seen() == ["c first"]
