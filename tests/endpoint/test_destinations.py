"""Headers that name a destination: who may insert into one queue reaches what the operator allows, and queues only."""

from __future__ import annotations

import logging
from typing import Unpack

import psycopg
import pytest

import rowbus
from rowbus.messages.address import QueueAddress
from rowbus.messages.headers import Header
from rowbus.transport.queues import destination_rule as destinations
from rowbus.transport.recoverability.error_queue import error_queue_on
from rowbus.transport.recoverability.failed_message import Selection
from tests.conformance.backend import Backend, StoredRow
from tests.conformance.endpoints import ERROR, Endpoints, OrderAccepted, PlaceOrder
from tests.conformance.settings import Settings
from tests.conformance.transport import (
    SENDS_ATOMIC,
    eventually,
    headers_text,
    in_all_modes_failing,
)

ORDER = b'{"order_id":"1"}'
RETRIED = "9a0364b9-99bb-30e2-b7b6-5e0f3d1c2b4a"
ANY, SAME = rowbus.AllowedDestinations.ANY_QUEUE, rowbus.AllowedDestinations.SAME_SCHEMA
NO_QUEUE = {  # a table of the application's that takes what a send inserts
    "PostgreSQL": 'create table "Notes" (id uuid, expires timestamp, headers text, body bytea, author text)',
    "SQL Server": "create table [{0}].[Notes] (Id uniqueidentifier, Recoverable bit, Expires datetime, "
    "Headers nvarchar(max), Body varbinary(max))",
}

in_one_mode = pytest.mark.parametrize("case", [SENDS_ATOMIC], ids=str)


def make_sales(endpoints: Endpoints, **settings: Unpack[Settings]) -> rowbus.Endpoint:
    sales = endpoints.make("Sales", **settings)

    @sales.handler
    async def place(message: PlaceOrder, context: rowbus.Context) -> None:
        await context.reply(OrderAccepted(message.order_id))

    return sales


def order_headers(**more: str) -> str:
    return headers_text(NServiceBus__EnclosedMessageTypes="Shop.Messages.PlaceOrder", **more)


def forwarded_to(destination: QueueAddress | str) -> str:
    return order_headers(NServiceBus__SqlServer__ForwardDestination=str(destination))


async def elsewhere(backend: Backend) -> QueueAddress:
    """Make a queue in another schema."""
    address = backend.queue("Payroll", await backend.create_schema("ledger"))
    await backend.create_queue(address)
    return address


async def make_table(backend: Backend) -> QueueAddress:
    await backend.execute(NO_QUEUE[backend.name].format(backend.schema))
    return backend.queue("Notes")


async def wait_for(endpoints: Endpoints, queue: QueueAddress | str) -> StoredRow:
    async def there() -> bool:
        return await endpoints.backend.count("Sales") == 0 and await endpoints.backend.count(queue) == 1

    await eventually(there)
    (row,) = await endpoints.backend.rows(queue)
    return row


@in_all_modes_failing
async def test_a_message_is_not_sent_on_to_another_schema(endpoints: Endpoints) -> None:
    payroll = await elsewhere(endpoints.backend)
    async with make_sales(endpoints) as sales:
        row_id = await endpoints.backend.insert(sales.address, forwarded_to(payroll), ORDER)
        row = await wait_for(endpoints, ERROR)

    assert await endpoints.backend.count(payroll) == 0
    assert row.body == ORDER
    assert row.headers[Header.EXCEPTION_TYPE] == "rowbus.errors.DestinationRefusedError"
    assert "allowed_destinations" in str(row.headers[Header.EXCEPTION_MESSAGE])
    assert row.headers[Header.FAILED_QUEUE] == sales.address.canonical
    assert row.headers[Header.FORWARD_DESTINATION] == payroll.canonical
    assert row.headers[Header.MESSAGE_ID] == row_id


@in_all_modes_failing
async def test_a_message_is_not_sent_on_to_a_table_that_is_no_queue(endpoints: Endpoints) -> None:
    notes = await make_table(endpoints.backend)
    async with make_sales(endpoints, allowed_destinations=ANY) as sales:
        await endpoints.backend.insert(sales.address, forwarded_to(notes), ORDER)
        row = await wait_for(endpoints, ERROR)

    assert await endpoints.backend.count(notes) == 0
    assert row.headers[Header.EXCEPTION_TYPE] == "rowbus.errors.DestinationRefusedError"
    assert "no queue" in str(row.headers[Header.EXCEPTION_MESSAGE])


@in_one_mode
async def test_a_message_is_sent_on_within_its_schema(endpoints: Endpoints) -> None:
    await endpoints.backend.create_queue("Billing")
    async with make_sales(endpoints) as sales:
        await endpoints.backend.insert(sales.address, forwarded_to(endpoints.queue("Billing")), ORDER)
        row = await wait_for(endpoints, "Billing")
    assert Header.FORWARD_DESTINATION not in row.headers


@in_one_mode
@pytest.mark.parametrize("allowed", ["any queue", "the queue", "the schema"])
async def test_what_the_operator_allows_is_sent_on(endpoints: Endpoints, allowed: str) -> None:
    payroll = await elsewhere(endpoints.backend)
    whole = payroll.canonical.replace("Payroll", "*")
    settings: dict[str, rowbus.AllowedDestinations | tuple[str, ...]] = {
        "any queue": ANY,
        "the queue": ("Billing", payroll.canonical),
        "the schema": (whole,),
    }
    async with make_sales(endpoints, allowed_destinations=settings[allowed]) as sales:
        await endpoints.backend.insert(sales.address, forwarded_to(payroll), ORDER)
        await wait_for(endpoints, payroll)


@in_one_mode
async def test_a_list_allows_nothing_else(endpoints: Endpoints) -> None:
    await endpoints.backend.create_queue("Billing")
    await endpoints.backend.create_queue("Shipping")
    async with make_sales(endpoints, allowed_destinations=("Shipping",)) as sales:
        await endpoints.backend.insert(sales.address, forwarded_to(endpoints.queue("Billing")), ORDER)
        await wait_for(endpoints, ERROR)


@in_one_mode
async def test_one_that_was_refused_goes_on_when_it_is_put_back_and_allowed(endpoints: Endpoints) -> None:
    payroll = await elsewhere(endpoints.backend)
    async with make_sales(endpoints) as sales:
        await endpoints.backend.insert(sales.address, forwarded_to(payroll), ORDER)
        refused = await wait_for(endpoints, ERROR)

    async with make_sales(endpoints, allowed_destinations=ANY) as sales:
        await endpoints.backend.insert(sales.address, refused.headers_text, ORDER)
        await wait_for(endpoints, payroll)


@in_one_mode
async def test_a_name_that_no_table_can_have_is_refused_too(endpoints: Endpoints) -> None:
    """PostgreSQL would cut the name to that of a table that exists, without a word."""
    named = "n" * 63
    sales = make_sales(endpoints, allowed_destinations=ANY)
    await sales.install()
    if endpoints.backend.name == "PostgreSQL":
        await endpoints.backend.execute(f'create table "{named}" (like "{ERROR}" including all)')
    async with sales:
        longer = endpoints.queue(named + "o" * 100)
        await endpoints.backend.insert(sales.address, forwarded_to(longer), ORDER)
        await wait_for(endpoints, ERROR)


@in_one_mode
async def test_a_table_that_has_changed_is_noticed_after_a_while(
    endpoints: Endpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(destinations, "FOR_SECONDS", 0.0)
    await endpoints.backend.create_queue("Notes")
    async with make_sales(endpoints) as sales:
        await endpoints.backend.insert(sales.address, forwarded_to(endpoints.queue("Notes")), ORDER)
        await wait_for(endpoints, "Notes")
        await endpoints.backend.drop_queue("Notes")
        notes = await make_table(endpoints.backend)
        await endpoints.backend.insert(sales.address, forwarded_to(notes), ORDER)
        await wait_for(endpoints, ERROR)
    assert await endpoints.backend.count(notes) == 0


@in_one_mode
async def test_a_reply_goes_to_no_table_but_a_queue(endpoints: Endpoints) -> None:
    notes = await make_table(endpoints.backend)
    async with make_sales(endpoints) as sales:
        headers = order_headers(NServiceBus__ReplyToAddress=notes.canonical)
        await endpoints.backend.insert(sales.address, headers, ORDER)
        row = await wait_for(endpoints, ERROR)
    assert await endpoints.backend.count(notes) == 0
    assert row.headers[Header.EXCEPTION_TYPE] == "rowbus.errors.DestinationRefusedError"


@in_one_mode
@pytest.mark.only("PostgreSQL", reason="Wolverine makes such tables there")
async def test_queues_whose_headers_are_varchar_are_received_from_replied_to_and_retried_to(
    endpoints: Endpoints,
) -> None:
    backend, web = endpoints.backend, endpoints.queue("Web")
    for name in ("Sales", "Web", ERROR):
        await backend.create_queue(name)
        await backend.execute(f'alter table "{name}" alter headers type varchar')
    headers = order_headers(NServiceBus__ReplyToAddress=web.canonical)
    failed = order_headers(
        NServiceBus__ReplyToAddress=web.canonical, NServiceBus__FailedQ=endpoints.queue("Sales").canonical
    )
    await backend.insert("Sales", headers, ORDER)
    await backend.insert(ERROR, failed, ORDER)
    with psycopg.connect(backend.dsn) as connection:
        errors = error_queue_on(connection, endpoints.queue(ERROR))
        assert errors.retry(Selection()).moved.total() == 1
    async with make_sales(endpoints):

        async def answered() -> bool:
            return await backend.count("Web") == 2

        await eventually(answered)
    assert await backend.count(ERROR) == 0


@in_one_mode
async def test_a_reply_of_a_handler_in_a_thread_goes_to_no_table_but_a_queue(endpoints: Endpoints) -> None:
    notes = await make_table(endpoints.backend)
    sales = endpoints.make("Sales")

    @sales.handler
    def place(message: PlaceOrder, context: rowbus.SyncContext) -> None:
        context.reply(OrderAccepted(message.order_id))

    async with sales:
        headers = order_headers(NServiceBus__ReplyToAddress=notes.canonical)
        await endpoints.backend.insert(sales.address, headers, ORDER)
        await wait_for(endpoints, ERROR)
        await endpoints.backend.create_queue("Web")
        headers = order_headers(NServiceBus__ReplyToAddress=endpoints.queue("Web").canonical)
        await endpoints.backend.insert(sales.address, headers, ORDER)
        await wait_for(endpoints, "Web")
    assert await endpoints.backend.count(notes) == 0


@in_one_mode
async def test_a_reply_goes_to_another_schema_where_that_is_allowed(endpoints: Endpoints) -> None:
    payroll = await elsewhere(endpoints.backend)
    headers = order_headers(NServiceBus__ReplyToAddress=payroll.canonical)
    async with make_sales(endpoints) as sales:
        await endpoints.backend.insert(sales.address, headers, ORDER)
        row = await wait_for(endpoints, ERROR)
    async with make_sales(endpoints, allowed_destinations=(payroll.canonical,)) as sales:
        await endpoints.backend.insert(sales.address, headers, ORDER)
        await wait_for(endpoints, payroll)
    assert row.headers[Header.EXCEPTION_TYPE] == "rowbus.errors.DestinationRefusedError"


@in_one_mode
async def test_an_acknowledgement_goes_to_the_error_queue_of_the_endpoint_wherever_that_is(
    endpoints: Endpoints,
) -> None:
    error = await elsewhere(endpoints.backend)
    await endpoints.backend.create_queue("Web")
    headers = order_headers(
        ServiceControl__Retry__UniqueMessageId=RETRIED,
        ServiceControl__Retry__AcknowledgementQueue=error.canonical,
        NServiceBus__ReplyToAddress=endpoints.queue("Web").canonical,
    )
    async with make_sales(endpoints, error_queue=error.canonical) as sales:
        await endpoints.backend.insert(sales.address, headers, ORDER)
        row = await wait_for(endpoints, error)
    assert Header.RETRY_SUCCESSFUL in row.headers


TRAP = """
    drop role if exists rowbus_test_mallory; create role rowbus_test_mallory; create sequence "Caught";
    create function "Trap"() returns trigger language plpgsql
    as 'begin perform nextval($$"Caught"$$); return new; end';
    create trigger evil before insert on "Web" execute function "Trap"();
    alter table "Web" owner to rowbus_test_mallory
"""
NAMED_BY = {
    "a reply": {"NServiceBus__ReplyToAddress": "Web"},
    "an acknowledgement": {
        "NServiceBus__ReplyToAddress": "Answers",
        "ServiceControl__Retry__UniqueMessageId": RETRIED,
        "ServiceControl__Retry__AcknowledgementQueue": "Web",
    },
    "a forward": {"NServiceBus__SqlServer__ForwardDestination": "Web"},
    "a subscription": {"NServiceBus__ReplyToAddress": "Answers", "Shop__Publishes": "1"},
}


@in_one_mode
@pytest.mark.only("PostgreSQL", reason="it makes a role and a trigger of PostgreSQL's")
async def test_no_message_is_sent_to_a_queue_of_a_stranger(endpoints: Endpoints) -> None:
    """Before, the stranger's trigger ran with the rights of the endpoint."""
    backend = endpoints.backend
    for name in ("Web", "Answers"):
        await backend.create_queue(name)
    await backend.execute(TRAP)
    sales = make_sales(endpoints)

    @sales.handler
    async def publish(message: PlaceOrder, context: rowbus.Context) -> None:
        if "Shop.Publishes" in context.headers:
            await context.publish({}, type="Shop.Event")

    async with sales:
        await backend.subscribe("Web", "Shop.Event")
        for named in NAMED_BY.values():
            await backend.insert(sales.address, order_headers(**named), ORDER)

        async def failed() -> bool:
            return await backend.count(ERROR) == len(NAMED_BY)

        await eventually(failed)
    for row in await backend.rows(ERROR):
        assert "belongs to rowbus_test_mallory" in str(row.headers[Header.EXCEPTION_MESSAGE])
    assert await backend.count("Web") == 0


@in_all_modes_failing
@pytest.mark.only("PostgreSQL", reason="it makes a role and a trigger of PostgreSQL's")
async def test_no_reply_is_sent_to_what_a_stranger_changed_after_the_look(endpoints: Endpoints) -> None:
    backend = endpoints.backend
    await backend.create_queue("Web")
    await backend.execute(f"grant create on schema {backend.schema} to public")
    sales = endpoints.make("Sales")

    @sales.handler
    async def place(message: PlaceOrder, context: rowbus.Context) -> None:
        await context.reply(OrderAccepted(message.order_id))
        await backend.execute(TRAP)

    async with sales:
        headers = order_headers(NServiceBus__ReplyToAddress=endpoints.queue("Web").canonical)
        await backend.insert(sales.address, headers, ORDER)
        row = await wait_for(endpoints, ERROR)
    assert "belongs to rowbus_test_mallory" in str(row.headers[Header.EXCEPTION_MESSAGE])
    assert await backend.count("Web") == 0


@in_one_mode
async def test_an_acknowledgement_goes_to_no_table_but_a_queue(endpoints: Endpoints) -> None:
    notes = await make_table(endpoints.backend)
    await endpoints.backend.create_queue("Web")
    headers = order_headers(
        ServiceControl__Retry__UniqueMessageId=RETRIED,
        ServiceControl__Retry__AcknowledgementQueue=notes.canonical,
        NServiceBus__ReplyToAddress=endpoints.queue("Web").canonical,
    )
    async with make_sales(endpoints) as sales:
        await endpoints.backend.insert(sales.address, headers, ORDER)
        await wait_for(endpoints, ERROR)
    assert await endpoints.backend.count(notes) == 0


@in_one_mode
@pytest.mark.one_version
@pytest.mark.only("PostgreSQL", reason="it acts as a role of PostgreSQL's")
async def test_a_role_that_may_insert_into_one_queue_reaches_no_other_schema(
    endpoints: Endpoints, caplog: pytest.LogCaptureFixture
) -> None:
    backend = endpoints.backend
    payroll = await elsewhere(backend)
    async with make_sales(endpoints):
        await backend.execute("drop role if exists rowbus_test_sender; create role rowbus_test_sender")
        await backend.execute(
            'grant insert on "Sales" to rowbus_test_sender; '
            'grant usage on sequence "Sales_seq_seq" to rowbus_test_sender; set role rowbus_test_sender'
        )
        try:
            await backend.execute(
                'insert into "Sales" (id, headers, body) values (gen_random_uuid(), %s, %s)',
                forwarded_to(payroll),
                ORDER,
            )
        finally:
            await backend.execute(
                "reset role; drop owned by rowbus_test_sender; drop role rowbus_test_sender"
            )
        await wait_for(endpoints, ERROR)
    assert await backend.count(payroll) == 0
    assert any(
        "Payroll" in record.getMessage() for record in caplog.records if record.levelno == logging.ERROR
    )
