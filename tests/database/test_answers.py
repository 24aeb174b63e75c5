"""A statement whose answer does not come in time: the connection is given up, so that the wait ends."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator
from contextlib import contextmanager

import pytest

from rowbus.database.postgresql.database import Database
from rowbus.database.statements import control
from rowbus.errors import ConnectionLostError

ASK = control(b"select 1", "Failed to ask")
SLEEP = control(b"select pg_sleep(60)", "Failed to sleep")


@contextmanager
def frozen(pid: int) -> Generator[None]:
    """Have the server's process of one session take what it is sent, and answer nothing."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


async def test_a_session_that_never_answers_is_given_up(database: str) -> None:
    session = await Database(database).connect()
    with (
        frozen(session.connection.info.backend_pid),
        pytest.raises(ConnectionLostError, match="has not answered for"),
    ):
        await session.run(ASK, within=0.05)
    assert session.closed


async def test_a_statement_that_takes_too_long_costs_the_connection(database: str) -> None:
    session = await Database(database).connect()
    with pytest.raises(ConnectionLostError, match="has not answered for"):
        await session.run(SLEEP, within=0.05)
    assert session.closed


async def test_one_that_is_answered_in_time_costs_nothing(database: str) -> None:
    session = await Database(database).connect()
    await session.run(ASK, within=30)
    assert not session.closed
    await session.close()
