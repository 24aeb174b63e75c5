"""The answers of a round trip: in pieces, after much was sent, and when the wait for them ends early."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from psycopg.waiting import Wait

from rowbus.database.postgresql.readiness import complete
from rowbus.database.statements import Query, Statement, scalar

if TYPE_CHECKING:
    from collections.abc import Callable

    from psycopg.abc import PQGen

    from rowbus.database.postgresql.connection import Session
    from rowbus.database.postgresql.receive_session import ReceiveSession
    from rowbus.database.statements import Rows


def as_they_are(rows: Rows, _count: int) -> Rows:
    return rows


def statement(text: bytes, **parameters: object) -> Statement[Rows]:
    return Statement(Query(text, text, tuple(parameters), "Failed", prepare=False), parameters, as_they_are)


SLEEP = statement(b"select pg_sleep(600)")


async def asleep(session: Session, pid: int) -> None:
    """Wait until a backend sleeps."""
    query = "select count(*) from pg_stat_activity where pid = %s and wait_event = 'PgSleep'"
    while scalar(session.connection.execute(query, [pid]).fetchall(), 0) == 0:  # noqa: ASYNC110 - it has no event for us
        await asyncio.sleep(0.01)


async def test_an_answer_in_many_pieces_is_whole(receiver: ReceiveSession) -> None:
    many = statement(b"select repeat('x', 1000) from generate_series(1, 3000)")

    (answer,) = await receiver.run_together([many])

    assert [len(row[0]) for row in answer] == [1000] * 3000


async def test_what_fills_the_socket_is_sent_to_its_end(receiver: ReceiveSession) -> None:
    (answer,) = await receiver.run_together(
        [statement(b"select length($1::text), length($2::text)", one="x" * 30_000_000, two="y")]
    )

    assert list(answer) == [(30_000_000, 1)]


async def test_an_answer_that_makes_no_socket_readable_is_looked_for(receiver: ReceiveSession) -> None:
    def held_by_tls(looks: int) -> PQGen[int]:
        for _ in range(looks):
            yield Wait.R
        return looks

    async with asyncio.timeout(20):
        assert [await complete(receiver.connection, held_by_tls(looks)) for looks in (1, 3)] == [1, 3]


async def test_a_handlers_statement_and_its_savepoint_register_the_socket_once(
    receiver: ReceiveSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, registered = asyncio.get_running_loop(), list[object]()
    add_reader = loop.add_reader
    await receiver.begin(statement(b"select 1"))
    receiver.start_attempt()

    def note(file: int, call: Callable[..., object], *arguments: object) -> None:
        registered.append(call)
        add_reader(file, call, *arguments)

    monkeypatch.setattr(loop, "add_reader", note)
    cursor = await receiver.connection.execute("select pg_sleep(0.02), repeat('x', 1000)")

    assert await cursor.fetchone() == ("", "x" * 1000)
    assert receiver.connection.savepoint_set
    assert len(registered) == 1


async def test_a_handlers_statement_that_fills_the_socket_is_sent_to_its_end(
    receiver: ReceiveSession,
) -> None:
    cursor = await receiver.connection.execute("select length(%s)", ["x" * 30_000_000])

    assert await cursor.fetchone() == (30_000_000,)


async def test_a_wait_that_is_cancelled_cancels_the_statement(
    receiver: ReceiveSession, session: Session
) -> None:
    pid = receiver.connection.info.backend_pid
    waiting = asyncio.create_task(receiver.run_together([SLEEP]))
    await asleep(session, pid)

    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting

    query = "select count(*) from pg_stat_activity where pid = %s and state = 'active'"
    assert scalar(session.connection.execute(query, [pid]).fetchall(), 0) == 0
    await receiver.rollback()  # closes it if its pipeline is still open
