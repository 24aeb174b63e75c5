"""Work on a database that is written once, for sessions of both kinds.

Operations of several statements are generators, which yield statements that a session of either kind runs. A coroutine
waits only in what it awaits: given a synchronous session as a `BlockingSession`, whose methods block instead, it runs
from its beginning to its end in one go, without an event loop.

Invariants: the steps decide, the session runs; a generator does no I/O, and an error of a statement ends it. Nothing
here gives control to an event loop where a synchronous session is given, also where one runs in the thread.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable, Sequence
    from contextlib import AbstractAsyncContextManager

    from rowbus.database.sessions import Session
    from rowbus.database.statements import Query, Row, Statement

T = TypeVar("T")
Steps = Generator["Statement[Any]", Any, T]  # statements to run, each answered with what it decoded


class UserSession(Protocol):
    """The part of an `AsyncSession` that sending on a user's connection needs."""

    @property
    def connection(self) -> Any:  # noqa: ANN401 - each driver's own
        """The driver's connection."""
        raise NotImplementedError

    async def run(
        self, statement: Statement[T], *, then: Callable[[T], Sequence[Statement[object]]] | None = None
    ) -> T:
        """Run one statement and decode its answer, and `then` what follows from it: see `Session.run`."""
        raise NotImplementedError

    async def run_all(self, statements: Sequence[Statement[object]]) -> None:
        """Run several statements, answers unread."""
        raise NotImplementedError

    async def copy(self, query: Query, rows: Iterable[Row]) -> None:
        """Stream rows into a table's `copy`; all or nothing."""
        raise NotImplementedError

    def transaction(self) -> AbstractAsyncContextManager[None]:
        """Make what runs inside one transaction; within the caller's transaction, a savepoint."""
        raise NotImplementedError


def run_now(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never waits, in this thread, and return its result."""
    try:
        work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    work.close()
    raise RuntimeError(f"{work!r} waits, and nothing would end the wait.")


class BlockingSession(UserSession):
    """A synchronous session where an asynchronous one is asked for: its methods block."""

    def __init__(self, session: Session) -> None:
        """Stand for a session. No I/O."""
        self._session = session

    @property
    def connection(self) -> Any:  # noqa: ANN401 - each driver's own
        """The driver's connection."""
        return self._session.connection

    async def run(
        self, statement: Statement[T], *, then: Callable[[T], Sequence[Statement[object]]] | None = None
    ) -> T:
        """Run one statement and decode its answer, and `then` what follows from it: see `Session.run`."""
        return self._session.run(statement, then=then)

    async def run_all(self, statements: Sequence[Statement[object]]) -> None:
        """Run several statements, answers unread."""
        self._session.run_all(statements)

    async def copy(self, query: Query, rows: Iterable[Row]) -> None:
        """Stream rows into a table's `copy`; all or nothing."""
        self._session.copy(query, rows)

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[None]:
        """Make what runs inside one transaction; within the caller's transaction, a savepoint."""
        with self._session.transaction():
            yield


class Runs(Protocol):
    """What runs statements, such as a session."""

    async def run(self, statement: Statement[T]) -> T:
        """Run one statement and decode its answer."""
        raise NotImplementedError


async def run_steps(session: Runs, steps: Steps[T]) -> T:
    """Run the statements one after the other, each in the transaction that the session is in; return the result."""
    return await answer_steps(session.run, steps)


async def answer_steps(ask: Callable[[Statement[Any]], Awaitable[Any]], steps: Steps[T]) -> T:
    """Have each of the statements answered, one after the other; return the result."""
    answer: object = None
    while True:
        try:
            statement = steps.send(answer)
        except StopIteration as end:
            result: T = end.value
            return result
        answer = await ask(statement)


def run_steps_now(session: Session, steps: Steps[T]) -> T:
    """Do what `run_steps` does, on a synchronous session."""
    return run_now(answer_steps(BlockingSession(session).run, steps))


async def run_as_one(session: UserSession, statements: Sequence[Statement[object]]) -> None:
    """Run statements, answers unread, in the caller's transaction, or several of them in one of their own."""
    if len(statements) == 1:
        await session.run(statements[0])
        return
    async with session.transaction():
        await session.run_all(statements)
