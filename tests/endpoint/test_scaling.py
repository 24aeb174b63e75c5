"""An operator says how many messages an endpoint has in hand at a time, while it runs and before it starts."""

from __future__ import annotations

import asyncio

import psycopg
import pytest

from rowbus.database.postgresql.database import Database
from rowbus.database.sessions import AsyncSession
from rowbus.errors import ConfigurationError
from rowbus.messages.address import PostgresAddresses
from rowbus.transport.pauses.table import (
    MOST,
    PausesTable,
    PauseSubject,
    pause_now,
    paused,
    pauses_address,
    pauses_table,
    scale_now,
    scaled,
)
from tests.conformance.endpoints import Endpoints, PlaceOrder
from tests.conformance.transport import eventually, never

pytestmark = [
    pytest.mark.only("PostgreSQL", reason="operators scale through PostgreSQL's table"),
    pytest.mark.one_version,
]
SALES = PauseSubject("concurrency", "Sales")


class Shop:
    """An endpoint whose handlers wait until they are told to go on."""

    def __init__(self, endpoints: Endpoints, concurrency: int) -> None:
        self.go = asyncio.Semaphore(0)
        self.in_hand = self.most = 0
        self.sales = endpoints.make("Sales", concurrency=concurrency)
        self.sales.handler(self.place)

    async def place(self, _message: PlaceOrder) -> None:
        self.in_hand += 1
        self.most = max(self.most, self.in_hand)
        try:
            await self.go.acquire()
        finally:
            self.in_hand -= 1

    def release(self, count: int) -> None:
        for _ in range(count):
            self.go.release()


async def send(endpoints: Endpoints, count: int) -> None:
    orders = [PlaceOrder(str(number)) for number in range(count)]
    await endpoints.backend.client().send_many("Sales", orders)


async def scale(session: AsyncSession, table: PausesTable, amount: int) -> None:
    await session.run(table.scale(SALES, amount, person="ann", why="a test", until=None))


async def test_what_is_in_hand_at_a_time_follows_an_operator_also_after_a_restart_until_that_ends(
    endpoints: Endpoints,
) -> None:
    first, again = Shop(endpoints, 1), Shop(endpoints, 10)
    table = pauses_table(pauses_address(first.sales.addresses))
    session = await endpoints.backend.database.connect()
    await first.sales.install()
    await session.run_all(table.create())
    await send(endpoints, 20)
    async with first.sales:
        await eventually(lambda: first.in_hand == 1)
        await scale(session, table, 3)
        await eventually(lambda: first.in_hand == 3)
        first.sales.change_concurrency(2)  # the program's own figure counts when the operator's does not
        first.release(3)
        await never(lambda: first.in_hand > 3, 0.1)
        await session.run(table.resume(SALES))
        (receiver,) = first.sales._started()._receivers
        await eventually(lambda: receiver.concurrency == 2)  # what is in hand beyond that finishes
        first.release(3)
        await eventually(lambda: first.in_hand == 2)
        await never(lambda: first.in_hand > 2, 0.1)
        first.release(100)
    await scale(session, table, 4)
    await send(endpoints, 20)
    async with again.sales:
        await eventually(lambda: again.in_hand == 4)
        again.release(100)
    await session.close()
    assert again.most == 4


def test_a_table_that_is_older_than_scales_is_read_and_given_the_column(database: str) -> None:
    names = PostgresAddresses()
    address = pauses_address(names)
    with Database(database).session() as session:
        pause_now(session, address, PauseSubject("endpoint", "Sales"), person="ann", why="a test", until=None)
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute('alter table "Rowbus.Pauses" drop column amount')
        assert [one.name for one in paused(session, names)] == ["Sales"]
        assert scaled(session, names) == ()

        scale_now(session, address, SALES, 3, person="ann", why="a test", until=None)
        assert [(one.name, one.amount) for one in scaled(session, names)] == [("Sales", 3)]
        assert [one.name for one in paused(session, names)] == ["Sales"]

        for amount in (0, MOST + 1):
            with pytest.raises(ConfigurationError, match="1 to"):
                scale_now(session, address, SALES, amount, person="ann", why="a test", until=None)
