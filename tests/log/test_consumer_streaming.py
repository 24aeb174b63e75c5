"""Huge batches: bounded memory, a transaction a chunk, and an interruption that repeats nothing."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

import rowbus
from rowbus.database.statements import Rows, Statement
from rowbus.log.consumers.table import ConsumerTable
from tests.log.orders import QUICK, Orders, note, texts, times

CHUNKS = replace(QUICK, chunk_size=10)


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Note how many events each fetch of a batch returned."""
    sizes = list[int]()
    original = ConsumerTable.fetch_batch

    def fetch_batch(self: ConsumerTable, size: int) -> Statement[list[rowbus.Event]]:
        statement = original(self, size)

        def decode(rows: Rows, count: int) -> list[rowbus.Event]:
            events = statement.decode(rows, count)
            sizes.append(len(events))
            return events

        return statement._replace(decode=decode)

    monkeypatch.setattr(ConsumerTable, "fetch_batch", fetch_batch)
    return sizes


async def test_no_more_than_a_chunk_is_fetched_at_a_time(orders: Orders, fetched: list[int]) -> None:
    log = orders.log()

    @log.consumer("one", batch=True, settings=CHUNKS)
    async def one(events: list[rowbus.Event], context: rowbus.LogContext) -> None:
        assert len(events) <= 10
        await note(context, *events)

    async with log:
        orders.deliver(*texts(range(95)))
        await orders.finished()
    assert fetched == [10] * 9 + [5]
    assert orders.seen() == texts(range(95))


async def test_events_are_fetched_at_most_one_chunk_ahead(orders: Orders, fetched: list[int]) -> None:
    log, calls = orders.log(), list[int]()

    @log.consumer("one", batch=True, settings=CHUNKS)
    async def one(_events: list[rowbus.Event]) -> None:
        calls.append(len(fetched))

    async with log:
        orders.deliver(*texts(range(40)))
        await orders.finished()
    assert calls == [2, 3, 4, 5]


async def test_each_chunk_commits_by_itself(orders: Orders) -> None:
    log, last = orders.log(), asyncio.Event()

    @log.consumer("one", batch=True, settings=CHUNKS)
    async def one(events: list[rowbus.Event], context: rowbus.LogContext) -> None:
        await note(context, *events)
        if events[0].data == "20":
            assert orders.seen() == texts(range(20))
            last.set()

    async with log:
        orders.deliver(*texts(range(25)))
        await orders.finished()
    assert last.is_set()


async def test_a_whole_batch_commits_at_once(orders: Orders, fetched: list[int]) -> None:
    log, looked = orders.log(), list[list[str]]()

    @log.consumer("one", batch=True, settings=replace(CHUNKS, whole_batches=True))
    async def one(events: list[rowbus.Event], context: rowbus.LogContext) -> None:
        await note(context, *events)
        looked.append(orders.seen())

    async with log:
        orders.deliver(*texts(range(25)))
        await orders.finished()
    assert looked == [[], [], []]
    assert fetched == [10, 10, 5]
    assert orders.seen() == texts(range(25))


async def test_an_interrupted_batch_goes_on_behind_the_last_chunk_that_committed(
    orders: Orders, fetched: list[int]
) -> None:
    orders.register("one")
    orders.deliver(*texts(range(35)))
    calls = list[str | None]()

    def start() -> tuple[rowbus.Log, asyncio.Semaphore]:
        log, third = orders.log(), asyncio.Semaphore(0)

        @log.consumer("one", batch=True, settings=CHUNKS)
        async def one(events: list[rowbus.Event], context: rowbus.LogContext) -> None:
            calls.append(events[0].data)
            await note(context, *events)
            if len(calls) == 3:
                third.release()
                await asyncio.Event().wait()

        return log, third

    log, third = start()
    await log.start()
    await times(third)
    await log.stop(timeout=0)
    assert orders.seen() == texts(range(20))
    fetched.clear()
    log, _ = start()
    async with log:
        await orders.finished()
    assert calls == ["0", "10", "20", "20", "30"]
    assert fetched == [10, 5]
    assert orders.seen() == texts(range(35))
    assert orders.one("select count(*) from pgq.batch_position") == (0,)


async def test_stopping_ends_after_the_chunk_in_hand(orders: Orders) -> None:
    log, started = orders.log(), asyncio.Event()

    @log.consumer("one", batch=True, settings=CHUNKS)
    async def one(events: list[rowbus.Event], context: rowbus.LogContext) -> None:
        started.set()
        await asyncio.sleep(0.01)
        await note(context, *events)

    orders.register("one")
    await log.start()
    orders.deliver(*texts(range(1000)))
    await asyncio.wait_for(started.wait(), 20)
    await log.stop()
    seen = orders.seen()
    assert 10 <= len(seen) < 1000
    assert seen == texts(range(len(seen)))
    async with log:
        await orders.finished()
    assert orders.seen() == texts(range(1000))


async def test_a_connection_lost_between_chunks_repeats_nothing(orders: Orders) -> None:
    log, lost = orders.log(), asyncio.Event()

    @log.consumer("one", batch=True, settings=CHUNKS)
    async def one(events: list[rowbus.Event], context: rowbus.LogContext) -> None:
        await note(context, *events)
        if events[0].data == "10" and not lost.is_set():
            lost.set()
            orders.end_sessions()

    async with log:
        orders.deliver(*texts(range(35)))
        await orders.finished()
    assert lost.is_set()
    assert orders.seen() == texts(range(35))


async def test_while_small_batches_are_handled_no_reading_transaction_is_open(orders: Orders) -> None:
    log, states = orders.log(), list[str]()

    @log.consumer("one", settings=QUICK)
    async def one(_event: rowbus.Event) -> None:
        query = (
            "select state from pg_stat_activity where application_name = 'rowbus orders/one' order by state"
        )
        states.extend(state for (state,) in orders.all(query))

    async with log:
        orders.deliver("a")
        await orders.finished()
    assert states == ["idle", "idle in transaction"]
