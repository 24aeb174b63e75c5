"""Many handlers that take long at once: few connections, and none of them holds back the horizon of vacuum."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import pytest

import rowbus
from tests.conformance.endpoints import PlaceOrder
from tests.conformance.transport import eventually
from tests.fixtures.pairs import effort

if TYPE_CHECKING:
    from tests.conformance.endpoints import Endpoints

pytestmark = pytest.mark.only("PostgreSQL", reason="handlers that take long work on PostgreSQL alone")

MANY = 200
CONNECTIONS = 20
PATIENCE: Final = 120.0
OLDEST: Final = 5.0
"""Seconds, at most, for which a transaction holds back the horizon."""
COUNT = "select count(*)::float8 from pg_stat_activity where datname = current_database()"
AGE = """
    select coalesce(extract(epoch from max(clock_timestamp() - xact_start)), 0)::float8 from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid() and backend_xmin is not null
"""


class Shop:
    """An endpoint whose handlers wait, each between two steps, and what is seen of it meanwhile."""

    def __init__(self, endpoints: Endpoints, many: int) -> None:
        self.backend, self.many = endpoints.backend, many
        self.sales = endpoints.make("Sales", long_concurrency=many)
        self.sales.handler("Shop.Messages.PlaceOrder", long=True)(self.place)
        self.begun, self.may_end = set[str](), asyncio.Event()
        self.ages, self.connections = list[float](), list[float]()

    async def place(self, message: PlaceOrder, context: rowbus.LongContext) -> None:
        async with context.transaction():
            self.begun.add(message.order_id)
        await self.may_end.wait()
        async with context.transaction():
            pass

    async def run(self, seconds: float) -> None:
        """Have all at work at once for so long, and let them end."""
        async with self.sales, asyncio.TaskGroup() as looking:
            look = looking.create_task(self.look())
            try:
                for number in range(self.many):
                    await self.sales.send("Sales", PlaceOrder(str(number)))
                await eventually(lambda: len(self.begun) == self.many, PATIENCE)
                await asyncio.sleep(seconds)  # long sleep: they take long
            finally:
                self.may_end.set()  # or the endpoint's stop waits for them
            await eventually(self.is_done, PATIENCE)
            look.cancel()

    async def look(self) -> None:
        while True:
            self.ages += await self.backend.values(AGE)
            self.connections += await self.backend.values(COUNT)
            await asyncio.sleep(0.05)

    async def is_done(self) -> bool:
        return await self.backend.values('select count(*) from "Sales.Running"') == [0]


async def test_hundreds_at_once_need_few_connections_and_hold_no_horizon(endpoints: Endpoints) -> None:
    shop = Shop(endpoints, MANY)

    await shop.run(seconds=0)

    assert max(shop.connections) <= CONNECTIONS
    assert max(shop.ages) < OLDEST


@pytest.mark.slow
@pytest.mark.timeout(1200)
async def test_a_thousand_that_take_minutes_need_few_connections_and_hold_no_horizon(
    endpoints: Endpoints,
) -> None:
    shop = Shop(endpoints, 5 * MANY)

    await shop.run(seconds=effort(60, 600))

    assert max(shop.connections) <= CONNECTIONS
    assert max(shop.ages) < OLDEST
