"""Many handlers that take long at once: few connections, and none of them holds back the horizon of vacuum."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

import rowbus
from tests.conformance.endpoints import PlaceOrder
from tests.conformance.transport import eventually

if TYPE_CHECKING:
    from tests.conformance.endpoints import Endpoints

pytestmark = pytest.mark.only("PostgreSQL", reason="handlers that take long work on PostgreSQL alone")

MANY = 200
CONNECTIONS = 20
COUNT = "select count(*) from pg_stat_activity where datname = current_database()"
HOLDING = """
    select pid from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid() and backend_xmin is not null
"""


async def test_hundreds_at_once_need_few_connections_and_hold_no_horizon(endpoints: Endpoints) -> None:
    sales, may_end = endpoints.make("Sales", long_concurrency=MANY), asyncio.Event()
    begun, connections = set[str](), list[int]()

    @sales.handler("Shop.Messages.PlaceOrder", long=True)
    async def place(message: PlaceOrder, context: rowbus.LongContext) -> None:
        nonlocal connections
        begun.add(message.order_id)
        await may_end.wait()
        async with context.transaction() as step:
            connections += [count async for (count,) in await step.connection.execute(COUNT)]

    async def is_horizon_free() -> bool:
        return await endpoints.backend.values(HOLDING) == []

    async def is_done() -> bool:
        return await endpoints.backend.values('select count(*) from "Sales.Running"') == [0]

    async with sales:
        try:
            await asyncio.gather(*(sales.send("Sales", PlaceOrder(str(number))) for number in range(MANY)))
            await eventually(lambda: len(begun) == MANY)
            await eventually(is_horizon_free)
        finally:
            may_end.set()  # or the endpoint's stop waits for them
        await eventually(is_done)
    assert len(connections) == MANY
    assert max(connections) <= CONNECTIONS
