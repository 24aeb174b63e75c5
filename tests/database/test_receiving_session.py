"""The receive transaction: what a handler did can be undone while its message stays in hand."""

from __future__ import annotations

import psycopg
import pytest
from psycopg import sql
from psycopg.rows import dict_row

from rowbus.database.postgresql.connection import Session
from rowbus.database.postgresql.database import Database
from rowbus.database.postgresql.receive_session import ReceiveSession
from rowbus.errors import (
    HandlerError,
    QueueNotFoundError,
    StorageError,
)
from rowbus.messages.address import QueueAddress
from rowbus.transport.queues.postgresql import QueueTable
from rowbus.transport.receiving.decisions import FROM_THE_START
from tests.fixtures.sessions import bodies, listening_to, message, note, put, received, seen, take

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


async def test_an_attempt_cannot_be_undone_after_a_statement_of_ours_failed_without_a_savepoint(
    receiver: ReceiveSession, session: Session, queue: QueueTable
) -> None:
    await received(receiver, queue)
    receiver.start_attempt()
    with pytest.raises(QueueNotFoundError):
        await receiver.run_together(
            [QueueTable(QueueAddress("public", "nowhere")).send(message(4), notify=False)]
        )

    assert not await receiver.undo_attempt()
    await receiver.rollback()

    assert bodies(session, queue) == [b"1", b"2", b"3"]


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
    commands = (command for statement in statements for command in statement.split("; "))
    return [command for command in commands if "savepoint" in command.lower()]


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
    # The settings under which the first receives are planned: test_index_plans.py
    assert [text.split()[0] for text in statements if "set_config" not in text] == [
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


# ------------------------------------------------------------------------------------------------------------- settings


async def test_its_connections_are_in_utc_in_utf8_and_named_for_the_operator(
    database: str, in_tokyo: None
) -> None:
    receiver = await Database(database).connect_receiver()
    settings = [
        (await (await receiver.connection.execute("select current_setting(%s)", [name])).fetchone() or ())[0]
        for name in ("timezone", "client_encoding", "application_name")
    ]
    await receiver.close()
    sender = await Database(database).connect()
    async with sender.transaction():
        settings += await (await sender.connection.execute("show transaction_isolation")).fetchone() or ()
    await sender.close()

    assert settings == ["UTC", "UTF8", "rowbus", "read committed"]


async def test_the_users_row_factory_and_adapters_are_theirs(
    receiver: ReceiveSession, queue: QueueTable
) -> None:
    """Settings that a handler makes on its connection do not change how messages are read."""
    await received(receiver, queue)
    receiver.connection.row_factory = dict_row  # type: ignore[assignment]  # as a handler might
    rows = await receiver.commit_and_begin((), queue.receive(1, FROM_THE_START))

    assert [row.body for row in rows] == [b"2"]
    cursor = await receiver.handler_connection.execute(sql.SQL("select 1 as a"))
    assert await cursor.fetchone() == {"a": 1}  # type: ignore[comparison-overlap]  # as set above


async def test_behind_a_pooler_nothing_is_prepared(
    database: str, session: Session, queue: QueueTable
) -> None:
    put(session, queue, 20)
    receiver = await Database(database, prepared_statements=False).connect_receiver()
    await received(receiver, queue)
    for _ in range(10):
        await receiver.run(queue.count_available(1, FROM_THE_START))
        await receiver.handler_connection.execute("select 1")
        await receiver.commit_and_begin(
            [queue.send(message(), notify=True)], queue.receive(1, FROM_THE_START)
        )
        receiver.start_attempt()

    cursor = await receiver.handler_connection.execute("select name from pg_prepared_statements")
    assert await cursor.fetchall() == []
    await receiver.close()
