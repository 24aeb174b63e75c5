"""Messages that are noted as processed when they are received, together with a commit; and those that are not to be."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

import rowbus
from rowbus.messages.address import QueueAddress
from rowbus.messages.headers import Header
from rowbus.transport.deduplication.postgresql import InboxTable
from rowbus.transport.queues.postgresql import QueueTable
from rowbus.transport.receiving.decisions import FROM_THE_START
from tests.conformance.endpoints import PlaceOrder
from tests.conformance.transport import eventually, within

if TYPE_CHECKING:
    from tests.conformance.backend import Backend
    from tests.conformance.endpoints import Endpoints

pytestmark = [
    pytest.mark.only("PostgreSQL", reason="elsewhere a message is noted before its handler only"),
    pytest.mark.one_version,
]

WEEK = timedelta(days=7)
NAME = "Shop.Messages.PlaceOrder"


def headers(message_id: str | None, **more: str) -> str:
    return json.dumps({Header.MESSAGE_ID: message_id, **more, Header.ENCLOSED_MESSAGE_TYPES: NAME})


async def put(backend: Backend, text: str, order: str, expires_in: float | None = None) -> str:
    return await backend.insert("Sales", text, f'{{"order_id":"{order}"}}'.encode(), expires_in=expires_in)


async def noted(backend: Backend) -> list[str]:
    session = await backend.database.connect()
    try:
        rows = await session.connection.execute('select message_key from "Sales.Inbox"')
        return sorted(key for (key,) in await rows.fetchall())
    finally:
        await session.close()


async def finished(endpoints: Endpoints, sales: rowbus.Endpoint) -> None:
    """Run an endpoint until none waits, in a look at both tables at once: what waits moves from one to the other."""
    session = await endpoints.backend.database.connect()

    async def done() -> bool:
        rows = await session.connection.execute('select from "Sales" union all select from "Sales.Delayed"')
        return not rows.rowcount

    try:
        async with sales:
            await eventually(done)
    finally:
        await session.close()


async def test_an_id_that_can_be_guessed_is_noted_once_as_its_message_is_received(backend: Backend) -> None:
    queue, inbox = (
        QueueTable(QueueAddress("public", "Sales")),
        InboxTable(QueueAddress("public", "Sales.Inbox")),
    )
    compact = '{"NServiceBus.MessageId":"compact"}'
    guessed = {headers("twice"): "twice", compact: "compact", headers(None, a="b"): "a"}
    not_guessed = [
        "{",
        "[]",
        headers("known"),
        headers('a"b'),
        headers("x" * 201),
        headers("sha256:0"),
        headers(""),
    ]
    session = await backend.database.connect()
    try:
        await session.run_all([*queue.create(), *inbox.create()])
        await session.run(inbox.accept("known"))
        for text in (*guessed, headers("twice"), *not_guessed):
            await put(backend, text, "1")
        async with session.transaction():
            look = inbox.receive(queue, 20, FROM_THE_START, most_bytes=10_000, passed_over=())
            rows = await session.run(look)
    finally:
        await session.close()

    assert [row.noted for row in rows] == [*guessed.values(), *[None] * (1 + len(not_guessed))]
    assert await noted(backend) == ["a", "compact", "known", "twice"]


@pytest.mark.parametrize("batch_size", [1, 3])
async def test_messages_that_are_not_handled_in_the_end_are_not_remembered(
    endpoints: Endpoints, batch_size: int
) -> None:
    """One fails for good, one commits by itself, one's time is over, one cannot be read.

    One has no id: then another text is guessed.
    """
    backend = endpoints.backend
    sales = endpoints.make(
        "Sales",
        deduplicate_for=WEEK,
        concurrency=1,
        batch_size=batch_size,
        recoverability=rowbus.Recoverability(immediate=1, delayed=0),
    )
    attempts: list[str] = []

    @sales.handler
    async def place(message: PlaceOrder, context: rowbus.Context) -> None:
        attempts.append(message.order_id)
        if message.order_id == "commits":
            await context.connection.execute("select 1; commit")
        if message.order_id == "fails" or attempts.count("retried") == 1:
            raise ValueError(message.order_id)

    await sales.install()
    for order in ("1", "2", "3", "fails", "retried", "4", "4", "commits"):
        await put(backend, headers(order), order)
    await put(backend, headers("expired"), "expired", expires_in=-1)
    await put(backend, headers("torn")[:-1], "torn")
    row_id = await put(backend, headers(None, guess=""), "5")
    await put(backend, headers("6"), "6")
    await finished(endpoints, sales)

    assert {*attempts} == {"1", "2", "3", "fails", "retried", "4", "commits", "5", "6"}
    assert attempts.count("4") == 1
    assert await noted(backend) == sorted(["1", "2", "3", "retried", "4", row_id, "6"])


async def test_a_message_that_waits_for_a_place_is_handled_when_it_comes_again(endpoints: Endpoints) -> None:
    sales = endpoints.make("Sales", deduplicate_for=WEEK, concurrency=2, batch_size=1)
    handled: list[str] = []
    went_on = asyncio.Event()

    @sales.handler(limit=rowbus.Concurrency(1, by=lambda order: order.order_id[0]))
    async def place(message: PlaceOrder) -> None:
        if message.order_id == "A1":
            await within(went_on.wait())
        if message.order_id == "B2":
            went_on.set()
        handled.append(message.order_id)

    await sales.install()
    for order in ("A1", "B1", "A2", "B2"):
        await put(endpoints.backend, headers(order), order)
    await finished(endpoints, sales)

    assert sorted(handled) == ["A1", "A2", "B1", "B2"]
