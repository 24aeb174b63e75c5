"""The transaction a message is received in: the order of its batches, and what a handler cannot do to it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from rowbus.database.sqlserver.receive_session import MessageTransaction, ReceiveSession
from rowbus.database.sqlserver.threads import SessionThread
from rowbus.database.sqlserver.transactions import AS_BEFORE, BEGIN, COMMIT, ROLLBACK, SHORTLY, STATE
from rowbus.errors import ConnectionLostError, HandlerError, StorageError
from tests.database.sqlserver.recording import (
    BABELFISHS_LOCK_TIMEOUT,
    CONVERSION,
    DEADLOCK,
    LINK_FAILURE,
    LOCK_TIMEOUT,
    NO_TABLE,
    RecordingConnection,
    statement,
)
from tests.fixtures.every import every

SAVE, UNDO = "save transaction rowbus_message", "rollback transaction rowbus_message"
LONG = 10.0  # seconds that nothing here takes
RECEIVE = statement("receive")
SEND = statement("send")


@pytest.fixture
def wire() -> RecordingConnection:
    connection = RecordingConnection()
    connection.answer("^receive", ("row",))
    return connection


@pytest.fixture
async def session(wire: RecordingConnection) -> AsyncIterator[ReceiveSession]:
    transaction = MessageTransaction(wire)
    session = ReceiveSession(transaction, SessionThread(transaction))
    yield session
    await session.close()


async def test_a_message_is_received_completed_and_the_next_received(
    wire: RecordingConnection, session: ReceiveSession
) -> None:
    assert await session.begin(RECEIVE) == [("row",)]
    session.start_attempt()
    await session.commit()
    assert await session.begin(RECEIVE) == [("row",)]
    await session.commit()
    assert wire.texts == [BEGIN, "receive", COMMIT, BEGIN, "receive", COMMIT]
    assert session.committed
    assert session.ended


async def test_a_handler_that_leaves_the_connection_alone_costs_no_savepoint_until_something_is_sent(
    wire: RecordingConnection, session: ReceiveSession
) -> None:
    await session.begin(RECEIVE)
    session.start_attempt()
    await session.commit([SEND, SEND])
    assert wire.texts == [BEGIN, "receive", SAVE, "send", "send", COMMIT]


async def test_the_savepoint_is_set_once_before_the_handlers_first_statement(
    wire: RecordingConnection, session: ReceiveSession
) -> None:
    await session.begin(RECEIVE)
    session.start_attempt()
    await session.handler_connection.execute("insert ?", 1)
    await session.handler_connection.execute("insert ?", 2)
    await session.run(SEND, undoable=True)
    await session.commit([SEND])
    assert wire.texts == [BEGIN, "receive", SAVE, "insert ?", "insert ?", "send", "send", COMMIT]


async def test_a_failed_attempt_is_undone_and_the_next_has_a_savepoint_of_its_own(
    wire: RecordingConnection, session: ReceiveSession
) -> None:
    await session.begin(RECEIVE)
    for _attempt in range(2):
        session.start_attempt()
        await session.handler_connection.execute("insert")
        await session.undo_attempt()
    await session.commit([SEND])
    assert wire.texts == [
        *(BEGIN, "receive"),
        *(SAVE, "insert", UNDO),
        *(SAVE, "insert", UNDO),
        *(SAVE, "send", COMMIT),
    ]


async def test_an_attempt_that_did_nothing_has_nothing_to_undo(
    wire: RecordingConnection, session: ReceiveSession
) -> None:
    await session.begin(RECEIVE)
    session.start_attempt()
    await session.undo_attempt()
    assert wire.texts == [BEGIN, "receive"]


async def test_a_failed_send_is_undone_with_its_attempt_and_the_message_stays_in_hand(
    wire: RecordingConnection, session: ReceiveSession
) -> None:
    await session.begin(RECEIVE)
    session.start_attempt()
    wire.fail("send", NO_TABLE)
    with pytest.raises(StorageError):
        await session.commit([SEND])
    assert not session.committed
    assert await session.undo_completion()
    assert not session.ended
    wire.forget_rules()
    await session.commit([statement("verdict")])
    assert wire.texts == [BEGIN, "receive", SAVE, "send", STATE, UNDO, SAVE, "verdict", COMMIT]


async def test_a_doomed_transaction_is_rolled_back_and_the_attempt_failed_as_a_whole(
    wire: RecordingConnection, session: ReceiveSession
) -> None:
    await session.begin(RECEIVE)
    session.start_attempt()
    wire.fail("convert", CONVERSION, dooms=True)
    with pytest.raises(type(CONVERSION)):
        await session.handler_connection.execute("convert")
    assert not session.ended  # by the handler, that is
    assert not await session.undo_attempt()
    assert wire.texts == [BEGIN, "receive", SAVE, "convert", STATE, ROLLBACK]


async def test_a_deadlock_is_no_handlers_commit_even_in_a_procedure(
    wire: RecordingConnection, session: ReceiveSession
) -> None:
    await session.begin(RECEIVE)
    session.start_attempt()
    wire.fail("^exec", DEADLOCK, ends=True)
    with pytest.raises(type(DEADLOCK)):
        await session.handler_connection.execute("exec work")
    assert not session.ended
    assert not await session.undo_attempt()


async def test_a_batch_that_commits_and_then_fails_is_found_out_too(
    wire: RecordingConnection, session: ReceiveSession
) -> None:
    await session.begin(RECEIVE)
    session.start_attempt()
    wire.fail("^commit; select 1/0", CONVERSION, ends=True)
    with pytest.raises(type(CONVERSION)):
        await session.handler_connection.execute("commit; select 1/0")
    assert session.ended


async def test_a_handler_that_swallows_such_an_error_can_do_nothing_more_and_nothing_is_sent(
    wire: RecordingConnection, session: ReceiveSession
) -> None:
    await session.begin(RECEIVE)
    session.start_attempt()
    wire.fail("update", DEADLOCK, ends=True)
    with pytest.raises(type(DEADLOCK)):
        await session.handler_connection.execute("update")
    with pytest.raises(HandlerError, match="transaction that held the message has ended"):
        await session.handler_connection.execute("insert")
    with pytest.raises(HandlerError):
        session.ensure_usable()
    with pytest.raises(StorageError):
        await session.commit([SEND])
    assert not await session.undo_completion()
    assert wire.texts == [BEGIN, "receive", SAVE, "update", STATE]
    await session.rollback()
    assert await session.begin(RECEIVE) == [("row",)]
    session.ensure_usable()


async def test_an_error_that_spoils_nothing_lets_the_handler_go_on(
    wire: RecordingConnection, session: ReceiveSession
) -> None:
    await session.begin(RECEIVE)
    session.start_attempt()
    wire.fail("^select x", NO_TABLE)
    with pytest.raises(type(NO_TABLE)):
        await session.handler_connection.execute("select x")
    session.ensure_usable()
    await session.handler_connection.execute("insert")
    await session.commit()
    assert wire.texts == [BEGIN, "receive", SAVE, "select x", STATE, "insert", COMMIT]


async def test_a_handler_that_commits_by_a_statement_is_found_out(
    wire: RecordingConnection, session: ReceiveSession
) -> None:
    await session.begin(RECEIVE)
    session.start_attempt()
    wire.call("^commit tran$", lambda: setattr(wire, "open", 0))
    await session.handler_connection.execute("commit tran")
    assert session.ended
    assert await session.run(statement("holds")) == []  # whether it is still there may be asked


async def test_a_transaction_that_a_handler_left_open_inside_ours_is_committed_with_it(
    wire: RecordingConnection, session: ReceiveSession
) -> None:
    await session.begin(RECEIVE)
    session.start_attempt()
    await session.handler_connection.execute(BEGIN)
    await session.handler_connection.execute("insert")
    await session.commit()
    assert wire.open == 0
    assert wire.texts == [BEGIN, "receive", SAVE, BEGIN, STATE, "insert", COMMIT, COMMIT]


@every("verb", ["commit", "rollback", "close"])
async def test_a_handler_may_not_end_the_transaction_by_a_verb(verb: str, session: ReceiveSession) -> None:
    with pytest.raises(HandlerError, match="Return to commit, raise to roll back"):
        await getattr(session.handler_connection, verb)()
    with pytest.raises(HandlerError):
        getattr(session.sync_handler_connection, verb)()


async def test_a_handlers_own_savepoint_comes_after_the_messages(
    wire: RecordingConnection, session: ReceiveSession
) -> None:
    await session.begin(RECEIVE)
    session.start_attempt()
    await _fail_in_a_savepoint(session)
    assert wire.texts == [
        *(BEGIN, "receive", SAVE, "save transaction rowbus_block_1", "insert"),
        "rollback transaction rowbus_block_1",
    ]


async def test_a_handler_in_a_thread_has_the_same_protection(
    wire: RecordingConnection, session: ReceiveSession
) -> None:
    await session.begin(RECEIVE)
    session.start_attempt()
    wire.answer("select", (1, "a"), (2, "b"))
    with session.sync_handler_connection.cursor() as cursor:
        assert cursor.execute("select ?", 1).fetchone() == (1, "a")
        assert cursor.fetchall() == [(2, "b")]
        assert cursor.fetchone() is None
    assert wire.texts == [BEGIN, "receive", SAVE, "select ?"]


async def test_rolling_back_is_harmless_outside_a_transaction(
    wire: RecordingConnection, session: ReceiveSession
) -> None:
    await session.rollback()
    assert not session.closed
    assert wire.texts == [ROLLBACK]


async def test_a_session_that_cannot_roll_back_is_closed(
    wire: RecordingConnection, session: ReceiveSession
) -> None:
    await session.begin(RECEIVE)
    wire.fail("rollback", LINK_FAILURE)
    await session.rollback()
    assert session.closed
    assert wire.closed


async def test_a_broken_connection_has_not_ended_the_transaction_but_is_closed(
    wire: RecordingConnection, session: ReceiveSession
) -> None:
    await session.begin(RECEIVE)
    session.start_attempt()
    wire.fail("insert", LINK_FAILURE)
    with pytest.raises(type(LINK_FAILURE)):
        await session.handler_connection.execute("insert")
    assert session.closed
    assert not session.ended


async def test_without_a_transaction_each_statement_of_the_handler_is_its_own(
    wire: RecordingConnection, session: ReceiveSession
) -> None:
    await session.run(RECEIVE)
    await session.handler_connection.execute("insert")
    assert wire.texts == ["receive", "insert"]
    assert await session.undo_completion()


async def _fail_in_a_savepoint(session: ReceiveSession) -> None:
    with suppress(LookupError):
        async with session.handler_connection.transaction():
            await session.handler_connection.execute("insert")
            raise LookupError


async def test_a_session_that_is_abandoned_in_a_call_is_interrupted_rolled_back_and_closed(
    wire: RecordingConnection, session: ReceiveSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, let_go = threading.Event(), threading.Event()
    monkeypatch.setattr(MessageTransaction, "interrupt", lambda _self: let_go.set())

    def stay() -> None:
        begun.set()
        assert let_go.wait(LONG)

    wire.call("^slow", stay)
    await session.begin(RECEIVE)
    session.start_attempt()
    working = asyncio.create_task(asyncio.to_thread(_in_thread, session, "slow"))
    await asyncio.to_thread(begun.wait, LONG)

    await session.abandon()
    session.discard()

    await working
    assert wire.texts == [BEGIN, "receive", SAVE, "slow", ROLLBACK]
    assert wire.closed
    assert session.closed
    await session.rollback()


async def test_code_in_a_thread_has_its_calls_made_by_the_sessions_own_thread(
    wire: RecordingConnection, session: ReceiveSession
) -> None:
    threads = list[int]()
    for text in ("^receive", "^insert", SAVE, "save transaction rowbus_block", ROLLBACK):
        wire.call(text, lambda: threads.append(threading.get_ident()))
    await session.begin(RECEIVE)
    session.start_attempt()

    await asyncio.to_thread(_in_thread, session, "insert")
    await session.rollback()

    assert len(threads) == 5
    assert len(set(threads)) == 1


async def test_code_in_a_thread_that_goes_on_with_a_connection_that_was_given_up_fails(
    wire: RecordingConnection, session: ReceiveSession
) -> None:
    await session.begin(RECEIVE)
    await session.abandon()
    with pytest.raises(ConnectionLostError):
        await asyncio.to_thread(_in_thread, session, "late")
    assert "late" not in wire.texts


def _in_thread(session: ReceiveSession, text: str) -> None:
    """Do what a `def` handler does, in a part that can be undone alone."""
    connection = session.sync_handler_connection
    if text == "insert":
        with connection.transaction():
            connection.execute(text)
    else:
        connection.execute(text)


async def test_where_receives_take_turns_one_waits_shortly_and_the_handler_as_long_as_it_likes(
    wire: RecordingConnection,
) -> None:
    transaction = MessageTransaction(wire)
    transaction.takes_turns = True
    assert transaction.begin(RECEIVE) == [("row",)]
    transaction.commit([])
    assert wire.texts == [BEGIN, SHORTLY, "receive", AS_BEFORE, COMMIT]


async def test_a_turn_that_is_anothers_finds_nothing(wire: RecordingConnection) -> None:
    transaction = MessageTransaction(wire)
    transaction.takes_turns = True
    for error in (LOCK_TIMEOUT, BABELFISHS_LOCK_TIMEOUT):
        wire.fail("receive", error)
        assert transaction.begin(RECEIVE) == ()
        assert wire.texts[-1] == AS_BEFORE
        transaction.roll_back()


async def test_elsewhere_a_lock_that_is_not_to_be_had_is_an_error(wire: RecordingConnection) -> None:
    transaction = MessageTransaction(wire)
    wire.fail("receive", LOCK_TIMEOUT)
    with pytest.raises(StorageError):
        transaction.begin(RECEIVE)
