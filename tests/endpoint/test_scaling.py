"""An operator says how many messages an endpoint has in hand at a time, while it runs and before it starts."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest

import rowbus
from rowbus.database.postgresql.database import Database
from rowbus.database.sessions import AsyncSession
from rowbus.errors import ConfigurationError
from rowbus.messages.address import PostgresAddresses
from rowbus.settings import TransactionMode
from rowbus.transport.pauses.table import (
    MOST,
    Pause,
    PausesTable,
    PauseSubject,
    pause_now,
    paused,
    pauses_address,
    pauses_table,
    scale_now,
    scaled,
    type_limits,
)
from tests.conformance.endpoints import Endpoints, OrderAccepted, PlaceOrder
from tests.conformance.transport import eventually, never

pytestmark = [
    pytest.mark.only("PostgreSQL", reason="operators scale through PostgreSQL's table"),
    pytest.mark.one_version,
]
SALES = PauseSubject("concurrency", "Sales")
NAME = "Shop.Messages.PlaceOrder"
LIMIT, TYPE = PauseSubject("limit", f"Sales/{NAME}"), PauseSubject("type", f"Sales/{NAME}")


class Shop:
    """An endpoint whose handlers wait until they are told to go on."""

    def __init__(self, endpoints: Endpoints, concurrency: int, **settings: Any) -> None:  # noqa: ANN401 - as given
        self.go = asyncio.Semaphore(0)
        self.in_hand = self.most = self.placed = self.accepted = 0
        self.sales = endpoints.make("Sales", concurrency=concurrency, **settings)
        self.sales.handler(self.place)
        self.sales.handler(self.accept)

    async def place(self, _message: PlaceOrder) -> None:
        self.in_hand += 1
        self.most = max(self.most, self.in_hand)
        try:
            await self.go.acquire()
        finally:
            self.in_hand -= 1
        self.placed += 1

    async def accept(self, _message: OrderAccepted) -> None:
        self.accepted += 1

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


async def test_a_type_is_limited_in_all_processes_together_and_others_go_by(endpoints: Endpoints) -> None:
    shops = [Shop(endpoints, 10), Shop(endpoints, 10)]
    table = pauses_table(pauses_address(shops[0].sales.addresses))
    session = await endpoints.backend.database.connect()
    await shops[0].sales.install()
    await session.run_all(table.create())
    await session.run(table.scale(LIMIT, 3, person="ann", why="a test", until=None))
    await send(endpoints, 12)
    async with shops[0].sales, shops[1].sales:
        await eventually(lambda: sum(shop.in_hand for shop in shops) == 3)
        await endpoints.backend.client().send("Sales", OrderAccepted("1"))
        await eventually(lambda: sum(shop.accepted for shop in shops) == 1)
        await never(lambda: sum(shop.in_hand for shop in shops) > 3, 0.1)
        await session.run(table.resume(LIMIT))
        for shop in shops:
            shop.release(100)
        await eventually(lambda: sum(shop.placed for shop in shops) == 12)
    await session.close()
    assert sum(shop.most for shop in shops) <= 6


async def test_a_paused_type_waits_also_after_a_restart_and_comes_back_when_it_is_resumed(
    endpoints: Endpoints,
) -> None:
    first, again = Shop(endpoints, 3), Shop(endpoints, 3)
    table = pauses_table(pauses_address(first.sales.addresses))
    session = await endpoints.backend.database.connect()
    again.release(100)
    async with first.sales:
        await send(endpoints, 1)
        await eventually(lambda: first.in_hand == 1)
        await session.run_all(table.create())
        await session.run(table.pause(TYPE, person="ann", why="a test", until=None))
        await eventually(lambda: first.sales._started()._types.said == {NAME: 0})
        first.release(100)
        await send(endpoints, 20)

        async def all_wait() -> bool:
            return await endpoints.backend.count("Sales.Delayed") == 20

        await eventually(all_wait)
    async with again.sales:
        await endpoints.backend.client().send("Sales", OrderAccepted("1"))
        await eventually(lambda: again.accepted == 1)
        assert (first.placed, again.placed) == (1, 0)
        await session.run(table.resume(TYPE))
        await eventually(lambda: again.placed == 20)
    await session.close()
    assert await endpoints.backend.count("error") == 0


def test_what_is_said_of_types_is_that_of_the_endpoint_and_a_pause_counts_before_a_limit() -> None:
    now = datetime.now(UTC)

    def said(kind: str, name: str, amount: int | None) -> Pause:
        return Pause(kind, name, "ann", "a test", now, None, amount)

    found = [
        said("limit", "Sales/A", 3),
        said("type", "Sales/B", None),
        said("limit", "Sales/B", 2),
        said("limit", "Sales.Eu/C", 1),
        said("concurrency", "Sales", 1),
        said("recurring", "Sales/A", None),
    ]
    assert type_limits(found, "Sales") == {"A": 3, "B": 0}


@pytest.mark.parametrize("settings", [{"transaction_mode": TransactionMode.NONE}, {}])
async def test_an_endpoint_whose_messages_cannot_wait_says_that_it_keeps_no_limit(
    endpoints: Endpoints, settings: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    none = rowbus.Recoverability(immediate=0, delayed=0)
    shop = Shop(endpoints, 3, delayed_delivery=None, recoverability=none, **settings)
    table = pauses_table(pauses_address(shop.sales.addresses))
    session = await endpoints.backend.database.connect()
    await shop.sales.install()
    await session.run_all(table.create())
    await session.run(table.scale(LIMIT, 1, person="ann", why="a test", until=None))
    await session.run(table.pause(PauseSubject("type", "Sales/Typo"), person="ann", why="a test", until=None))
    await session.close()
    async with shop.sales:
        await send(endpoints, 3)
        await eventually(lambda: shop.in_hand == 3)
        shop.release(3)
    assert f"does not limit or pause {NAME}" in caplog.text
    assert "handles no Typo" in caplog.text
