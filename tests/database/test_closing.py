"""A session that is closed: what still runs on it fails first, for closing frees what it would read."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from rowbus.database.statements import control
from rowbus.errors import ConnectionLostError
from rowbus.running.scope import note_tasks
from rowbus.work.attempt import attempt
from rowbus.work.fate import Ending
from tests.conformance.transport import eventually

if TYPE_CHECKING:
    from rowbus.database.postgresql.connection import AsyncSession
    from rowbus.database.postgresql.receive_session import ReceiveSession

NOTHING = control(b"select", "Failed")
LONG = control(b"select pg_sleep(60)", "Failed to sleep")


async def test_what_runs_on_a_session_fails_before_the_session_is_closed(asynchronous: AsyncSession) -> None:
    running = asyncio.ensure_future(asynchronous.run(LONG))
    await eventually(asynchronous.connection.lock.locked)

    await asynchronous.close()

    assert running.done()
    assert isinstance(running.exception(), ConnectionLostError)


async def test_a_stream_that_was_left_keeps_no_session_open(asynchronous: AsyncSession) -> None:
    rows: Any = asynchronous.connection.cursor().stream("select 1 from generate_series(1, 3)")
    await anext(rows)

    await asynchronous.close()

    assert asynchronous.closed
    with suppress(Exception):  # of the driver's, about the connection
        await rows.aclose()


async def test_a_session_on_which_nothing_runs_is_closed_in_its_transaction_too(
    asynchronous: AsyncSession,
) -> None:
    await asynchronous.run(control(b"begin", "Failed"))

    await asynchronous.close()
    await asynchronous.close()

    assert asynchronous.closed


async def test_what_a_handler_left_running_fails_with_its_connection(
    receiver: ReceiveSession,
) -> None:
    note_tasks(asyncio.get_running_loop())
    left: list[asyncio.Task[object]] = []

    async def handle() -> None:
        connection = receiver.handler_connection
        await connection.execute("select")
        left.append(asyncio.create_task(connection.execute("select pg_sleep(60)")))
        await eventually(connection.lock.locked)

    await receiver.begin(NOTHING)
    outcome = await attempt(handle(), receiver, lambda: False, keep_tasks=True)

    assert outcome is not None
    assert outcome.ending is Ending.UNFINISHED
    assert receiver.connection.closed
    (failed,) = await asyncio.gather(*left, return_exceptions=True)
    assert isinstance(failed, Exception)
