"""Behind a real PgBouncer in transaction mode: an endpoint and a consumer with no settings for it.

The pool is smaller than the number of sessions, so sessions do change their server connection between transactions.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, replace
from datetime import timedelta

import psycopg
import pytest

import rowbus
from rowbus.database.postgresql.database import Database
from rowbus.errors import ConfigurationError
from rowbus.log.schema.installer import install_now
from rowbus.spark.log_source.follower import LogFollower
from rowbus.spark.log_source.options import read_settings
from tests.fixtures.pooler import Pooled

PATIENCE = 30.0
SETTINGS = rowbus.EndpointSettings(peek_delay=timedelta(milliseconds=100), concurrency=4)
SOON = timedelta(milliseconds=200)


@rowbus.command("Shop.PlaceOrder")
@dataclass
class PlaceOrder:
    order_id: int


@rowbus.message("Shop.OrderAccepted")
@dataclass
class OrderAccepted:
    order_id: int


def test_clients_send_through_a_pooler_in_transaction_mode(pooled: Pooled) -> None:
    asyncio.run(rowbus.Endpoint("Sales", database=pooled.dsn, settings=SETTINGS).install())

    for number in range(20):  # a prepared statement would have been made at the sixth
        with psycopg.connect(pooled.dsn, prepare_threshold=None) as connection:
            client = rowbus.Client(connection, notify=False)
            client.send("Sales", PlaceOrder(number))
            client.send_many("Sales", map(PlaceOrder, range(2)))

    with psycopg.connect(pooled.direct) as connection:
        assert connection.execute('select count(*) from "Sales"').fetchone() == (60,)


async def test_an_endpoint_behind_a_pooler_handles_every_message_once(pooled: Pooled) -> None:
    once_more = rowbus.Recoverability(immediate=1, delayed=1, increase=timedelta(milliseconds=100))
    sales = rowbus.Endpoint("Sales", database=pooled.dsn, settings=SETTINGS, recoverability=once_more)
    web = rowbus.Endpoint("Web", database=pooled.dsn, settings=replace(SETTINGS, concurrency=1))
    sales.delayed_delivery = rowbus.NativeDelayedDelivery(longest_look_delay=SOON)

    @sales.handler
    async def place_order(order: PlaceOrder, context: rowbus.Context) -> None:
        await context.connection.execute("insert into orders values (%s)", (order.order_id,))
        if order.order_id < 0:
            raise ValueError("no such order")
        if order.order_id % 10 == 0:
            await context.send("Web", OrderAccepted(order.order_id), delay=SOON)
        else:
            await context.reply(OrderAccepted(order.order_id))

    @web.handler
    def order_accepted(message: OrderAccepted, context: rowbus.SyncContext) -> None:
        context.connection.execute("insert into accepted values (%s)", (message.order_id,))

    async with await psycopg.AsyncConnection.connect(pooled.direct, autocommit=True) as watcher:
        await watcher.execute("create table orders (id int); create table accepted (id int)")
        async with sales, web:
            await _send_orders(pooled.dsn)
            await _await_count(watcher, "select count(*) from accepted", 300)
            await _await_count(watcher, "select count(*) from error", 2)

        assert await _count(watcher, "select count(distinct id) from accepted") == 300
        assert await _count(watcher, "select count(*) from orders") == 300, "a failed attempt was not undone"
        assert (
            await _count(watcher, 'select (select count(*) from "Sales") + (select count(*) from "Web")') == 0
        )


async def test_a_consumer_behind_a_pooler_handles_every_event_once(pooled: Pooled) -> None:
    with Database(pooled.direct).session() as session:
        install_now(session)
    with psycopg.connect(pooled.direct) as connection:
        connection.execute("select pgq.create_queue('orders')")
    log = rowbus.Log(pooled.dsn, "orders")
    settings = rowbus.ConsumerSettings(poll_delay=timedelta(milliseconds=100))

    @log.consumer("books", settings=settings)
    async def books(event: rowbus.Event, context: rowbus.LogContext) -> None:
        await context.connection.execute("insert into booked values (%s)", (event.id,))

    async with await psycopg.AsyncConnection.connect(pooled.direct, autocommit=True) as watcher:
        await watcher.execute("create table booked (id bigint)")
        async with rowbus.Ticker(pooled.direct), log:
            for _ in range(20):
                async with await psycopg.AsyncConnection.connect(
                    pooled.dsn, prepare_threshold=None
                ) as writer:
                    await rowbus.AsyncLog(writer, "orders").append({"total": 1}, type="placed")
            await _await_count(watcher, "select count(*) from booked", 20)
        assert await _count(watcher, "select count(distinct id) from booked") == 20


@pytest.mark.one_version
async def test_what_holds_a_lock_of_its_session_refuses_a_pooler(pooled: Pooled) -> None:
    """The pooler would have the lock: it could lend it to two at once, and keep it when both have ended."""
    with Database(pooled.direct).session() as session:
        install_now(session)
    with psycopg.connect(pooled.direct) as connection:
        connection.execute("select pgq.create_queue('orders')")
    await rowbus.DelayedMover("Sales", database=pooled.direct).install()
    options = {"log": "orders", "consumer": "lake", "dsn": pooled.dsn}
    stream = LogFollower(read_settings(options, stream=True))
    refused = "holds a lock of its session.*give the address of the server itself"
    for service in (
        rowbus.Ticker(pooled.dsn),
        rowbus.DelayedMover("Sales", database=pooled.dsn),
        rowbus.AsyncRequestClient("Web", database=pooled.dsn),
    ):
        with pytest.raises(ConfigurationError, match=refused):
            await service.start()
    with pytest.raises(ConfigurationError, match=refused):
        await asyncio.to_thread(stream.initial)


async def _send_orders(dsn: str) -> None:
    async with await psycopg.AsyncConnection.connect(dsn, prepare_threshold=None) as connection:
        client = rowbus.AsyncClient(connection, reply_to="Web", notify=False)
        for number in range(10):
            await client.send("Sales", PlaceOrder(number))
            await connection.commit()
        await client.send_many("Sales", map(PlaceOrder, [*range(10, 300), -1, -2]))


async def _await_count(connection: psycopg.AsyncConnection, query: str, count: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while (seen := await _count(connection, query)) < count:
        assert time.monotonic() < deadline, f"{query}: {seen} instead of {count}"
        await asyncio.sleep(0.01)


async def _count(connection: psycopg.AsyncConnection, query: str) -> int:
    row = await (await connection.execute(query.encode())).fetchone()
    assert row is not None
    return int(row[0])
