"""The table of a saga: rows are begun, locked, written, looked at and deleted, on every database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from rowbus.database.backends import open_database
from rowbus.messages.address import PostgresAddresses, QueueAddress
from rowbus.sagas.stuck import StuckSagas, examine_sagas
from rowbus.sagas.table import STUCK_AFTER, Beginning, saga_table
from rowbus.sagas.timeouts import Timeout, write_timeouts
from rowbus.transport.queues.catalog.table import catalog_of
from rowbus.transport.queues.installer import create_table

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from rowbus.database.sessions import AsyncSession
    from rowbus.sagas.table import SagaRow, SagaTable
    from tests.conformance.backend import Backend

BEGINNING = Beginning("R1", 2, "Customer", "m-1")


@pytest.fixture
async def session(backend: Backend) -> AsyncIterator[AsyncSession]:
    session = await backend.database.connect()
    yield session
    await session.close()


@pytest.fixture
async def table(backend: Backend, session: AsyncSession) -> SagaTable:
    table = saga_table(backend.queue("Sales.OrderSaga"))
    await create_table(session, table, "the table")
    return table


async def begun(session: AsyncSession, table: SagaTable) -> SagaRow:
    async with session.transaction():
        row = await session.run(table.find_or_begin(BEGINNING))
        assert row is not None
        await session.run(table.write(row, '{"amount": 19.90}', 2))
    found = await session.run(table.find("R1"))
    assert found is not None
    return found


async def test_a_row_is_begun_once_and_then_found(session: AsyncSession, table: SagaTable) -> None:
    row = await begun(session, table)
    assert row[1:] == ("R1", '{"amount": 19.90}', 2, 1, "Customer", "m-1", "[]")
    async with session.transaction():
        assert await session.run(table.find_or_begin(BEGINNING._replace(originator="Another"))) == row
        another = await session.run(table.find_or_begin(BEGINNING._replace(correlation="R2")))
    assert another is not None
    assert [await session.run(table.find_by_id(each.id)) for each in (row, another)] == [row, another]
    assert await session.run(table.find("r1")) is None


async def test_only_the_row_that_was_found_is_written_or_deleted(
    session: AsyncSession, table: SagaTable
) -> None:
    row = await begun(session, table)
    stale = row._replace(concurrency=0)
    assert await session.run(table.write(stale, "{}", 2)) == 0
    assert await session.run(table.delete(stale)) == 0
    assert await session.run(table.delete(row)) == 1
    assert await session.run(table.find("R1")) is None


async def test_sagas_are_looked_at_without_being_taken(session: AsyncSession, table: SagaTable) -> None:
    row = await begun(session, table)
    (kept,) = await session.run(table.peek(10))
    assert kept.row == row
    assert kept.began <= kept.changed
    assert kept.began.tzinfo is not None
    assert await session.run(table.look("R1")) == [kept]
    assert await session.run(table.look(row.id.upper())) == [kept]
    assert await session.run(table.look("R2")) == []


async def test_sagas_are_paged_in_the_order_of_what_they_are_found_by(
    session: AsyncSession, table: SagaTable
) -> None:
    for text in ("B-2", "A-2", "A-1", "B-1", "A_1"):
        async with session.transaction():
            await session.run(table.find_or_begin(BEGINNING._replace(correlation=text)))

    async def page(**chosen: str) -> list[str]:
        return [kept.row.correlation for kept in await session.run(table.page(2, **chosen))]

    first = await page()
    second = await page(after=first[-1])
    third = await page(after=second[-1])
    assert len(first) == len(second) == 2
    assert sorted([*first, *second, *third]) == ["A-1", "A-2", "A_1", "B-1", "B-2"]
    assert await page(after=third[-1]) == []
    assert await page(beginning="A-") == ["A-1", "A-2"]
    assert await page(beginning="A-", after="A-1") == ["A-2"]
    assert await page(beginning="a") == []


@pytest.mark.parametrize("overdue", [timedelta(minutes=2), timedelta(seconds=30), timedelta(hours=-1)])
def test_a_saga_is_stuck_when_its_timeout_is_overdue_for_a_minute(
    database: str, caplog: pytest.LogCaptureFixture, overdue: timedelta
) -> None:
    table = saga_table(QueueAddress("public", "Sales.OrderSaga"))
    catalog = catalog_of(PostgresAddresses("public"))
    due = datetime.now(UTC) - overdue
    note = write_timeouts([Timeout("x", due), Timeout("y", due + timedelta(days=1))])
    with open_database(database).session() as now:
        now.run_all(table.create())
        with now.transaction():
            row = now.run(table.find_or_begin(BEGINNING))
            assert row is not None
            now.run(table.write(row, "{}", 2, note))
        sagas = StuckSagas()
        (gauge,) = sagas.measure(now, catalog)
        sagas.measure(now, catalog)
        found = [each.text for each in examine_sagas(now, catalog)]

    stuck = ["a saga is stuck: a timeout of R1 is overdue for 2 min"] if overdue > STUCK_AFTER else []
    assert found == stuck
    assert [value >= 120 for *_, value in gauge.samples()] == [bool(stuck)]
    assert len([each for each in caplog.records if each.name == "rowbus.telemetry"]) == len(stuck)
