"""From `delay=` to the handler: what waits in the table, when it arrives, and that it is never early."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import rowbus
from rowbus.errors import ConfigurationError, InvalidHeaderError
from rowbus.messages.headers import Header
from rowbus.messages.timestamps import parse_timestamp
from rowbus.transport.queues.catalog.table import catalog_of
from tests.conformance.endpoints import Endpoints, OrderAccepted, PlaceOrder
from tests.conformance.transport import eventually, in_all_modes, never, within
from tests.transport.delayed.table import Delayed

LATER = timedelta(hours=1)
SOON = timedelta(milliseconds=300)


@in_all_modes
async def test_a_message_sent_from_a_handler_with_a_delay_arrives_then_and_not_before(
    endpoints: Endpoints,
) -> None:
    sales, billing = endpoints.make("Sales"), endpoints.make("Billing")
    sent: list[float] = []
    arrived: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    @sales.handler
    async def place(message: PlaceOrder, context: rowbus.Context) -> None:
        sent.append(time.monotonic())
        await context.send("Billing", OrderAccepted(message.order_id), delay=SOON)

    @billing.handler
    async def accepted(message: OrderAccepted, context: rowbus.Context) -> None:
        assert Header.FORWARD_DESTINATION not in context.headers
        assert message == OrderAccepted("42")
        arrived.set_result(time.monotonic())

    async with sales, billing:
        await sales.send("Sales", PlaceOrder("42"))
        waited = await within(arrived) - sent[0]

    assert waited >= SOON.total_seconds()


async def test_it_waits_in_the_table_of_its_sender_with_the_header_of_the_transport(
    endpoints: Endpoints, delayed: Delayed
) -> None:
    sales, billing = endpoints.make("Sales"), endpoints.make("Billing")

    async with sales, billing:
        message_id = await sales.send("Billing", OrderAccepted("42"), delay=LATER)
        (row,) = await delayed.rows()

    assert row.headers[Header.MESSAGE_ID] == message_id
    assert row.headers[Header.FORWARD_DESTINATION] == str(endpoints.queue("Billing"))
    assert row.body == b'{"order_id":"42"}'
    assert row.due_in == pytest.approx(LATER.total_seconds(), abs=5)
    deliver_at = parse_timestamp(row.headers[Header.DELIVER_AT] or "")
    assert deliver_at.timestamp() == pytest.approx(row.due.timestamp(), abs=5)


async def test_what_arrives_has_lost_the_header_of_the_transport(endpoints: Endpoints) -> None:
    await endpoints.backend.create_queue("Billing")
    sales = endpoints.make("Sales")

    async with sales:
        await sales.send("Billing", OrderAccepted("42"), delay=timedelta(milliseconds=1))

        async def moved() -> bool:
            return await endpoints.backend.count("Billing") == 1

        await eventually(moved)
    (row,) = await endpoints.backend.rows("Billing")
    assert Header.FORWARD_DESTINATION not in row.headers
    assert row.headers[Header.CONTENT_TYPE] == "application/json"


async def test_deliver_at_names_an_instant_in_any_time_zone(endpoints: Endpoints, delayed: Delayed) -> None:
    sales = endpoints.make("Sales")
    instant = datetime(2099, 7, 1, 12, tzinfo=UTC).astimezone(None)

    async with sales:
        await sales.send("Sales", OrderAccepted("42"), deliver_at=instant)
        (row,) = await delayed.rows()

    assert row.due == instant


@in_all_modes
@pytest.mark.parametrize(
    "past", [{"delay": timedelta()}, {"delay": -LATER}, {"deliver_at": datetime(2001, 1, 1, tzinfo=UTC)}]
)
async def test_a_time_that_has_passed_means_now(endpoints: Endpoints, past: dict[str, Any]) -> None:
    sales, arrived = endpoints.make("Sales"), asyncio.Event()

    @sales.handler
    async def accepted(message: OrderAccepted) -> None:
        arrived.set()

    async with sales:
        await sales.send("Sales", OrderAccepted("42"), **past)
        await within(arrived.wait())


async def test_of_two_with_equal_delays_the_first_sent_arrives_first(endpoints: Endpoints) -> None:
    sales = endpoints.make("Sales", concurrency=1)
    arrived: list[str] = []

    @sales.handler
    async def place(message: PlaceOrder, context: rowbus.Context) -> None:
        for number in range(20):
            await context.send("Sales", OrderAccepted(str(number)), delay=SOON)

    @sales.handler
    async def accepted(message: OrderAccepted) -> None:
        arrived.append(message.order_id)

    async with sales:
        await sales.send("Sales", PlaceOrder("42"))
        await eventually(lambda: len(arrived) == 20)

    assert arrived == [str(number) for number in range(20)]


async def test_a_short_delay_overtakes_a_long_one(endpoints: Endpoints) -> None:
    """NServiceBus, When_deferring_multiple_messages: the wait of the mover is shortened."""
    sales = endpoints.make("Sales")
    arrived: asyncio.Queue[str] = asyncio.Queue()

    @sales.handler
    async def accepted(message: OrderAccepted) -> None:
        await arrived.put(message.order_id)

    limit = 1 if endpoints.backend.database.notifies else 4  # a mover nobody notifies looks once a second
    async with sales:
        await sales.send("Sales", OrderAccepted("long"), delay=timedelta(seconds=1.5 * limit))
        await sales.send("Sales", OrderAccepted("short"), delay=timedelta(milliseconds=50))
        started = time.monotonic()
        assert await within(arrived.get()) == "short"
        assert time.monotonic() - started < limit
        assert await within(arrived.get()) == "long"


async def test_the_delay_counts_from_the_send_not_from_the_receive_transaction(
    endpoints: Endpoints, delayed: Delayed
) -> None:
    """A handler that runs for longer than the delay: counted from its transaction, the message would be early."""
    sales = endpoints.make("Sales")

    @sales.handler
    async def place(message: PlaceOrder, context: rowbus.Context) -> None:
        await endpoints.backend.pause(context.connection)
        await context.send("Sales", OrderAccepted("42"), delay=LATER)

    async with sales:
        started = time.time()
        await sales.send("Sales", PlaceOrder("42"))

        async def stored() -> bool:
            return await delayed.count() == 1

        await eventually(stored)
        (row,) = await delayed.rows()
    assert row.due.timestamp() >= started + 0.3 + LATER.total_seconds()


async def test_a_delayed_message_of_a_handler_that_fails_is_not_stored(
    endpoints: Endpoints, delayed: Delayed
) -> None:
    sales = endpoints.make("Sales", recoverability=rowbus.Recoverability(immediate=0, delayed=0))

    @sales.handler
    async def place(message: PlaceOrder, context: rowbus.Context) -> None:
        await context.send("Sales", OrderAccepted("42"), delay=LATER)
        raise ValueError

    async with sales:
        await sales.send("Sales", PlaceOrder("42"))

        async def failed() -> bool:
            return await endpoints.backend.count("error") == 1

        await eventually(failed)
        assert await delayed.count() == 0


async def test_immediate_and_delayed_leaves_whatever_becomes_of_the_handler(
    endpoints: Endpoints, delayed: Delayed
) -> None:
    sales = endpoints.make("Sales", recoverability=rowbus.Recoverability(immediate=0, delayed=0))

    @sales.handler
    async def place(message: PlaceOrder, context: rowbus.Context) -> None:
        await context.send("Sales", OrderAccepted("42"), delay=LATER, immediate=True)
        raise ValueError

    async with sales:
        await sales.send("Sales", PlaceOrder("42"))

        async def failed() -> bool:
            return await endpoints.backend.count("error") == 1

        await eventually(failed)
        assert await delayed.count() == 1


async def test_a_handler_in_a_thread_delays_too(endpoints: Endpoints, delayed: Delayed) -> None:
    sales = endpoints.make("Sales")

    @sales.handler
    def place(message: PlaceOrder, context: rowbus.SyncContext) -> None:
        context.send("Sales", OrderAccepted("42"), delay=LATER)

    async with sales:
        await sales.send("Sales", PlaceOrder("42"))

        async def stored() -> bool:
            return await delayed.count() == 1

        await eventually(stored)


async def test_a_reply_can_be_delayed(endpoints: Endpoints, delayed: Delayed) -> None:
    sales = endpoints.make("Sales")

    @sales.handler
    async def place(message: PlaceOrder, context: rowbus.Context) -> None:
        await context.reply(OrderAccepted("42"), delay=LATER)

    async with sales:
        await sales.send("Sales", PlaceOrder("42"))

        async def stored() -> bool:
            return await delayed.count() == 1

        await eventually(stored)
        (row,) = await delayed.rows()
    assert row.headers[Header.MESSAGE_INTENT] == "Reply"


@in_all_modes
async def test_deferring_the_message_in_hand_does_not_defer_what_it_carries(endpoints: Endpoints) -> None:
    """Core's acceptance tests (tests/conformance/behaviours.md): a delayed outer send does not delay the inner one."""
    sales, arrived = endpoints.make("Sales"), asyncio.Event()

    @sales.handler
    async def place(message: PlaceOrder, context: rowbus.Context) -> None:
        await context.send("Sales", OrderAccepted("inner"))

    @sales.handler
    async def accepted(message: OrderAccepted, context: rowbus.Context) -> None:
        assert Header.DELIVER_AT not in context.headers
        arrived.set()

    async with sales:
        await sales.send("Sales", PlaceOrder("42"), delay=timedelta(milliseconds=50))
        await within(arrived.wait())


async def test_the_last_of_equal_sends_counts_delayed_or_not(endpoints: Endpoints, delayed: Delayed) -> None:
    """De-duplication by message id and destination comes before delays do, as in NServiceBus."""
    sales = endpoints.make("Sales")
    same = {Header.MESSAGE_ID: "the same"}

    @sales.handler
    async def place(message: PlaceOrder, context: rowbus.Context) -> None:
        await context.send("Billing", OrderAccepted("1"), headers=same)
        await context.send("Billing", OrderAccepted("2"), headers=same, delay=LATER)

    async with sales:
        await sales.send("Sales", PlaceOrder("42"))

        async def stored() -> bool:
            return await delayed.count() == 1

        await eventually(stored)
        (row,) = await delayed.rows()
    assert row.body == b'{"order_id":"2"}'


async def test_a_delay_and_a_time_to_be_received_are_refused(endpoints: Endpoints) -> None:
    sales = endpoints.make("Sales")

    async with sales:
        with pytest.raises(InvalidHeaderError, match="time_to_be_received"):
            await sales.send("Sales", OrderAccepted("1"), delay=LATER, time_to_be_received=LATER)


async def test_a_delay_and_an_instant_are_refused(endpoints: Endpoints) -> None:
    async with endpoints.make("Sales") as sales:
        with pytest.raises(InvalidHeaderError, match="not both"):
            await sales.send("Sales", OrderAccepted("1"), delay=LATER, deliver_at=datetime.now(UTC))


async def test_an_endpoint_without_delayed_delivery_says_so_when_the_message_is_made(
    endpoints: Endpoints,
) -> None:
    sales = endpoints.make("Sales", delayed_delivery=None)

    async with sales:
        with pytest.raises(ConfigurationError, match="delayed_delivery=None"):
            await sales.send("Sales", OrderAccepted("1"), delay=LATER)
        assert "sales.delayed" not in await endpoints.backend.tables()


async def test_its_table_may_have_the_column_body_string_and_is_still_one(endpoints: Endpoints) -> None:
    sales = endpoints.make("Sales", body_string=True)
    arrived: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    @sales.handler
    async def accepted(message: OrderAccepted) -> None:
        arrived.set_result(message.order_id)

    async with sales:
        await sales.send("Sales", OrderAccepted("42"), delay=SOON)
        assert await within(arrived) == "42"
    with endpoints.backend.database.session() as session:
        found = session.run(catalog_of(sales.addresses).find_delayed(endpoints.backend.schema))
        assert [str(one).lower() for one in found] == [str(endpoints.queue("Sales.Delayed")).lower()]


async def test_the_name_of_an_endpoint_leaves_room_for_its_table() -> None:
    rowbus.Endpoint("n" * 47)
    with pytest.raises(ConfigurationError, match="at most 47"):
        rowbus.Endpoint("n" * 48)
    rowbus.Endpoint("n" * 55, delayed_delivery=None)


async def test_a_message_is_not_moved_while_its_time_has_not_come(
    endpoints: Endpoints, delayed: Delayed
) -> None:
    sales, arrived = endpoints.make("Sales"), asyncio.Event()

    @sales.handler
    async def accepted(message: OrderAccepted) -> None:
        arrived.set()

    async with sales:
        await sales.send("Sales", OrderAccepted("1"), delay=timedelta(minutes=5))
        await sales.send("Sales", OrderAccepted("2"), delay=timedelta(milliseconds=10))
        await within(arrived.wait())
        await never(lambda: False)
        assert await delayed.count() == 1
