"""Memory of processed messages does not grow beyond an endpoint's retention."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from rowbus.messages.address import QueueAddress
from rowbus.running.critical import Alarm
from rowbus.transport.deduplication.postgresql import InboxTable
from rowbus.transport.deduplication.table import InboxKeeper, inbox_table
from rowbus.transport.queues.installer import create_table
from tests.conformance.transport import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from rowbus.database.pool import SessionPool
    from tests.conformance.backend import Backend

pytestmark = [
    pytest.mark.only("PostgreSQL", reason="it looks into PostgreSQL's tables"),
    pytest.mark.one_version,
]

ADDRESS = QueueAddress("public", "Billing.Inbox")
DAY = timedelta(days=1)
SILENT = Alarm(lambda *_: None)


@pytest.fixture
async def pool(backend: Backend) -> AsyncIterator[SessionPool]:
    session = await backend.database.connect()
    await create_table(session, inbox_table(ADDRESS), "the table")
    await session.close()
    pool = backend.pool()
    await pool.open()
    yield pool
    await pool.close()


def keeper(pool: SessionPool, interval: float = 0.01) -> InboxKeeper:
    return InboxKeeper(pool, InboxTable(ADDRESS), DAY, SILENT, interval=interval)


async def remember(backend: Backend, count: int, age: str, mark: str) -> None:
    await backend.execute(
        'insert into "Billing.Inbox" select %s || n, now() - %s::interval from generate_series(1, %s) as n',
        mark,
        age,
        count,
    )


async def test_the_old_are_forgotten_batch_by_batch_and_the_rest_is_not(
    backend: Backend, pool: SessionPool
) -> None:
    await remember(backend, 3500, "25 hours", "old")
    await remember(backend, 10, "23 hours", "new")

    assert await keeper(pool).forget() == 3500
    assert await backend.count(ADDRESS) == 10


async def test_it_looks_again_and_again(backend: Backend, pool: SessionPool) -> None:
    keeping = keeper(pool)
    await keeping.start()
    for mark in ("a", "b"):
        await remember(backend, 3, "25 hours", mark)

        async def forgotten() -> bool:
            return await backend.count(ADDRESS) == 0

        await eventually(forgotten)
    await keeping.stop()


async def test_several_instances_are_not_in_each_others_way(backend: Backend, pool: SessionPool) -> None:
    await remember(backend, 5000, "25 hours", "old")

    forgotten = await asyncio.gather(*(keeper(pool).forget() for _ in range(4)))

    assert sum(forgotten) == 5000
    assert await backend.count(ADDRESS) == 0


async def test_what_goes_wrong_is_logged_and_tried_again(
    backend: Backend, pool: SessionPool, caplog: pytest.LogCaptureFixture
) -> None:
    await backend.execute('alter table "Billing.Inbox" rename to hidden')
    keeping = keeper(pool)

    with caplog.at_level(logging.INFO, "rowbus.inbox"):
        await keeping.start()
        await eventually(lambda: any("Could not forget" in text for text in caplog.messages))
        await backend.execute('alter table hidden rename to "Billing.Inbox"')
        await remember(backend, 3, "25 hours", "old")

        async def forgotten() -> bool:
            return await backend.count(ADDRESS) == 0

        await eventually(forgotten)
    await keeping.stop()


async def test_a_keeper_that_was_never_started_stops(pool: SessionPool) -> None:
    await keeper(pool).stop()
