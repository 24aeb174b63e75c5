"""Creating queues: side by side with others, never a schema unless asked, never harm to what is there."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest

from rowbus.database.postgresql.connection import AsyncSession, Session
from rowbus.database.postgresql.database import Database
from rowbus.database.statements import Statement, control
from rowbus.errors import ConfigurationError, InvalidAddressError, QueueNotFoundError
from rowbus.messages.address import QueueAddress
from rowbus.transport.queues.catalog import postgresql as catalog
from rowbus.transport.queues.installer import create_queue, create_schema, make_table, require_queues
from rowbus.transport.queues.postgresql import QueueTable
from tests.fixtures.sessions import bodies, put

SALES = QueueAddress("public", "Sales")


@pytest.fixture
async def eight(database: str) -> AsyncIterator[list[AsyncSession]]:
    """Give eight sessions, as of endpoints that start at the same moment."""
    where = Database(database)
    sessions = list(await asyncio.gather(*(where.connect() for _ in range(8))))
    yield sessions
    await asyncio.gather(*(session.close() for session in sessions))


async def test_a_missing_queue_is_created_and_the_second_time_found(
    asynchronous: AsyncSession, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "rowbus.install")

    assert await create_queue(asynchronous, SALES)
    assert not await create_queue(asynchronous, SALES)
    assert caplog.messages == ['Created queue "public"."Sales"']


async def test_creating_at_the_same_moment_ends_well_for_everybody(
    eight: list[AsyncSession], session: Session
) -> None:
    for number in range(10):
        address = QueueAddress("public", f"Queue {number}")

        await asyncio.gather(*(create_queue(one, address) for one in eight))

        put(session, QueueTable(address))
        assert bodies(session, QueueTable(address)) == [b"1"]


async def test_who_was_slower_waits_until_the_server_has_told_of_the_table(eight: list[AsyncSession]) -> None:
    """It tells others after the creator's commit, before the creator's locks go: until then there is no such table."""
    creating, slower, looking, *_ = eight
    await create_queue(creating, SALES)
    await creating.connection.execute('begin; lock table "Sales" in access exclusive mode')

    made = asyncio.create_task(make_table(slower, BlindTable(SALES)))
    async with asyncio.timeout(20):
        await await_blocked(looking, slower)
    assert not made.done()
    await creating.connection.execute("commit")

    assert not await made


class BlindTable(QueueTable):
    """A queue whose creation does not look whether it is there: as of a session that was not told yet."""

    def create(self) -> list[Statement[None]]:
        """Create it."""
        return [control(b'create table "Sales" (id uuid)', "Failed to create a queue")]


async def await_blocked(looking: AsyncSession, waiting: AsyncSession) -> None:
    blocked, pid = "select pg_blocking_pids(%s) <> '{}'", waiting.connection.info.backend_pid
    while await (await looking.connection.execute(blocked, [pid])).fetchone() != (True,):  # noqa: ASYNC110 - the server's
        await asyncio.sleep(0)


async def test_a_queue_in_use_is_found_without_waiting_and_changed_without_stopping_it(
    eight: list[AsyncSession], session: Session
) -> None:
    """A handler holds its transaction: a start that waited for the table would stop all senders behind it."""
    handling, starting, sending, *_ = eight
    await create_queue(starting, SALES, body_string=True)
    put(session, QueueTable(SALES))
    await handling.connection.execute('begin; delete from "Sales"')
    await sending.connection.execute("set lock_timeout = '10s'")

    async with asyncio.timeout(20):
        await create_queue(starting, SALES, body_string=True)
    changing = asyncio.create_task(create_queue(starting, SALES, body_string=True, notify_trigger=True))
    await await_blocked(sending, starting)
    await sending.connection.execute("insert into \"Sales\" (id, headers) values (gen_random_uuid(), '{}')")
    assert not changing.done()

    await handling.connection.execute("commit")
    await changing
    assert await sending.run(QueueTable(SALES).has_notify_trigger())


async def test_also_with_all_extras(eight: list[AsyncSession], session: Session) -> None:
    for number in range(3):
        address = QueueAddress("public", f"Queue {number}")

        await asyncio.gather(
            *(create_queue(one, address, body_string=True, notify_trigger=True) for one in eight)
        )

        put(session, QueueTable(address))
        query = 'select bodystring from "public"."{}"'
        assert session.connection.execute(query.format(address.table)).fetchall() == [("1",)]


async def test_what_waits_in_a_queue_survives_another_installation(
    asynchronous: AsyncSession, session: Session, queue: QueueTable
) -> None:
    put(session, queue, 3)

    await create_queue(asynchronous, queue.address, body_string=True, notify_trigger=True)

    assert bodies(session, queue) == [b"1", b"2", b"3"]


async def test_a_queue_that_exists_gets_no_extras_that_nobody_asked_for(
    asynchronous: AsyncSession, session: Session, queue: QueueTable
) -> None:
    await create_queue(asynchronous, queue.address)

    columns = session.connection.execute(
        "select count(*) from information_schema.columns where table_name = 'Sales'"
    )
    triggers = session.connection.execute("select count(*) from pg_trigger where not tgisinternal")
    assert (columns.fetchone(), triggers.fetchone()) == ((5,), (0,))


async def test_a_missing_schema_is_never_created_silently(
    asynchronous: AsyncSession, session: Session
) -> None:
    with pytest.raises(ConfigurationError, match="the schema 'shop' does not exist; create it"):
        await create_queue(asynchronous, QueueAddress("shop", "Sales"))

    assert session.connection.execute("select from pg_namespace where nspname = 'shop'").rowcount == 0


async def test_a_schema_is_created_when_asked_for_by_several_at_once(eight: list[AsyncSession]) -> None:
    for name in ("shop", "Shop", 'a "b"'):
        await asyncio.gather(*(create_schema(one, catalog, name) for one in eight))
        assert await create_queue(eight[0], QueueAddress(name, "Sales"))
        assert not await create_schema(eight[0], catalog, name)


@pytest.mark.parametrize("name", ["x" * 56, "ż" * 28])
async def test_a_name_that_postgresql_would_cut_is_refused_before_any_io(
    asynchronous: AsyncSession, session: Session, name: str
) -> None:
    with pytest.raises(InvalidAddressError, match="at most 55"):
        await create_queue(asynchronous, QueueAddress("public", name))

    assert session.connection.execute("select from pg_tables where schemaname = 'public'").rowcount == 0


async def test_the_first_missing_queue_is_named(asynchronous: AsyncSession, queue: QueueTable) -> None:
    await require_queues(asynchronous, [queue.address])

    with pytest.raises(QueueNotFoundError, match=r'"public"\."Missing" does not exist') as caught:
        await require_queues(asynchronous, [queue.address, QueueAddress("public", "Missing")])

    assert caught.value.queue == '"public"."Missing"'
