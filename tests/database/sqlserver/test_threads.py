"""A blocking driver under an event loop: one thread a session, cancellation, and an end that waits for nobody."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable

import pytest

from rowbus.database.sqlserver import driver, threads
from rowbus.database.sqlserver.async_session import AsyncSession
from rowbus.database.sqlserver.backend import Database
from rowbus.database.sqlserver.connection import Session
from rowbus.database.sqlserver.threads import SessionThread, SharedThreads
from rowbus.database.sqlserver.transactions import BEGIN, ROLLBACK, SETTINGS
from rowbus.errors import ConnectionLostError, StorageError
from tests.database.sqlserver.recording import LINK_FAILURE, NO_TABLE, RecordingConnection, statement

LONG = 10.0  # seconds that nothing here takes
_OTHERS: set[threading.Thread] = set()


@pytest.fixture(autouse=True)
def _own_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave alone what other tests in this process have started."""
    _OTHERS.clear()
    _OTHERS.update(threading.enumerate())
    monkeypatch.setattr(threads, "_LIVE", set())


class Held:
    """A batch that takes until it is let go; the server can be asked to give it up."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.let_go = threading.Event()
        self.interrupted = threading.Event()

    def run(self) -> None:
        self.begun.set()
        assert self.let_go.wait(LONG)

    def interrupt(self) -> None:
        self.interrupted.set()
        self.let_go.set()

    async def has_begun(self) -> None:
        assert await asyncio.to_thread(self.begun.wait, LONG)


class Interruptible(Session):
    """A session whose calls are interrupted as the test says."""

    def __init__(self, wire: RecordingConnection, interrupt: Callable[[], object]) -> None:
        super().__init__(wire)
        self._interruption = interrupt

    def interrupt(self) -> None:
        self._interruption()


def threaded(wire: RecordingConnection, interrupt: Callable[[], object] = lambda: None) -> AsyncSession:
    """Return a session with a thread of its own."""
    session = Interruptible(wire, interrupt)
    return AsyncSession(session, SessionThread(session))


@pytest.fixture
def wire() -> RecordingConnection:
    return RecordingConnection()


@pytest.fixture
def held() -> Held:
    return Held()


@pytest.fixture
async def session(wire: RecordingConnection, held: Held) -> AsyncIterator[AsyncSession]:
    wire.call("^slow", held.run)
    session = threaded(wire, held.interrupt)
    yield session
    held.let_go.set()
    await session.close()


async def test_the_event_loop_goes_on_while_the_driver_blocks(session: AsyncSession, held: Held) -> None:
    running = asyncio.create_task(session.run(statement("slow")))
    await held.has_begun()
    assert not running.done()
    held.let_go.set()
    await running


async def test_all_calls_of_a_session_are_made_in_one_thread_in_order(
    wire: RecordingConnection, session: AsyncSession
) -> None:
    seen: list[int] = []
    wire.call("^quick", lambda: seen.append(threading.get_ident()))
    async with session.transaction():
        await asyncio.gather(*(session.run(statement(f"quick {number}")) for number in range(20)))
    assert len(set(seen)) == 1
    assert seen[0] != threading.get_ident()
    assert wire.texts[1:-1] == [f"quick {number}" for number in range(20)]


async def test_of_several_questions_each_has_its_answer_or_its_own_error(
    wire: RecordingConnection, session: AsyncSession
) -> None:
    wire.fail("^missing", NO_TABLE)
    wire.answer("^there", (1,))

    missing, there = await session.run_together(
        [statement("missing"), statement("there")], within=LONG, each=True
    )

    assert isinstance(missing, StorageError)
    assert there == [(1,)]


async def test_a_cancelled_call_is_interrupted_on_the_server_and_nobody_waits_for_it(
    session: AsyncSession, held: Held
) -> None:
    running = asyncio.create_task(session.run(statement("slow")))
    await held.has_begun()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await asyncio.to_thread(held.interrupted.wait, LONG)


async def test_after_that_the_session_is_broken_and_its_owner_closes_it(
    wire: RecordingConnection, session: AsyncSession, held: Held
) -> None:
    running = asyncio.create_task(session.run(statement("slow")))
    await held.has_begun()
    running.cancel()
    await asyncio.wait([running])
    assert session.closed
    assert not session.is_idle
    with pytest.raises(ConnectionLostError):
        await session.run(statement("next"))
    await session.close()
    assert wire.texts == ["slow", ROLLBACK]
    assert wire.closed


async def test_a_transaction_whose_call_was_cancelled_is_rolled_back_when_the_session_closes(
    wire: RecordingConnection, session: AsyncSession, held: Held
) -> None:
    async def work() -> None:
        async with session.transaction():
            await session.run(statement("slow"))

    running = asyncio.create_task(work())
    await held.has_begun()
    running.cancel()
    await asyncio.wait([running])
    await session.close()
    assert wire.texts == [BEGIN, "slow", ROLLBACK]


async def test_a_call_that_had_not_begun_can_be_cancelled_without_harm(
    session: AsyncSession, held: Held
) -> None:
    first = asyncio.create_task(session.run(statement("slow")))
    await held.has_begun()
    second = asyncio.create_task(session.run(statement("never")))
    await asyncio.sleep(0)
    second.cancel()
    await asyncio.wait([second])
    assert not session.closed
    held.let_go.set()
    await first


async def test_closing_does_not_wait_for_a_call_that_cannot_be_interrupted(
    wire: RecordingConnection, held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire.call("^slow", held.run)
    session = threaded(wire)
    monkeypatch.setattr(threads, "PATIENCE", 0.01)
    running = asyncio.create_task(session.run(statement("slow")))
    await held.has_begun()
    running.cancel()
    await asyncio.wait([running])
    await asyncio.wait_for(session.close(), LONG)
    assert not wire.closed
    held.let_go.set()
    await asyncio.to_thread(_wait_for_threads_to_end)
    assert wire.closed


async def test_closing_twice_or_before_anything_ran_is_harmless(wire: RecordingConnection) -> None:
    unused = threaded(wire)
    await unused.close()
    used = threaded(wire)
    await used.run(statement("x"))
    await used.close()
    await used.close()
    assert wire.calls.count("close") == 2


async def test_the_thread_ends_with_its_session(wire: RecordingConnection) -> None:
    session = threaded(wire)
    await session.run(statement("x"))
    await session.close()
    await asyncio.to_thread(_wait_for_threads_to_end)


async def test_no_thread_keeps_the_interpreter_from_ending(session: AsyncSession) -> None:
    await session.run(statement("x"))
    assert all(thread.daemon for thread in _threads())


async def test_a_users_connection_is_not_left_in_use_when_its_call_is_cancelled(
    wire: RecordingConnection, held: Held
) -> None:
    wire.call("^slow", held.run)
    session = AsyncSession(Session(wire, borrowed=True), SharedThreads())
    running = asyncio.create_task(session.run(statement("slow")))
    await held.has_begun()
    running.cancel()
    await asyncio.sleep(0)
    assert not running.done()
    held.let_go.set()
    with pytest.raises(asyncio.CancelledError):
        await running
    await session.run(statement("next"))
    await session.close()
    assert not wire.closed


class TestConnecting:
    """Making connections, which may take long and be given up."""

    @pytest.fixture
    def database(self, wire: RecordingConnection, monkeypatch: pytest.MonkeyPatch) -> Database:
        monkeypatch.setattr(driver, "connect", lambda _source: wire)
        return Database("mssql://shop:secret@db/Sales")

    async def test_a_new_session_reads_what_is_committed(
        self, wire: RecordingConnection, database: Database
    ) -> None:
        session = await database.connect()
        assert wire.texts == [SETTINGS]
        assert session.is_idle
        await session.close()

    async def test_a_connection_that_comes_too_late_is_closed(
        self, wire: RecordingConnection, database: Database, held: Held, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def connect(_source: object) -> RecordingConnection:
            held.run()
            return wire

        monkeypatch.setattr(driver, "connect", connect)
        connecting = asyncio.create_task(database.connect_receiver())
        await held.has_begun()
        connecting.cancel()
        await asyncio.wait([connecting], timeout=LONG)
        assert connecting.cancelled()
        held.let_go.set()
        await asyncio.to_thread(_wait_for_threads_to_end)
        assert wire.closed

    async def test_a_connection_that_cannot_be_set_up_is_closed(
        self, wire: RecordingConnection, database: Database
    ) -> None:
        wire.fail("set transaction", LINK_FAILURE)
        with pytest.raises(ConnectionLostError):
            await database.connect()
        assert wire.closed

    async def test_a_driver_that_is_not_installed_is_named_with_what_installs_it(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(driver, "MODULE", "mssql_python_is_not_here")
        with pytest.raises(Exception, match=r"`pip install .*\[sqlserver\]"):
            await Database("mssql://db/Sales").connect()

    def test_a_synchronous_session_is_closed_in_the_end(
        self, wire: RecordingConnection, database: Database
    ) -> None:
        with database.session() as session:
            session.run(statement("x"))
        assert wire.texts == [SETTINGS, "x", ROLLBACK]
        assert wire.closed


async def test_an_interruption_that_came_too_early_is_repeated(wire: RecordingConnection) -> None:
    held = Held()
    tries: list[None] = []

    def interrupt() -> None:
        tries.append(None)
        if len(tries) == 2:
            held.interrupt()

    wire.call("^slow", held.run)
    session = threaded(wire, interrupt)
    running = asyncio.create_task(session.run(statement("slow")))
    await held.has_begun()
    running.cancel()
    await asyncio.wait([running])
    await session.close()
    assert wire.closed
    assert len(tries) == 2


async def test_the_end_of_the_interpreter_interrupts_what_is_in_progress_and_closes(
    wire: RecordingConnection, held: Held
) -> None:
    wire.call("^slow", held.run)
    running = asyncio.create_task(threaded(wire, held.interrupt).run(statement("slow")))
    await held.has_begun()
    await asyncio.to_thread(threads.end_all)
    assert wire.closed
    await running


async def test_the_end_of_the_interpreter_waits_for_nobody_who_cannot_be_interrupted(
    wire: RecordingConnection, held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "PATIENCE_AT_EXIT", 0.01)
    monkeypatch.setattr(threads, "AGAIN", 0.01)
    wire.call("^slow", held.run)
    running = asyncio.create_task(threaded(wire).run(statement("slow")))
    await held.has_begun()
    await asyncio.wait_for(asyncio.to_thread(threads.end_all), LONG)
    assert not wire.closed
    held.let_go.set()
    await running
    await asyncio.to_thread(_wait_for_threads_to_end)


def _threads() -> list[threading.Thread]:
    """Return the threads of this test's sessions: other tests in the process may have left some."""
    return [
        thread
        for thread in threading.enumerate()
        if thread.name.startswith("rowbus SQL Server") and thread not in _OTHERS
    ]


def _wait_for_threads_to_end() -> None:
    for thread in _threads():
        thread.join(LONG)
    assert not _threads()
