"""A message whose send has to wait holds up its own slot, and no other message."""

from __future__ import annotations

import psycopg
import pytest

import rowbus
from tests.conformance.endpoints import NO_RETRIES, Endpoints, PlaceOrder
from tests.conformance.transport import eventually

pytestmark = pytest.mark.only("PostgreSQL", reason="it locks a table by PostgreSQL's LOCK")


async def test_a_completion_that_waits_for_a_locked_table_holds_up_no_other_message(
    endpoints: Endpoints,
) -> None:
    backend, handled = endpoints.backend, list[str]()
    sales = endpoints.make("Sales", concurrency=4, recoverability=NO_RETRIES)
    await endpoints.make("Billing").install()

    @sales.handler
    async def place(message: PlaceOrder, context: rowbus.Context) -> None:
        handled.append(message.order_id)
        if message.order_id == "locked":
            await context.send("Billing", message)

    async with sales:
        async with await psycopg.AsyncConnection.connect(backend.dsn) as other:
            await other.execute('lock table "Billing" in exclusive mode')
            await sales.send("Sales", PlaceOrder("locked"))
            await eventually(lambda: handled == ["locked"])
            for number in range(12):
                await sales.send("Sales", PlaceOrder(str(number)))
                await eventually(lambda: len(handled) == number + 2)  # noqa: B023 - within the loop
            await eventually(lambda: holds(endpoints, 1))  # the last one's commit comes after its handler
        await eventually(lambda: holds(endpoints, 0))
    assert await backend.count("Billing") == 1


async def holds(endpoints: Endpoints, count: int) -> bool:
    return await endpoints.backend.count("Sales") == count
