"""Uses of the public API by our users' type checkers. Checked by mypy and basedpyright, never run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import assert_type

import msgspec
import psycopg
import pydantic

import rowbus
from rowbus.testing import (
    AppendedEvent,
    DelayedMessageStoreContract,
    FakeClock,
    Outcome,
    SentMessage,
    run_handlers,
    temporary_database,
)

# ------------------------------------------------------------------------------------------------------------ messages


@rowbus.command("Shop.PlaceOrder")
@dataclass
class PlaceOrder:
    """A decorator must leave a dataclass what it is."""

    order_id: str
    total: float = 0.0


@rowbus.event("Shop.OrderPlaced", parents=("Shop.IOrderEvent",))
class OrderPlaced(msgspec.Struct):
    """… and a struct."""

    order_id: str


@rowbus.message("Shop.Receipt")
class Receipt(pydantic.BaseModel):
    """… and a pydantic model."""

    order_id: str


assert_type(PlaceOrder("42", 9.5), PlaceOrder)
assert_type(PlaceOrder("42").total, float)
assert_type(OrderPlaced("42").order_id, str)
assert_type(Receipt(order_id="42"), Receipt)

# ------------------------------------------------------------------------------------------------- endpoints, handlers

sales = rowbus.Endpoint("Sales")
billing = rowbus.Endpoint(
    "Billing",
    database="postgresql://…",
    settings=rowbus.EndpointSettings(
        transaction_mode=rowbus.TransactionMode.RECEIVE_ONLY,
        failure_handling=rowbus.FailureHandling.ROLLBACK,
        peek_delay=timedelta(seconds=5),
    ),
    recoverability=rowbus.Recoverability(immediate=3, unrecoverable=(ValueError,)),
)


@sales.handler
async def place_order(order: PlaceOrder, context: rowbus.Context) -> None:
    """Do everything that an asynchronous handler may do."""
    assert_type(context.message_id, str)
    assert_type(context.headers, dict[str, str | None])
    assert_type(context.headers.get(rowbus.Header.REPLY_TO_ADDRESS), str | None)
    assert_type(context.body, bytes)
    assert_type(context.reply_to, rowbus.QueueAddress | None)
    cursor = await context.connection.execute("insert into orders values (%s)", [order.order_id])
    assert_type(cursor.rowcount, int)
    async with context.connection.transaction():
        await context.connection.execute("select 1")
    sent = await context.send("Billing", Receipt(order_id="42"), time_to_be_received=timedelta(minutes=5))
    assert_type(sent, str)
    await context.send(rowbus.QueueAddress("public", "Billing"), {"a": 1}, type="Shop.A", immediate=True)
    assert_type(await context.reply(Receipt(order_id="42"), headers={"a": "b"}), str)


@sales.handler
def note_order(placed: OrderPlaced, context: rowbus.SyncContext) -> None:
    """Do the same in a thread."""
    context.connection.execute("select 1").fetchone()
    assert_type(context.send("Billing", placed, new_conversation=True), str)
    assert_type(context.reply(placed), str)


@sales.handler("Shop.Old", "Shop.Older")
async def take_anything(message: dict[str, object]) -> None:
    """Take what the wire names say; a decorated handler can still be called."""
    await take_anything(message)


@sales.handler  # type: ignore[type-var]  # pyright: ignore[reportArgumentType, reportCallIssue, reportUntypedFunctionDecorator]
async def without_message() -> None:
    """Take no message, which is refused."""


@sales.handler  # type: ignore[type-var]  # pyright: ignore[reportArgumentType, reportCallIssue, reportUntypedFunctionDecorator]
def yielding(order: PlaceOrder) -> Iterator[None]:
    """Run nothing when it is called, which is refused."""
    yield


@sales.handler  # type: ignore[type-var]  # pyright: ignore[reportArgumentType, reportCallIssue, reportUntypedFunctionDecorator]
def answering(order: PlaceOrder) -> Receipt:
    """Return what goes nowhere, which is refused: a handler replies."""
    return Receipt(order_id=order.order_id)


@sales.handler
async def with_dependencies(order: PlaceOrder, clock: FakeClock, *, policy: rowbus.Recoverability) -> None:
    """Take what is provided."""


async def call_handlers(context: rowbus.Context) -> None:
    """Handlers remain the functions they were."""
    await place_order(PlaceOrder("42"), context)
    await place_order(OrderPlaced("42"), context)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - the wrong message
    note_order(OrderPlaced("42"), context)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - the wrong context


async def live() -> None:
    """Start and stop an endpoint in every way."""
    async with sales as running:
        assert_type(running, rowbus.Endpoint)
        assert_type(await running.send("Billing", PlaceOrder("42")), str)
        running.route(PlaceOrder, "Shop.A", to="Billing")
        running.route_module("shop.messages", to=rowbus.QueueAddress("public", "Billing"))
        assert_type(await running.send(PlaceOrder("42"), delay=timedelta(minutes=5)), str)
        assert_type(await running.send_local(PlaceOrder("42"), new_conversation="order 42"), str)
        await running.send(42, PlaceOrder("42"))  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType] - no destination
        running.change_concurrency(4)
    await sales.stop(timeout=10)
    sales.run()


# --------------------------------------------------------------------------------------------------------------- policy


class Patient(rowbus.Recoverability):
    """A policy of the user's own."""

    def decide(
        self, attempt: rowbus.FailedAttempt
    ) -> rowbus.ImmediateRetry | rowbus.DelayedRetry | rowbus.MoveToErrorQueue | rowbus.Discard:
        """Answer with any of the four verdicts."""
        assert_type(attempt.error, BaseException)
        assert_type(attempt.failures, int)
        assert_type(attempt.headers, Mapping[str, str | None])
        assert_type(attempt.now, datetime)
        if attempt.delayed_retries < 7:
            return rowbus.DelayedRetry(timedelta(days=1))
        if isinstance(attempt.error, rowbus.Unrecoverable):
            return rowbus.Discard("hopeless")
        return rowbus.MoveToErrorQueue(rowbus.QueueAddress("public", "graveyard"))


# -------------------------------------------------------------------------------------------------------------- clients


def send(connection: psycopg.Connection) -> None:
    """Send on a connection of one's own."""
    client = rowbus.Client(connection, schema="shop", reply_to="Web", notify=False)
    assert_type(client.send("Sales", PlaceOrder("42")), str)
    assert_type(client.send_many("Sales", (PlaceOrder(str(number)) for number in range(10))), int)


async def send_async(connection: psycopg.AsyncConnection) -> None:
    """Send on an asynchronous one."""
    client = rowbus.AsyncClient(connection)
    assert_type(await client.send("Sales", PlaceOrder("42")), str)
    assert_type(await client.send_many("Sales", [{"a": 1}], type="Shop.A"), int)


# ----------------------------------------------------------------------------------------- appending, and the bridges


def append(connection: psycopg.Connection) -> None:
    """Append on a connection of one's own."""
    log = rowbus.Log(connection, "orders")
    assert_type(log.append({"order": 42}, type="order_placed", extra1="e"), int)
    assert_type(log.append_many([("a", "b"), {"data": 1}, PlaceOrder("42")], type="t"), int)


async def append_async(connection: psycopg.AsyncConnection) -> None:
    """Append on an asynchronous one."""
    log = rowbus.AsyncLog(connection, "orders")
    assert_type(await log.append(data="text"), int)
    assert_type(await log.append_many(str(number) for number in range(10)), int)


async def cross() -> None:
    """Cross the bridges."""
    assert_type(await rowbus.drain_queue("error", "failed", database="dbname=shop", batch_size=10), int)
    log = rowbus.Log(None, "failed")
    rowbus.forward_events(log, "bridge", "Sales", message=lambda event: PlaceOrder(str(event.id)))


def look(event: rowbus.Event) -> None:
    """Make a message of an event again."""
    message = rowbus.archived_message(event)
    assert_type(message, rowbus.ArchivedMessage | None)
    if message is not None:
        assert_type(message.body, bytes | None)
        assert_type(message.decode_headers(), dict[str, str | None])


# --------------------------------------------------------------------------------------------------------------- errors


def handle(error: rowbus.RowbusError) -> None:
    """Errors carry their facts as attributes."""
    if isinstance(error, rowbus.StorageError):
        assert_type(error.sqlstate, str | None)
        assert_type(error.transient, bool)
    elif isinstance(error, rowbus.QueueNotFoundError):
        assert_type(error.queue, str)
    elif isinstance(error, rowbus.UnknownMessageTypeError):
        assert_type(error.types, tuple[str, ...])
    elif isinstance(error, rowbus.InvalidAddressError):
        assert_type(error.reason, str)


# -------------------------------------------------------------------------------------------------------------- testing


async def run_a_test() -> None:
    """Use what `rowbus.testing` gives."""
    outcome = await run_handlers(sales, PlaceOrder("42"), headers={"a": "b"}, reply_to=None)
    assert_type(outcome, Outcome)
    assert_type(outcome.error, BaseException | None)
    assert_type(outcome.sends, tuple[SentMessage, ...])
    assert_type(outcome.replies[0].read(Receipt), Receipt)
    assert_type(outcome.sends[0].destination, rowbus.QueueAddress)
    assert_type(outcome.events, tuple[AppendedEvent, ...])
    clock = FakeClock()
    clock.advance(1.5)
    assert_type(clock(), float)
    with temporary_database() as dsn:
        assert_type(dsn, str)


# ------------------------------------------------------------------------------------ events, and each message once


@sales.handler("Shop.OrderShipped", subscribe=True)
async def shipped(event: dict[str, object], context: rowbus.Context) -> None:
    """Publish from a handler."""
    assert_type(await context.publish(OrderPlaced("42")), str)
    assert_type(await context.publish({}, type=("Shop.OrderPlaced", "Shop.OrderEvent")), str)
    await context.send("Billing", event, type="Shop.Bill", reply_to=context.instance_address)


async def publish_and_note(connection: psycopg.Connection, twin: psycopg.AsyncConnection) -> None:
    """Publish from elsewhere, subscribe, and take each message once."""
    assert_type(await sales.publish(OrderPlaced("42")), str)
    await sales.subscribe(OrderPlaced, "Shop.OrderShipped")
    await sales.unsubscribe(OrderPlaced)
    assert_type(rowbus.Client(connection).publish(OrderPlaced("42")), str)
    assert_type(await rowbus.AsyncClient(twin).publish(OrderPlaced("42")), str)
    assert_type(rowbus.Inbox(connection, "Sales").accept("42"), bool)
    assert_type(await rowbus.AsyncInbox(twin, "Sales").accept("42"), bool)
    assert_type(await rowbus.AsyncInbox(twin, "Sales").purge(timedelta(days=1)), int)


# --------------------------------------------------------------------------------------------- a delayed message store


class LittleStore(rowbus.DelayedMessageStore):
    """A store of one's own has six methods to write."""

    async def initialize(self, endpoint_name: str, transaction_mode: rowbus.TransactionMode) -> None:
        """Take what an endpoint says."""

    async def store(self, message: rowbus.DelayedMessage) -> None:
        """Take a message."""
        assert_type(message.time, datetime)
        assert_type(message.headers, bytes)

    async def remove(self, message: rowbus.DelayedMessage) -> bool:
        """Take a message."""
        return message.number_of_retries > 0

    async def increment_failure_count(self, message: rowbus.DelayedMessage) -> bool:
        """Take a message."""
        return await self.remove(message)

    async def next(self) -> datetime | None:
        """Give a time."""
        return None

    async def fetch_next_due(self, at: datetime) -> rowbus.DelayedMessage | None:
        """Give a message."""
        return rowbus.DelayedMessage(message_id="1", destination="Sales", time=at, headers=b"{}")


class TestLittleStore(DelayedMessageStoreContract):
    """And its tests one."""

    def make_store(self) -> rowbus.DelayedMessageStore:
        """Make a store."""
        return LittleStore()


rowbus.Endpoint("Sales", delayed_delivery=rowbus.DelayedDeliverySettings(LittleStore(), number_of_retries=7))
