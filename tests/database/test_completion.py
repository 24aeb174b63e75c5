"""Completing what was received: failed sends and constraints keep the message, a lost connection commits nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from rowbus.database.postgresql.connection import Session
from rowbus.database.postgresql.database import Database
from rowbus.database.postgresql.faults import translate
from rowbus.database.postgresql.receive_session import ReceiveSession
from rowbus.errors import (
    ConnectionLostError,
    QueueNotFoundError,
    StorageError,
)
from rowbus.messages.address import QueueAddress
from rowbus.transport.queues.postgresql import QueueTable
from rowbus.transport.receiving.decisions import FROM_THE_START
from rowbus.work.fate import is_outage, is_outage_in_handler
from tests.fixtures.sessions import bodies, message, note, received, seen, take

ELSEWHERE = QueueAddress("public", "Missing")


# -------------------------------------------------------------------------------------------------- failing completions


@pytest.fixture
def deferred(session: Session) -> None:
    session.connection.execute(
        """
        create table orders (id int primary key);
        create table lines (order_id int references orders deferrable initially deferred)
        """
    )


@pytest.mark.usefixtures("deferred")
async def test_a_deferred_constraint_fails_the_attempt_and_the_message_is_kept(
    receiver: ReceiveSession, session: Session, other: Session, queue: QueueTable
) -> None:
    await received(receiver, queue)
    await receiver.handler_connection.execute("insert into lines values (42)")

    with pytest.raises(StorageError, match=r"^A deferred constraint failed: ") as caught:
        await receiver.commit_and_begin((), queue.receive(1, FROM_THE_START))

    assert caught.value.sqlstate == "23503"
    assert not receiver.committed
    assert await receiver.undo_completion()
    assert [row.body for row in take(other, queue)] == [b"2"], "the first is still in hand"
    await note(receiver, "second try")
    await receiver.commit()
    assert seen(session) == ["second try"]
    assert bodies(session, queue) == [b"3"]


@pytest.mark.usefixtures("deferred")
async def test_a_deferred_constraint_that_holds_at_the_end_is_no_failure(
    receiver: ReceiveSession, session: Session, queue: QueueTable
) -> None:
    await received(receiver, queue)
    await receiver.handler_connection.execute("insert into lines values (42)")
    await receiver.handler_connection.execute("insert into orders values (42)")

    await receiver.commit()

    assert session.connection.execute("select * from lines").fetchall() == [(42,)]


@pytest.mark.parametrize("touched", [True, False], ids=["after the handler's SQL", "alone"])
@pytest.mark.parametrize("follows", [True, False], ids=["then receive", "only commit"])
async def test_a_failed_send_undoes_the_attempt_and_keeps_the_message(
    receiver: ReceiveSession, session: Session, queue: QueueTable, *, touched: bool, follows: bool
) -> None:
    sends = [queue.send(message(9), notify=False), QueueTable(ELSEWHERE).send(message(), notify=False)]
    await received(receiver, queue)
    if touched:
        await note(receiver)

    with pytest.raises(QueueNotFoundError) as caught:
        await (
            receiver.commit_and_begin(sends, queue.receive(1, FROM_THE_START))
            if follows
            else receiver.commit(sends)
        )

    assert caught.value.queue == str(ELSEWHERE)
    assert not receiver.committed
    assert await receiver.undo_completion()
    await receiver.commit([queue.send(message(8), notify=False)])
    assert bodies(session, queue) == [b"2", b"3", b"8"]
    assert seen(session) == []


async def test_an_error_in_the_next_receive_does_not_hide_that_the_commit_succeeded(
    receiver: ReceiveSession, session: Session, queue: QueueTable
) -> None:
    await received(receiver, queue)
    await note(receiver)

    with pytest.raises(QueueNotFoundError):
        await receiver.commit_and_begin((), QueueTable(ELSEWHERE).receive(1, FROM_THE_START))

    assert receiver.committed
    assert not await receiver.undo_completion(), "there is nothing left to undo"
    assert bodies(session, queue) == [b"2", b"3"]
    assert seen(session) == ["handled"]
    await receiver.rollback()
    assert await received(receiver, queue) == [b"2"]


async def test_after_a_failed_begin_the_session_can_be_used_again(
    receiver: ReceiveSession, queue: QueueTable
) -> None:
    with pytest.raises(QueueNotFoundError):
        await receiver.begin(QueueTable(ELSEWHERE).receive(1, FROM_THE_START))
    await receiver.rollback()

    assert await received(receiver, queue) == [b"1"]


async def waits_for_lock(session: Session, pid: int) -> None:
    """Wait until a backend waits for another's lock."""
    waiting = "select from pg_stat_activity where pid = %s and wait_event_type = 'Lock'"
    while not session.connection.execute(waiting, [pid]).rowcount:  # noqa: ASYNC110 - it has no event for us
        await asyncio.sleep(0.005)


async def test_after_a_deadlock_of_the_handlers_the_message_goes_back(
    receiver: ReceiveSession, session: Session, other: Session, queue: QueueTable
) -> None:
    other.connection.execute("insert into seen values ('a'), ('b')")
    other.connection.execute("set deadlock_timeout to '10s'")
    await received(receiver, queue)
    await receiver.handler_connection.execute("set deadlock_timeout to '20ms'")
    await receiver.handler_connection.execute("select from seen where what = 'a' for update")
    with other.transaction():
        other.connection.execute("select from seen where what = 'b' for update")
        blocked = asyncio.create_task(
            asyncio.to_thread(other.connection.execute, "select from seen where what = 'a' for update")
        )
        await waits_for_lock(session, other.connection.info.backend_pid)
        with pytest.raises(psycopg.errors.DeadlockDetected):
            await receiver.handler_connection.execute("select from seen where what = 'b' for update")
        await receiver.rollback()
        await blocked

    assert bodies(session, queue) == [b"1", b"2", b"3"]
    assert await received(receiver, queue) == [b"1"]


# ------------------------------------------------------------------------------------------------------ connection loss


def terminate(session: Session, receiver: ReceiveSession) -> None:
    """End the receiver's server process, and wait until it is gone."""
    pid = receiver.connection.info.backend_pid
    session.connection.execute("select pg_terminate_backend(%s, 5000)", [pid])


async def begin(receiver: ReceiveSession, queue: QueueTable) -> None:
    await receiver.begin(queue.receive(1, FROM_THE_START))


async def commit(receiver: ReceiveSession, queue: QueueTable) -> None:
    await receiver.commit([queue.send(message(), notify=False)])


async def commit_and_begin(receiver: ReceiveSession, queue: QueueTable) -> None:
    await receiver.commit_and_begin((), queue.receive(1, FROM_THE_START))


async def run(receiver: ReceiveSession, queue: QueueTable) -> None:
    await receiver.run(queue.peek(1))


@pytest.mark.parametrize("verb", [begin, commit, commit_and_begin, run])
async def test_a_lost_connection_is_told_as_such_and_nothing_is_committed(
    receiver: ReceiveSession,
    session: Session,
    queue: QueueTable,
    verb: Callable[[ReceiveSession, QueueTable], Awaitable[None]],
) -> None:
    await received(receiver, queue)
    terminate(session, receiver)

    with pytest.raises(ConnectionLostError) as caught:
        await asyncio.wait_for(verb(receiver, queue), 5)

    assert caught.value.transient
    assert not receiver.committed
    assert not await receiver.undo_completion() or receiver.closed
    await receiver.rollback()
    assert receiver.closed
    assert bodies(session, queue) == [b"1", b"2", b"3"]


async def test_what_the_server_said_at_the_end_is_known_though_the_driver_took_it_for_a_notice(
    receiver: ReceiveSession, session: Session, queue: QueueTable
) -> None:
    """On a busy machine the driver reads an answer, and in the same breath that the session's time is over."""
    await received(receiver, queue)
    pid = receiver.connection.info.backend_pid
    await receiver.connection.execute("set idle_in_transaction_session_timeout = '300ms'")
    answered = asyncio.ensure_future(receiver.connection.execute("select 1"))
    await asyncio.sleep(0)  # it is sent
    while session.connection.execute("select from pg_stat_activity where pid = %s", [pid]).rowcount:
        pass  # and the event loop is kept busy, until the session has ended
    await answered

    with pytest.raises(psycopg.OperationalError) as caught:
        await receiver.connection.execute("select 1")

    assert caught.value.sqlstate is None
    assert isinstance(receiver.reason(caught.value), psycopg.errors.IdleInTransactionSessionTimeout)


@asynccontextmanager
async def stuck_sending(receiver: ReceiveSession, session: Session) -> AsyncGenerator[asyncio.Task[None]]:
    """Have the receiver's completion wait for a lock that the session holds."""
    billing = QueueTable(QueueAddress("public", "Billing"))
    session.run_all(billing.create())
    with session.transaction():
        session.connection.execute('lock table "Billing" in access exclusive mode')
        completing = asyncio.create_task(receiver.commit([billing.send(message(), notify=False)]))
        await waits_for_lock(session, receiver.connection.info.backend_pid)
        yield completing


async def test_a_connection_lost_while_a_statement_runs_is_told_as_such(
    receiver: ReceiveSession, session: Session, queue: QueueTable
) -> None:
    await received(receiver, queue)
    async with stuck_sending(receiver, session) as completing:
        terminate(session, receiver)
        with pytest.raises(ConnectionLostError):
            await asyncio.wait_for(completing, 5)

    assert not receiver.committed
    assert len(bodies(session, queue)) == 3


async def test_a_completion_that_is_cancelled_loses_nothing(
    receiver: ReceiveSession, session: Session, queue: QueueTable
) -> None:
    await received(receiver, queue)
    async with stuck_sending(receiver, session) as completing:
        completing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(completing, 5)
        await receiver.rollback()

    assert not receiver.committed
    assert bodies(session, queue) == [b"1", b"2", b"3"]


async def test_closing_twice_is_harmless(receiver: ReceiveSession) -> None:
    await receiver.close()
    await receiver.close()

    assert receiver.closed
    await receiver.rollback()


# ----------------------------------------------------------------------------------------------- sends that cannot wait


HOLD_PLACES = """
    insert into "Sales" (id, headers, body, seq)
    select gen_random_uuid(), '{}', '', n from generate_series(1, 1000) as n
"""


@pytest.fixture
async def impatient(database: str, queue: QueueTable) -> AsyncIterator[ReceiveSession]:
    """Give a receive session of a role that waits for no lock for long, on a database with a queue."""
    session = await Database(make_conninfo(database, options="-c lock_timeout=20ms")).connect_receiver()
    yield session
    await session.close()


async def test_a_send_that_waits_for_somebodys_places_ends_as_an_outage_and_no_failure_of_the_message(
    impatient: ReceiveSession, session: Session, queue: QueueTable
) -> None:
    """Everyone who had INSERT on a queue could hold up all other senders, and have their messages fail."""
    sends = [queue.send(message(9), notify=False)]
    with session.connection.transaction(force_rollback=True):
        session.connection.execute(HOLD_PLACES)

        with pytest.raises(StorageError) as undone:
            await impatient.run_all(sends, atomic=True)
        await impatient.begin(queue.receive(1, FROM_THE_START))
        with pytest.raises(StorageError) as rolled_back:
            await impatient.commit_and_begin(sends, queue.receive(1, FROM_THE_START))
        await impatient.rollback()
        await impatient.begin(queue.receive(1, FROM_THE_START))
        with pytest.raises(psycopg.errors.LockNotAvailable) as of_a_handler:
            await impatient.handler_connection.execute('lock table "Sales"')
        await impatient.rollback()

    assert [is_outage(each.value) for each in (undone, rolled_back)] == [True, True]
    assert not is_outage_in_handler(of_a_handler.value, translate(of_a_handler.value))


WATCH = """
create table bounds (place text, bound text);
create function watch() returns trigger language plpgsql as
    'begin insert into bounds values (tg_argv[0], current_setting(''lock_timeout'')); return null; end';
create trigger watch after insert on "Sales" for each statement execute function watch('send');
create table work (id int);
create trigger watch after insert on work for each statement execute function watch('handler')
"""


async def test_only_sends_have_a_bound_of_their_own(
    receiver: ReceiveSession, session: Session, queue: QueueTable
) -> None:
    session.connection.execute(WATCH)
    for _ in range(2):
        await receiver.begin(queue.receive(1, FROM_THE_START))
        receiver.start_attempt()
        await receiver.handler_connection.execute("insert into work values (1)")
        await receiver.commit([queue.send(message(9), notify=False)])
    await receiver.run_all([queue.send(message(9), notify=False)], atomic=True)

    found = session.connection.execute("select distinct place, bound from bounds order by place").fetchall()
    assert found == [("handler", "0"), ("send", "10s")]
