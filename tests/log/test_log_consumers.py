"""Promises to handlers of a log's events: every event, once, with their work and their position in one."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

import rowbus
from rowbus.messages.address import QueueAddress
from rowbus.transport.queues.postgresql import QueueTable
from tests.log.orders import PATIENCE, QUICK, Orders, note, texts, times, until

HOUR = timedelta(hours=1)


async def test_each_event_is_handled_once_in_order(orders: Orders) -> None:
    log, handled = orders.log(), asyncio.Semaphore(0)

    @log.consumer("one", settings=QUICK)
    async def one(event: rowbus.Event, context: rowbus.LogContext) -> None:
        await note(context, event)
        handled.release()

    async with log:
        orders.deliver(*texts(range(5)))
        orders.deliver(*texts(range(5, 8)))
        await times(handled, 8)
    assert orders.seen() == texts(range(8))
    assert orders.position() == (3, None)


async def test_a_def_handler_runs_in_a_thread_on_the_same_transaction(orders: Orders) -> None:
    log, handled, threads = orders.log(), asyncio.Semaphore(0), set[int]()
    loop = asyncio.get_running_loop()

    @log.consumer("one", settings=QUICK)
    def one(event: rowbus.Event, context: rowbus.SyncLogContext) -> None:
        context.connection.execute("insert into seen (data) values (%s)", [event.data])
        threads.add(threading.get_ident())
        loop.call_soon_threadsafe(handled.release)

    async with log:
        orders.deliver(*texts(range(3)))
        await times(handled, 3)
    assert orders.seen() == texts(range(3))
    assert threading.get_ident() not in threads


async def test_a_handler_need_not_take_a_context(orders: Orders) -> None:
    log, handled = orders.log(), asyncio.Semaphore(0)

    @log.consumer("one", settings=QUICK)
    async def one(_event: rowbus.Event) -> None:
        handled.release()

    @log.consumer("two", settings=QUICK)
    def two(_event: rowbus.Event) -> None:
        pass

    async with log:
        orders.deliver("a")
        await times(handled)
        await orders.finished("two")


async def test_no_consumer_is_registered_while_the_log_is_started(orders: Orders) -> None:
    log = orders.log()

    @log.consumer("one", settings=QUICK)
    async def one(_event: rowbus.Event) -> None: ...

    async with log:
        with pytest.raises(
            rowbus.ConfigurationError, match="Log orders is started: register its consumers before"
        ):
            log.consumer("two")


async def test_a_batch_handler_is_given_a_list_of_up_to_chunk_size(orders: Orders) -> None:
    log, calls = orders.log(), list[list[str | None]]()

    @log.consumer("one", batch=True, settings=replace(QUICK, chunk_size=3))
    async def one(events: list[rowbus.Event]) -> None:
        calls.append([event.data for event in events])

    async with log:
        orders.deliver(*texts(range(7)))
        await orders.finished()
    assert calls == [["0", "1", "2"], ["3", "4", "5"], ["6"]]


async def test_an_empty_batch_is_finished_without_a_call(orders: Orders) -> None:
    log = orders.log()

    @log.consumer("one", batch=True, settings=QUICK)
    async def one(_events: list[rowbus.Event]) -> None:
        raise AssertionError

    async with log:
        await orders.finished(tick=orders.tick())
    assert orders.position()[1] is None


async def test_an_event_carries_all_its_columns_and_the_context_its_batch(orders: Orders) -> None:
    log, given = orders.log(), asyncio.Queue[tuple[rowbus.Event, rowbus.Batch]]()

    @log.consumer("one", settings=QUICK)
    async def one(event: rowbus.Event, context: rowbus.LogContext) -> None:
        given.put_nowait((event, context.batch))

    async with log:
        orders.connection.execute("select pgq.insert_event('orders', 'kind', 'data', '1', '2', '3', null)")
        tick = orders.tick()
        event, batch = await asyncio.wait_for(given.get(), PATIENCE)
    assert event == (1, event.time, event.txid, None, "kind", "data", "1", "2", "3", None)
    assert (batch.from_tick, batch.to_tick) == (tick - 1, tick)
    assert batch.from_time < batch.to_time


@pytest.mark.parametrize("whole", [False, True])
async def test_work_and_position_commit_together_so_a_crash_before_the_commit_repeats_nothing(
    orders: Orders, *, whole: bool
) -> None:
    log, handled = orders.log(), asyncio.Semaphore(0)

    @log.consumer("one", settings=replace(QUICK, whole_batches=whole))
    async def one(event: rowbus.Event, context: rowbus.LogContext) -> None:
        await note(context, event)
        if event.data == "1" and not crashed.is_set():
            crashed.set()
            orders.end_sessions()
        handled.release()

    crashed = asyncio.Event()
    async with log:
        orders.deliver("0", "1")
        await times(handled, 4)
        await orders.finished()
    assert orders.seen() == ["0", "1"]


async def test_the_position_does_not_move_when_the_work_is_rolled_back(orders: Orders) -> None:
    """The other half of the promise: killed after the handler, before the commit."""
    log, handled = orders.log(), asyncio.Semaphore(0)

    @log.consumer("one", settings=QUICK)
    async def one(event: rowbus.Event, context: rowbus.LogContext) -> None:
        await note(context, event)
        handled.release()
        await asyncio.Event().wait()

    orders.register("one")
    await log.start()
    orders.deliver("0")
    await times(handled)
    await log.stop(timeout=0)
    last, batch = orders.position()
    assert (orders.seen(), last) == ([], 1)
    assert batch is not None


@pytest.mark.parametrize(
    "waiting",
    [{"poll_delay": HOUR}, {"notifications": False}],
    ids=["by notifications", "by polling"],
)
async def test_a_tick_wakes_the_consumer(orders: Orders, waiting: dict[str, Any]) -> None:
    log, handled = orders.log(), asyncio.Semaphore(0)

    @log.consumer("one", settings=replace(QUICK, **waiting))
    async def one(_event: rowbus.Event) -> None:
        handled.release()

    async with log:
        for data in texts(range(3)):
            orders.deliver(data)
            await times(handled)


async def test_an_idle_consumer_writes_nothing(orders: Orders) -> None:
    log = orders.log()

    @log.consumer("one", settings=QUICK)
    async def one(_event: rowbus.Event) -> None:
        pass

    def xid() -> int:
        return int(orders.one("select pg_snapshot_xmax(pg_current_snapshot())::text")[0])

    def last_poll() -> object:
        query = "select max(query_start) from pg_stat_activity where application_name = 'rowbus orders/one'"
        return orders.one(query)[0]

    async def polled_since(poll: object) -> None:
        await until(lambda: last_poll() != poll)

    async def is_ever_quiet() -> bool:
        """Say whether nothing is written during several polls; autovacuum, too, takes a transaction id now and then."""
        for _ in range(10):
            before = xid()
            for _ in range(15):
                await polled_since(last_poll())
            if xid() == before:
                return True
        return False

    async with log:
        orders.deliver("a")
        await orders.finished()
        assert await is_ever_quiet()


async def test_a_new_consumer_begins_with_what_commits_from_now_on(orders: Orders) -> None:
    log, handled = orders.log(), asyncio.Semaphore(0)
    orders.deliver("before")

    @log.consumer("one", settings=QUICK)
    async def one(event: rowbus.Event, context: rowbus.LogContext) -> None:
        await note(context, event)
        handled.release()

    async with log:
        orders.deliver("after")
        await times(handled)
    assert orders.seen() == ["after"]


@pytest.mark.parametrize("subconsumer", [None, "first"])
async def test_a_new_consumer_may_begin_with_the_oldest_retained_and_goes_on_where_it_was(
    orders: Orders, subconsumer: str | None
) -> None:
    orders.deliver("before")
    for expected in (["before"], ["before", "between"]):
        log, handled = orders.log(), asyncio.Semaphore(0)

        @log.consumer("one", subconsumer=subconsumer, settings=replace(QUICK, from_oldest=True))
        async def one(event: rowbus.Event, context: rowbus.LogContext) -> None:
            await note(context, event)
            handled.release()  # noqa: B023 - awaited in the same round

        async with log:
            await times(handled)
        assert orders.seen() == expected
        orders.deliver("between")


async def test_consumers_are_independent_of_each_other(orders: Orders) -> None:
    log, handled = orders.log(), asyncio.Semaphore(0)

    @log.consumer("stuck", settings=QUICK)
    async def stuck(_event: rowbus.Event) -> None:
        await asyncio.Event().wait()

    @log.consumer("one", settings=QUICK)
    async def one(_event: rowbus.Event) -> None:
        handled.release()

    await log.start()
    orders.deliver("a")
    orders.deliver("b")
    await times(handled, 2)
    await log.stop(timeout=0)


async def test_stopping_finishes_the_batch_in_hand(orders: Orders) -> None:
    log, started, release = orders.log(), asyncio.Event(), asyncio.Event()

    @log.consumer("one", settings=QUICK)
    async def one(event: rowbus.Event, context: rowbus.LogContext) -> None:
        started.set()
        await release.wait()
        await note(context, event)

    await log.start()
    tick = orders.deliver("0", "1")
    await asyncio.wait_for(started.wait(), PATIENCE)
    stopping = asyncio.create_task(log.stop())
    await asyncio.sleep(0)
    release.set()
    await asyncio.wait_for(stopping, PATIENCE)
    assert (orders.seen(), orders.position()) == (["0", "1"], (tick, None))


async def test_a_message_sent_by_a_handler_leaves_with_its_position(orders: Orders) -> None:
    billing = QueueTable(QueueAddress("public", "Billing"))
    for statement in billing.create():
        orders.connection.execute(statement.query.text)
    log, handled = orders.log(), asyncio.Semaphore(0)

    @log.consumer("one", settings=QUICK)
    async def one(event: rowbus.Event, context: rowbus.LogContext) -> None:
        await context.send("Billing", {"order": event.data}, type="Charge")
        handled.release()
        if event.data == "bad":
            raise ValueError

    @log.consumer("two", settings=QUICK)
    def two(event: rowbus.Event, context: rowbus.SyncLogContext) -> None:
        context.send("Billing", {"order": event.data, "by": "two"}, type="Charge")

    async with log:
        orders.deliver("a", "bad")
        await times(handled, 2)
        await orders.finished("two")
    bodies = [bytes(body).decode() for (body,) in orders.all('select body from "Billing"')]
    assert sorted(bodies) == ['{"order":"a","by":"two"}', '{"order":"a"}', '{"order":"bad","by":"two"}']


async def test_a_consumer_outlives_its_connections(orders: Orders) -> None:
    log, handled = orders.log(), asyncio.Semaphore(0)

    @log.consumer("one", settings=QUICK)
    async def one(event: rowbus.Event, context: rowbus.LogContext) -> None:
        await note(context, event)
        handled.release()

    async with log:
        orders.deliver("a")
        await orders.finished()
        assert orders.end_sessions() >= 1
        orders.deliver("b")
        await times(handled, 2)
    assert orders.seen() == ["a", "b"]


PROGRAM = """
import os, signal, sys
import rowbus

signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))  # put back when log.run() has returned

log = rowbus.Log(sys.argv[1], "orders")

@log.consumer("one")
def one(event, context):
    print("handling", flush=True)
    sys.stdin.readline()
    context.connection.execute("insert into seen (data) values (%s)", [event.data])

log.run()
os.kill(os.getpid(), signal.SIGTERM)
"""


async def test_sigterm_finishes_what_is_in_hand(orders: Orders) -> None:
    orders.register("one")
    tick = orders.deliver("a")
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, orders.dsn, stdin=pipe, stdout=pipe
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert await asyncio.wait_for(process.stdout.readline(), PATIENCE) == b"handling\n"
    process.send_signal(signal.SIGTERM)
    process.stdin.write(b"\n")
    assert await asyncio.wait_for(process.wait(), PATIENCE) == 7
    assert (orders.seen(), orders.position()) == (["a"], (tick, None))


async def test_starting_without_the_log_says_so(orders: Orders) -> None:
    log = rowbus.Log(orders.dsn, "nowhere")

    @log.consumer("one")
    async def one(_event: rowbus.Event) -> None:
        pass

    with pytest.raises(rowbus.LogNotFoundError) as caught:
        await log.start()
    assert caught.value.log == "nowhere"
    await log.stop()


def test_consumers_need_a_database_not_a_connection(orders: Orders) -> None:
    log = rowbus.Log(orders.connection, "orders")
    with pytest.raises(rowbus.ConfigurationError, match="connections of their own"):
        log.consumer("one")


def test_a_handler_of_the_wrong_shape_is_refused(orders: Orders) -> None:
    with pytest.raises(rowbus.ConfigurationError, match="must take"):
        orders.log().consumer("one")(lambda: None)
