"""Sending from outside handlers: in a transaction of its own, by as many tasks as like."""

from __future__ import annotations

import asyncio

import psycopg
import pytest

import rowbus
from tests.conformance.backend import Backend
from tests.conformance.endpoints import Endpoints, PlaceOrder
from tests.conformance.transport import eventually, within

pytestmark = [
    pytest.mark.only("PostgreSQL", reason="it locks a table of PostgreSQL's"),
    pytest.mark.one_version,
]


async def waits_for_lock(session: psycopg.AsyncConnection[tuple[int]]) -> bool:
    cursor = await session.execute("select count(*) from pg_locks where not granted")
    return await cursor.fetchone() != (0,)


async def sent_beside_one_that_waits(sales: rowbus.Endpoint, backend: Backend) -> asyncio.Task[str]:
    """Send to a queue that is locked, and to another until that one's message has left."""
    async with await psycopg.AsyncConnection.connect(backend.dsn) as locking:
        await locking.execute(f"lock table {backend.queue('Slow')}".encode())
        waiting = asyncio.create_task(sales.send("Slow", PlaceOrder("1")))
        await eventually(lambda: waits_for_lock(locking))
        await within(sales.send("Billing", PlaceOrder("2")))
        assert not waiting.done()
    return waiting


async def test_a_sender_waits_for_no_other_though_the_concurrency_is_1(
    endpoints: Endpoints, backend: Backend
) -> None:
    for name in ("Slow", "Billing"):
        await backend.create_queue(name)
    sales = endpoints.make("Sales", concurrency=1)
    sales.handler(ignore)
    async with sales:
        waiting = await sent_beside_one_that_waits(sales, backend)
        await within(waiting)

    assert [len(await backend.rows(name)) for name in ("Slow", "Billing")] == [1, 1]


async def ignore(_message: PlaceOrder) -> None:
    """Handle what never comes."""
