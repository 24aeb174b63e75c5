"""Cooperative consumers: the members of one share its batches, and take over from one that is silent."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import psycopg
import pytest

import rowbus
from rowbus.settings import ConsumerSettings
from tests.log.orders import QUICK, SOON, Orders, note, texts, times, until


class Member:
    """A member in a log of its own, as a process of its own would have it."""

    def __init__(self, orders: Orders, name: str, settings: ConsumerSettings = QUICK) -> None:
        self.log = orders.log()
        self.handled = asyncio.Semaphore(0)
        self.go_on = asyncio.Event()
        self.go_on.set()

        @self.log.consumer("one", subconsumer=name, settings=settings)
        async def one(event: rowbus.Event, context: rowbus.LogContext) -> None:
            self.handled.release()
            await self.go_on.wait()
            await note(context, event._replace(data=f"{event.data} {name}"))


def register(orders: Orders) -> None:
    """Register before the events, as a new consumer is given only those that follow."""
    orders.register("one")


def counted(orders: Orders) -> int:
    return len(orders.seen())


async def test_members_share_the_batches_and_each_event_is_handled_once(orders: Orders) -> None:
    register(orders)
    first, second = Member(orders, "first"), Member(orders, "second")
    first.go_on.clear()
    second.go_on.clear()
    async with first.log, second.log:
        for data in texts(range(6)):
            orders.deliver(data)
        await times(first.handled)
        await times(second.handled)  # at the same time
        first.go_on.set()
        second.go_on.set()
        await until(lambda: counted(orders) == 6)
    assert sorted(data.split()[0] for data in orders.seen()) == texts(range(6))


async def test_the_batch_of_a_member_that_died_is_taken_over_and_its_work_does_not_count(
    orders: Orders,
) -> None:
    register(orders)
    quick = replace(QUICK, dead_after=timedelta(milliseconds=300))
    dying, other = Member(orders, "dying", quick), Member(orders, "other", quick)
    dying.go_on.clear()
    await dying.log.start()
    orders.deliver("a")
    await times(dying.handled)
    await dying.log.stop(timeout=0)
    async with other.log:
        await until(lambda: counted(orders) == 1)
    assert orders.seen() == ["a other"]


async def test_a_member_that_works_for_long_keeps_its_batch_by_signs_of_life(orders: Orders) -> None:
    register(orders)
    quick = replace(QUICK, dead_after=timedelta(milliseconds=400))
    slow, other = Member(orders, "slow", quick), Member(orders, "other", quick)
    slow.go_on.clear()
    await slow.log.start()
    orders.deliver("a")
    await times(slow.handled)
    async with other.log:
        for _ in range(25):
            await asyncio.sleep(0.04)  # in all, longer than `dead_after`
        assert orders.seen() == []
        slow.go_on.set()
        await until(lambda: counted(orders) == 1)
    await slow.log.stop()
    assert orders.seen() == ["a slow"]


async def test_a_member_whose_batch_was_taken_over_is_stopped_and_what_it_did_rolled_back(
    orders: Orders,
) -> None:
    register(orders)
    silent = Member(
        orders, "silent", replace(QUICK, dead_after=timedelta(seconds=4))
    )  # the thief is not dead
    silent.go_on.clear()
    await silent.log.start()
    orders.deliver("a")
    await times(silent.handled)
    orders.connection.execute(
        "select pgq_coop.next_batch('orders', 'one', 'thief', interval '-1 minute')"
    )  # takes it over whatever signs of life there were
    (batch,) = orders.one("select sub_batch from pgq.subscription where sub_batch is not null")
    async with asyncio.timeout(20):
        while silent.handled.locked():
            orders.deliver("b")
            await asyncio.sleep(0.04)
    assert orders.seen() == []
    assert orders.one("select pgq_coop.finish_batch(%s)", batch) == (1,)
    silent.go_on.set()
    await silent.log.stop()
    assert {data[0] for data in orders.seen()} <= {"b"}


async def test_a_member_at_work_ends_when_all_tasks_of_its_loop_are_cancelled(orders: Orders) -> None:
    register(orders)
    member = Member(orders, "first")
    member.go_on.clear()
    await member.log.start()
    orders.deliver("a")
    await times(member.handled)
    ours = [task for task in asyncio.all_tasks() if task.get_name().startswith("rowbus ")]
    assert len(ours) >= 2  # the consumer and its signs of life
    for task in reversed(ours):
        task.cancel()

    _, running = await asyncio.wait(ours, timeout=10)
    ended = not running
    member.go_on.set()
    await member.log.stop()
    assert ended


async def test_retries_of_a_member_reach_the_consumer_again(orders: Orders) -> None:
    register(orders)
    log = orders.log()

    @log.consumer("one", subconsumer="only", settings=QUICK)
    async def one(event: rowbus.Event, context: rowbus.LogContext) -> None:
        await note(context, event)
        if event.data == "bad" and event.retry is None:
            raise ValueError

    async with log:
        orders.deliver("a", "bad")
        await until(lambda: counted(orders) == 1)
        await until(lambda: orders.redeliver() == 1)
        await until(lambda: counted(orders) == 2)
    assert orders.seen() == ["a", "bad"]


async def test_a_member_taken_over_between_chunks_repeats_nothing(orders: Orders) -> None:
    register(orders)
    chunks = replace(QUICK, chunk_size=10, dead_after=timedelta(milliseconds=200), poll_delay=SOON)
    log, third = orders.log(), asyncio.Semaphore(0)

    @log.consumer("one", subconsumer="dying", batch=True, settings=chunks)
    async def dying(events: list[rowbus.Event], context: rowbus.LogContext) -> None:
        await note(context, *events)
        if events[0].data == "20":
            third.release()
            await asyncio.Event().wait()

    await log.start()
    orders.deliver(*texts(range(35)))
    await times(third)
    await log.stop(timeout=0)
    other = orders.log()

    @other.consumer("one", subconsumer="other", batch=True, settings=chunks)
    async def goes_on(events: list[rowbus.Event], context: rowbus.LogContext) -> None:
        await note(context, *events)

    async with other:
        await until(lambda: counted(orders) == 35)
    assert orders.seen() == texts(range(35))


# ---------------------------------------------------------------------------------------- what belongs to all members


async def test_dead_letters_of_members_are_the_consumers_and_come_back_to_it(orders: Orders) -> None:
    register(orders)
    log = orders.log()
    failing = asyncio.Event()
    failing.set()

    @log.consumer("one", subconsumer="only", settings=replace(QUICK, max_retries=0))
    async def one(event: rowbus.Event, context: rowbus.LogContext) -> None:
        await note(context, event)
        if failing.is_set():
            raise ValueError

    async with log:
        orders.deliver("a")
        await until(lambda: len(orders.log().dead_letters("one")) == 1)
        failing.clear()
        assert orders.log().replay("one") == 1
        await until(lambda: orders.redeliver() == 1)
        await until(lambda: counted(orders) == 1)
    assert orders.seen() == ["a"]
    assert orders.log().dead_letters("one") == []


def test_an_unregistered_consumer_takes_the_names_of_its_members_with_it(orders: Orders) -> None:
    orders.connection.execute("select pgq.create_queue('other')")
    for log, member in (("orders", "here"), ("orders", "everywhere"), ("other", "everywhere")):
        orders.one("select pgq_coop.register_subconsumer(%s, 'one', %s)", log, member)

    assert orders.log().unregister("one")

    names = orders.all("select co_name from pgq.consumer order by 1")
    assert names == [("one",), ("one.everywhere",)]  # which the other log knows
    assert rowbus.Log(orders.dsn, "other").unregister("one")
    assert orders.all("select co_name from pgq.consumer") == []


def test_the_batch_of_an_unregistered_member_goes_to_the_others(orders: Orders) -> None:
    for member in ("gone", "other"):
        orders.one("select pgq_coop.register_subconsumer('orders', 'one', %s)", member)
    orders.deliver("a", "b")
    taken(orders, "gone")

    assert orders.log().unregister("one.gone")

    events = orders.all("select ev_data from pgq.get_batch_events(%s)", taken(orders, "other"))
    assert events == [("a",), ("b",)]
    assert not orders.log().unregister("one.gone")


def taken(orders: Orders, member: str, dead_after: str = "1 hour") -> int:
    query = "select pgq_coop.next_batch('orders', 'one', %s, %s::interval)"
    batch = orders.one(query, member, dead_after)[0]
    assert batch is not None
    return int(batch)


TAKE_OVER = "select pgq_coop.next_batch('orders', 'one', 'thief', interval '-1 minute')"
MARK = "select pgq.mark_batch(%s, 1, 0, %s, null)"


def blocked(orders: Orders, pid: int) -> bool:
    return bool(orders.one("select cardinality(pg_blocking_pids(%s)) > 0", pid)[0])


@pytest.fixture
def others(orders: Orders) -> Iterator[psycopg.Connection[Any]]:
    """Give a connection of another process, with a member's batch in hand: `first` has it."""
    register(orders)
    orders.one("select pgq_coop.register_subconsumer('orders', 'one', 'first')")
    orders.deliver(*texts(range(5)))
    with psycopg.connect(orders.dsn) as connection:
        yield connection


def test_a_batch_is_not_taken_over_while_its_position_is_being_noted(
    orders: Orders, others: psycopg.Connection[Any]
) -> None:
    batch = taken(orders, "first")
    with psycopg.connect(orders.dsn) as holder:
        assert holder.execute(MARK, [batch, 3]).fetchone() == (1,)  # not committed yet
        assert others.execute(TAKE_OVER).fetchone() == (None,)
    stolen = others.execute(TAKE_OVER).fetchone()
    positions = others.execute("select bp_batch, bp_event from pgq.batch_position").fetchall()
    assert stolen not in {None, (batch,)}
    assert [(positions[0][0],), positions[0][1]] == [stolen, 3]  # it goes on behind what is done


async def test_a_position_is_not_noted_in_a_batch_that_is_being_taken_over(
    orders: Orders, others: psycopg.Connection[Any]
) -> None:
    batch = taken(orders, "first")
    others.execute(TAKE_OVER)
    with psycopg.connect(orders.dsn) as holder:
        noting = asyncio.create_task(asyncio.to_thread(holder.execute, MARK, [batch, 3]))
        await until(lambda: blocked(orders, holder.info.backend_pid))
        others.commit()
        assert (await noting).fetchone() == (0,)  # so its work is undone
    assert orders.all("select from pgq.batch_position") == []
