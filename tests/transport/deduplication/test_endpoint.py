"""An endpoint with deduplicate_for: what comes again is consumed, and nothing it did is done again."""

from __future__ import annotations

import asyncio
import json
import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import rowbus
from rowbus.messages.address import QueueAddress
from rowbus.messages.headers import Header
from tests.conformance.backend import Backend
from tests.conformance.endpoints import ERROR, NO_RETRIES, OrderAccepted, PlaceOrder
from tests.conformance.transport import (
    SimulatedError,
    eventually,
    in_transaction_modes,
    in_transaction_modes_failing,
    never,
    within,
)

if TYPE_CHECKING:
    from tests.conformance.endpoints import Endpoints

NAME = "Shop.Messages.PlaceOrder"
WEEK = timedelta(days=7)
SAME_ID = {Header.MESSAGE_ID: "the same"}


@pytest.fixture
def remembering(endpoints: Endpoints) -> Endpoints:
    """Give endpoints that remember for a week."""
    endpoints.defaults["deduplicate_for"] = WEEK
    return endpoints


def writing(backend: Backend, endpoint: rowbus.Endpoint, attempts: list[str]) -> None:
    """Have an endpoint write each order to the business table, and send it on."""

    @endpoint.handler
    async def place(message: PlaceOrder, context: rowbus.Context) -> None:
        attempts.append(message.order_id)
        await backend.write(context.connection, message.order_id)
        await context.send("Billing", OrderAccepted(message.order_id))


async def empty(endpoints: Endpoints, endpoint: rowbus.Endpoint) -> None:
    async def is_empty() -> bool:
        return await endpoints.backend.count(endpoint.address) == 0

    await eventually(is_empty)


async def prepare(endpoints: Endpoints) -> None:
    await endpoints.backend.create_business_tables()
    await endpoints.backend.create_queue("Billing")


async def fail_and_put_back(endpoints: Endpoints, sales: rowbus.Endpoint) -> None:
    """Send an order, put it back from the error queue once it is there, and wait until it is consumed."""

    async def failed() -> bool:
        return await endpoints.backend.count(ERROR) == 1

    async with sales:
        await sales.send("Sales", PlaceOrder("1"))
        await eventually(failed)
        (row,) = await endpoints.backend.rows(ERROR)
        await endpoints.backend.insert("Sales", row.headers_text, row.body)
        await empty(endpoints, sales)


@in_transaction_modes_failing
async def test_a_message_that_comes_again_is_consumed_without_its_handlers(remembering: Endpoints) -> None:
    await prepare(remembering)
    attempts: list[str] = []
    sales = remembering.make("Sales")
    writing(remembering.backend, sales, attempts)

    async with sales:
        for order in ("first", "first", "first"):
            await sales.send("Sales", PlaceOrder(order), headers=SAME_ID)
        await empty(remembering, sales)
        await sales.send("Sales", PlaceOrder("again later"), headers=SAME_ID)
        await sales.send("Sales", PlaceOrder("another"))
        await empty(remembering, sales)

    assert sorted(attempts) == ["another", "first"]
    assert await remembering.backend.business() == ["another", "first"]
    assert await remembering.backend.count("Billing") == 2


@in_transaction_modes
async def test_without_the_setting_each_copy_is_processed(endpoints: Endpoints) -> None:
    await prepare(endpoints)
    attempts: list[str] = []
    sales = endpoints.make("Sales")
    writing(endpoints.backend, sales, attempts)

    async with sales:
        for _ in range(2):
            await sales.send("Sales", PlaceOrder("1"), headers=SAME_ID)
        await empty(endpoints, sales)

    assert attempts == ["1", "1"]
    assert "sales.inbox" not in await endpoints.backend.tables()


@in_transaction_modes_failing
async def test_an_attempt_that_fails_is_not_remembered(remembering: Endpoints) -> None:
    await prepare(remembering)
    attempts: list[str] = []
    sales = remembering.make("Sales", recoverability=rowbus.Recoverability(immediate=2, delayed=0))

    @sales.handler
    async def place(message: PlaceOrder, context: rowbus.Context) -> None:
        attempts.append(message.order_id)
        await remembering.backend.write(context.connection, message.order_id)
        if len(attempts) < 3:
            raise SimulatedError

    async with sales:
        await sales.send("Sales", PlaceOrder("1"), headers=SAME_ID)
        await empty(remembering, sales)

    assert attempts == ["1"] * 3
    assert await remembering.backend.business() == ["1"]
    assert await remembering.backend.count("Sales.Inbox") == 1


@in_transaction_modes_failing
async def test_what_was_moved_to_the_error_queue_is_processed_when_it_is_put_back(
    remembering: Endpoints,
) -> None:
    attempts: list[str] = []
    sales = remembering.make("Sales", recoverability=NO_RETRIES)

    @sales.handler
    async def place(message: PlaceOrder) -> None:
        attempts.append(message.order_id)
        if len(attempts) == 1:
            raise SimulatedError

    await fail_and_put_back(remembering, sales)
    assert len(attempts) == 2


@in_transaction_modes
async def test_a_message_whose_handler_commits_by_sql_is_processed_when_it_comes_again(
    remembering: Endpoints,
) -> None:
    attempts: list[str] = []
    sales = remembering.make("Sales")

    @sales.handler
    async def place(message: PlaceOrder, context: rowbus.Context) -> None:
        attempts.append(message.order_id)
        if message.order_id == "commits":
            await context.connection.execute("select 1; commit")

    async def nothing_is_noted() -> bool:
        return await remembering.backend.count("Sales.Inbox") == 0

    async with sales:
        await sales.send("Sales", PlaceOrder("commits"), headers=SAME_ID)
        await empty(remembering, sales)  # its handler has committed
        await eventually(nothing_is_noted)
        await sales.send("Sales", PlaceOrder("again"), headers=SAME_ID)
        await empty(remembering, sales)

    assert attempts == ["commits", "again"]


@in_transaction_modes_failing
async def test_a_message_whose_time_is_over_before_it_succeeds_is_not_remembered(
    remembering: Endpoints,
) -> None:
    sales = remembering.make("Sales", recoverability=rowbus.Recoverability(immediate=1_000_000, delayed=0))
    attempts: list[str] = []

    @sales.handler
    async def place(message: PlaceOrder) -> None:
        attempts.append(message.order_id)
        await asyncio.sleep(0.01)
        raise SimulatedError

    async with sales:
        while not attempts:  # on a busy machine its time may be over before it is received
            await sales.send("Sales", PlaceOrder("1"), time_to_be_received=timedelta(seconds=0.5))
            await empty(remembering, sales)

    assert await remembering.backend.count("Sales.Inbox") == 0


class Gate:
    """A handler that stops in the middle until the test lets it go on, or fail."""

    def __init__(self, endpoint: rowbus.Endpoint) -> None:
        self.entered: list[str] = []
        self.verdicts: asyncio.Queue[str] = asyncio.Queue()

        @endpoint.handler
        async def place(message: PlaceOrder) -> None:
            self.entered.append(message.order_id)
            if await within(self.verdicts.get()) == "fail":
                raise SimulatedError


@in_transaction_modes
async def test_of_two_copies_at_once_the_second_waits_for_the_first(remembering: Endpoints) -> None:
    sales = remembering.make("Sales", recoverability=NO_RETRIES)
    gate = Gate(sales)

    async with sales:
        for order in ("1", "1"):
            await sales.send("Sales", PlaceOrder(order), headers=SAME_ID)
        await eventually(lambda: len(gate.entered) == 1)
        await never(lambda: len(gate.entered) == 2)
        gate.verdicts.put_nowait("succeed")
        await empty(remembering, sales)

    assert len(gate.entered) == 1


@in_transaction_modes_failing
async def test_of_two_copies_at_once_the_second_is_processed_when_the_first_fails(
    remembering: Endpoints,
) -> None:
    sales = remembering.make("Sales", recoverability=NO_RETRIES)
    gate = Gate(sales)

    async with sales:
        for order in ("1", "1"):
            await sales.send("Sales", PlaceOrder(order), headers=SAME_ID)
        await eventually(lambda: len(gate.entered) == 1)
        gate.verdicts.put_nowait("fail")
        await eventually(lambda: len(gate.entered) == 2)
        gate.verdicts.put_nowait("succeed")
        await empty(remembering, sales)

    assert await remembering.backend.count(ERROR) == 1


@in_transaction_modes
async def test_copies_in_one_batch_are_processed_once(remembering: Endpoints) -> None:
    await prepare(remembering)
    attempts: list[str] = []
    sales = remembering.make("Sales", batch_size=50, concurrency=1)
    writing(remembering.backend, sales, attempts)
    await sales.install()
    for number in range(40):
        headers = f'{{"NServiceBus.MessageId":"{number % 7}","NServiceBus.EnclosedMessageTypes":"{NAME}"}}'
        await remembering.backend.insert(sales.address, headers, f'{{"order_id":"{number % 7}"}}'.encode())

    async with sales:
        await empty(remembering, sales)

    assert sorted(attempts) == [*"0123456"]
    assert await remembering.backend.count("Billing") == 7


@in_transaction_modes_failing
async def test_what_a_message_sends_commits_with_it_in_receive_only_too(remembering: Endpoints) -> None:
    """NServiceBus's outbox: without it RECEIVE_ONLY would have sent before the commit that fails."""
    await prepare(remembering)
    sales = remembering.make("Sales", recoverability=NO_RETRIES)

    @sales.handler
    async def place(message: PlaceOrder, context: rowbus.Context) -> None:
        await context.send("Billing", OrderAccepted(message.order_id))
        await remembering.backend.fail_at_commit(context.connection)

    async with sales:
        await sales.send("Sales", PlaceOrder("1"))

        async def failed() -> bool:
            return await remembering.backend.count(ERROR) == 1

        await eventually(failed)

    assert await remembering.backend.count("Billing") == 0
    assert await remembering.backend.count("Sales.Inbox") == 0


@pytest.mark.slow
@in_transaction_modes
async def test_connections_that_break_at_any_time_double_and_lose_nothing(remembering: Endpoints) -> None:
    """A sender that repeats itself, two instances, and a server that ends their sessions."""
    await prepare(remembering)
    instances = [remembering.make("Sales", batch_size=size) for size in (1, 5)]
    for instance in instances:
        writing(remembering.backend, instance, [])
    orders = [str(number) for number in range(100)]

    async with instances[0], instances[1]:
        for order in orders:
            for _ in range(1 + int(order) % 3):
                await remembering.backend.insert(
                    instances[0].address,
                    f'{{"NServiceBus.MessageId":"{order}","NServiceBus.EnclosedMessageTypes":"{NAME}"}}',
                    f'{{"order_id":"{order}"}}'.encode(),
                )
            if int(order) % 20 == 19:
                await remembering.backend.terminate_sessions()
        await empty(remembering, instances[0])

    assert await remembering.backend.business() == sorted(orders)
    sent = await remembering.backend.rows("Billing")
    assert sorted(row.body or b"" for row in sent) == sorted(
        f'{{"order_id":"{order}"}}'.encode() for order in orders
    )


@pytest.mark.one_version
async def test_instances_share_what_they_remember_also_across_queues(remembering: Endpoints) -> None:
    await prepare(remembering)
    attempts: list[str] = []
    instances = [remembering.make("Sales", discriminator=name) for name in ("1", "2")]
    for instance in instances:
        writing(remembering.backend, instance, attempts)

    async with instances[0], instances[1]:
        for instance in instances:
            assert instance.instance_address is not None
            await instance.send(instance.instance_address, PlaceOrder("1"), headers=SAME_ID)
        for instance in instances:
            assert instance.instance_address is not None
            address = instance.instance_address

            async def is_empty(address: QueueAddress = address) -> bool:
                return await remembering.backend.count(address) == 0

            await eventually(is_empty)

    assert attempts == ["1"]


@pytest.mark.one_version
@pytest.mark.parametrize("message_id", ["Ż" * 200, "x" * 5000, "a\0b", "sha256:0", "' or 1=1"], ids=ascii)
async def test_any_message_id_is_remembered(remembering: Endpoints, message_id: str) -> None:
    attempts: list[str] = []
    await prepare(remembering)
    sales = remembering.make("Sales")
    writing(remembering.backend, sales, attempts)

    headers = json.dumps({Header.ENCLOSED_MESSAGE_TYPES: NAME, Header.MESSAGE_ID: message_id})

    async with sales:
        for _ in range(2):
            await remembering.backend.insert(sales.address, headers, b'{"order_id":"1"}')
        await empty(remembering, sales)

    assert attempts == ["1"]
    assert await remembering.backend.count(ERROR) == 0


@pytest.mark.one_version
async def test_a_message_without_an_id_goes_by_its_row(remembering: Endpoints) -> None:
    attempts: list[str] = []
    await prepare(remembering)
    sales = remembering.make("Sales")
    writing(remembering.backend, sales, attempts)

    async with sales:
        for _ in range(2):
            headers = f'{{"NServiceBus.EnclosedMessageTypes":"{NAME}"}}'
            await remembering.backend.insert(sales.address, headers, b'{"order_id":"1"}')
        await empty(remembering, sales)

    assert attempts == ["1", "1"]


@pytest.mark.one_version
async def test_what_comes_again_is_not_audited_again_but_a_retry_is_acknowledged(
    remembering: Endpoints, caplog: pytest.LogCaptureFixture
) -> None:
    await prepare(remembering)
    await remembering.backend.create_queue("Particular.ServiceControl")
    sales = remembering.make("Sales", audit_queue="audit")
    writing(remembering.backend, sales, [])
    retried: dict[str, Any] = {
        "ServiceControl.Retry.UniqueMessageId": "9a0364b9-99bb-30e2-b7b6-5e0f3d1c2b4a",
        "ServiceControl.Retry.AcknowledgementQueue": str(remembering.queue("Particular.ServiceControl")),
    }

    with caplog.at_level(logging.INFO, "rowbus.endpoint"):
        async with sales:
            await sales.send("Sales", PlaceOrder("1"), headers=SAME_ID)
            await empty(remembering, sales)
            await sales.send("Sales", PlaceOrder("1"), headers=SAME_ID | retried)
            await empty(remembering, sales)

    assert await remembering.backend.count("audit") == 1
    assert await remembering.backend.count("Particular.ServiceControl") == 1
    assert "Message the same was processed before; it is consumed without its handlers" in caplog.messages


# --- settings


def test_mode_none_cannot_remember() -> None:
    with pytest.raises(rowbus.ConfigurationError, match="deduplicate_for needs a transaction"):
        rowbus.EndpointSettings(deduplicate_for=WEEK, transaction_mode=rowbus.TransactionMode.NONE)


def test_it_remembers_for_longer_than_nothing() -> None:
    with pytest.raises(rowbus.ConfigurationError, match="longer than nothing"):
        rowbus.EndpointSettings(deduplicate_for=timedelta(0))


@pytest.mark.one_version
async def test_a_missing_table_is_noticed_at_the_start(remembering: Endpoints) -> None:
    for name in ("Sales", "error"):
        await remembering.backend.create_queue(name)
    sales = remembering.make("Sales", install=False, delayed_delivery=None)

    with pytest.raises(rowbus.QueueNotFoundError, match=r"Sales.Inbox\b.* does not exist"):
        await sales.start()
