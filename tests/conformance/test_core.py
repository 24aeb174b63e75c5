"""Core's acceptance tests that both SQL transports run (`behaviours.md`), as far as their features are built."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from datetime import timedelta
from types import SimpleNamespace

import pytest

import rowbus
from rowbus.messages.headers import Header
from tests.conformance.endpoints import ERROR, NO_RETRIES, Endpoints, OrderAccepted, PlaceOrder
from tests.conformance.transport import (
    RECEIVE_ONLY,
    RECEIVE_ONLY_ROLLBACK,
    SENDS_ATOMIC,
    SENDS_ATOMIC_ROLLBACK,
    SimulatedError,
    eventually,
    headers_text,
    in_all_modes,
    in_all_modes_failing,
    in_transaction_modes,
    in_transaction_modes_failing,
    within,
)

pytestmark = pytest.mark.one_version

PLACE_ORDER = "Shop.Messages.PlaceOrder"


async def wait_for(endpoints: Endpoints, count: int, name: str) -> None:
    async def reached() -> bool:
        return await endpoints.backend.count(name) == count

    await eventually(reached)


def failing(endpoint: rowbus.Endpoint, error: BaseException | None = None) -> list[str]:
    """Give an endpoint a handler that always fails; return the list of its attempts."""
    attempts: list[str] = []

    @endpoint.handler
    async def place(message: PlaceOrder) -> None:
        attempts.append(message.order_id)
        raise error or SimulatedError

    return attempts


# --- ids


@in_all_modes
@pytest.mark.parametrize(
    "message_id", [{}, {"NServiceBus__MessageId": ""}, {"NServiceBus__MessageId": None}], ids=str
)
async def test_when_message_has_no_id(endpoints: Endpoints, message_id: dict[str, str | None]) -> None:
    sales = endpoints.make("Sales")
    seen: asyncio.Queue[tuple[str, str | None]] = asyncio.Queue()

    @sales.handler
    async def place(message: PlaceOrder, context: rowbus.Context) -> None:
        await seen.put((context.message_id, context.headers[Header.MESSAGE_ID]))

    async with sales:
        headers = headers_text(NServiceBus__EnclosedMessageTypes=PLACE_ORDER, **message_id)
        row_id = await endpoints.backend.insert(sales.address, headers, b'{"order_id":"1"}')
        assert await within(seen.get()) == (row_id, row_id)


@in_all_modes_failing
@pytest.mark.parametrize(
    "message_id", [{}, {"NServiceBus__MessageId": ""}, {"NServiceBus__MessageId": None}], ids=str
)
async def test_when_message_without_id_fails(endpoints: Endpoints, message_id: dict[str, str | None]) -> None:
    sales = endpoints.make("Sales", recoverability=NO_RETRIES)
    failing(sales)

    async with sales:
        headers = headers_text(NServiceBus__EnclosedMessageTypes=PLACE_ORDER, **message_id)
        row_id = await endpoints.backend.insert(sales.address, headers, b'{"order_id":"1"}')
        await wait_for(endpoints, 1, "error")
    (row,) = await endpoints.backend.rows(ERROR)
    assert row.headers[Header.MESSAGE_ID] == row_id


async def test_when_sending_the_correlation_id_is_the_message_id(endpoints: Endpoints) -> None:
    await endpoints.backend.create_queue("Billing")
    web = endpoints.make("Web")
    async with web:
        message_id = await web.send("Billing", PlaceOrder("1"))
    (row,) = await endpoints.backend.rows("Billing")
    assert row.headers[Header.MESSAGE_ID] == row.headers[Header.CORRELATION_ID] == message_id


async def test_when_replying_the_conversation_and_the_correlation_go_on(endpoints: Endpoints) -> None:
    sales, web = endpoints.make("Sales"), endpoints.make("Web")
    replies: asyncio.Queue[dict[str, str | None]] = asyncio.Queue()

    @sales.handler
    async def place(message: PlaceOrder, context: rowbus.Context) -> None:
        await context.reply(OrderAccepted(message.order_id))

    @web.handler
    async def accepted(message: OrderAccepted, context: rowbus.Context) -> None:
        await replies.put(context.headers)

    async with sales, web:
        request_id = await web.send("Sales", PlaceOrder("1"), headers={"traceparent": "00-1-2-01"})
        headers = await within(replies.get())
    assert headers[Header.MESSAGE_ID] != request_id
    assert headers[Header.CORRELATION_ID] == headers[Header.RELATED_TO] == request_id
    assert headers[Header.CONVERSATION_ID] == request_id
    assert headers[Header.MESSAGE_INTENT] == "Reply"
    assert headers[Header.REPLY_TO_ADDRESS] == sales.address.canonical
    assert headers["traceparent"] == "00-1-2-01"


# --- retries and the error queue


@in_transaction_modes_failing
@pytest.mark.parametrize("immediate", [0, 1, 5])
async def test_when_performing_immediate_retries(endpoints: Endpoints, immediate: int) -> None:
    sales = endpoints.make("Sales", recoverability=rowbus.Recoverability(immediate=immediate, delayed=0))
    attempts = failing(sales)

    async with sales:
        await sales.send("Sales", PlaceOrder("1"))
        await wait_for(endpoints, 1, "error")
    assert len(attempts) == immediate + 1


async def test_when_nothing_is_configured_there_are_five_immediate_retries(endpoints: Endpoints) -> None:
    sales = endpoints.make("Sales", recoverability=rowbus.Recoverability())
    attempts = failing(sales)

    async with sales:
        await sales.send("Sales", PlaceOrder("1"))
        await wait_for(endpoints, 1, "Sales.Delayed")
    assert len(attempts) == 6


class BadOrderError(SimulatedError):
    """An error that a policy declares hopeless by its base class."""


@in_all_modes_failing
@pytest.mark.parametrize(
    "error", [rowbus.Unrecoverable("no"), BadOrderError("no")], ids=["raised", "declared"]
)
async def test_when_message_fails_with_an_unrecoverable_error(endpoints: Endpoints, error: Exception) -> None:
    policy = rowbus.Recoverability(
        immediate=0 if endpoints.case.mode is rowbus.TransactionMode.NONE else 5,
        delayed=0,
        unrecoverable=(SimulatedError,),
    )
    sales = endpoints.make("Sales", recoverability=policy)
    attempts = failing(sales, error)

    async with sales:
        await sales.send("Sales", PlaceOrder("1"))
        await wait_for(endpoints, 1, "error")
    assert len(attempts) == 1


@in_all_modes_failing
@pytest.mark.parametrize("body", [b"not JSON", b'{"order_id":5}', b"[]", b"\xff"], ids=str)
async def test_when_message_cannot_be_deserialized(endpoints: Endpoints, body: bytes) -> None:
    sales = endpoints.make("Sales")
    attempts = failing(sales)

    async with sales:
        await endpoints.backend.insert(
            sales.address, headers_text(NServiceBus__EnclosedMessageTypes=PLACE_ORDER), body
        )
        await wait_for(endpoints, 1, "error")
    (row,) = await endpoints.backend.rows(ERROR)
    assert attempts == []
    assert row.body == body
    assert row.headers[Header.EXCEPTION_TYPE] == "rowbus.errors.MessageDeserializationError"
    assert f"The body is not a {PLACE_ORDER}" in str(row.headers[Header.EXCEPTION_MESSAGE])


@dataclass(frozen=True)
class Policy(rowbus.Recoverability):
    """A policy of one's own: always the same verdict."""

    verdict: rowbus.Discard | rowbus.MoveToErrorQueue = field(default=rowbus.Discard("not needed"))

    def decide(self, attempt: rowbus.FailedAttempt) -> rowbus.Discard | rowbus.MoveToErrorQueue:
        assert attempt.failures == 1
        assert isinstance(attempt.error, SimulatedError)
        return self.verdict


@in_all_modes_failing
async def test_when_custom_policy_discards(endpoints: Endpoints) -> None:
    sales = endpoints.make("Sales", recoverability=Policy(immediate=0, delayed=0))
    attempts = failing(sales)

    async with sales:
        await sales.send("Sales", PlaceOrder("1"))
        await eventually(lambda: len(attempts) == 1)
        await wait_for(endpoints, 0, "Sales")
    assert await endpoints.backend.count(ERROR) == 0


@in_all_modes_failing
async def test_when_custom_policy_moves_to_custom_error_queue(endpoints: Endpoints) -> None:
    await endpoints.backend.create_queue("other errors")
    verdict = rowbus.MoveToErrorQueue(endpoints.queue("other errors"))
    sales = endpoints.make("Sales", recoverability=Policy(immediate=0, delayed=0, verdict=verdict))
    failing(sales)

    async with sales:
        await sales.send("Sales", PlaceOrder("1"))
        await wait_for(endpoints, 1, "other errors")
    assert await endpoints.backend.count(ERROR) == 0
    assert await endpoints.backend.count("Sales") == 0


@in_all_modes_failing
async def test_when_message_with_time_to_be_received_fails(endpoints: Endpoints) -> None:
    sales = endpoints.make("Sales", recoverability=NO_RETRIES)
    failing(sales)

    async with sales:
        await sales.send("Sales", PlaceOrder("1"), time_to_be_received=timedelta(seconds=20))
        await wait_for(endpoints, 1, "error")
    (row,) = await endpoints.backend.rows(ERROR)
    assert row.expires_in is None


@pytest.mark.parametrize(
    "case, dispatched",
    [
        (RECEIVE_ONLY, True),
        (RECEIVE_ONLY_ROLLBACK, True),
        (SENDS_ATOMIC, False),
        (SENDS_ATOMIC_ROLLBACK, False),
    ],
    ids=str,
)
async def test_when_message_is_moved_to_error_queue_its_sends(
    endpoints: Endpoints, *, dispatched: bool
) -> None:
    """A message that fails at its completion, when its handler has already succeeded (mode None: nothing can)."""
    await endpoints.backend.create_business_tables()
    await endpoints.backend.create_queue("Billing")
    sales = endpoints.make("Sales", recoverability=NO_RETRIES)

    @sales.handler
    async def place(message: PlaceOrder, context: rowbus.Context) -> None:
        await context.send("Billing", message)
        await endpoints.backend.fail_at_commit(context.connection)

    async with sales:
        await sales.send("Sales", PlaceOrder("1"))
        await wait_for(endpoints, 1, "error")
    expected = dispatched and endpoints.backend.finds_out_at_commit
    assert await endpoints.backend.count("Billing") == int(expected)


# --- time to be received, purge


@in_all_modes
async def test_when_time_to_be_received_has_expired(endpoints: Endpoints) -> None:
    sales = endpoints.make("Sales")
    received: asyncio.Queue[str] = asyncio.Queue()

    @sales.handler
    async def place(message: PlaceOrder) -> None:
        await received.put(message.order_id)

    await sales.install()
    headers = headers_text(NServiceBus__EnclosedMessageTypes=PLACE_ORDER)
    await endpoints.backend.insert(sales.address, headers, b'{"order_id":"late"}', expires_in=-0.001)
    await endpoints.backend.insert(sales.address, headers, b'{"order_id":"in time"}', expires_in=60)

    async with sales:
        await wait_for(endpoints, 0, "Sales")
    assert [received.get_nowait()] == ["in time"]
    assert received.empty()
    assert await endpoints.backend.count(ERROR) == 0


async def test_when_a_message_lives_no_longer_than_polling_takes_it_is_said_how_it_can_be_received(
    endpoints: Endpoints, caplog: pytest.LogCaptureFixture
) -> None:
    sales = endpoints.make("Sales")
    failing(sales)
    lives = {"00:00:01.0000000": -0.1, "00:00:02": -0.1, "00:01:00": -0.1, "": -0.1, "00:00:01": -60.0}

    def said() -> list[str]:
        return [record.message for record in caplog.records if "peek_delay" in record.message]

    async def is_said() -> bool:
        for lifetime, expires_in in lives.items():
            headers = headers_text(
                NServiceBus__EnclosedMessageTypes=PLACE_ORDER, NServiceBus__TimeToBeReceived=lifetime
            )
            await endpoints.backend.insert(sales.address, headers, b"{}", expires_in=expires_in)
        await wait_for(endpoints, 0, "Sales")
        return bool(said())

    async with sales:
        await eventually(is_said)  # a slow server may take so long that their time ran out long ago
    (text,) = said()
    assert "00:00:0" in text  # one of the first two


@in_transaction_modes
async def test_when_time_to_be_received_runs_out_between_immediate_retries(
    endpoints: Endpoints, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    later = [0.0]
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + later[0])
    monkeypatch.setattr("rowbus.transport.receiving.processor.time", clock)
    sales = endpoints.make("Sales")
    attempts: list[str] = []

    @sales.handler
    async def place(message: PlaceOrder) -> None:
        attempts.append(message.order_id)
        later[0] += 31
        raise SimulatedError

    await sales.install()
    headers = headers_text(NServiceBus__EnclosedMessageTypes=PLACE_ORDER)
    await endpoints.backend.insert(sales.address, headers, b'{"order_id":"1"}', expires_in=60)
    async with sales:
        await wait_for(endpoints, 0, "Sales")
    assert attempts == ["1", "1"]
    assert await endpoints.backend.count(ERROR) == 0
    (said,) = [record for record in caplog.records if "ran out" in record.message]
    assert said.levelname == "WARNING"
    assert "SimulatedError" in said.message


@in_all_modes
async def test_when_time_to_be_received_has_not_expired(endpoints: Endpoints) -> None:
    sales = endpoints.make("Sales")
    received: asyncio.Queue[str | None] = asyncio.Queue()

    @sales.handler
    async def place(message: PlaceOrder, context: rowbus.Context) -> None:
        await received.put(context.headers[Header.TIME_TO_BE_RECEIVED])

    async with sales:
        await sales.send("Sales", PlaceOrder("1"), time_to_be_received=timedelta(days=1, seconds=10.5))
        assert await within(received.get()) == "1.00:00:10.5000000"


@in_all_modes
async def test_when_purge_on_startup_is_enabled(endpoints: Endpoints) -> None:
    sales = endpoints.make("Sales", purge_on_startup=True)
    received: list[str] = []

    @sales.handler
    async def place(message: PlaceOrder) -> None:
        received.append(message.order_id)

    await sales.install()
    for number in range(10):
        await endpoints.backend.client().send("Sales", PlaceOrder(f"old {number}"))

    async with sales:
        await sales.send("Sales", PlaceOrder("new"))
        await eventually(lambda: "new" in received)
    assert received == ["new"]


# --- replies


async def test_when_replying_to_a_specific_address(endpoints: Endpoints) -> None:
    schema = await endpoints.backend.create_schema("Other.Schema")
    address = endpoints.backend.queue("re.plies", schema)
    await endpoints.backend.create_queue(address)
    sales = endpoints.make(
        "Sales", allowed_destinations=rowbus.AllowedDestinations.ANY_QUEUE
    )  # another schema

    @sales.handler
    async def place(message: PlaceOrder, context: rowbus.Context) -> None:
        await context.reply(OrderAccepted(message.order_id))

    async with sales:
        client = endpoints.backend.client(reply_to=address)
        await client.send("Sales", PlaceOrder("1"))
        await wait_for(endpoints, 0, "Sales")
    assert await endpoints.backend.count(address) == 1


async def test_when_replying_to_any_instance(endpoints: Endpoints) -> None:
    sales, replies = endpoints.make("Sales"), set[str]()
    instances = [endpoints.make("Web", discriminator=name) for name in ("a", "b")]

    @sales.handler
    async def place(message: PlaceOrder, context: rowbus.Context) -> None:
        assert context.reply_to == endpoints.queue("Web")
        await context.reply(OrderAccepted(message.order_id))

    for instance in instances:

        @instance.handler
        async def accepted(message: OrderAccepted) -> None:
            replies.add(message.order_id)

    async with sales, instances[0], instances[1]:
        for number in range(10):
            await instances[0].send("Sales", PlaceOrder(str(number)))
        await eventually(lambda: len(replies) == 10)


@in_transaction_modes_failing
async def test_when_replying_to_a_message_that_takes_no_reply(endpoints: Endpoints) -> None:
    sales = endpoints.make("Sales", recoverability=NO_RETRIES)

    @sales.handler
    async def place(message: PlaceOrder, context: rowbus.Context) -> None:
        await context.reply(OrderAccepted(message.order_id))

    async with sales:
        await endpoints.backend.client().send("Sales", PlaceOrder("1"))
        await wait_for(endpoints, 1, "error")
    (row,) = await endpoints.backend.rows(ERROR)
    assert "cannot be replied to" in str(row.headers[Header.EXCEPTION_MESSAGE])


# --- sends within a transaction of the caller's


@in_all_modes
async def test_when_sending_within_a_transaction_of_the_callers(endpoints: Endpoints) -> None:
    sales, received = endpoints.make("Sales"), list[str]()

    @sales.handler
    async def place(message: PlaceOrder) -> None:
        received.append(message.order_id)

    async with sales:
        backend, client = endpoints.backend, endpoints.backend.client()
        async with backend.transaction(force_rollback=True):
            await client.send("Sales", PlaceOrder("never"))
        async with backend.transaction():
            await client.send("Sales", PlaceOrder("first"))
            await client.send_many("Sales", [PlaceOrder("second"), PlaceOrder("third")])
        await eventually(lambda: len(received) == 3)
    assert sorted(received) == ["first", "second", "third"]
