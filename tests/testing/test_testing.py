"""`rowbus.testing`: what it has beyond the contract of the real transport."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

import rowbus
from rowbus import Client, Context, Endpoint, HandlerError, QueueAddress, SyncContext, command
from rowbus.errors import (
    ConfigurationError,
    ConnectionLostError,
    InvalidAddressError,
    InvalidHeaderError,
    MessageDeserializationError,
    MessageSerializationError,
)
from rowbus.testing import FakeClock, run_handlers, temporary_database


@command("Shop.PlaceOrder")
@dataclass
class PlaceOrder:
    order_id: str


@command("Shop.ChargeCard")
@dataclass
class ChargeCard:
    amount: float


ORDER = PlaceOrder("42")


# -------------------------------------------------------------------------------------------------------- run_handlers


async def test_what_was_published_is_told_from_what_was_sent() -> None:
    sales = Endpoint("Sales")

    @sales.handler
    async def place(order: PlaceOrder, context: Context) -> None:
        await context.publish(ORDER.__dict__, type=("Shop.OrderPlaced", "Shop.OrderEvent"))
        await context.send("Billing", ChargeCard(9.5))

    outcome = await run_handlers(sales, ORDER)

    (published,) = outcome.published
    assert published.types == ("Shop.OrderPlaced", "Shop.OrderEvent")
    assert published.destination == QueueAddress("public", "subscribers")
    assert len(outcome.sends) == 2


async def test_what_was_sent_can_be_read_as_an_object() -> None:
    sales = Endpoint("Sales")

    @sales.handler
    async def place(order: PlaceOrder, context: Context) -> None:
        await context.send("Billing", ChargeCard(9.5), time_to_be_received=timedelta(minutes=5))
        await context.send("Billing", ChargeCard(1), immediate=True)
        await context.reply({"order_id": order.order_id}, type="Shop.Placed")

    outcome = await run_handlers(sales, ORDER)

    immediate, sent, reply = outcome.sends
    assert sent.read(ChargeCard) == ChargeCard(9.5)
    assert sent.types == ("Shop.ChargeCard",)
    assert sent.destination == QueueAddress("public", "Billing")
    assert sent.time_to_be_received == timedelta(minutes=5)
    assert (immediate.immediate, sent.immediate) == (True, False)
    assert outcome.replies == (reply,)
    assert reply.destination == QueueAddress("public", "caller")
    with pytest.raises(MessageDeserializationError, match="The body is not a ChargeCard"):
        reply.read(ChargeCard)


async def test_a_delay_is_in_the_outcome() -> None:
    endpoint, later = Endpoint("Sales"), datetime(2099, 1, 1, tzinfo=UTC)

    @endpoint.handler
    async def place(order: PlaceOrder, context: Context) -> None:
        await context.send("Billing", order, delay=timedelta(minutes=5))
        await context.send("Billing", order, deliver_at=later)
        await context.send("Billing", order)

    outcome = await run_handlers(endpoint, PlaceOrder("42"))

    assert [sent.due for sent in outcome.sends] == [timedelta(minutes=5), later, None]


async def test_the_handlers_exception_itself_is_in_the_outcome() -> None:
    sales = Endpoint("Sales")
    error = ValueError("no")

    @sales.handler
    async def place(order: PlaceOrder) -> None:
        raise error

    outcome = await run_handlers(sales, ORDER)

    assert outcome.error is error
    assert outcome.sends == ()


async def test_names_are_in_the_endpoints_schema() -> None:
    sales = Endpoint("Sales", settings=rowbus.EndpointSettings(schema="shop"))

    @sales.handler
    async def place(order: PlaceOrder, context: Context) -> None:
        assert context.reply_to == QueueAddress("shop", "Web")
        await context.send("Billing", ChargeCard(1))

    outcome = await run_handlers(sales, ORDER, reply_to="Web")

    assert outcome.error is None
    assert outcome.sends[0].destination == QueueAddress("shop", "Billing")


async def test_a_handler_that_needs_its_connection_is_told_what_to_use() -> None:
    sales = Endpoint("Sales")

    @sales.handler
    async def place(order: PlaceOrder, context: Context) -> None:
        await context.connection.execute("insert into orders …")

    outcome = await run_handlers(sales, ORDER)

    assert isinstance(outcome.error, HandlerError)
    assert "rowbus.testing.running()" in str(outcome.error)


@pytest.mark.one_version
async def test_handlers_work_on_the_connection_of_the_test_and_in_its_transaction(database: str) -> None:
    sales = Endpoint("Sales")

    @sales.handler
    async def place(order: PlaceOrder, context: Context) -> None:
        await context.connection.execute("insert into orders values (%s)", (order.order_id,))

    @sales.handler("Shop.PlaceSlowly", long=True)
    async def place_slowly(order: PlaceOrder, context: rowbus.LongContext) -> None:
        async with context.transaction() as step:
            await step.connection.execute("insert into orders values ('slowly')")

    async with await psycopg.AsyncConnection.connect(database) as connection:
        await connection.execute("create table orders (id text)")
        outcome = await run_handlers(sales, ORDER, connection=connection)
        slow = await run_handlers(sales, {"order_id": "1"}, type="Shop.PlaceSlowly", connection=connection)
        found = await (await connection.execute("select id from orders")).fetchall()
        await connection.rollback()
        missing = await (await connection.execute("select to_regclass('orders')")).fetchone()

    assert (outcome.error, slow.error) == (None, None)
    assert found == [(ORDER.order_id,), ("slowly",)]
    assert missing == (None,)


async def test_so_is_one_in_a_thread() -> None:
    sales = Endpoint("Sales")

    @sales.handler
    def place(order: PlaceOrder, context: SyncContext) -> None:
        context.connection.execute("insert into orders …")

    outcome = await run_handlers(sales, ORDER)

    assert isinstance(outcome.error, HandlerError)


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_handler_that_takes_long_says_its_progress_and_its_steps_are_there_though_it_fails(
    *, is_async: bool
) -> None:
    sales, refusals = Endpoint("Sales"), list[str]()

    async def place(order: PlaceOrder, context: rowbus.LongContext) -> None:
        await context.progress(0.5, "one of two")
        async with context.transaction() as step:
            await step.send("Billing", ChargeCard(1))
            await step.append("orders", "a step", type="step")
        with suppress(ValueError):
            async with context.transaction() as step:
                await step.send("Billing", ChargeCard(2))
                raise ValueError
        await context.progress(1)
        await context.send("Billing", ChargeCard(3))
        try:
            _ = context.connection
        except HandlerError as error:
            refusals.append(str(error))
        async with context.transaction() as step:
            _ = step.connection

    def place_in_thread(order: PlaceOrder, context: rowbus.SyncLongContext) -> None:
        context.progress(0.5, "one of two")
        with context.transaction() as step:
            step.send("Billing", ChargeCard(1))
            step.append("orders", "a step", type="step")
        with suppress(ValueError), context.transaction() as step:
            step.send("Billing", ChargeCard(2))
            raise ValueError
        context.progress(1)
        context.send("Billing", ChargeCard(3))
        try:
            _ = context.connection
        except HandlerError as error:
            refusals.append(str(error))
        with context.transaction() as step:
            _ = step.connection

    sales.handler(long=True)(place if is_async else place_in_thread)
    outcome = await run_handlers(sales, ORDER)

    assert list(outcome.progress) == [(0.5, "one of two"), (1, "")]
    assert [sent.read(ChargeCard) for sent in outcome.sends] == [ChargeCard(1)]
    assert [event.type for event in outcome.events] == ["step"]
    assert "in no transaction while it runs" in refusals[0]
    assert isinstance(outcome.error, HandlerError)
    assert "rowbus.testing.running()" in str(outcome.error)


async def test_what_a_handler_that_takes_long_sends_leaves_with_its_end_or_with_the_block_that_ends_it() -> (
    None
):
    sales, billing = Endpoint("Sales"), Endpoint("Billing")

    @sales.handler(long=True)
    async def place(order: PlaceOrder, context: rowbus.LongContext) -> None:
        await context.send("Billing", ChargeCard(1))

    @billing.handler(long=True)
    async def charge(order: PlaceOrder, context: rowbus.LongContext) -> None:
        await context.send("Billing", ChargeCard(1))
        async with context.transaction(finish=True) as step:
            await step.send("Billing", ChargeCard(2))
        with pytest.raises(rowbus.HandlerError, match="has ended the message"):
            await context.send("Billing", ChargeCard(3))
        with pytest.raises(rowbus.LeaseLostError, match="is over"):
            await context.progress(1)

    ended, finished = await run_handlers(sales, ORDER), await run_handlers(billing, ORDER)

    assert (ended.error, finished.error) == (None, None)
    assert [sent.read(ChargeCard).amount for sent in ended.sends] == [1]
    assert [sent.read(ChargeCard).amount for sent in finished.sends] == [2, 1]


async def test_a_message_that_could_not_be_sent_is_the_tests_own_error() -> None:
    sales = Endpoint("Sales")

    with pytest.raises(MessageSerializationError):
        await run_handlers(sales, {"no": "type"})
    with pytest.raises(InvalidHeaderError):
        await run_handlers(sales, ORDER, headers={"a": "\ud800"})
    with pytest.raises(InvalidAddressError):
        await run_handlers(sales, ORDER, reply_to="Shop.Web")


async def test_header_values_a_sender_could_not_write_are_the_handlers_error() -> None:
    sales = Endpoint("Sales")

    @sales.handler
    async def place(order: PlaceOrder, context: Context) -> None:
        await context.send("Billing", ChargeCard(1), headers={"a": "\ud800"})

    assert isinstance((await run_handlers(sales, ORDER)).error, InvalidHeaderError)


# ----------------------------------------------------------------------------------------------------------- FakeClock


def test_a_fake_clock_stands_until_it_is_advanced() -> None:
    clock = FakeClock()
    assert (clock(), clock(), clock.now()) == (0.0, 0.0, datetime(2026, 1, 1, tzinfo=UTC))

    clock.advance(90)
    clock.advance(0.5)

    assert (clock(), clock.now()) == (90.5, datetime(2026, 1, 1, 0, 1, 30, 500000, tzinfo=UTC))


def test_a_fake_clock_starts_when_it_is_told() -> None:
    start = datetime(1999, 12, 31, 23, 59, 59, tzinfo=UTC)
    clock = FakeClock(start)

    clock.advance(1)

    assert clock.now() == datetime(2000, 1, 1, tzinfo=UTC)


def test_a_fake_clock_does_not_go_back() -> None:
    with pytest.raises(ValueError, match="cannot go back"):
        FakeClock().advance(-1)


# -------------------------------------------------------------------------------------------------- temporary_database


def databases(server: str) -> set[str]:
    with psycopg.connect(server) as connection:
        return {name for (name,) in connection.execute("select datname::text from pg_database")}


def test_a_temporary_database_is_empty_and_gone_afterwards(postgres_server: str) -> None:
    before = databases(postgres_server)
    with temporary_database(postgres_server) as dsn:
        with psycopg.connect(dsn) as connection:
            connection.execute("create table orders (id text)")
            name = connection.info.dbname
        assert name in databases(postgres_server)

    assert name not in before
    assert name not in databases(postgres_server)


def test_it_is_gone_also_when_the_test_failed_or_left_a_session_open(postgres_server: str) -> None:
    left_open: list[psycopg.Connection] = []

    def fail() -> None:
        with temporary_database(postgres_server) as dsn:
            left_open.append(psycopg.connect(dsn))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()

    assert left_open[0].info.dbname not in databases(postgres_server)
    left_open[0].close()


@pytest.mark.one_version
def test_two_at_a_time_are_two(postgres_server: str) -> None:
    with temporary_database(postgres_server) as one, temporary_database(postgres_server) as other:
        assert one != other


@pytest.mark.one_version
def test_the_notation_of_the_connection_string_is_kept(postgres_server: str) -> None:
    facts: dict[str, Any] = psycopg.conninfo.conninfo_to_dict(postgres_server)
    as_pairs = psycopg.conninfo.make_conninfo(**facts)
    assert "://" not in as_pairs
    for server in (postgres_server, as_pairs):
        with temporary_database(server) as dsn, psycopg.connect(dsn) as connection:
            assert ("://" in dsn) == ("://" in server)
            assert connection.info.dbname.startswith("rowbus_temporary_")


@pytest.mark.one_version
def test_without_an_argument_it_is_on_the_server_of_the_environment(
    postgres_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROWBUS_DATABASE", postgres_server)

    with temporary_database() as dsn, psycopg.connect(dsn) as connection:
        assert connection.info.dbname in databases(postgres_server)


def test_a_server_that_is_not_there_or_no_server_at_all_is_an_error_of_ours(tmp_path: object) -> None:
    with pytest.raises(ConnectionLostError), temporary_database(f"host={tmp_path} user=nobody"):
        pass
    with pytest.raises(ConfigurationError), temporary_database("nonsense"):
        pass


async def test_an_endpoint_can_be_tested_on_it_with_its_own_sql(postgres_server: str) -> None:
    """The example of the module's documentation: a handler that uses its connection."""
    with temporary_database(postgres_server) as dsn, psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("create table orders (id text)")
        sales = Endpoint("Sales", database=dsn)
        done = asyncio.Event()

        @sales.handler
        async def place(order: PlaceOrder, context: Context) -> None:
            await context.connection.execute("insert into orders values (%s)", [order.order_id])
            done.set()

        async with sales:
            Client(connection).send("Sales", ORDER)
            await asyncio.wait_for(done.wait(), 10)

        assert connection.execute("select * from orders").fetchall() == [("42",)]
