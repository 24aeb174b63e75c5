"""The pool of sessions: opens none before it is asked, lends so many at a time, and replaces broken ones."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from rowbus.database.pool import SessionPool
from rowbus.database.postgresql.connection import AsyncSession, Session
from rowbus.database.postgresql.database import Database
from rowbus.errors import ConnectionLostError, QueueNotFoundError
from rowbus.messages.address import QueueAddress
from rowbus.messages.dispatch import Send
from rowbus.transport.queues.postgresql import QueueTable
from rowbus.transport.receiving.dispatcher import Dispatcher
from tests.fixtures.sessions import bodies, message

MISSING = QueueAddress("public", "Missing")
OTHERS = (
    "select count(*) from pg_stat_activity where datname = current_database() and application_name = 'pooled'"
)


class CountedDatabase(Database):
    """Counts the connections that were asked for."""

    connects = 0

    async def connect(self) -> AsyncSession:
        self.connects += 1
        return await super().connect()


@pytest.fixture
async def pool(database: str) -> AsyncIterator[SessionPool]:
    pool = SessionPool(Database(database, application_name="pooled"), size=2)
    await pool.open()
    yield pool
    await pool.close()


def open_sessions(session: Session) -> int:
    ((count,),) = session.connection.execute(OTHERS).fetchall()
    return int(count)


async def test_no_session_is_opened_before_one_is_asked_for(pool: SessionPool, session: Session) -> None:
    assert open_sessions(session) == 0

    async with pool.session() as lent:
        await lent.run(QueueTable(MISSING).exists())

    assert open_sessions(session) == 1


async def test_its_sessions_are_in_autocommit_and_in_utc(pool: SessionPool, in_tokyo: None) -> None:
    async with pool.session() as lent:
        assert lent.connection.autocommit
        cursor = await lent.connection.execute("show timezone")
        assert await cursor.fetchone() == ("UTC",)


async def test_so_many_are_lent_at_a_time_and_others_wait(database: str) -> None:
    counted = CountedDatabase(database, application_name="pooled")
    pool, full, lent, most = SessionPool(counted, size=2), asyncio.Event(), 0, 0
    await pool.open()

    async def borrow() -> None:
        nonlocal lent, most
        async with pool.session() as session:
            lent += 1
            most = max(most, lent)
            if lent == 2:
                full.set()
            await full.wait()  # however long the second takes to connect
            await session.connection.execute("select")
            lent -= 1

    await asyncio.gather(*(borrow() for _ in range(10)))
    await pool.close()

    assert most == 2
    assert counted.connects == 2


async def test_an_error_of_a_borrower_does_not_spoil_the_session_for_the_next(
    pool: SessionPool, queue: QueueTable, session: Session
) -> None:
    for _ in range(3):
        with pytest.raises(QueueNotFoundError):
            async with pool.session() as lent, lent.transaction():
                await lent.run(QueueTable(MISSING).send(message(), notify=False))
    async with pool.session() as lent:
        await lent.run(queue.send(message(), notify=False))

    assert bodies(session, queue) == [b"1"]


async def test_a_broken_session_is_replaced(pool: SessionPool, queue: QueueTable, session: Session) -> None:
    with pytest.raises(ConnectionLostError):  # noqa: PT012 - the next statement notices the loss
        async with pool.session() as lent:
            pid = lent.connection.info.backend_pid
            session.connection.execute("select pg_terminate_backend(%s, 5000)", [pid])
            await lent.run(queue.exists())

    async with pool.session() as lent:
        assert await lent.run(queue.exists())


async def test_idle_sessions_that_the_server_has_ended_are_not_lent(
    pool: SessionPool, queue: QueueTable, session: Session
) -> None:
    async with pool.session() as one, pool.session() as other:
        await asyncio.gather(one.run(queue.exists()), other.run(queue.exists()))
    ended = "select pg_terminate_backend(pid, 5000) from pg_stat_activity where application_name = 'pooled'"
    assert session.connection.execute(ended).fetchall() == [(True,), (True,)]

    async with pool.session() as one, pool.session() as other:
        assert await one.run(queue.exists())
        assert await other.run(queue.exists())


async def test_after_closing_no_session_is_left_open(database: str, session: Session) -> None:
    pool = SessionPool(Database(database, application_name="pooled"), size=2)
    await pool.open()
    async with pool.session():
        pass

    await pool.close()

    pid_gone = "select from pg_stat_activity where application_name = 'pooled'"
    while session.connection.execute(pid_gone).rowcount:  # noqa: ASYNC110 - the server has no event to wait for
        await asyncio.sleep(0.005)
    assert open_sessions(session) == 0


# ---------------------------------------------------------------------------------------------------- the dispatcher


async def test_a_dispatch_is_all_or_nothing(pool: SessionPool, queue: QueueTable, session: Session) -> None:
    dispatcher = Dispatcher(pool, notify=True)

    with pytest.raises(QueueNotFoundError):
        await dispatcher.dispatch([Send(queue.address, message(1)), Send(MISSING, message(2))])

    assert bodies(session, queue) == []


async def test_a_dispatch_is_committed_when_it_returns_and_collapses_equal_sends(
    pool: SessionPool, queue: QueueTable, session: Session
) -> None:
    sends = [
        Send(queue.address, message(number, body=body)) for number, body in [(1, b"a"), (2, b"b"), (1, b"c")]
    ]

    await Dispatcher(pool, notify=True).dispatch(sends)

    assert bodies(session, queue) == [b"c", b"b"]


async def test_dispatching_nothing_asks_the_pool_for_nothing(pool: SessionPool, session: Session) -> None:
    await Dispatcher(pool, notify=True).dispatch([])

    assert open_sessions(session) == 0


async def test_a_dispatch_wakes_receivers_only_if_told_to(
    pool: SessionPool, queue: QueueTable, session: Session
) -> None:
    session.run_all(queue.listen())
    for notify in (False, True):
        await Dispatcher(pool, notify=notify).dispatch([Send(queue.address, message())])

    session.connection.execute("select 1")
    assert len(list(session.connection.notifies(timeout=0.05))) == 1
