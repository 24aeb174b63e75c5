"""The flows of messages and events: what an endpoint, a mover, a consumer and an operator's command do."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

import psycopg

import rowbus
from tools.flows.step import Step, command, count, rest, tick

ONE_BY_ONE = rowbus.EndpointSettings(concurrency=1)  # no two slots compete
MUCH_LATER = rowbus.Recoverability(
    increase=timedelta(hours=1)
)  # what has failed does not come again meanwhile
DELAY = timedelta(milliseconds=100)


@rowbus.command("Flows.PlaceOrder")
@dataclass
class PlaceOrder:
    """The message that is sent first."""

    order: int


@rowbus.command("Flows.ChargeCard")
@dataclass
class ChargeCard:
    """The message that its handler sends on."""

    order: int


@asynccontextmanager
async def send(dsn: str) -> AsyncIterator[Step]:
    """Send a message whose handler sends another."""
    endpoint = rowbus.Endpoint("Sales", database=dsn, settings=ONE_BY_ONE)

    @endpoint.handler
    async def place_order(message: PlaceOrder, context: rowbus.Context) -> None:
        await context.send("Billing", ChargeCard(message.order))

    async with endpoint:
        yield Step(lambda: _send(dsn), lambda: count(dsn, "Billing"))


@asynccontextmanager
async def fail(dsn: str) -> AsyncIterator[Step]:
    """Send a message whose handler fails always; after its immediate retries it waits for a delayed one."""
    async with _failing(dsn, ValueError("for the flow")):
        yield Step(lambda: _send(dsn), lambda: count(dsn, "Sales.Delayed"))


@asynccontextmanager
async def delayed(dsn: str) -> AsyncIterator[Step]:
    """Delay a message, and move it to its queue when it is due."""
    async with rowbus.DelayedMover("Sales", database=dsn):
        yield Step(lambda: _send(dsn, DELAY), lambda: count(dsn, "Sales"), 1.2 * DELAY.total_seconds())


@asynccontextmanager
async def event(dsn: str) -> AsyncIterator[Step]:
    """Append an event, make a tick, consume the event."""
    log = rowbus.Log(dsn, "orders")
    seen: list[rowbus.Event] = []

    @log.consumer("revenue")
    async def revenue(event: rowbus.Event, _context: rowbus.LogContext) -> None:
        seen.append(event)

    async with log:
        yield Step(lambda: _append_and_tick(dsn), lambda: len(seen))


@asynccontextmanager
async def retry(dsn: str) -> AsyncIterator[Step]:
    """Put the one message of the error queue back by `rowbus errors retry --all`."""

    async def prepare() -> None:
        with psycopg.connect(dsn) as connection:
            connection.execute('truncate "Sales", error')
        async with _failing(dsn, rowbus.Unrecoverable("for the flow")):
            _send(dsn)
            await rest()

    yield Step(
        lambda: command("errors", "retry", "--all", "--database", dsn),
        lambda: count(dsn, "Sales"),
        prepare=prepare,
    )


def _failing(dsn: str, error: Exception) -> rowbus.Endpoint:
    """Make an endpoint whose handler raises an error."""
    endpoint = rowbus.Endpoint("Sales", database=dsn, settings=ONE_BY_ONE, recoverability=MUCH_LATER)

    @endpoint.handler
    async def place_order(_message: PlaceOrder, _context: rowbus.Context) -> None:
        raise error

    return endpoint


def _send(dsn: str, delay: timedelta | None = None) -> None:
    with psycopg.connect(dsn) as connection:
        rowbus.Client(connection).send("Sales", PlaceOrder(1), delay=delay)


def _append_and_tick(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        rowbus.Log(connection, "orders").append({"order": 1}, type="order_placed")
    tick(dsn)
