"""Publish and subscribe, end to end: who gets a copy of what, and in whose transaction it leaves."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import sql

import rowbus
from rowbus.database.postgresql.connection import Session
from rowbus.messages.headers import Header
from rowbus.messages.message_names import enclosed_types
from rowbus.transport.pubsub.postgresql import SubscriptionRouting
from rowbus.transport.queues.postgresql import QueueTable
from tests.conformance.endpoints import ERROR, NO_RETRIES, PlaceOrder
from tests.conformance.on_postgresql import queue
from tests.conformance.transport import (
    SimulatedError,
    eventually,
    in_all_modes,
    in_all_modes_failing,
    in_transaction_modes,
)
from tests.transport.pubsub.shop import (
    ORDER_EVENT,
    ORDER_PLACED,
    Notes,
    OrderCancelled,
    OrderEvent,
    OrderPlaced,
    publishing,
)

if TYPE_CHECKING:
    from tests.conformance.endpoints import Endpoints


@pytest.fixture
def notes() -> Notes:
    return Notes()


# --- who gets a copy


@in_all_modes
async def test_a_handlers_event_reaches_every_endpoint_that_handles_it(
    endpoints: Endpoints, notes: Notes
) -> None:
    sales, billing, shipping = (endpoints.make(name) for name in ("Sales", "Billing", "Shipping"))
    publishing(sales, OrderPlaced)
    notes.take(billing, OrderPlaced)
    notes.take(shipping, OrderPlaced)

    async with billing, shipping, sales:
        await sales.send("Sales", PlaceOrder("42"))
        got = await notes.next(2)

    assert [(one.endpoint, one.order_id) for one in got] == [("Billing", "42"), ("Shipping", "42")]
    assert len({one.message_id for one in got}) == 1
    headers = got[0].headers
    assert headers[Header.MESSAGE_INTENT] == "Publish"
    assert headers[Header.ENCLOSED_MESSAGE_TYPES] == enclosed_types((ORDER_PLACED, ORDER_EVENT))
    assert headers[Header.ORIGINATING_ENDPOINT] == "Sales"
    assert headers[Header.CONVERSATION_ID] == headers[Header.RELATED_TO] == headers[Header.CORRELATION_ID]


@pytest.mark.one_version
async def test_a_def_handler_publishes_too(endpoints: Endpoints, notes: Notes) -> None:
    sales, billing = endpoints.make("Sales"), endpoints.make("Billing")
    notes.take(billing, OrderPlaced)

    @sales.handler
    def place(message: PlaceOrder, context: rowbus.SyncContext) -> None:
        context.publish(OrderPlaced(message.order_id))
        context.publish(OrderPlaced(f"{message.order_id} now"), immediate=True)

    async with billing, sales:
        await sales.send("Sales", PlaceOrder("42"))
        got = await notes.next(2)

    assert {one.order_id for one in got} == {"42", "42 now"}


@pytest.mark.one_version
async def test_an_endpoint_publishes_from_outside_its_handlers(endpoints: Endpoints, notes: Notes) -> None:
    sales, billing = endpoints.make("Sales"), endpoints.make("Billing")
    notes.take(billing, OrderPlaced)

    async with billing, sales:
        message_id = await sales.publish(OrderPlaced("1"), headers={"Tenant": "a"})
        (got,) = await notes.next()

    assert got.message_id == message_id
    assert got.headers["Tenant"] == "a"
    assert got.headers[Header.ORIGINATING_ENDPOINT] == "Sales"


@in_all_modes
async def test_an_endpoint_that_is_scaled_out_gets_one_copy(endpoints: Endpoints, notes: Notes) -> None:
    instances = [endpoints.make("Billing", discriminator=str(number)) for number in range(3)]
    sales, shipping = endpoints.make("Sales"), endpoints.make("Shipping")
    for subscriber in (*instances, shipping):
        notes.take(subscriber, OrderPlaced)

    async with instances[0], instances[1], instances[2], shipping, sales:
        for number in range(10):
            await sales.publish(OrderPlaced(str(number)))
        await notes.next(20)

    assert sorted(one.order_id for one in notes.all if one.endpoint == "Billing") == [*"0123456789"]
    addresses = sorted(address for address, _ in await endpoints.backend.subscriptions())
    assert addresses == [str(endpoints.queue("Billing")), str(endpoints.queue("Shipping"))]


@in_all_modes
async def test_who_subscribes_to_a_parent_gets_what_has_it_as_a_parent(
    endpoints: Endpoints, notes: Notes
) -> None:
    sales, parent, child = (endpoints.make(name) for name in ("Sales", "Parent", "Child"))
    notes.take(parent, OrderEvent)
    notes.take(child, OrderPlaced)

    async with parent, child, sales:
        await sales.publish(OrderCancelled("1"))
        await sales.publish(OrderPlaced("2"))
        await sales.publish(OrderEvent("3"))
        got = await notes.next(4)

    assert [(one.endpoint, one.order_id) for one in got] == [
        ("Child", "2"),
        ("Parent", "1"),
        ("Parent", "2"),
        ("Parent", "3"),
    ]


@pytest.mark.one_version
async def test_who_subscribes_to_an_event_and_its_parent_gets_one_copy_for_both_handlers(
    endpoints: Endpoints, notes: Notes
) -> None:
    sales, billing = endpoints.make("Sales"), endpoints.make("Billing")
    notes.take(billing, OrderEvent, OrderPlaced)

    async with billing, sales:
        await sales.publish(OrderPlaced("1"))
        got = await notes.next(2)

    assert [one.kind for one in notes.all] == ["OrderPlaced", "OrderEvent"]
    assert got[0].message_id == got[1].message_id
    assert len(notes.all) == 2


@pytest.mark.one_version
@pytest.mark.parametrize("topic", ["NServiceBus.IEvent", "NServiceBus.IMessage", "System.Object"])
async def test_a_dotnet_endpoint_that_subscribes_to_what_every_event_is_gets_a_copy(
    endpoints: Endpoints, topic: str
) -> None:
    sales = endpoints.make("Sales")
    await endpoints.backend.create_queue("Auditor")

    async with sales:
        await endpoints.backend.subscribe("Auditor", topic)
        await sales.publish({"order_id": "1"}, type=("Shop.Messages.OrderPlaced", ORDER_EVENT))

    (row,) = await endpoints.backend.rows("Auditor")
    assert row.headers[Header.ENCLOSED_MESSAGE_TYPES] == enclosed_types((ORDER_PLACED, ORDER_EVENT))


@pytest.mark.one_version
async def test_an_event_nobody_subscribes_to_is_no_error(endpoints: Endpoints, notes: Notes) -> None:
    sales = endpoints.make("Sales")
    publishing(sales, OrderPlaced)
    notes.take(sales, OrderCancelled)

    async with sales:
        await sales.send("Sales", PlaceOrder("1"))
        assert await sales.publish(OrderPlaced("2"))
        await sales.publish(OrderCancelled("3"))
        await notes.next()

    assert await endpoints.backend.count(ERROR) == 0


@pytest.mark.one_version
async def test_a_command_is_not_published(endpoints: Endpoints) -> None:
    sales = endpoints.make("Sales")

    async with sales:
        with pytest.raises(rowbus.MessageSerializationError, match=r"PlaceOrder is a command"):
            await sales.publish(PlaceOrder("1"))


# --- subscribing


@in_all_modes
async def test_after_unsubscribing_no_copies_come_until_it_subscribes_again(
    endpoints: Endpoints, notes: Notes
) -> None:
    billing = endpoints.make("Billing")
    notes.take(billing, OrderPlaced)

    async with billing:
        await billing.unsubscribe(OrderPlaced)
        await billing.publish(OrderPlaced("unsubscribed"))
        await billing.subscribe(ORDER_PLACED)
        await billing.publish(OrderPlaced("subscribed"))
        await notes.next()

    assert [one.order_id for one in notes.all] == ["subscribed"]


@pytest.mark.one_version
async def test_only_what_was_declared_an_event_is_subscribed_to_unless_told_otherwise(
    endpoints: Endpoints, notes: Notes
) -> None:
    billing = endpoints.make("Billing")
    notes.take(billing, OrderPlaced, PlaceOrder)
    notes.take(billing, OrderCancelled, subscribe=False)

    @billing.handler("Shop.Messages.OrderShipped", subscribe=True)
    async def shipped(message: dict[str, object]) -> None: ...

    @billing.handler("Shop.Messages.ShipOrder")
    async def ship(message: dict[str, object]) -> None: ...

    async with billing:
        topics = [topic for _, topic in await endpoints.backend.subscriptions()]
    assert topics == [ORDER_PLACED, "Shop.Messages.OrderShipped"]


@pytest.mark.one_version
async def test_without_auto_subscribe_nothing_is_subscribed_to_at_the_start(
    endpoints: Endpoints, notes: Notes
) -> None:
    billing = endpoints.make("Billing", auto_subscribe=False)
    notes.take(billing, OrderPlaced)

    async with billing:
        await billing.publish(OrderPlaced("too early"))
        await billing.subscribe(OrderPlaced)
        await billing.publish(OrderPlaced("in time"))
        await notes.next()

    assert [one.order_id for one in notes.all] == ["in time"]


@pytest.mark.one_version
async def test_an_endpoint_that_has_moved_gets_its_copies_in_its_new_queue(
    endpoints: Endpoints, notes: Notes
) -> None:
    warehouse = await endpoints.backend.create_schema("warehouse")
    table = str(endpoints.queue("SubscriptionRouting"))
    before = endpoints.make("Billing")
    after = endpoints.make("Billing", schema=warehouse, subscription_table=table)
    for endpoint in (before, after):
        notes.take(endpoint, OrderPlaced)

    async with before:
        pass
    async with after:
        await after.publish(OrderPlaced("1"))
        await notes.next()

    assert await endpoints.backend.count(before.address) == 0
    assert [address for address, _ in await endpoints.backend.subscriptions()] == [str(after.address)]


@pytest.mark.one_version
async def test_endpoints_in_different_schemas_exchange_events_through_one_table(
    endpoints: Endpoints, notes: Notes
) -> None:
    schemas = [await endpoints.backend.create_schema(name) for name in ("s@les", "bill.ing")]
    events = endpoints.queue("Events")
    sales = endpoints.make("Sales", schema=schemas[0], subscription_table=str(events))
    billing = endpoints.make("Billing", schema=schemas[1], subscription_table=str(events))
    publishing(sales, OrderPlaced)
    notes.take(billing, OrderPlaced)

    async with billing, sales:
        await sales.send("Sales", PlaceOrder("1"))
        (got,) = await notes.next()

    assert got.order_id == "1"
    assert [address for address, _ in await endpoints.backend.subscriptions(events)] == [str(billing.address)]


@pytest.mark.one_version
async def test_a_name_that_does_not_fit_the_table_is_refused_at_the_start(endpoints: Endpoints) -> None:
    billing = endpoints.make("Billing")

    @billing.handler("E" * 201, subscribe=True)
    async def shipped(message: dict[str, object]) -> None: ...

    with pytest.raises(rowbus.ConfigurationError, match="has 201 characters"):
        await billing.start()


@pytest.mark.one_version
async def test_a_table_that_is_missing_says_how_to_make_it(endpoints: Endpoints, notes: Notes) -> None:
    for name in ("Billing", "error"):
        await endpoints.backend.create_queue(name)
    billing = endpoints.make("Billing", install=False, delayed_delivery=None)
    notes.take(billing, OrderPlaced)

    with pytest.raises(
        rowbus.StorageError, match=r"Failed to subscribe Billing in .* `rowbus subscriptions create`"
    ):
        await billing.start()


# --- with what it leaves


@in_all_modes_failing
async def test_what_a_failed_handler_published_does_not_leave(endpoints: Endpoints, notes: Notes) -> None:
    sales, billing = endpoints.make("Sales", recoverability=NO_RETRIES), endpoints.make("Billing")
    publishing(sales, OrderPlaced, fail=True)
    notes.take(billing, OrderPlaced, OrderCancelled)

    async with billing, sales:
        await sales.send("Sales", PlaceOrder("lost"))

        async def failed() -> bool:
            return await endpoints.backend.count(ERROR) == 1

        await eventually(failed)
        await sales.publish(OrderCancelled("after"))
        await notes.next()

    assert [one.order_id for one in notes.all] == ["after"]


@in_all_modes
async def test_what_is_published_immediately_leaves_though_the_handler_fails(
    endpoints: Endpoints, notes: Notes
) -> None:
    sales, billing = endpoints.make("Sales", recoverability=NO_RETRIES), endpoints.make("Billing")
    notes.take(billing, OrderPlaced)

    @sales.handler
    async def place(message: PlaceOrder, context: rowbus.Context) -> None:
        await context.publish(OrderPlaced(message.order_id), immediate=True)
        raise SimulatedError

    async with billing, sales:
        await sales.send("Sales", PlaceOrder("1"))
        (got,) = await notes.next()

    assert got.order_id == "1"


@in_transaction_modes
async def test_when_one_subscribers_queue_is_missing_nobody_gets_a_copy_and_the_failure_names_it(
    endpoints: Endpoints, notes: Notes
) -> None:
    sales, billing = endpoints.make("Sales", recoverability=NO_RETRIES), endpoints.make("Billing")
    publishing(sales, OrderPlaced)
    notes.take(billing, OrderPlaced)

    async with billing, sales:
        await endpoints.backend.subscribe("Gone", ORDER_PLACED)
        await sales.send("Sales", PlaceOrder("1"))

        async def failed() -> bool:
            return await endpoints.backend.count(ERROR) == 1

        await eventually(failed)

    (row,) = await endpoints.backend.rows(ERROR)
    assert str(endpoints.queue("Gone")) in (row.headers[Header.EXCEPTION_MESSAGE] or "")
    assert notes.all == []


@pytest.mark.one_version
async def test_a_client_publishes_in_the_callers_transaction(endpoints: Endpoints, notes: Notes) -> None:
    billing = endpoints.make("Billing")
    notes.take(billing, OrderPlaced)

    async with billing:
        backend, client = endpoints.backend, endpoints.backend.client()
        async with backend.transaction(force_rollback=True):
            await client.publish(OrderPlaced("rolled back"))
        async with backend.transaction():
            message_id = await client.publish(OrderPlaced("committed"))
        (got,) = await notes.next()

    assert (got.order_id, got.message_id) == ("committed", message_id)
    assert got.headers[Header.ORIGINATING_ENDPOINT]  # the name of the program


@pytest.mark.one_version
def test_a_synchronous_client_publishes_in_the_callers_transaction(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        prepare(connection, "Billing", "Shipping")
        client = rowbus.Client(connection)

        with connection.transaction(force_rollback=True):
            client.publish(OrderPlaced("rolled back"))
        client.publish({"order_id": "1"}, type=(ORDER_PLACED, ORDER_EVENT))

        for name in ("Billing", "Shipping"):
            ((headers, body),) = connection.execute(f'select headers, body from "{name}"').fetchall()
            assert json.loads(headers)[Header.ENCLOSED_MESSAGE_TYPES] == enclosed_types(
                (ORDER_PLACED, ORDER_EVENT)
            )
            assert json.loads(body) == {"order_id": "1"}


@pytest.mark.one_version
@pytest.mark.parametrize("notify", [True, False])
def test_a_clients_event_wakes_all_who_get_it_if_they_are_to_be(database: str, *, notify: bool) -> None:
    names = ("Billing", "Shipping", "Stock")
    channels = {QueueTable(rowbus.QueueAddress("public", name)).address.channel for name in names}
    with (
        psycopg.connect(database, autocommit=True) as connection,
        psycopg.connect(database, autocommit=True) as listening,
    ):
        prepare(connection, *names)
        for channel in channels:
            listening.execute(sql.SQL("listen {}").format(sql.Identifier(channel)))
        rowbus.Client(connection, notify=notify).publish(OrderPlaced("1"))
        listening.execute("select 1")

        assert {heard.channel for heard in listening.notifies(timeout=0)} == (channels if notify else set())


@pytest.mark.one_version
def test_a_client_sends_all_copies_or_none(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        prepare(connection, "Billing")
        connection.execute(
            """insert into "SubscriptionRouting" values ('"public"."Gone"', 'Gone', %s)""", [ORDER_PLACED]
        )

        with pytest.raises(rowbus.QueueNotFoundError, match="Gone"):
            rowbus.Client(connection).publish(OrderPlaced("1"))
        with connection.transaction():
            with pytest.raises(rowbus.QueueNotFoundError, match="Gone"):
                rowbus.Client(connection).publish(OrderPlaced("2"))
            connection.execute("select 'the transaction goes on'")

        assert connection.execute('select count(*) from "Billing"').fetchone() == (0,)


@pytest.mark.one_version
def test_a_client_without_a_table_of_subscriptions_is_told_how_to_make_it(database: str) -> None:
    with (
        psycopg.connect(database, autocommit=True) as connection,
        pytest.raises(rowbus.StorageError, match="rowbus subscriptions create"),
    ):
        rowbus.Client(connection, subscription_table="Elsewhere").publish(OrderPlaced("1"))


@pytest.mark.one_version
def test_a_queue_that_is_written_down_in_two_spellings_gets_one_copy(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        prepare(connection, "Billing")
        connection.execute(
            """insert into "SubscriptionRouting" values ('Billing', 'Old', %s)""", [ORDER_PLACED]
        )

        rowbus.Client(connection).publish(OrderPlaced("1"))

        assert connection.execute('select count(*) from "Billing"').fetchone() == (1,)


def prepare(connection: psycopg.Connection, *subscribers: str) -> None:
    """Make the table and queues that subscribe to the parent of the event and to the event."""
    session = Session(connection)
    routing = SubscriptionRouting(queue("SubscriptionRouting"))
    session.run_all(routing.create())
    for name in subscribers:
        session.run_all(QueueTable(queue(name)).create())
        session.run(routing.subscribe(name, [ORDER_EVENT, ORDER_PLACED], queue(name)))
