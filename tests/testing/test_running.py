"""Endpoints that run in a test: drained, also of what is delayed, with a record of what was sent."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

import psycopg
import pytest

import rowbus
from rowbus.database.postgresql.database import Database
from rowbus.log.schema.installer import install_now
from rowbus.testing import running, temporary_database
from rowbus.testing.record import Move, State, next_move, time_to_pass

pytestmark = pytest.mark.one_version

HOUR = timedelta(hours=1)


@rowbus.command("Running.PlaceOrder")
@dataclass
class PlaceOrder:
    number: int


@rowbus.command("Running.Remind")
@dataclass
class Remind:
    number: int


@rowbus.event("Running.OrderPlaced")
@dataclass
class OrderPlaced:
    number: int


class Shop:
    """Two endpoints, and what their handlers saw."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.failures = 0
        self.sales = rowbus.Endpoint("Sales", recoverability=rowbus.Recoverability(immediate=1, delayed=3))
        self.billing = rowbus.Endpoint("Billing")
        self.sales.handler(self.place)
        self.sales.handler(self.remind)
        self.billing.handler(self.placed)

    async def place(self, message: PlaceOrder, context: rowbus.Context) -> None:
        self.seen.append(f"place {message.number}")
        await context.publish(OrderPlaced(message.number))
        await context.send("Sales", Remind(message.number), delay=message.number * HOUR)
        if self.failures:
            self.failures -= 1
            raise ValueError("not yet")

    async def remind(self, message: Remind) -> None:
        self.seen.append(f"remind {message.number}")

    async def placed(self, message: OrderPlaced) -> None:
        self.seen.append(f"placed {message.number}")


@pytest.fixture
def shop() -> Shop:
    return Shop()


async def test_drain_processes_all_and_hours_pass_at_once_in_their_order(shop: Shop, database: str) -> None:
    async with running(shop.sales, shop.billing, database=database) as bus:
        for number in (3, 1, 2):
            await bus.send("Sales", PlaceOrder(number))
        await bus.drain()
        sent = await bus.sent("Sales")

    assert sorted(shop.seen[:6]) == [f"place{d} {number}" for d in ("", "d") for number in (1, 2, 3)]
    assert shop.seen[6:] == ["remind 1", "remind 2", "remind 3"]
    reminders = [message for message in sent if message.types == ("Running.Remind",)]
    assert len(sent) == 6
    assert {message.read(Remind).number for message in reminders} == {1, 2, 3}
    assert all(message.due is not None for message in reminders)


async def test_a_name_is_a_queue_in_the_schema_of_the_endpoint(database: str) -> None:
    with psycopg.connect(database) as connection:
        connection.execute("create schema shop")
    sales = rowbus.Endpoint("Sales", settings=rowbus.EndpointSettings(schema="shop"))
    seen = []

    @sales.handler
    async def place(message: PlaceOrder) -> None:
        seen.append(message.number)

    async with running(sales, database=database) as bus:
        await bus.send("Sales", PlaceOrder(7))
        await bus.drain()
        (sent,) = await bus.sent("Sales")

    assert seen == [7]
    assert sent.destination == sales.address


async def test_without_delays_drain_leaves_what_is_not_due(shop: Shop, database: str) -> None:
    async with running(shop.sales, database=database) as bus:
        await bus.send("Sales", PlaceOrder(2))
        await bus.send("Sales", PlaceOrder(5))
        await bus.drain(delays=False)
        assert not any(one.startswith("remind") for one in shop.seen)
        await bus.advance(HOUR)
        assert not any(one.startswith("remind") for one in shop.seen)
        await bus.advance(HOUR)
        assert shop.seen[-1] == "remind 2"
        await bus.advance(10 * HOUR)
        assert shop.seen[-1] == "remind 5"


async def test_time_passes_for_what_waits_in_a_lane_with_order(database: str) -> None:
    sales, seen = rowbus.Endpoint("Sales", lanes=rowbus.by_key(2)), list[int]()

    @sales.handler
    async def place(message: PlaceOrder) -> None:
        seen.append(message.number)
        if len(seen) in range(2, 15):
            raise ValueError("not yet")  # the third message has the second's key, and waits for it

    async with running(sales, database=database) as bus:
        for number in (1, 2, 3):
            await bus.send("Sales", PlaceOrder(number), key="one")
        await bus.drain(delays=False)
        assert seen == [1, *[2] * 6]
        await bus.advance(timedelta(seconds=10))
        assert seen == [1, *[2] * 12]
        await bus.drain()

    assert seen == [1, *[2] * 14, 3]


async def test_what_was_undone_was_not_sent_and_what_failed_is_in_the_error_queue(
    shop: Shop, database: str
) -> None:
    shop.failures = 3
    async with running(shop.sales, database=database, queues=["Reports"]) as bus:
        await bus.send("Sales", PlaceOrder(1))
        await shop.sales.send("Reports", PlaceOrder(7))
        await bus.drain()
        assert len([one for one in await bus.sent() if one.types == ("Running.Remind",)]) == 1
        assert len(await bus.sent("Sales")) == 2
        assert [one.read(PlaceOrder) for one in await bus.sent("Reports")] == [PlaceOrder(7)]
        assert await bus.sent("error") == []

        shop.failures = 100
        await bus.send("Sales", PlaceOrder(9))
        await bus.drain()
        (failed,) = await bus.sent("error")
    assert failed.headers["NServiceBus.ExceptionInfo.Message"] == "not yet"
    assert shop.seen.count("place 9") == 8


def test_a_test_that_is_no_coroutine_runs_and_drains_too(shop: Shop, database: str) -> None:
    with running(shop.sales, shop.billing, database=database) as bus:
        bus.send("Sales", PlaceOrder(1))
        bus.advance(HOUR / 2)
        assert sorted(shop.seen) == ["place 1", "placed 1"]
        bus.drain()
        (placed,) = bus.sent("Billing")

    assert shop.seen[-1] == "remind 1"
    assert placed.read(OrderPlaced) == OrderPlaced(1)
    with pytest.raises(rowbus.ConfigurationError, match="is over"):
        bus.drain()


async def test_a_run_is_drained_in_the_loop_of_its_endpoints_which_is_not_blocked(
    shop: Shop, database: str
) -> None:
    async with running(shop.sales, database=database) as bus:
        with pytest.raises(rowbus.ConfigurationError, match="loop_scope"):
            await asyncio.to_thread(asyncio.run, bus.drain())
        with (
            pytest.raises(rowbus.ConfigurationError, match="`async with running"),
            running(shop.billing, database=database),
        ):
            raise AssertionError
        with pytest.raises(rowbus.ConfigurationError, match="Sales is started: give it its database before"):
            await running(shop.sales, database=database).__aenter__()


def test_an_endpoint_keeps_nothing_from_the_test_before(
    shop: Shop, database: str, postgres_server: str
) -> None:
    first = database
    with running(shop.sales, shop.billing, database=first) as bus:
        bus.send("Sales", PlaceOrder(1))
        bus.drain(delays=False)
    shop.seen.clear()
    with temporary_database(postgres_server) as second, running(shop.sales, database=second) as bus:
        assert bus.sent() == []
        bus.send("Sales", PlaceOrder(2))
        bus.drain()
        assert bus.sent("Billing") == []
    with (
        pytest.raises(rowbus.ConfigurationError, match=r'"Sales.Delayed"'),
        running(shop.sales, database=first),
    ):
        raise AssertionError
    with running(shop.sales, database=first, leftovers=True) as bus:
        assert bus.sent() == []
        bus.drain()

    assert shop.seen == ["place 2", "remind 2", "remind 1"]
    assert shop.sales.database is None


async def test_a_message_that_sends_itself_for_ever_ends_in_an_error_that_says_so(database: str) -> None:
    sales = rowbus.Endpoint("Sales")

    @sales.handler
    async def again(message: Remind, context: rowbus.Context) -> None:
        await context.send("Sales", message, delay=HOUR)

    async with running(sales, database=database) as bus:
        await bus.send("Sales", Remind(1))
        with pytest.raises(TimeoutError, match=r"After 0\.2 s there still are"):
            await bus.drain(timeout=0.2)


async def test_consumers_of_logs_come_to_their_end_with_their_retries(database: str) -> None:
    with Database(database).session() as session:
        install_now(session)
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("select pgq.create_queue('orders')")
    sales, log = rowbus.Endpoint("Sales"), rowbus.Log(database, "orders")
    seen: list[str] = []

    @sales.handler
    async def place(message: PlaceOrder, context: rowbus.Context) -> None:
        await context.append("orders", {"number": message.number}, type="placed")

    @sales.handler
    async def remind(message: Remind) -> None:
        seen.append(f"remind {message.number}")

    @log.consumer("reminders")
    async def reminders(event: rowbus.Event, context: rowbus.LogContext) -> None:
        seen.append("event")
        if len(seen) == 1:
            raise ValueError("once more")
        order = event.json()
        assert isinstance(order, dict)
        await context.send("Sales", Remind(order["number"]))

    async with running(sales, log, database=database) as bus:
        await bus.send("Sales", PlaceOrder(4))
        await bus.drain()

    assert seen == ["event", "event", "remind 4"]


async def test_drain_waits_for_handlers_that_take_long_and_those_of_somebody_else_are_refused(
    database: str,
) -> None:
    sales, seen = rowbus.Endpoint("Sales"), list[str]()

    @sales.handler(long=True)
    async def place(message: PlaceOrder, context: rowbus.LongContext) -> None:
        async with context.transaction() as step:
            await step.connection.execute("select pg_sleep(0.05)")
        await context.send("Sales", Remind(message.number), delay=HOUR)
        seen.append("placed")

    @sales.handler
    async def remind(message: Remind) -> None:
        seen.append("reminded")

    async with running(sales, database=database) as bus:
        await bus.send("Sales", PlaceOrder(1))
        await bus.drain()
    assert seen == ["placed", "reminded"]
    with psycopg.connect(database, autocommit=True) as connection:
        put = """insert into "Sales.Running" (id, queue, headers, body) values (gen_random_uuid(), 'q', '{}', '')"""
        connection.execute(put)
    with pytest.raises(rowbus.ConfigurationError, match=r"wait from before: .*Sales\.Running"):
        async with running(sales, database=database):
            raise AssertionError


def test_running_needs_an_endpoint() -> None:
    with pytest.raises(rowbus.ConfigurationError, match="Say which endpoint is to run"):
        running()


def test_no_database_is_used_that_the_test_did_not_name(
    shop: Shop, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROWBUS_DATABASE", database)
    for sales in (shop.sales, rowbus.Endpoint("Sales", database=database)):
        with pytest.raises(rowbus.ConfigurationError, match="Name the database of the test"), running(sales):
            raise AssertionError
    with psycopg.connect(database) as connection:
        assert connection.execute("select from pg_class where relname = 'Sales'").fetchall() == []


def test_the_endpoints_own_database_is_used_if_it_is_a_temporary_one(postgres_server: str) -> None:
    seen: list[int] = []
    with temporary_database(postgres_server) as own:
        sales = rowbus.Endpoint("Sales", database=own)

        @sales.handler
        async def place(message: PlaceOrder) -> None:
            seen.append(message.number)

        with running(sales) as bus:
            bus.send("Sales", PlaceOrder(5))
            bus.drain()
    assert seen == [5]


class Mail:
    """A dependency that lives as long as its endpoint, and must not be made in a test."""

    def __init__(self) -> None:
        raise AssertionError


@pytest.mark.parametrize("scope", ["endpoint", "message"])
@pytest.mark.parametrize("is_async", [True, False])
def test_what_endpoints_provide_is_replaced(
    database: str, scope: Literal["endpoint", "message"], *, is_async: bool
) -> None:
    sales, sent = rowbus.Endpoint("Sales"), list[object]()
    sales.provide(Mail, factory=Mail, scope=scope)

    async def place(message: PlaceOrder, mail: Mail) -> None:
        sent.append((message.number, mail))

    def place_in_thread(message: PlaceOrder, mail: Mail) -> None:
        sent.append((message.number, mail))

    sales.handler(place if is_async else place_in_thread)
    with (
        pytest.raises(rowbus.ConfigurationError, match="cannot be replaced"),
        running(sales, database=database, provide={str: ""}),
    ):
        raise AssertionError
    with running(sales, database=database, provide={Mail: "a fake"}) as bus:
        bus.send("Sales", PlaceOrder(1))
        bus.drain()
    assert sent == [(1, "a fake")]


IDLE = State(0, None)


def test_what_drain_does_next() -> None:
    def move(state: State, *, ticked: bool = True, left: timedelta | None = None) -> Move:
        return next_move(state, ticked=ticked, left=left)

    assert move(IDLE) is Move.END
    assert move(IDLE, ticked=False) is Move.TICK
    assert move(IDLE._replace(queued=1)) is Move.WAIT
    assert move(IDLE._replace(next_due=-HOUR), left=timedelta()) is Move.WAIT
    assert move(IDLE._replace(behind=1, retries=1)) is Move.WAIT
    assert move(IDLE._replace(retries=1, fresh=1)) is Move.RETRY
    assert move(IDLE._replace(next_due=HOUR, fresh=1)) is Move.TICK
    assert move(IDLE._replace(next_due=HOUR)) is Move.ADVANCE
    assert move(IDLE._replace(next_due=HOUR), left=timedelta()) is Move.END
    assert move(IDLE, left=HOUR) is Move.ADVANCE
    assert time_to_pass(HOUR, None) == HOUR
    assert time_to_pass(HOUR, HOUR / 2) == HOUR / 2
    assert time_to_pass(None, HOUR) == HOUR
