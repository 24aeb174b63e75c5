"""The receive transaction: what a handler did can be undone while its message stays, and nothing else ends it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import LiteralString

import psycopg
import pytest
from psycopg import sql
from psycopg.rows import dict_row

from rowbus.database.postgresql.connection import Session
from rowbus.database.postgresql.database import Database
from rowbus.database.postgresql.handler_connection import HandlerConnection
from rowbus.database.postgresql.receiving import ReceiveSession
from rowbus.errors import (
    ConnectionLostError,
    HandlerError,
    QueueNotFoundError,
    StorageError,
)
from rowbus.model.address import QueueAddress
from rowbus.model.lower_bound import FROM_THE_START
from rowbus.tables.queue import QueueTable
from tests.database.conftest import bodies, listening_to, message, put, take

ELSEWHERE = QueueAddress("public", "Missing")


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


# -------------------------------------------------------------------------------------------------- committing, undoing


async def test_a_received_message_is_gone_when_the_transaction_commits(
    receiver: ReceiveSession, session: Session, queue: QueueTable
) -> None:
    assert await received(receiver, queue) == [b"1"]
    await note(receiver)
    assert seen(session) == []

    await receiver.commit()

    assert receiver.committed
    assert bodies(session, queue) == [b"2", b"3"]
    assert seen(session) == ["handled"]


async def test_a_rolled_back_message_is_back_with_nothing_done(
    receiver: ReceiveSession, session: Session, queue: QueueTable
) -> None:
    await received(receiver, queue)
    await note(receiver)

    await receiver.rollback()

    assert [row.body for row in take(session, queue)] == [b"1"]
    assert seen(session) == []


async def test_rolling_back_outside_a_transaction_is_harmless(receiver: ReceiveSession) -> None:
    await receiver.rollback()

    assert not receiver.closed


async def test_a_commit_and_the_next_receive_share_a_round_trip(
    receiver: ReceiveSession, session: Session, queue: QueueTable
) -> None:
    await received(receiver, queue)

    rows = await receiver.commit_and_begin(
        [queue.send(message(4), notify=False)], queue.receive(1, FROM_THE_START)
    )

    assert receiver.committed
    assert [row.body for row in rows] == [b"2"]
    assert bodies(session, queue) == [b"2", b"3", b"4"]
    await receiver.rollback()
    assert bodies(session, queue) == [b"2", b"3", b"4"]


async def test_an_undone_attempt_leaves_nothing_and_keeps_the_message(
    receiver: ReceiveSession, session: Session, other: Session, queue: QueueTable
) -> None:
    await received(receiver, queue)
    for attempt in range(3):
        await note(receiver, f"attempt {attempt}")
        await receiver.undo_attempt()
        assert [row.body for row in take(other, queue, 10)] == ([b"2", b"3"] if attempt == 0 else [])
    await note(receiver, "last attempt")

    await receiver.commit()

    assert seen(session) == ["last attempt"]
    assert bodies(session, queue) == []


async def test_an_attempt_can_be_undone_after_a_database_error_of_the_handlers(
    receiver: ReceiveSession, session: Session, queue: QueueTable
) -> None:
    await received(receiver, queue)
    await note(receiver)
    with pytest.raises(psycopg.errors.DivisionByZero):
        await receiver.handler_connection.execute("select 1 / 0")

    await receiver.undo_attempt()
    await receiver.commit()

    assert seen(session) == []
    assert bodies(session, queue) == [b"2", b"3"]


async def test_the_messages_of_a_batch_are_undone_one_by_one(
    receiver: ReceiveSession, session: Session, queue: QueueTable
) -> None:
    assert await received(receiver, queue, 3) == [b"1", b"2", b"3"]
    for number in range(1, 4):
        receiver.start_attempt()
        await note(receiver, f"message {number}")
        if number == 2:
            await receiver.undo_attempt()

    await receiver.commit()

    assert seen(session) == ["message 1", "message 3"]


async def test_a_swallowed_database_error_is_told_to_the_handler_not_found_at_the_commit(
    receiver: ReceiveSession, queue: QueueTable
) -> None:
    await received(receiver, queue)
    receiver.ensure_usable()
    with pytest.raises(psycopg.errors.DivisionByZero):
        await receiver.handler_connection.execute("select 1 / 0")

    with pytest.raises(HandlerError, match=r"async with context\.connection\.transaction\(\)"):
        receiver.ensure_usable()


async def test_a_commit_of_a_spoilt_transaction_is_an_error_and_commits_nothing(
    receiver: ReceiveSession, session: Session, queue: QueueTable
) -> None:
    await receiver.begin(queue.receive(1, FROM_THE_START))
    with pytest.raises(psycopg.errors.DivisionByZero):
        await receiver.handler_connection.execute("select 1 / 0")

    with pytest.raises(StorageError):
        await receiver.commit()

    assert not receiver.committed
    assert bodies(session, queue) == [b"1", b"2", b"3"]


# -------------------------------------------------------------------------------------------------------- the savepoint


def savepoints(statements: list[str]) -> list[str]:
    return [statement for statement in statements if "savepoint" in statement.lower()]


async def test_a_handler_that_does_not_use_its_connection_costs_no_savepoint(
    receiver: ReceiveSession, queue: QueueTable
) -> None:
    with listening_to(receiver.connection) as wire:
        await received(receiver, queue)
        await receiver.commit_and_begin((), queue.receive(1, FROM_THE_START))
        receiver.start_attempt()
        await receiver.undo_attempt()
        await receiver.commit()
        statements = wire.statements

    assert savepoints(statements) == []
    assert [statement.split()[0] for statement in statements] == [
        "begin",
        "delete",
        "commit",
        "begin",
        "delete",
        "commit",
    ]


async def test_nor_does_one_that_only_sends_need_constraints_checked(
    receiver: ReceiveSession, queue: QueueTable
) -> None:
    with listening_to(receiver.connection) as wire:
        await received(receiver, queue)
        await receiver.commit([queue.send(message(), notify=False)])
        statements = wire.statements

    assert savepoints(statements) == ["savepoint rowbus_message"], "so that a failed send can be undone"
    assert not any(statement.startswith("set constraints") for statement in statements)


async def test_the_savepoint_is_set_once_before_the_first_statement_of_an_attempt(
    receiver: ReceiveSession, queue: QueueTable
) -> None:
    await received(receiver, queue)
    with listening_to(receiver.connection) as wire:
        await note(receiver)
        await note(receiver)
        statements = wire.statements

    assert [statement.split()[0].lower() for statement in statements] == ["savepoint", "insert", "insert"]


async def test_savepoints_do_not_pile_up_over_attempts_and_messages(
    receiver: ReceiveSession, queue: QueueTable
) -> None:
    await received(receiver, queue, 3)
    with listening_to(receiver.connection) as wire:
        for number in range(6):
            if number % 2:
                receiver.start_attempt()
            await note(receiver)
            if number % 2 == 0:
                await receiver.undo_attempt()
        statements = savepoints(wire.statements)

    assert sum(s.startswith("savepoint") for s in statements) == 1 + sum(
        s.startswith("release") for s in statements
    )


Use = Callable[[HandlerConnection], Awaitable[object]]


async def by_execute(connection: HandlerConnection) -> None:
    await connection.execute("insert into seen values ('x')")


async def by_cursor(connection: HandlerConnection) -> None:
    async with connection.cursor(row_factory=dict_row) as cursor:
        await cursor.execute("insert into seen values ('x') returning what")
        assert await cursor.fetchone() == {"what": "x"}


async def by_executemany(connection: HandlerConnection) -> None:
    await connection.cursor().executemany("insert into seen values (%s)", [["x"], ["y"]])


async def by_stream(connection: HandlerConnection) -> None:
    async for _ in connection.cursor().stream("insert into seen values ('x'), ('y') returning what"):
        pass


async def by_copy(connection: HandlerConnection) -> None:
    async with connection.cursor().copy("copy seen from stdin") as copy:
        await copy.write_row(["x"])


async def by_server_cursor(connection: HandlerConnection) -> None:
    async with connection.cursor("named") as cursor:
        await cursor.execute("select 1")
        await cursor.fetchall()
    await connection.execute("insert into seen values ('x')")


async def by_transaction(connection: HandlerConnection) -> None:
    async with connection.transaction():
        await connection.execute("insert into seen values ('x')")


async def by_pipeline(connection: HandlerConnection) -> None:
    async with connection.pipeline():
        await connection.execute("insert into seen values ('x')")
        await connection.execute("insert into seen values ('y')")


async def by_a_cursor_of_another_class(connection: HandlerConnection) -> None:
    await psycopg.AsyncRawCursor(connection).execute("insert into seen values ($1)", ["x"])


WAYS = [
    by_a_cursor_of_another_class,
    by_execute,
    by_cursor,
    by_executemany,
    by_stream,
    by_copy,
    by_server_cursor,
    by_transaction,
    by_pipeline,
]


@pytest.mark.parametrize("use", WAYS)
async def test_whichever_way_a_handler_uses_its_connection_it_can_be_undone(
    receiver: ReceiveSession, session: Session, queue: QueueTable, use: Use
) -> None:
    await received(receiver, queue)
    with listening_to(receiver.connection) as wire:
        await use(receiver.handler_connection)
        first = wire.statements[0]
    await receiver.undo_attempt()
    await receiver.commit()

    assert first == "savepoint rowbus_message"
    assert seen(session) == []
    assert bodies(session, queue) == [b"2", b"3"]


@pytest.mark.parametrize("use", WAYS)
async def test_and_it_commits_with_the_message(
    receiver: ReceiveSession, session: Session, queue: QueueTable, use: Use
) -> None:
    await received(receiver, queue)
    await use(receiver.handler_connection)
    await receiver.commit()

    assert seen(session)[0] == "x"
    assert bodies(session, queue) == [b"2", b"3"]


# ---------------------------------------------------------------------------------------- what handlers may and may not


async def fail_in_a_transaction(receiver: ReceiveSession, query: LiteralString) -> None:
    async with receiver.handler_connection.transaction():
        await note(receiver, "inside")
        await receiver.handler_connection.execute(query)


async def test_a_handlers_own_transaction_is_nested_and_can_fail_alone(
    receiver: ReceiveSession, session: Session, queue: QueueTable
) -> None:
    await received(receiver, queue)
    connection = receiver.handler_connection
    await note(receiver, "before")
    with pytest.raises(psycopg.errors.DivisionByZero):
        await fail_in_a_transaction(receiver, "select 1 / 0")
    receiver.ensure_usable()
    async with connection.transaction(force_rollback=True):
        await note(receiver, "tried")
    await note(receiver, "after")

    await receiver.commit()

    assert seen(session) == ["after", "before"]


async def test_a_handlers_open_transaction_is_undone_with_the_attempt(
    receiver: ReceiveSession, session: Session, queue: QueueTable
) -> None:
    await received(receiver, queue)
    await receiver.handler_connection.transaction().__aenter__()
    await note(receiver)
    await receiver.undo_attempt()
    await receiver.commit()

    assert seen(session) == []


@pytest.mark.parametrize("verb", ["commit", "rollback"])
async def test_a_handler_cannot_end_the_transaction(
    receiver: ReceiveSession, session: Session, queue: QueueTable, verb: str
) -> None:
    await received(receiver, queue)

    with pytest.raises(HandlerError, match="Return to commit, raise to roll back"):
        await getattr(receiver.handler_connection, verb)()

    await receiver.rollback()
    assert len(bodies(session, queue)) == 3


@pytest.mark.parametrize("verb", ["commit", "rollback", "close"])
async def test_nor_can_one_in_a_thread(
    receiver: ReceiveSession, session: Session, queue: QueueTable, verb: str
) -> None:
    await received(receiver, queue)

    with pytest.raises(HandlerError):
        getattr(receiver.sync_handler_connection, verb)()

    await receiver.rollback()
    assert len(bodies(session, queue)) == 3


async def test_the_view_for_threads_shares_the_transaction_and_is_undone_with_it(
    receiver: ReceiveSession, session: Session, queue: QueueTable
) -> None:
    await received(receiver, queue)
    await receiver.protect()
    connection = receiver.sync_handler_connection
    await asyncio.to_thread(connection.execute, "insert into seen values ('from a thread')")
    assert seen(session) == []
    await receiver.undo_attempt()
    await receiver.protect()
    await asyncio.to_thread(connection.execute, "insert into seen values ('again')")
    with connection.transaction():
        connection.execute("insert into seen values ('nested')")

    await receiver.commit()

    assert seen(session) == ["again", "nested"]


async def test_both_views_may_repeat_their_statements_without_their_plans_colliding(
    receiver: ReceiveSession, session: Session, queue: QueueTable
) -> None:
    await received(receiver, queue)
    for number in range(10):
        await note(receiver, f"async {number}")
        receiver.sync_handler_connection.execute("insert into seen values (%s)", [f"sync {number}"])
        receiver.sync_handler_connection.execute("select from seen where what = %s", ["x"], prepare=True)

    await receiver.commit()

    assert len(seen(session)) == 20


async def test_a_handlers_prepared_statements_and_the_receivers_do_not_disturb_each_other(
    receiver: ReceiveSession, session: Session, queue: QueueTable
) -> None:
    """After a rollback psycopg drops all prepared statements of the connection: the receiver must not mind."""
    put(session, queue, 20)
    await received(receiver, queue)
    for _ in range(4):
        for number in range(8):  # beyond psycopg's threshold
            await note(receiver, f"{number}")
        await receiver.undo_attempt()
        await note(receiver)
        rows = await receiver.commit_and_begin(
            [queue.send(message(), notify=False)], queue.receive(1, FROM_THE_START)
        )
        assert len(rows) == 1
        receiver.start_attempt()

    assert seen(session) == ["handled"] * 4


@pytest.mark.parametrize("command", ["deallocate all", "discard plans", "drop table if exists nothing"])
async def test_a_handler_that_discards_plans_harms_at_most_one_completion(
    receiver: ReceiveSession, session: Session, queue: QueueTable, command: LiteralString
) -> None:
    await received(receiver, queue)
    receive = queue.receive(1, FROM_THE_START)
    await receiver.commit_and_begin((), receive)
    receiver.start_attempt()
    await receiver.handler_connection.execute(command)
    try:
        await receiver.commit_and_begin((), receive)
    except StorageError:
        await receiver.rollback()
        await received(receiver, queue)

    await receiver.commit()

    assert len(bodies(session, queue)) <= 1


# ------------------------------------------------------------------------------------------------- failing completions


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


async def protect(receiver: ReceiveSession, queue: QueueTable) -> None:
    await receiver.protect()


@pytest.mark.parametrize("verb", [begin, commit, commit_and_begin, run, protect])
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


@asynccontextmanager
async def stuck_sending(receiver: ReceiveSession, session: Session) -> AsyncGenerator[asyncio.Task[None]]:
    """Have the receiver's completion wait for a lock that the session holds."""
    billing = QueueTable(QueueAddress("public", "Billing"))
    session.run(billing.create())
    with session.transaction():
        session.connection.execute('lock table "Billing" in access exclusive mode')
        completing = asyncio.create_task(receiver.commit([billing.send(message(), notify=False)]))
        waiting = "select from pg_stat_activity where pid = %s and wait_event_type = 'Lock'"
        pid = receiver.connection.info.backend_pid
        while not session.connection.execute(waiting, [pid]).rowcount:  # noqa: ASYNC110 - it has no event for us
            await asyncio.sleep(0.005)
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


# ----------------------------------------------------------------------------------------------------------- settings


async def test_its_connections_are_in_utc_in_utf8_and_named_for_the_operator(
    receiver: ReceiveSession,
) -> None:
    cursor = await receiver.connection.execute(
        "select current_setting('timezone'), current_setting('client_encoding'), current_setting('application_name')"
    )

    assert await cursor.fetchone() == ("UTC", "UTF8", "rowbus")


async def test_the_users_row_factory_and_adapters_are_theirs(
    receiver: ReceiveSession, queue: QueueTable
) -> None:
    """What a handler sets on its connection does not change how messages are read."""
    await received(receiver, queue)
    receiver.connection.row_factory = dict_row  # type: ignore[assignment]  # as a handler might
    rows = await receiver.commit_and_begin((), queue.receive(1, FROM_THE_START))

    assert [row.body for row in rows] == [b"2"]
    cursor = await receiver.handler_connection.execute(sql.SQL("select 1 as a"))
    assert await cursor.fetchone() == {"a": 1}  # type: ignore[comparison-overlap]  # as set above
