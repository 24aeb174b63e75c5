"""Handlers that take long, while their server goes away: nobody is to blame for that, and nothing is counted."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest

import rowbus
from rowbus.database.backends import addresses_of, open_postgresql
from rowbus.transport.long_work.table import long_work_address, long_work_table
from tests.conformance.endpoints import PlaceOrder
from tests.conformance.transport import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from tests.fixtures.database import CrashableServer

pytestmark = pytest.mark.one_version

STEPS = "create table steps (step text)"
HANGING_ENDS = "select pg_terminate_backend(pid) from pg_stat_activity where wait_event = 'PgSleep'"
NO_RETRIES = rowbus.Recoverability(immediate=0, delayed=0)


class Shop:
    """An endpoint whose handler waits in the midst of its first steps."""

    def __init__(self, server: CrashableServer, hanging: int) -> None:
        self.dsn, self.hanging, self.begun = server.dsn, hanging, list[int]()
        self.sales = rowbus.Endpoint("Sales", database=server.dsn, recoverability=NO_RETRIES)
        self.sales.handler("Shop.Messages.PlaceOrder", long=True)(self.place)

    async def place(self, message: PlaceOrder, context: rowbus.LongContext) -> None:
        async with context.transaction() as step:
            await step.connection.execute("insert into steps values ('first')")
            self.begun.append(len(self.begun))
            if len(self.begun) <= self.hanging:
                await step.connection.execute("select pg_sleep(1000)")

    @asynccontextmanager
    async def at_work(self) -> AsyncGenerator[None]:
        async with self.sales:
            await self.execute(STEPS)
            await self.sales.send("Sales", PlaceOrder("1"))
            await eventually(lambda: len(self.begun) == 1)
            yield

    async def execute(self, query: str) -> list[tuple[object, ...]]:
        async with await psycopg.AsyncConnection.connect(self.dsn, autocommit=True) as connection:
            cursor = await connection.execute(query.encode())
            return [] if cursor.description is None else await cursor.fetchall()

    async def is_done(self) -> bool:
        return await self.rows("steps") == 1 and await self.rows('"Sales.Running"') == 0

    async def rows(self, table: str) -> int:
        ((count,),) = await self.execute(f"select count(*) from {table}")
        return int(str(count))


async def test_a_server_that_goes_away_counts_against_no_message(crashable_server: CrashableServer) -> None:
    shop = Shop(crashable_server, hanging=1)
    async with shop.at_work():
        await asyncio.to_thread(crashable_server.kill)
        await asyncio.to_thread(crashable_server.start)
        await eventually(shop.is_done)
    assert await shop.rows("error") == 0


async def test_a_server_that_is_about_to_stop_counts_against_no_message(
    crashable_server: CrashableServer, caplog: pytest.LogCaptureFixture
) -> None:
    shop = Shop(crashable_server, hanging=1)
    async with (
        shop.at_work(),
        await psycopg.AsyncConnection.connect(shop.dsn, autocommit=True) as administrator,
    ):
        ask_pid = "select split_part(pg_read_file('postmaster.pid'), chr(10), 1)::int"
        ((pid,),) = await (await administrator.execute(ask_pid)).fetchall()
        os.kill(pid, signal.SIGTERM)  # it takes no new sessions, and waits for the old ones to end

        async def refuses() -> bool:
            try:
                await shop.execute("select 1")
            except psycopg.OperationalError:
                return True
            return False

        await eventually(refuses)
        await administrator.execute(HANGING_ENDS)
        await eventually(lambda: "waits for the database" in caplog.text)
        await asyncio.to_thread(crashable_server.stop)
        await asyncio.to_thread(crashable_server.start)
        await eventually(shop.is_done)
    assert await shop.rows("error") == 0


async def test_a_server_that_goes_away_each_time_is_the_messages_doing(
    crashable_server: CrashableServer,
) -> None:
    shop = Shop(crashable_server, hanging=1000)
    async with shop.at_work():
        for times in range(1, 4):
            await eventually(lambda times=times: len(shop.begun) == times)
            await asyncio.to_thread(crashable_server.stop)
            await asyncio.to_thread(crashable_server.start)

        async def has_failed() -> bool:
            return await shop.rows("error") == 1

        await eventually(has_failed)


async def test_a_connection_that_breaks_alone_is_the_messages_doing(
    crashable_server: CrashableServer,
) -> None:
    shop = Shop(crashable_server, hanging=1000)
    async with shop.at_work():
        await shop.execute(HANGING_ENDS)

        async def has_failed() -> bool:
            return await shop.rows("error") == 1

        await eventually(has_failed)
        ((said,),) = await shop.execute(
            """select headers::json->>'NServiceBus.ExceptionInfo.Message' from error"""
        )
    assert "terminating connection" in str(said)
    assert shop.begun == [0]


async def test_no_lease_is_over_that_could_not_be_renewed_because_the_server_was_away(
    crashable_server: CrashableServer,
) -> None:
    shop = Shop(crashable_server, hanging=0)
    async with shop.sales:
        pass
    await shop.execute(
        """insert into "Sales.Running" (id, queue, headers, body, lease, epoch, process)
        values (gen_random_uuid(), 'Sales', '{}', '', now() - interval '1 second', 1, 'away')"""
    )
    table = long_work_table(long_work_address("Sales", addresses_of(shop.dsn)))
    with open_postgresql(shop.dsn).session() as session:
        just_started = session.run(table.take(1, "another", timedelta(hours=1)))
        longer_up = session.run(table.take(1, "another", timedelta(0)))
    assert (len(just_started), len(longer_up)) == (0, 1)
