"""Sending: outside of handlers by as many tasks as like; what types say of their messages; what is forwarded."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta

import psycopg
import pytest

import rowbus
from tests.conformance.backend import Backend
from tests.conformance.endpoints import Endpoints, PlaceOrder
from tests.conformance.transport import eventually, within

pytestmark = [
    pytest.mark.only("PostgreSQL", reason="it locks a table of PostgreSQL's"),
    pytest.mark.one_version,
]


async def waits_for_lock(session: psycopg.AsyncConnection[tuple[int]]) -> bool:
    cursor = await session.execute("select count(*) from pg_locks where not granted")
    return await cursor.fetchone() != (0,)


async def sent_beside_one_that_waits(sales: rowbus.Endpoint, backend: Backend) -> asyncio.Task[str]:
    """Send to a queue that is locked, and to another until that one's message has left."""
    async with await psycopg.AsyncConnection.connect(backend.dsn) as locking:
        await locking.execute(f"lock table {backend.queue('Slow')}".encode())
        waiting = asyncio.create_task(sales.send("Slow", PlaceOrder("1")))
        await eventually(lambda: waits_for_lock(locking))
        await within(sales.send("Billing", PlaceOrder("2")))
        assert not waiting.done()
    return waiting


async def test_a_sender_waits_for_no_other_though_the_concurrency_is_1(
    endpoints: Endpoints, backend: Backend
) -> None:
    for name in ("Slow", "Billing"):
        await backend.create_queue(name)
    sales = endpoints.make("Sales", concurrency=1)
    sales.handler(ignore)
    async with sales:
        waiting = await sent_beside_one_that_waits(sales, backend)
        await within(waiting)

    assert [len(await backend.rows(name)) for name in ("Slow", "Billing")] == [1, 1]


async def ignore(_message: PlaceOrder) -> None:
    """Handle what never comes."""


@rowbus.event("Sending.Price", time_to_be_received=timedelta(minutes=5))
@dataclass
class Price:
    amount: int = 1


@rowbus.command("Sending.Quote", time_to_be_received=timedelta(minutes=5))
@dataclass
class Quote:
    amount: int = 1


async def test_a_type_says_how_long_its_messages_live(endpoints: Endpoints, backend: Backend) -> None:
    billing = endpoints.make("Billing")

    @billing.handler
    async def never(_message: Price) -> None: ...

    async with billing:
        pass  # it subscribes
    sales = endpoints.make("Sales")
    sales.handler(ignore)
    async with sales:
        await sales.publish(Price())
        await sales.send("Billing", Quote())
        await sales.send("Billing", {"amount": 1}, type="Sending.Quote")
    client = backend.client()
    assert await client.send_many("Billing", [Quote(), Quote()]) == 2
    await client.send("Billing", Quote(), time_to_be_received=timedelta(hours=1))
    with pytest.raises(
        rowbus.ConfigurationError, match="PlaceOrder was declared with another time_to_be_received"
    ):
        await client.send_many("Billing", [Quote(), PlaceOrder("1")])

    rows = await backend.rows("Billing")
    assert sorted(str(row.headers["NServiceBus.TimeToBeReceived"]) for row in rows) == [
        *["00:05:00"] * 5,
        "01:00:00",
    ]
    assert all(row.expires_in is not None and row.expires_in <= 3600 for row in rows)
    with pytest.raises(rowbus.ConfigurationError, match="must be more than nothing"):
        rowbus.command("Sending.Refused", time_to_be_received=timedelta())


async def test_an_endpoint_may_have_a_queue_of_another_name(endpoints: Endpoints, backend: Backend) -> None:
    sales = endpoints.make("Sales", queue="Sales.Input", discriminator="1")
    seen: asyncio.Queue[tuple[str, str, str | None]] = asyncio.Queue()

    @sales.handler
    async def note(_message: Price, context: rowbus.Context) -> None:
        origin = context.headers["NServiceBus.OriginatingEndpoint"]
        await seen.put((str(sales.address), str(context.reply_to), origin))

    async with sales:
        await sales.publish(Price())
        assert await within(seen.get()) == (*[str(backend.queue("Sales.Input"))] * 2, "Sales")
    assert await backend.count("Sales.Input") == await backend.count("Sales.Input.1") == 0
    assert await backend.values("select to_regclass('\"Sales\"') is null") == [True]
    with pytest.raises(rowbus.InvalidAddressError):
        rowbus.Endpoint("Sales", settings=rowbus.EndpointSettings(queue=""))


async def test_a_handler_forwards_its_message_and_stops_the_others(
    endpoints: Endpoints, backend: Backend
) -> None:
    await backend.create_queue("Billing")
    sales, called = endpoints.make("Sales"), asyncio.Queue[str]()

    @sales.handler
    def first(_message: PlaceOrder, context: rowbus.SyncContext) -> None:
        called.put_nowait("first")
        if context.headers.get("Shop.Note") == "forward":
            context.forward("Billing")
        context.stop_handlers()

    @sales.handler
    async def second(_message: PlaceOrder) -> None:
        called.put_nowait("second")

    async with sales:
        await sales.send_local(PlaceOrder("1"))
        sent = await sales.send_local(PlaceOrder("2"), headers={"Shop.Note": "forward"})
        assert [await within(called.get()) for _ in range(2)] == ["first"] * 2
        await eventually(lambda: _is_there(backend))
    (row,) = await backend.rows("Billing")
    assert called.empty()
    assert (row.headers["NServiceBus.MessageId"], row.headers["Shop.Note"]) == (sent, "forward")
    assert b'"2"' in (row.body or b"")


async def _is_there(backend: Backend) -> bool:
    return await backend.count("Billing") == 1
