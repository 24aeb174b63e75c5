"""A session that is closed: what still runs on it fails first, for closing frees what it would read."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, LiteralString

import psycopg
import pytest

from rowbus.database.backends import open_database
from rowbus.database.statements import control
from rowbus.errors import ConnectionLostError
from rowbus.running.scope import Scope, note_tasks
from rowbus.running.waiting import cancel
from rowbus.work.attempt import attempt
from rowbus.work.fate import Ending
from tests.conformance.transport import eventually

if TYPE_CHECKING:
    from psycopg.pq.abc import PGconn

    from rowbus.database import sessions
    from rowbus.database.postgresql.connection import AsyncSession
    from rowbus.database.postgresql.receive_session import ReceiveSession

    AnyReceiver = ReceiveSession | sessions.ReceiveSession

NOTHING = control(b"select", "Failed")
SLEEP: LiteralString = "select pg_sleep(60)"
DEAF: LiteralString = """
    do $$ begin
        perform pg_sleep(60);
    exception
        when query_canceled then perform pg_sleep(3);
    end $$
"""
"""A statement that takes its time to end when it is cancelled."""
LONG = control(b"select pg_sleep(60)", "Failed to sleep")


async def test_what_runs_on_a_session_fails_before_the_session_is_closed(asynchronous: AsyncSession) -> None:
    running = asyncio.ensure_future(asynchronous.run(LONG))
    await eventually(asynchronous.connection.lock.locked)

    await asynchronous.close()

    assert running.done()
    assert isinstance(running.exception(), ConnectionLostError)


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_a_stream_that_was_left_keeps_no_session_open(
    asynchronous: AsyncSession, *, is_cancelled: bool
) -> None:
    rows: Any = asynchronous.connection.cursor().stream("select 1 from generate_series(1, 3)")
    await anext(rows)

    closing = asyncio.ensure_future(asynchronous.close())
    if is_cancelled:
        await asyncio.sleep(0)  # it has begun
        await cancel([closing])

    await eventually(lambda: asynchronous.closed and closing.done())

    with suppress(Exception):  # of the driver's, about the connection
        await rows.aclose()


@pytest.mark.parametrize("name", ["connect", "connect_sender", "connect_receiver"])
async def test_an_opening_that_is_cancelled_leaves_no_connection(
    database: str, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The driver lets others run when an answer has come, once in a while: here always."""
    monkeypatch.setattr(psycopg.waiting, "MAX_BUSY_TIME", -1)
    made, init = list[psycopg.AsyncConnection[Any]](), psycopg.AsyncConnection.__init__
    is_made = asyncio.Event()

    def noted(connection: psycopg.AsyncConnection[Any], pgconn: PGconn) -> None:
        made.append(connection)
        is_made.set()
        init(connection, pgconn)

    monkeypatch.setattr(psycopg.AsyncConnection, "__init__", noted)
    for turns in range(5):
        is_made.clear()
        opening = asyncio.ensure_future(getattr(open_database(database), name)())
        await is_made.wait()
        for _ in range(turns):
            await asyncio.sleep(0)
        await cancel([opening])
        if not opening.cancelled():
            await opening.result().close()

    assert [connection.closed for connection in made] == [True] * 5


async def test_a_session_on_which_nothing_runs_is_closed_in_its_transaction_too(
    asynchronous: AsyncSession,
) -> None:
    await asynchronous.run(control(b"begin", "Failed"))

    await asynchronous.close()
    await asynchronous.close()

    assert asynchronous.closed


@pytest.mark.parametrize("statement", [SLEEP, DEAF])
async def test_what_a_handler_left_running_fails_before_its_connection_is_given_up(
    receiver: ReceiveSession, statement: LiteralString
) -> None:
    note_tasks(asyncio.get_running_loop())

    assert await left_done(receiver, statement) is True


async def test_many_connections_that_handlers_left_busy_are_given_up_at_once(
    receiver: ReceiveSession,
) -> None:
    note_tasks(asyncio.get_running_loop())
    database = open_database(receiver.connection.info.dsn)
    sessions = [await database.connect_receiver() for _ in range(20)]

    left = await asyncio.gather(*(left_done(session, SLEEP) for session in sessions))

    assert left == [True] * len(sessions)


async def left_done(receiver: AnyReceiver, statement: LiteralString) -> bool:
    """Say whether what a handler left running is done when its connection is given up."""
    left: list[asyncio.Task[object]] = []

    async def handle() -> None:
        connection = receiver.handler_connection
        await connection.execute("select")
        left.append(asyncio.create_task(connection.execute(statement)))
        await eventually(connection.lock.locked)

    await receiver.begin(NOTHING)
    outcome = await attempt(Scope(), handle(), receiver, lambda: False, keep_tasks=True)

    assert outcome is not None
    assert outcome.ending is Ending.UNFINISHED
    assert receiver.connection.closed
    is_done = left[0].done()
    await asyncio.gather(*left, return_exceptions=True)
    return is_done
