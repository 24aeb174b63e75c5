"""The user's own connection as a session of ours.

Accepted: psycopg connections, SQLAlchemy connections and ORM sessions (scoped ones too) over psycopg, sync and async.
SQLAlchemy is recognised by its shape, not imported. It commits only what it knows to have begun, and an ORM session may
have another connection in each transaction; so the driver's connection is looked up for each use, and SQLAlchemy's
transaction begun as any statement through it would.

Invariant: the connection stays the user's: nothing is committed, rolled back, closed or configured.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Final, TypeVar
from weakref import WeakKeyDictionary

import psycopg

from rowbus.database.postgresql.connection import AsyncSession, Session
from rowbus.database.postgresql.pipelines import is_callers, run_pipelined_async, run_then_async
from rowbus.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowbus.database.statements import Statement

T = TypeVar("T")

_ALONE: Final[WeakKeyDictionary[psycopg.AsyncConnection[Any], asyncio.Lock]] = WeakKeyDictionary()


def borrow(connection: object) -> Callable[[], Session]:
    """Return what gives a session on the user's synchronous connection, for one use at a time.

    Raises ConfigurationError when it is no such connection (over another driver: at the first use).
    """
    if isinstance(connection, psycopg.Connection):
        session = Session(connection)
        return lambda: session
    if not _is_alchemy(connection) or _is_asynchronous(connection):
        raise _unusable(connection, "Client", "psycopg.Connection")
    return lambda: Session(_driver(connection))


def borrow_async(connection: object) -> Callable[[], Awaitable[AsyncSession]]:
    """Return what gives a session on the user's asynchronous connection, for one use at a time; see `borrow`."""
    if isinstance(connection, psycopg.AsyncConnection):
        session = BorrowedSession(connection)

        async def same() -> AsyncSession:
            return session

        return same
    if not (_is_alchemy(connection) and _is_asynchronous(connection)):
        raise _unusable(connection, "AsyncClient", "psycopg.AsyncConnection")

    async def look_up() -> AsyncSession:
        return BorrowedSession(await _async_driver(connection))

    return look_up


def alone(connection: object) -> AbstractAsyncContextManager[object]:
    """Return what the tasks that share a connection hold one after the other, for statements that belong together.

    SQLAlchemy refuses such tasks itself; the driver takes turns for single statements only.
    """
    if not isinstance(connection, psycopg.AsyncConnection):
        return nullcontext()
    return _ALONE.setdefault(connection, asyncio.Lock())


class BorrowedSession(AsyncSession):
    """A session on a connection on which its user prepares statements, too: psycopg keeps the plans of both."""

    async def run_all(self, statements: Sequence[Statement[object]], *, atomic: bool = False) -> None:
        """Run several statements, answers unread, in one round trip where libpq can pipeline."""
        if atomic:
            await super().run_all(statements, atomic=True)
            return
        if len(statements) > 1 and psycopg.AsyncPipeline.is_supported():
            await run_pipelined_async(self.connection, statements)
            return
        for statement in statements:
            await self.run(statement)

    async def _run_then(
        self, question: Statement[T], following: Callable[[T], Sequence[Statement[object]]]
    ) -> T:
        if is_callers(self.connection):
            return await run_then_async(self.connection, question, following)
        return await super()._run_then(question, following)


def _driver(borrowed: Any) -> psycopg.Connection[Any]:  # noqa: ANN401 - SQLAlchemy's, not imported
    connection = borrowed.connection() if _is_orm_session(borrowed) else borrowed
    if not connection.in_transaction():
        connection.begin()
    driver = connection.connection.driver_connection
    if not isinstance(driver, psycopg.Connection):
        raise _unusable(borrowed, "Client", "psycopg.Connection")
    return driver


async def _async_driver(borrowed: Any) -> psycopg.AsyncConnection[Any]:  # noqa: ANN401 - as above
    connection = await borrowed.connection() if _is_orm_session(borrowed) else borrowed
    if not connection.in_transaction():
        await connection.begin()
    driver = (await connection.get_raw_connection()).driver_connection
    if not isinstance(driver, psycopg.AsyncConnection):
        raise _unusable(borrowed, "AsyncClient", "psycopg.AsyncConnection")
    return driver


def _is_alchemy(connection: object) -> bool:
    return all(hasattr(connection, verb) for verb in ("begin", "begin_nested"))


def _is_asynchronous(connection: object) -> bool:
    return hasattr(connection, "sync_connection") or hasattr(connection, "aclose")


def _is_orm_session(connection: object) -> bool:
    return hasattr(connection, "flush")


def _unusable(connection: object, client: str, wanted: str) -> ConfigurationError:
    kind = f"{type(connection).__module__}.{type(connection).__qualname__}"
    if kind.startswith("django."):
        return ConfigurationError(
            f"{client} was given Django's connection, a {kind}. Give it the driver's, inside of transaction.atomic(): "
            f"connection.ensure_connection(), then {client}(connection.connection)."
        )
    if _is_alchemy(connection):
        return ConfigurationError(
            f"{client} was given a SQLAlchemy {type(connection).__qualname__} that is not over psycopg 3 as "
            f"{client} needs it: {wanted}. Make the engine with the URL postgresql+psycopg://…; for an asynchronous "
            "one, create_async_engine and AsyncClient."
        )
    return ConfigurationError(
        f"{client} needs a {wanted}, or a SQLAlchemy connection or session over psycopg 3; it was given a {kind}."
    )
