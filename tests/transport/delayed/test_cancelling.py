"""Delayed messages are cancelled by the id that `send` returned: in a transaction, and not once they have left."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

import rowbus
from rowbus.errors import ConfigurationError, QueueNotFoundError
from rowbus.messages.headers import Header
from tests.conformance.endpoints import NO_RETRIES, Endpoints, OrderAccepted, PlaceOrder
from tests.conformance.transport import SimulatedError, eventually, in_all_modes, within
from tests.transport.delayed.table import Delayed, headers_of

LATER = timedelta(hours=1)
SOON = timedelta(milliseconds=50)


async def test_a_client_cancels_in_its_transaction_and_says_whether_the_message_still_waited(
    endpoints: Endpoints, delayed: Delayed
) -> None:
    await endpoints.make("Sales").install()
    client = endpoints.backend.client()
    first = await client.send("Sales", PlaceOrder("1"), delay=LATER)
    second = await client.send("Sales", PlaceOrder("2"), delay=LATER)

    async with endpoints.backend.transaction(force_rollback=True):
        assert await client.cancel("Sales", first)
        assert not await client.cancel("Sales", first)
    assert await delayed.count() == 2
    assert await client.cancel("Sales", first)
    assert not await client.cancel("Sales", first)
    assert not await client.cancel("Sales", "no such message")

    (row,) = await delayed.rows()
    assert row.headers[Header.MESSAGE_ID] == second


async def test_a_client_cancels_where_it_delays(endpoints: Endpoints, delayed: Delayed) -> None:
    await endpoints.make("Sales").install()
    await endpoints.backend.create_queue("Plain")
    through = endpoints.backend.client(delay_through="Sales")
    message_id = await through.send("Plain", PlaceOrder("1"), delay=LATER)

    with pytest.raises(QueueNotFoundError):
        await endpoints.backend.client().cancel("Plain", message_id)
    assert await through.cancel("Plain", message_id)
    assert await delayed.count() == 0


@in_all_modes
async def test_a_handler_cancels_what_its_endpoint_delayed(endpoints: Endpoints, delayed: Delayed) -> None:
    sales = endpoints.make("Sales")
    answers: asyncio.Queue[bool] = asyncio.Queue()

    @sales.handler
    async def place(message: PlaceOrder, context: rowbus.Context) -> None:
        await answers.put(await context.cancel(message.order_id))

    @sales.handler
    def accepted(message: OrderAccepted, context: rowbus.SyncContext) -> None:
        answers.put_nowait(context.cancel(message.order_id))

    async with sales:
        for kind in (PlaceOrder, OrderAccepted):
            message_id = await sales.send("Sales", PlaceOrder("later"), delay=LATER)
            await sales.send("Sales", kind(message_id))
            assert await within(answers.get())
            await sales.send("Sales", kind(message_id))
            assert not await within(answers.get())

            async def none_left() -> bool:
                return await delayed.count() == 0

            await eventually(none_left)


async def test_what_a_handler_cancels_waits_on_when_it_fails(endpoints: Endpoints, delayed: Delayed) -> None:
    sales = endpoints.make("Sales", recoverability=NO_RETRIES)
    cancelled = asyncio.Event()

    @sales.handler
    async def place(message: PlaceOrder, context: rowbus.Context) -> None:
        assert await context.cancel(message.order_id)
        cancelled.set()
        raise SimulatedError

    async def has_failed() -> bool:
        return await endpoints.backend.count("error") == 1

    async with sales:
        message_id = await sales.send("Sales", PlaceOrder("later"), delay=LATER)
        await sales.send("Sales", PlaceOrder(message_id))
        await within(cancelled.wait())
        await eventually(has_failed)
        assert await delayed.count() == 1
        assert await sales.cancel(message_id)
        assert not await sales.cancel(message_id)


async def test_what_a_handler_sent_itself_is_not_sent_at_all(endpoints: Endpoints, delayed: Delayed) -> None:
    sales = endpoints.make("Sales")
    answered: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    @sales.handler
    async def place(message: PlaceOrder, context: rowbus.Context) -> None:
        first = await context.send("Sales", OrderAccepted("1"), delay=LATER)
        await context.send("Sales", OrderAccepted("2"), delay=LATER)
        answered.set_result(await context.cancel(first))

    async def one_waits() -> bool:
        return await delayed.count() == 1

    async with sales:
        await sales.send("Sales", PlaceOrder("1"))
        assert await within(answered)
        await eventually(one_waits)
        assert b'"2"' in ((await delayed.rows())[0].body or b"")


async def test_only_the_header_of_the_id_counts_and_no_delayed_retry(
    endpoints: Endpoints, delayed: Delayed
) -> None:
    await endpoints.make("Sales").install()
    client = endpoints.backend.client()
    waiting = headers_of("the id", "Shop.Order", "Sales")
    await delayed.insert(
        {**waiting, Header.MESSAGE_ID: "another", Header.CORRELATION_ID: "the id"}, due_in=99
    )
    await delayed.insert({**waiting, Header.RETRIES: "1"}, due_in=99)
    assert not await client.cancel("Sales", "the id")

    spaced = '{"NServiceBus.MessageId": "the id", "NServiceBus.MessageIntent": "Send"}'
    await delayed.insert(spaced, due_in=99)
    assert await client.cancel("Sales", "the id")
    assert await delayed.count() == 2


async def test_an_endpoint_without_a_table_of_its_own_cannot_cancel(endpoints: Endpoints) -> None:
    async with endpoints.make("Sales", delayed_delivery=None, recoverability=NO_RETRIES) as sales:
        with pytest.raises(ConfigurationError, match="Only messages in an endpoint's own table"):
            await sales.cancel("any")


@pytest.mark.only("PostgreSQL", reason="it holds a row as PostgreSQL's mover does")
async def test_cancelling_waits_for_a_mover_that_has_the_message_in_hand(
    endpoints: Endpoints, delayed: Delayed
) -> None:
    await endpoints.make("Sales").install()
    client = endpoints.backend.client()
    message_id = await client.send("Sales", PlaceOrder("1"), deliver_at=None, delay=LATER)

    async with endpoints.backend.another_connection() as mover:
        await mover.execute("begin")
        await mover.execute(f"delete from {delayed.address}")
        cancelling = asyncio.create_task(client.cancel("Sales", message_id))

        async def waits() -> bool:
            blocked = "select from pg_stat_activity where pg_backend_pid() = any(pg_blocking_pids(pid))"
            return bool((await mover.execute(blocked)).rowcount)

        await eventually(waits)
        await mover.execute("commit")
        assert not await within(cancelling)
