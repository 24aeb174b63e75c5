"""The ends of work that takes long leave together, and each has its own fate; see `tests/running/test_together.py`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import psycopg
import pytest

import rowbus
from tests.conformance.endpoints import PlaceOrder
from tests.conformance.transport import eventually

if TYPE_CHECKING:
    from tests.conformance.endpoints import Endpoints


@pytest.mark.only("PostgreSQL", reason="handlers that take long work on PostgreSQL alone")
async def test_an_end_whose_row_somebody_locks_keeps_no_other_from_ending(endpoints: Endpoints) -> None:
    sales, may_end, begun = endpoints.make("Sales"), asyncio.Event(), list[str]()

    @sales.handler("Shop.Messages.PlaceOrder", long=True)
    async def place(message: PlaceOrder, context: rowbus.LongContext) -> None:
        begun.append(context.message_id)
        await may_end.wait()

    async def left() -> int:
        (count,) = await endpoints.backend.values('select count(*) from "Sales.Running"')
        return int(count)

    async def is_one_left() -> bool:
        return await left() == 1

    async def is_none_left() -> bool:
        return await left() == 0

    async with sales:
        for number in range(3):
            await sales.send("Sales", PlaceOrder(str(number)))
        await eventually(lambda: len(begun) == 3)
        async with await psycopg.AsyncConnection.connect(endpoints.backend.dsn) as locking:
            await locking.execute('select 1 from "Sales.Running" order by seq limit 1 for update')
            may_end.set()
            await eventually(is_one_left)
        await eventually(is_none_left)
    assert len(begun) == 3
