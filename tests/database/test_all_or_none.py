"""Statements in a transaction of their own: one round trip, all or none, and no commit is refused unheard."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from rowbus.database.postgresql.connection import AsyncSession, Session
from rowbus.database.postgresql.database import Database
from rowbus.errors import QueueNotFoundError, StorageError
from rowbus.messages.address import QueueAddress
from rowbus.transport.queues.postgresql import QueueTable
from tests.fixtures.sessions import bodies, listening_to, message, run

REFUSED_AT_THE_COMMIT = """
create function refuse() returns trigger language plpgsql as 'begin raise ''not today''; end';
create constraint trigger refused after insert on "Sales" deferrable initially deferred
for each row execute function refuse()
"""


@pytest.fixture
async def sending(database: str) -> AsyncIterator[AsyncSession]:
    """Give a session as the pool lends it."""
    session = await Database(database).connect_sender()
    yield session
    await session.close()


async def test_one_statement_is_one_message_to_the_server_and_no_begin(
    sending: AsyncSession, queue: QueueTable, session: Session
) -> None:
    await sending.run_all([queue.send(message(1), notify=False)], atomic=True)

    with listening_to(sending.connection) as wire:
        await sending.run_all([queue.send(message(2), notify=False)], atomic=True)
        assert len(wire.statements) == 1

    assert sending.is_idle
    assert bodies(session, queue) == [b"1", b"2"]


async def test_of_several_statements_all_or_none_are_committed(
    sending: AsyncSession, queue: QueueTable, session: Session
) -> None:
    missing = QueueTable(QueueAddress("public", "Missing"))
    await sending.run_all([queue.send(message(number), notify=True) for number in (1, 2)], atomic=True)

    with pytest.raises(QueueNotFoundError):
        await sending.run_all(
            [queue.send(message(3), notify=True), missing.send(message(4), notify=True)], atomic=True
        )

    assert sending.is_idle
    assert bodies(session, queue) == [b"1", b"2"]


@pytest.mark.parametrize("count", [1, 2])
async def test_a_refused_commit_is_an_error(
    sending: AsyncSession, queue: QueueTable, session: Session, count: int
) -> None:
    run(session, REFUSED_AT_THE_COMMIT)

    with pytest.raises(StorageError, match="not today"):
        await sending.run_all(
            [queue.send(message(number), notify=False) for number in range(count)], atomic=True
        )

    assert bodies(session, queue) == []
    assert sending.is_idle


async def test_plans_that_are_gone_are_no_failure(
    sending: AsyncSession, queue: QueueTable, session: Session
) -> None:
    await sending.run_all([queue.send(message(1), notify=False)], atomic=True)
    await sending.connection.execute("deallocate all")

    await sending.run_all([queue.send(message(2), notify=False)], atomic=True)

    assert bodies(session, queue) == [b"1", b"2"]
