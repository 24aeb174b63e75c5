"""Sends of many tasks to one queue leave together, and each caller learns what became of its own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import psycopg
import pytest

import rowbus
from rowbus.endpoint.gathering import MOST, MOST_BYTES, fitting
from rowbus.errors import QueueNotFoundError, StorageError
from rowbus.messages.address import QueueAddress
from rowbus.messages.dispatch import Send
from rowbus.messages.headers import Header
from rowbus.messages.message import OutgoingMessage
from tests.conformance.backend import Backend
from tests.conformance.endpoints import Endpoints, PlaceOrder
from tests.conformance.transport import eventually, within
from tests.endpoint.test_sending import ignore, waits_for_lock
from tests.fixtures.every import every

pytestmark = [
    pytest.mark.only("PostgreSQL", reason="it locks a table of PostgreSQL's"),
    pytest.mark.one_version,
]
Sends = list[asyncio.Task[str]]


@asynccontextmanager
async def one_on_its_way(sales: rowbus.Endpoint, backend: Backend) -> AsyncGenerator[asyncio.Task[str]]:
    """Have a send on its way to Slow, which is locked until the block ends."""
    async with await psycopg.AsyncConnection.connect(backend.dsn) as locking:
        await locking.execute(f"lock table {backend.queue('Slow')}".encode())
        sending = asyncio.create_task(sales.send("Slow", PlaceOrder("first")))
        await eventually(lambda: waits_for_lock(locking))
        yield sending


async def waiting(
    sales: rowbus.Endpoint, backend: Backend, *orders: str, message_id: str | None = None
) -> Sends:
    """Have these wait behind what is on its way to Slow."""
    headers = {Header.MESSAGE_ID: message_id} if message_id else {}
    sends = [asyncio.create_task(sales.send("Slow", PlaceOrder(order), headers=headers)) for order in orders]
    behind = sales._started().gathering._behind[backend.queue("Slow")]
    await eventually(lambda: len(behind.waiting) == len(orders))
    return sends


async def transactions(backend: Backend) -> int:
    (count,) = await backend.values(f"select count(distinct xmin::text) from {backend.queue('Slow')}")
    return int(count)


@pytest.fixture
async def sales(endpoints: Endpoints, backend: Backend) -> AsyncGenerator[rowbus.Endpoint]:
    await backend.create_queue("Slow")
    sales = endpoints.make("Sales", concurrency=1)
    sales.handler(ignore)
    async with sales:
        yield sales


async def test_what_waits_leaves_in_one_transaction(sales: rowbus.Endpoint, backend: Backend) -> None:
    async with one_on_its_way(sales, backend) as first:
        sends = await waiting(sales, backend, "2", "3", "4", "5")
    await within(asyncio.gather(first, *sends))

    assert await backend.count("Slow") == 5
    assert await transactions(backend) == 2


async def test_of_those_that_leave_together_only_the_one_that_is_refused_hears_of_it(
    sales: rowbus.Endpoint, backend: Backend
) -> None:
    check = "check (position('\"3\"' in convert_from(body, 'UTF8')) = 0)"
    await backend.execute(f"alter table {backend.queue('Slow')} add constraint no_3 {check}")
    async with one_on_its_way(sales, backend) as first:
        sends = await waiting(sales, backend, "2", "3", "4")
    results = await within(asyncio.gather(first, *sends, return_exceptions=True))

    assert [isinstance(result, StorageError) for result in results] == [False, False, True, False]
    assert await backend.count("Slow") == 3


async def test_a_send_whose_caller_has_gone_while_it_waited_does_not_leave(
    sales: rowbus.Endpoint, backend: Backend
) -> None:
    async with one_on_its_way(sales, backend) as first:
        gone, stays = await waiting(sales, backend, "gone", "stays")
        gone.cancel()
    await within(asyncio.gather(first, stays))

    bodies = [bytes(row.body or b"") for row in await backend.rows("Slow")]
    assert [b"gone" in body for body in bodies] == [False, False]


async def test_two_messages_with_one_id_are_two_as_if_each_were_sent_alone(
    sales: rowbus.Endpoint, backend: Backend
) -> None:
    async with one_on_its_way(sales, backend) as first:
        sends = await waiting(sales, backend, "2", "3", message_id="the same")
    await within(asyncio.gather(first, *sends))

    assert await backend.count("Slow") == 3


async def test_a_queue_that_is_missing_is_told_to_all(sales: rowbus.Endpoint) -> None:
    sends = [asyncio.create_task(sales.send("Missing", PlaceOrder(str(number)))) for number in range(3)]
    results = await within(asyncio.gather(*sends, return_exceptions=True))

    assert all(isinstance(result, QueueNotFoundError) for result in results)


async def test_what_waits_behind_a_handlers_send_does_not_end_with_the_handler(
    endpoints: Endpoints, backend: Backend, caplog: pytest.LogCaptureFixture
) -> None:
    await backend.create_queue("Slow")
    sales = endpoints.make("Sales", concurrency=1)

    @sales.handler
    async def place(_message: PlaceOrder) -> None:
        await sales.send("Slow", PlaceOrder("a handler's"))

    async with sales, await psycopg.AsyncConnection.connect(backend.dsn) as locking:
        await locking.execute(f"lock table {backend.queue('Slow')}".encode())
        await sales.send_local(PlaceOrder("1"))
        await eventually(lambda: waits_for_lock(locking))
        sends = await waiting(sales, backend, "2", "3")
        await locking.rollback()
        await within(asyncio.gather(*sends))

    assert await backend.count("Slow") == 3
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


@every(
    "bodies, ids, together",
    [
        ([1], [], 1),
        ([1] * 5, [], 5),
        ([1] * (MOST + 1), [], MOST),
        ([MOST_BYTES, 1], [], 1),
        ([MOST_BYTES + 1, 1], [], 1),
        ([1, MOST_BYTES], [], 1),
        ([1, 1, 1], ["a", "b", "a"], 2),
        ([1, 1], ["", ""], 2),
    ],
)
def test_few_small_messages_of_different_ids_leave_together(
    bodies: list[int], ids: list[str], together: int
) -> None:
    named = [*ids, *[""] * (len(bodies) - len(ids))]
    sends = [
        Send(QueueAddress("public", "Slow"), OutgoingMessage({Header.MESSAGE_ID: name}, b"x" * size))
        for size, name in zip(bodies, named, strict=True)
    ]
    assert fitting(sends) == together
