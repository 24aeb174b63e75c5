"""Looks of a receiver's slots at a queue on a real server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import psycopg
import pytest

from rowbus.database.postgresql.connection import Session
from rowbus.database.postgresql.database import Database
from rowbus.database.postgresql.receive_session import ReceiveSession
from rowbus.messages.message import MessageRow
from rowbus.testing import FakeClock
from rowbus.transport.queues.postgresql import QueueTable
from rowbus.transport.receiving.decisions import INTERVAL, MARGIN, LowerBound
from tests.conformance.transport import eventually
from tests.fixtures.sessions import answers, message, put

BACKLOG = 2 * MARGIN


class Slots:
    """Slots of one receiver: their sessions, and the bound that they share, by a clock that the test sets."""

    def __init__(self, queue: QueueTable, sessions: list[ReceiveSession]) -> None:
        self.clock = FakeClock()
        self.bound = LowerBound(self.clock)
        self.queue, self.sessions = queue, sessions

    async def look(self, session: ReceiveSession, most: int = 1) -> list[MessageRow]:
        """Receive and commit."""
        bound, began = self.bound.claim(), self.clock()
        rows = await session.begin(self.queue.receive(most, bound, most_bytes=1_000))
        self.bound.looked(bound, began, rows[-1].seq if rows else None)
        await session.commit()
        return rows

    async def hang(self, session: Session, seconds: float) -> None:
        """Have all of them look while the queue is locked for so many seconds, one after another."""
        with psycopg.connect(session.connection.info.dsn) as locking:
            locking.execute(f"lock table {self.queue.address}".encode())
            self.clock.advance(INTERVAL)
            looks = list[asyncio.Task[list[MessageRow]]]()
            for waiting, slot in enumerate(self.sessions, start=1):
                looks.append(asyncio.create_task(self.look(slot)))
                await eventually(lambda waiting=waiting: _waiting(session) == waiting)
                self.clock.advance(INTERVAL)
            self.clock.advance(seconds)
        await asyncio.gather(*looks)


@pytest.fixture
async def slots(database: str, queue: QueueTable) -> AsyncIterator[Slots]:
    sessions = [await Database(database).connect_receiver() for _ in range(3)]
    yield Slots(queue, sessions)
    for each in sessions:
        await each.close()


@pytest.mark.one_version
async def test_after_a_lock_that_held_all_slots_up_a_message_that_commits_late_is_found_at_once(
    database: str, session: Session, queue: QueueTable, slots: Slots
) -> None:
    put(session, queue)
    await slots.look(slots.sessions[0])
    await slots.hang(session, 60.0)
    with psycopg.connect(database) as late:
        Session(late).run(queue.send(message(body=b"late"), notify=False))
        put(session, queue, BACKLOG)
        assert len(await slots.look(slots.sessions[0], BACKLOG)) == BACKLOG

    slots.clock.advance(INTERVAL)
    found = await slots.look(slots.sessions[1])

    assert [row.body for row in found] == [b"late"]


def _waiting(session: Session) -> int:
    query = "select count(*) from pg_locks where not granted and relation = '\"Sales\"'::regclass"
    return int(answers(session, query)[0][0])
