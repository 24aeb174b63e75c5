"""The connection a handler gets: whatever is done through it can be undone, and nothing ends the transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import LiteralString

import psycopg
import pytest
from psycopg.rows import dict_row

from rowbus.database.postgresql.connection import Session
from rowbus.database.postgresql.handler_connection import HandlerConnection, SyncHandlerConnection
from rowbus.database.postgresql.receive_session import ReceiveSession
from rowbus.errors import (
    HandlerError,
    StorageError,
)
from rowbus.transport.queues.postgresql import QueueTable
from rowbus.transport.receiving.decisions import FROM_THE_START
from tests.fixtures.sessions import bodies, listening_to, message, note, put, received, seen

# ------------------------------------------------------------------------------------------------ every way of using it


Use = Callable[[HandlerConnection], Awaitable[object]]


async def by_execute(connection: HandlerConnection) -> None:
    await connection.execute("insert into seen values ('x')")


async def by_values(connection: HandlerConnection) -> None:
    await connection.execute("insert into seen values (%s)", ["x"])


async def by_a_plan(connection: HandlerConnection) -> None:
    await connection.execute("insert into seen values (%s)", ["x"], prepare=True)


async def by_values_that_do_not_fit_at_first(connection: HandlerConnection) -> None:
    for values in (["x", "y"], ["\ud800"]):
        with pytest.raises((psycopg.ProgrammingError, UnicodeEncodeError)):
            await connection.execute("insert into seen values (%s)", values)
    await connection.execute("insert into seen values (%s)", ["x"])


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
    by_values,
    by_a_plan,
    by_values_that_do_not_fit_at_first,
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

    assert first.rstrip(";") == "savepoint rowbus_message"
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


@pytest.mark.parametrize("use", [by_values, by_a_plan])
async def test_a_statement_with_values_and_its_savepoint_are_one_round_trip(
    receiver: ReceiveSession, session: Session, queue: QueueTable, use: Use
) -> None:
    await use(receiver.connection)  # which makes the plan, if there is one
    session.connection.execute("delete from seen")
    await received(receiver, queue)
    with listening_to(receiver.connection) as wire:
        await use(receiver.handler_connection)
        trips = wire.round_trips
    await receiver.commit()

    assert trips == 1
    assert seen(session) == ["x"]


@pytest.mark.parametrize("query", ["insert into nowhere values (%s)", "select 1 / %s"])
async def test_its_failure_is_the_statements_own_and_can_be_undone(
    receiver: ReceiveSession, session: Session, queue: QueueTable, query: LiteralString
) -> None:
    await received(receiver, queue)
    for _ in range(2):
        with pytest.raises((psycopg.errors.UndefinedTable, psycopg.errors.DivisionByZero)):
            await receiver.handler_connection.execute(query, [0])
        assert await receiver.undo_attempt()
    cursor = await receiver.handler_connection.execute("select %s", [2])
    assert await cursor.fetchone() == (2,)
    assert cursor.rowcount == 1
    await receiver.commit()

    assert bodies(session, queue) == [b"2", b"3"]


# ------------------------------------------------------------------------------------------------------ from a thread


SyncUse = Callable[[SyncHandlerConnection], object]


def execute(connection: SyncHandlerConnection) -> None:
    connection.execute("insert into seen values ('x')")


def values(connection: SyncHandlerConnection) -> None:
    connection.execute("insert into seen values (%s)", ["x"])


def executemany(connection: SyncHandlerConnection) -> None:
    connection.cursor().executemany("insert into seen values (%s)", [["x"], ["y"]])


def stream(connection: SyncHandlerConnection) -> None:
    [*connection.cursor().stream("insert into seen values ('x'), ('y') returning what")]


def copy(connection: SyncHandlerConnection) -> None:
    with connection.cursor().copy("copy seen from stdin") as copying:
        copying.write_row(["x"])


def server_cursor(connection: SyncHandlerConnection) -> None:
    with connection.cursor("named") as cursor:
        cursor.execute("select 1")
        cursor.fetchall()
    connection.execute("insert into seen values ('x')")


def transaction(connection: SyncHandlerConnection) -> None:
    with connection.transaction():
        connection.execute("insert into seen values ('x')")


def pipeline(connection: SyncHandlerConnection) -> None:
    with connection.pipeline():
        connection.execute("insert into seen values ('x')")
        connection.execute("insert into seen values ('y')")


def a_cursor_of_another_class(connection: SyncHandlerConnection) -> None:
    psycopg.RawCursor(connection).execute("insert into seen values ($1)", ["x"])


SYNC_WAYS = [
    a_cursor_of_another_class,
    execute,
    values,
    executemany,
    stream,
    copy,
    server_cursor,
    transaction,
    pipeline,
]


@pytest.mark.parametrize("use", SYNC_WAYS)
async def test_whichever_way_one_in_a_thread_uses_its_connection_it_can_be_undone(
    receiver: ReceiveSession, session: Session, queue: QueueTable, use: SyncUse
) -> None:
    await received(receiver, queue)
    with listening_to(receiver.connection) as wire:
        await asyncio.to_thread(use, receiver.sync_handler_connection)
        first = wire.statements[0]
    await receiver.undo_attempt()
    await asyncio.to_thread(use, receiver.sync_handler_connection)
    await receiver.undo_attempt()
    await receiver.commit()

    assert first.rstrip(";") == "savepoint rowbus_message"
    assert seen(session) == []
    assert bodies(session, queue) == [b"2", b"3"]


@pytest.mark.parametrize("use", SYNC_WAYS)
async def test_and_it_commits_with_the_message_too(
    receiver: ReceiveSession, session: Session, queue: QueueTable, use: SyncUse
) -> None:
    await received(receiver, queue)
    await asyncio.to_thread(use, receiver.sync_handler_connection)
    await receiver.commit()

    assert seen(session)[0] == "x"
    assert bodies(session, queue) == [b"2", b"3"]


NOTICE: LiteralString = "do $$ begin raise notice 'seen'; end $$"


async def test_notices_reach_handlers_of_both_kinds(receiver: ReceiveSession, queue: QueueTable) -> None:
    await received(receiver, queue)
    heard: list[str | None] = []

    def hear(notice: psycopg.errors.Diagnostic) -> None:
        heard.append(notice.message_primary)

    for view in (receiver.handler_connection, receiver.sync_handler_connection):
        view.add_notice_handler(hear)
        await receiver.handler_connection.execute(NOTICE)
        await asyncio.to_thread(receiver.sync_handler_connection.execute, NOTICE)
        view.remove_notice_handler(hear)
        await receiver.handler_connection.execute(NOTICE)

    assert heard == ["seen"] * 4


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
    connection = receiver.sync_handler_connection
    await asyncio.to_thread(connection.execute, "insert into seen values ('from a thread')")
    assert seen(session) == []
    await receiver.undo_attempt()
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


async def nothing_more(connection: HandlerConnection) -> None:
    pass


async def a_transaction_that_fails(connection: HandlerConnection) -> None:
    async with connection.transaction(force_rollback=True):
        await connection.execute("select 1")


async def dropping_a_table(connection: HandlerConnection) -> None:
    await connection.execute("drop table if exists nothing")


@pytest.mark.parametrize("then", [nothing_more, a_transaction_that_fails, dropping_a_table])
async def test_a_handlers_prepared_statements_and_the_receivers_do_not_disturb_each_other(
    receiver: ReceiveSession, session: Session, queue: QueueTable, then: Use
) -> None:
    """After a rollback or a DROP psycopg drops the connection's prepared statements: all of them."""
    put(session, queue, 20)
    await received(receiver, queue)
    for _ in range(4):
        for number in range(8):  # beyond psycopg's threshold
            await note(receiver, f"{number}")
        await then(receiver.handler_connection)
        await receiver.undo_attempt()
        await note(receiver)
        await then(receiver.handler_connection)
        rows = await receiver.commit_and_begin(
            [queue.send(message(), notify=False)], queue.receive(1, FROM_THE_START)
        )
        assert len(rows) == 1
        receiver.start_attempt()

    assert seen(session) == ["handled"] * 4


@pytest.mark.parametrize("command", ["deallocate all", "discard plans"])
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
