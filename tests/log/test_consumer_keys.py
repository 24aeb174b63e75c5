"""Keys: events of one key in order among workers that share one scan, and behind a retry."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

import rowbus
from rowbus.errors import ConnectionLostError
from rowbus.log.consumers.consumer import LogConsumer
from rowbus.log.consumers.event_attempts import Keys
from tests.log.orders import PATIENCE, QUICK, Given, Orders, note, several, texts, until

NOTHING = rowbus.Event(0, datetime(2026, 1, 1, tzinfo=UTC), 0, None, None, None)
FOUR = replace(QUICK, workers=4, chunk_size=50)


def put(orders: Orders, *events: tuple[str, str | None]) -> None:
    with orders.connection.transaction():
        for data, key in events:
            orders.put(data, key=key)


async def test_events_of_one_key_are_handled_in_order_and_each_once(orders: Orders) -> None:
    log = orders.log()
    chance = random.Random(7)
    keys = [chance.choice("abcdefgh") for _ in range(300)]
    handled = defaultdict[str | None, list[int]](list)

    @log.consumer("one", key="extra1", settings=FOUR)
    async def one(event: rowbus.Event, context: rowbus.LogContext) -> None:
        await note(context, event)
        handled[event.extra1].append(event.id)

    async with log:
        put(orders, *zip(texts(range(300)), keys, strict=True))
        orders.tick()
        await orders.finished()
    assert sorted(orders.seen(), key=int) == texts(range(300))
    for ids in handled.values():
        assert all(first < second for first, second in pairwise(ids))


async def test_workers_work_at_the_same_time_in_transactions_of_their_own(orders: Orders) -> None:
    log = orders.log()
    together = asyncio.Barrier(2)
    transactions = set[str]()

    @log.consumer("one", key=lambda event: event.data, settings=replace(FOUR, workers=2))
    async def one(_event: rowbus.Event, context: rowbus.LogContext) -> None:
        async with asyncio.timeout(PATIENCE):
            await together.wait()
        cursor = await context.connection.execute("select pg_current_xact_id()::text")
        transactions.add(str(await cursor.fetchone()))

    async with log:
        orders.deliver(*two_for_each_of_two_workers())
        await orders.finished()
    assert len(transactions) == 2


def two_for_each_of_two_workers() -> list[str]:
    keys, parts = Keys("data"), defaultdict[int, list[str]](list)
    for data in texts(range(20)):
        parts[keys.part(NOTHING._replace(data=data), 2)].append(data)
    return [*parts[0][:2], *parts[1][:2]]


async def test_a_batch_is_read_once_whatever_the_number_of_workers(
    orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rowbus.log.consumers.table import ConsumerTable  # noqa: PLC0415 - patched in this test alone

    opened = list[int]()
    original = ConsumerTable.open_batch

    def open_batch(self: ConsumerTable, batch: int, after: int | None) -> object:
        opened.append(batch)
        return original(self, batch, after)

    monkeypatch.setattr(ConsumerTable, "open_batch", open_batch)
    log = orders.log()

    @log.consumer("one", key="data", settings=FOUR)
    async def one(_event: rowbus.Event) -> None:
        pass

    async with log:
        orders.deliver(*texts(range(120)))
        await orders.finished()
    assert len(opened) == 1


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("batch", [False, True])
async def test_later_events_of_a_key_that_failed_wait_for_it_without_counting_a_retry(
    orders: Orders, workers: int, *, batch: bool
) -> None:
    log = orders.log()

    @log.consumer("one", key="extra1", batch=batch, settings=replace(FOUR, workers=workers))
    async def one(given: Given, context: rowbus.LogContext) -> None:
        for event in several(given):
            await note(context, event._replace(data=f"{event.data}:{event.retry}"))
            if event.data == "a1" and event.retry is None:
                raise ValueError

    async with log:
        put(orders, ("a1", "a"), ("b1", "b"), ("a2", "a"), ("b2", "b"), ("a3", "a"), ("c", None))
        orders.tick()
        await orders.finished()
        assert sorted(orders.seen()) == ["b1:None", "b2:None", "c:None"]
        assert orders.redeliver() == 3
        await orders.finished()
    after = [data for data in orders.seen() if data[0] == "a"]
    assert [data.split(":")[0] for data in after] == ["a1", "a2", "a3"]
    assert after[0] == "a1:1"
    assert {data.split(":")[1] for data in after[1:]} <= {"None", "0"}


async def test_events_of_later_batches_wait_too_while_their_key_waits(orders: Orders) -> None:
    log = orders.log()

    @log.consumer("one", key="extra1", settings=QUICK)
    async def one(event: rowbus.Event, context: rowbus.LogContext) -> None:
        await note(context, event)
        if event.data == "a1" and event.retry is None:
            raise ValueError

    async with log:
        put(orders, ("a1", "a"))
        orders.tick()
        await orders.finished()
        put(orders, ("a2", "a"), ("b1", "b"))
        orders.tick()
        await orders.finished()
        assert orders.seen() == ["b1"]
        assert orders.redeliver() == 2
        await orders.finished()
    assert orders.seen() == ["b1", "a1", "a2"]


async def test_a_key_goes_on_when_its_event_became_a_dead_letter(orders: Orders) -> None:
    log = orders.log()

    @log.consumer("one", key="extra1", settings=replace(QUICK, max_retries=0))
    async def one(event: rowbus.Event, context: rowbus.LogContext) -> None:
        await note(context, event)
        if event.data == "a1":
            raise ValueError

    async with log:
        put(orders, ("a1", "a"), ("a2", "a"))
        orders.tick()
        await orders.finished()
    assert orders.seen() == ["a2"]


@pytest.mark.parametrize("then", [1, 2, 3])
async def test_a_worker_that_committed_before_a_crash_repeats_nothing_also_with_another_number_of_workers(
    orders: Orders, then: int
) -> None:
    orders.register("one")
    keys = Keys("data")
    datas = texts(range(30))
    stuck = {data for data in datas if keys.part(NOTHING._replace(data=data), 2) == 1}
    orders.deliver(*datas)
    hold = asyncio.Event()

    def start(workers: int) -> rowbus.Log:
        log = orders.log()

        @log.consumer("one", key="data", settings=replace(FOUR, workers=workers, chunk_size=12))
        async def one(event: rowbus.Event, context: rowbus.LogContext) -> None:
            if event.data in stuck:
                await hold.wait()
            await note(context, event)

        return log

    log = start(2)
    await log.start()
    first = [data for data in datas[:12] if data not in stuck]
    await until(lambda: sorted(orders.seen()) == sorted(first))
    await log.stop(timeout=0)
    hold.set()
    async with start(then):
        await orders.finished()
    assert sorted(orders.seen(), key=int) == datas


def test_several_workers_need_a_key(orders: Orders) -> None:
    with pytest.raises(rowbus.ConfigurationError, match="key"):
        orders.log().consumer("one", settings=FOUR)


async def test_retry_delays_of_deferred_events_follow_the_failed_one(orders: Orders) -> None:
    log = orders.log()

    @log.consumer("one", key="extra1", settings=replace(QUICK, retry_delay=timedelta(seconds=60)))
    async def one(_event: rowbus.Event) -> None:
        raise ValueError

    async with log:
        put(orders, ("a1", "a"), ("a2", "a"), ("a3", "a"))
        orders.tick()
        await orders.finished()
    rows = orders.all("select ev_data, ev_retry from pgq.retry_queue order by ev_retry_after")
    assert [data for data, _ in rows] == ["a1", "a2", "a3"]
    assert [retry or 0 for _, retry in rows] == [1, 0, 0]


async def test_a_chunk_is_over_when_all_its_workers_have_ended_though_one_failed() -> None:
    ended = []

    async def fail(_events: Sequence[rowbus.Event], _upto: int) -> None:
        raise ConnectionLostError("gone")

    async def go_on(_events: Sequence[rowbus.Event], upto: int) -> None:
        for _ in range(9):  # longer than an error takes to whoever waits
            await asyncio.sleep(0)
        ended.append(upto)

    keys = Keys(lambda event: str(event.id))
    consumer: Any = SimpleNamespace(
        _handling=SimpleNamespace(keys=keys), _workers=[SimpleNamespace(work=work) for work in (fail, go_on)]
    )
    with pytest.raises(ConnectionLostError):
        await LogConsumer._share(consumer, [NOTHING._replace(id=number) for number in range(9)], 9)
    assert ended == [9]
