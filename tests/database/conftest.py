"""What the database tests share: sessions on the test's database, a queue in it, and an ear on the wire."""

from __future__ import annotations

import re
import tempfile
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg.pq import Trace

from rowbus.database.postgresql.connection import AsyncSession, Session
from rowbus.database.postgresql.database import Database
from rowbus.database.postgresql.receive_session import ReceiveSession
from rowbus.messages.address import QueueAddress
from rowbus.messages.headers import Header
from rowbus.messages.message import MessageRow, OutgoingMessage
from rowbus.transport.queues.postgresql import QueueTable
from rowbus.transport.receiving.lower_bound import FROM_THE_START


@pytest.fixture
def session(database: str) -> Iterator[Session]:
    with Database(database).session() as session:
        yield session


@pytest.fixture
def other(database: str) -> Iterator[Session]:
    """Give a second session, for what two do at once."""
    with Database(database).session() as session:
        yield session


@pytest.fixture
async def asynchronous(database: str) -> AsyncIterator[AsyncSession]:
    session = await Database(database).connect()
    yield session
    await session.close()


@pytest.fixture
def in_tokyo(session: Session) -> None:
    """Have new sessions begin in another time zone and encoding than ours, as an administrator may."""
    for setting in ("timezone to 'Asia/Tokyo'", "client_encoding to 'LATIN1'"):
        session.connection.execute(f'alter database "{session.connection.info.dbname}" set {setting}')


@pytest.fixture
def queue(session: Session) -> QueueTable:
    """Give an empty queue, `"public"."Sales"`."""
    table = QueueTable(QueueAddress("public", "Sales"))
    session.run_all(table.create())
    return table


def message(number: int = 1, *, body: bytes | None = None, ttbr: timedelta | None = None) -> OutgoingMessage:
    """Make a message whose body, unless given, is its number."""
    return OutgoingMessage({Header.MESSAGE_ID: f"m-{number}"}, b"%d" % number if body is None else body, ttbr)


def put(session: Session, queue: QueueTable, count: int = 1) -> None:
    """Send so many messages, whose bodies are 1, 2, 3 and so on."""
    session.run(queue.send_batch([message(number) for number in range(1, count + 1)], notify=False))


def take(
    session: Session, queue: QueueTable, most: int = 1, lower_bound: int = FROM_THE_START
) -> list[MessageRow]:
    return session.run(queue.receive(most, lower_bound))


def take_and_put_back(session: Session, queue: QueueTable, most: int = 1) -> list[MessageRow]:
    """Receive in a transaction that is rolled back."""
    with session.connection.transaction(force_rollback=True):
        return take(session, queue, most)


def bodies(session: Session, queue: QueueTable) -> list[bytes | None]:
    """Give what is in the queue, also what somebody has in hand, oldest first."""
    return [peeked.body for peeked in session.run(queue.peek(1000))]


def answers(session: Session, query: str) -> list[tuple[Any, ...]]:
    return list(session.connection.execute(query).fetchall())


def run(session: Session, query: str) -> None:
    session.connection.execute(query)


class Wire:
    """The statements that went over a connection, in order."""

    def __init__(self) -> None:
        self._log = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 - closed with the wire

    @property
    def statements(self) -> list[str]:
        """The text of each statement that was executed, prepared ones by what they were prepared from."""
        self._log.seek(0)
        prepared: dict[str, str] = {}
        texts: list[str] = []
        for entry in re.split(r"^(?=[FB]\t\d+\t)", self._log.read(), flags=re.MULTILINE):
            if query := re.match(r'F\t\d+\tQuery\t "(.*)"$', entry, re.DOTALL):
                texts.append(query[1])
            elif parse := re.match(r'F\t\d+\tParse\t "(.*?)" "(.*)" \d+', entry, re.DOTALL):
                prepared[parse[1]] = parse[2]
            elif bind := re.match(r'F\t\d+\tBind\t ".*?" "(.*?)" ', entry):
                texts.append(prepared.get(bind[1], bind[1]))
        return texts

    def close(self) -> None:
        self._log.close()

    def fileno(self) -> int:
        return self._log.fileno()


@contextmanager
def listening_to(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> Generator[Wire]:
    """Note what goes over the connection (libpq's own trace, so nothing can slip by)."""
    wire = Wire()
    connection.pgconn.trace(wire.fileno())
    connection.pgconn.set_trace_flags(Trace.SUPPRESS_TIMESTAMPS | Trace.REGRESS_MODE)
    try:
        yield wire
    finally:
        if connection.pgconn.status == psycopg.pq.ConnStatus.OK:
            connection.pgconn.untrace()
        wire.close()


@pytest.fixture
async def receiver(database: str, session: Session, queue: QueueTable) -> AsyncIterator[ReceiveSession]:
    """Give a slot's session; the queue holds three messages, and `seen` is a table of the user's."""
    put(session, queue, 3)
    session.connection.execute("create table seen (what text)")
    receiver = await Database(database).connect_receiver()
    yield receiver
    await receiver.close()


async def received(receiver: ReceiveSession, queue: QueueTable, most: int = 1) -> list[bytes | None]:
    """Begin, receive, and start an attempt."""
    rows = await receiver.begin(queue.receive(most, FROM_THE_START))
    receiver.start_attempt()
    return [row.body for row in rows]


def seen(session: Session) -> list[str]:
    return [what for (what,) in session.connection.execute("select what from seen order by what").fetchall()]


async def note(receiver: ReceiveSession, what: str = "handled") -> None:
    await receiver.handler_connection.execute("insert into seen values (%s)", [what])
