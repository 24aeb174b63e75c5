"""The PostgreSQL transport's own tests (`behaviours.md`), as far as they do not need delays or publishing."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

import rowbus
from rowbus.messages.headers import Header
from rowbus.transport.queues.table import queue_table
from rowbus.transport.receiving.delivery import Delivery
from tests.conformance.backend import Backend
from tests.conformance.endpoints import NO_RETRIES, Endpoints, OrderAccepted, PlaceOrder
from tests.conformance.transport import Transport, eventually, in_all_modes, never, within

CORRUPTION = "Error receiving message. Probable message metadata corruption. Moving to error queue."
FROM_THE_START = -(2**31)


@in_all_modes
async def test_when_delayed_delivery_disabled(transport: Transport) -> None:
    received: asyncio.Queue[Delivery] = asyncio.Queue()
    await transport.start(received.put)

    await transport.send()

    await within(received.get())
    assert await transport.backend.tables() == ["error", "input"]


@pytest.mark.passes_over_locked(in_mode_none=True)
@in_all_modes
async def test_when_receive_takes_long_to_complete(transport: Transport) -> None:
    """Two messages, one in the hands of an open receive: a peek sees one, and locks neither."""
    await transport.send_numbered(2)
    table = queue_table(transport.address)
    first, second = [await transport.backend.database.connect_receiver() for _ in range(2)]
    watch = await transport.backend.database.connect()

    (held,) = await first.begin(table.receive(1, FROM_THE_START))
    assert await watch.run(table.count_available(100, FROM_THE_START)) == 1
    async with watch.transaction():
        await watch.run(table.count_available(100, FROM_THE_START))
        (other,) = await second.begin(table.receive(1, FROM_THE_START))

    assert other.seq > held.seq
    await asyncio.gather(first.close(), second.close(), watch.close())


async def test_when_custom_schema_configured_for_error_queue(endpoints: Endpoints) -> None:
    errors = endpoints.backend.queue("error", await endpoints.backend.create_schema("trouble"))
    sales = endpoints.make("Sales", error_queue=errors.canonical, recoverability=NO_RETRIES)

    @sales.handler
    async def place(message: PlaceOrder) -> None:
        raise ValueError

    async with sales:
        await sales.send("Sales", PlaceOrder("1"))

        async def moved() -> bool:
            return await endpoints.backend.count(errors) == 1

        await eventually(moved)
    assert await endpoints.backend.count(sales.address) == 0


@in_all_modes
async def test_when_a_corrupted_message_is_received(
    transport: Transport, caplog: pytest.LogCaptureFixture
) -> None:
    received: asyncio.Queue[Delivery] = asyncio.Queue()
    await transport.start(received.put)

    row_id = await transport.backend.insert(transport.address, "<corrupt headers>", b"body")
    await transport.send()

    await within(received.get())
    await transport.wait_until_empty()
    await transport.wait_for_rows(1, transport.error_queue)
    assert [record.levelno for record in caplog.records if CORRUPTION in record.getMessage()] == [
        logging.ERROR
    ]
    (row,) = await transport.backend.rows(transport.error_queue)
    assert row.body == b"body"
    assert row.headers[Header.MESSAGE_ID] == row_id
    assert received.empty()


def _noting(noted: list[str]) -> Callable[[OrderAccepted], Awaitable[None]]:
    async def accepted(message: OrderAccepted) -> None:
        noted.append(message.order_id)

    return accepted


async def test_when_routing_reply_to_specific_instance(endpoints: Endpoints) -> None:
    replies: dict[str, list[str]] = {"a": [], "b": []}
    sales, requesters = endpoints.make("Sales"), {}
    for name, noted in replies.items():
        requesters[name] = endpoints.make("Web", discriminator=name)
        requesters[name].handler(_noting(noted))

    @sales.handler
    async def place(message: PlaceOrder, context: rowbus.Context) -> None:
        assert context.reply_to == endpoints.queue("Web.b")
        await context.reply(OrderAccepted(message.order_id))

    async with sales, requesters["a"], requesters["b"]:
        for number in range(10):
            await requesters["b"].send("Sales", PlaceOrder(str(number)), reply_to_this_instance=True)
        await eventually(lambda: len(replies["b"]) == 10)
        await never(lambda: bool(replies["a"]))
    assert sorted(replies["b"]) == [str(number) for number in range(10)]


@pytest.mark.only("PostgreSQL", reason="a URL of SQL Server's sets nothing that a session could show")
async def test_when_using_custom_connection_factory(endpoints: Endpoints) -> None:
    """The original takes a factory of connections; here it is any libpq connection string, whatever it sets."""
    own = {"application_name": "my own name", "options": "-c timezone=Asia/Tokyo -c work_mem=123kB"}
    dsn = make_conninfo("", **{**conninfo_to_dict(endpoints.backend.dsn), **own})
    sales, seen = endpoints.make("Sales", database=dsn), []

    @sales.handler
    async def place(message: PlaceOrder, context: rowbus.Context) -> None:
        query = "select current_setting(name) from unnest(array['application_name', 'work_mem', 'timezone']) as name"
        seen.append([row[0] for row in await (await context.connection.execute(query)).fetchall()])

    async with sales:
        await sales.send("Sales", PlaceOrder("1"))
        await eventually(lambda: len(seen) == 1)
    assert seen == [["my own name", "123kB", "UTC"]]


# --- a connection and transaction of the user's own (the original has that for SQL Server only)


@pytest.mark.parametrize("commits", [True, False], ids=["committed", "rolled back"])
async def test_when_using_custom_transaction_outside_a_handler(backend: Backend, *, commits: bool) -> None:
    await backend.create_queue("Sales")
    await backend.create_business_tables()
    async with backend.another_connection() as own:
        await backend.write(own, "mine")
        await rowbus.AsyncClient(own, schema=backend.schema).send("Sales", PlaceOrder("1"))
        assert await backend.count("Sales") == 0
        await backend.end(own, commits=commits)

    assert await backend.count("Sales") == int(commits)
    assert await backend.business() == ["mine"] * int(commits)


async def test_when_using_custom_transaction_inside_a_handler(endpoints: Endpoints) -> None:
    """A message sent on the user's other connection leaves with that one's commit, not with the handler."""
    await endpoints.backend.create_queue("Billing")
    sales = endpoints.make("Sales", recoverability=NO_RETRIES)

    @sales.handler
    async def place(message: PlaceOrder) -> None:
        async with endpoints.backend.another_connection() as own:
            client = rowbus.AsyncClient(own, schema=endpoints.backend.schema)
            await client.send("Billing", PlaceOrder(message.order_id))
        raise ValueError

    async with sales:
        await sales.send("Sales", PlaceOrder("1"))

        async def failed() -> bool:
            return await endpoints.backend.count("error") == 1

        await eventually(failed)
    assert await endpoints.backend.count("Billing") == 1


# --- installing


async def test_instances_that_start_together_create_the_tables_together(endpoints: Endpoints) -> None:
    made = [endpoints.make("Sales") for _ in range(8)]

    await asyncio.gather(*(endpoint.start() for endpoint in made))

    assert await endpoints.backend.tables() == ["error", "sales", "sales.delayed", "subscriptionrouting"]


async def test_the_schema_is_never_created_silently(endpoints: Endpoints) -> None:
    with pytest.raises(rowbus.ConfigurationError, match="schema 'nowhere' does not exist"):
        await endpoints.make("Sales", schema="nowhere").start()


async def test_without_installing_a_missing_queue_is_an_error_at_start(endpoints: Endpoints) -> None:
    with pytest.raises(
        rowbus.QueueNotFoundError, match=re.escape(f"{endpoints.queue('Sales')} does not exist")
    ):
        await endpoints.make("Sales", install=False).start()
    assert await endpoints.backend.tables() == []
