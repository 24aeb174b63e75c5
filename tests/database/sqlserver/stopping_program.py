"""Stops, cancels and times out calls of a driver's, over and over, and ends while some go on.

`stopping_program.py '{"root": …, "standin": …, "slow": …, "times": …}'`, with the database in ROWBUS_DATABASE: `root`
is where `tests` is, `standin` the stand-in's database, null on a real server, `slow` what waits for long.
A call that Microsoft's driver would not forgive ends the process by a signal, as that driver does.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from rowbus.database.sqlserver import driver as seam
from rowbus.database.sqlserver import threads
from rowbus.database.sqlserver.backend import Database
from rowbus.database.sqlserver.receive_session import ReceiveSession
from rowbus.database.statements import Query, Statement
from rowbus.errors import RowbusError

given: dict[str, Any] = json.loads(sys.argv[1])
database = Database(os.environ["ROWBUS_DATABASE"])
threads.AGAIN = 0.01  # seconds: the calls here are interrupted when they have hardly begun
SLOW: bytes = given["slow"].encode()
LONG = 10.0  # seconds that no beginning takes
RECEIVE = b"select 1 as one"


def statement(text: bytes) -> Statement[object]:
    """Return a statement without parameters."""
    return Statement(Query(text, text, (), "Failed"), {}, lambda rows, _count: rows)


def use_standin() -> None:
    """Lead the driver's seam to the stand-in, whose connections are watched."""
    sys.path.insert(0, given["root"])
    from tests.database.sqlserver.own_thread import WatchedConnection  # noqa: PLC0415 - of the tests', found by the line above
    from tests.database.sqlserver.standin import driver  # noqa: PLC0415 - as above

    def connect(_source: object) -> WatchedConnection:
        return WatchedConnection(driver.connect(given["standin"]), die)

    setattr(seam, "connect", connect)  # noqa: B010 - another's


def use_server() -> None:
    """Have each connection to the server tell when it is at work."""
    connect = seam.connect

    def telling(source: seam.DataSource) -> seam.DriverConnection:
        connection: Any = connect(source)
        connection.at_work = threading.Event()
        connection.cursor = partial(telling_cursor, connection, connection.cursor)
        return connection  # type: ignore[no-any-return]  # the driver's

    setattr(seam, "connect", telling)  # noqa: B010 - another's


def telling_cursor(connection: Any, make: Callable[[], Any]) -> Any:  # noqa: ANN401 - the driver's
    """Make a cursor that tells when it begins a batch."""
    cursor = make()
    execute = cursor.execute

    def telling(*given: object) -> object:
        connection.at_work.set()
        return execute(*given)

    cursor.execute = telling
    return cursor


def die(why: str) -> None:
    """End as a process does whose driver reads what is gone."""
    print(why, file=sys.stderr, flush=True)  # noqa: T201 - the test shows it
    os.abort()


async def has_begun(session: ReceiveSession) -> None:
    """Wait until the session's thread is in a call of the driver."""
    connection: Any = session._session.connection
    assert await asyncio.to_thread(connection.at_work.wait, LONG)


async def stop(session: ReceiveSession) -> None:
    """Close a session while a call of its transaction is made, as a stop with a time limit does."""

    async def work() -> None:
        with suppress(RowbusError):
            async with session.transaction():
                await session.run(statement(SLOW))

    await session.begin(statement(RECEIVE))
    running = asyncio.create_task(work())
    await has_begun(session)
    running.cancel()
    await session.close()
    await asyncio.wait([running])


async def cancel(session: ReceiveSession) -> None:
    """Cancel a call, and roll back as a slot does."""
    await session.begin(statement(RECEIVE))
    running = asyncio.create_task(session.handler_connection.execute(SLOW.decode()))
    await has_begun(session)
    running.cancel()
    await asyncio.wait([running])
    await session.rollback()


async def time_out(session: ReceiveSession) -> None:
    """Give a call too little time."""
    with suppress(RowbusError):
        await session.run(statement(SLOW), within=0.001)
    await session.close()


async def leave(session: ReceiveSession) -> None:
    """Give up what code in a thread is using."""

    def work() -> None:
        with suppress(Exception):
            session.sync_handler_connection.execute(SLOW.decode())

    await session.begin(statement(RECEIVE))
    running = asyncio.create_task(asyncio.to_thread(work))
    await has_begun(session)
    await session.abandon()
    await running


async def end_all() -> None:
    """Do each in turn, four at a time, and leave the last in the midst of it."""
    ways = (stop, cancel, time_out, leave)
    gate = asyncio.Semaphore(4)

    async def one(number: int) -> None:
        async with gate:
            await ways[number % len(ways)](await database.connect_receiver())

    await asyncio.gather(*map(one, range(given["times"])))
    left = await database.connect_receiver()
    leaving = asyncio.ensure_future(left.run(statement(SLOW)))
    await has_begun(left)
    leaving.add_done_callback(lambda task: task.cancelled() or task.exception())


if __name__ == "__main__":
    if given["standin"]:
        use_standin()
    else:
        use_server()
    asyncio.run(end_all())
    print("ended", flush=True)  # noqa: T201 - the test reads it
