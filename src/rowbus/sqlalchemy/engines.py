"""SQLAlchemy's engine and dialects for one connection of a receiving slot, whose transaction is the receiver's.

A handler's connection lives for thousands of messages, and so does its engine: SQLAlchemy looks at the server once for
each connection, and keeps what it has compiled.

Each is SQLAlchemy's own for the driver, less what ends the transaction or closes the connection. SQLAlchemy itself
rolls back at two moments: after its first look at a server, where there is nothing to undo, and after a flush that
failed, where the attempt is lost: `rolled_back` remembers that.

Invariants: an engine never opens a connection: its pool holds the receiver's; nothing is committed, rolled back or
closed through these dialects.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import create_engine
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg, PGDialectAsync_psycopg
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import StaticPool

from rowbus import HandlerError

if TYPE_CHECKING:
    from sqlalchemy import Engine
    from sqlalchemy.ext.asyncio import AsyncEngine


class Guard:
    """The record of the receive transaction while sessions are on it."""

    def __init__(self) -> None:
        """Begin without sessions."""
        self._sessions = 0
        self.rolled_back = False
        """Whether a session has given up all its work, and believes that it was undone."""

    def enter(self) -> None:
        """Note that a session begins."""
        if not self._sessions:
            self.rolled_back = False
        self._sessions += 1

    def leave(self) -> None:
        """Note that a session ends; the last one may then let go of the transaction."""
        self._sessions -= 1

    def commit(self) -> None:
        """Refuse, while a session is on the transaction."""
        if self._sessions:
            raise forbidden("commit")

    def roll_back(self) -> None:
        """Remember that a session did, while one is on the transaction."""
        self.rolled_back = self.rolled_back or self._sessions > 0


class GuardedDialect:
    """A dialect's part that SQLAlchemy calls to end a transaction or a connection."""

    @cached_property
    def guard(self) -> Guard:
        """The record of the transaction; a dialect belongs to one connection."""
        return Guard()

    def get_default_isolation_level(self, dbapi_conn: Any) -> Any:  # noqa: ANN401, ARG002 - SQLAlchemy's signature
        """Return the receiver's; the server is not asked."""
        return "READ COMMITTED"

    def set_isolation_level(self, dbapi_connection: Any, level: Any) -> None:  # noqa: ANN401, ARG002 - as above
        """Refuse another: the transaction has begun, and AUTOCOMMIT would end it."""
        raise forbidden("change the isolation level of")

    def do_commit(self, dbapi_connection: Any) -> None:  # noqa: ANN401, ARG002 - as above
        """Refuse, while a session is on the transaction: the receiver commits."""
        self.guard.commit()

    def do_rollback(self, dbapi_connection: Any) -> None:  # noqa: ANN401, ARG002 - as above
        """Undo nothing: the receiver does, when the attempt fails."""
        self.guard.roll_back()

    def do_close(self, dbapi_connection: Any) -> None:  # noqa: ANN401 - as above
        """Leave the connection open: it is the receiver's."""

    def do_terminate(self, dbapi_connection: Any) -> None:  # noqa: ANN401 - as above
        """Leave the connection open, too."""


class HeldPsycopg(GuardedDialect, PGDialect_psycopg):
    """psycopg's dialect, on a connection that is held."""

    supports_statement_cache = True

    @classmethod
    def get_async_dialect_cls(cls, url: Any) -> Any:  # noqa: ANN401, ARG003 - as above
        """Return the asynchronous twin."""
        return HeldAsyncPsycopg


class HeldAsyncPsycopg(GuardedDialect, PGDialectAsync_psycopg):
    """psycopg's asynchronous dialect, on a connection that is held."""

    supports_statement_cache = True


def forbidden(verb: str) -> HandlerError:
    """Return the error for what would end the transaction."""
    return HandlerError(
        f"A handler may not {verb} its session: the transaction also holds the received message. Return to commit, "
        "raise to roll back; `with session.begin_nested():` makes a part that can be undone alone."
    )


_NAMES: Final = {"postgresql": "rowbus_postgresql", "sqlserver": "rowbus_sqlserver"}
_OPTIONS: Final[dict[str, dict[str, Any]]] = {
    "postgresql": {"use_native_hstore": False},  # it would change how the connection reads values
    "sqlserver": {
        "paramstyle": "qmark",  # the one that the driver need not rewrite
        "enable_pooling": True,  # the dialect would switch off a pool that the program has set up
        "supports_comments": False,  # it would try, and a statement that fails may cost the transaction
    },
}

registry.register(_NAMES["postgresql"], "rowbus.sqlalchemy.engines", "HeldPsycopg")
registry.register(_NAMES["sqlserver"], "rowbus.sqlalchemy.sqlserver", "HeldMssql")


def engine_of(connection: Any) -> Engine:  # noqa: ANN401 - each backend's own
    """Return the engine on a `def` handler's connection; the same one for as long as that lives."""
    backend = connection.backend
    if connection.orm is None:
        connection.orm = create_engine(
            f"{_NAMES[backend]}://",
            creator=lambda: connection,
            poolclass=StaticPool,
            pool_reset_on_return=None,
            **_OPTIONS.get(backend, {}),
        )
    engine: Engine = connection.orm
    return engine


def async_engine_of(connection: Any) -> AsyncEngine:  # noqa: ANN401 - each backend's own
    """Return the engine on an `async def` handler's connection; the twin of `engine_of`."""

    async def same() -> Any:  # noqa: ANN401 - as above
        return connection

    backend = connection.backend
    if connection.orm is None:
        connection.orm = create_async_engine(
            f"{_NAMES[backend]}://",
            async_creator=same,
            poolclass=StaticPool,
            pool_reset_on_return=None,
            **_OPTIONS.get(backend, {}),
        )
    engine: AsyncEngine = connection.orm
    return engine


def guard_of(engine: Engine | AsyncEngine) -> Guard:
    """Return what is known of the transaction that an engine's connection is in."""
    dialect = engine.dialect
    assert isinstance(dialect, GuardedDialect)  # noqa: S101 - engines are made here only
    return dialect.guard
