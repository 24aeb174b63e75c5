"""Coroutines on synchronous connections: what is written once, for asynchronous ones, run where nobody can wait.

A coroutine waits only in what it awaits. Given a session whose methods block instead, it runs from its beginning to its
end in one go, without an event loop.

Invariant: nothing here gives control to an event loop, also where one runs in the thread.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Sequence
    from contextlib import AbstractAsyncContextManager

    from rowbus.database.sessions import Session
    from rowbus.database.statements import Query, Row, Statement

T = TypeVar("T")


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
