"""SQLAlchemy's dialects for a connection whose transaction is the receiver's.

Each is SQLAlchemy's own for the driver, less what ends the transaction or closes the connection. SQLAlchemy itself
rolls back at two moments: after its first look at a server, where there is nothing to undo, and after a flush that
failed, where the attempt is lost: `rolled_back` remembers that.

Invariant: nothing is committed, rolled back or closed through these dialects.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg, PGDialectAsync_psycopg

from rowbus import HandlerError


class Guard:
    """What is known of the receive transaction while sessions are on it."""

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


class Held:
    """A dialect's part that SQLAlchemy calls to end a transaction or a connection."""

    @cached_property
    def guard(self) -> Guard:
        """What is known of the transaction; a dialect belongs to one connection."""
        return Guard()

    def get_default_isolation_level(self, dbapi_conn: Any) -> Any:  # noqa: ANN401, ARG002 - SQLAlchemy's signature
        """Return the receiver's; the server is not asked."""
        return "READ COMMITTED"

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


class HeldPsycopg(Held, PGDialect_psycopg):
    """psycopg's dialect, on a connection that is held."""

    supports_statement_cache = True

    @classmethod
    def get_async_dialect_cls(cls, url: Any) -> Any:  # noqa: ANN401, ARG003 - as above
        """Return the asynchronous twin."""
        return HeldAsyncPsycopg


class HeldAsyncPsycopg(Held, PGDialectAsync_psycopg):
    """psycopg's asynchronous dialect, on a connection that is held."""

    supports_statement_cache = True


def forbidden(verb: str) -> HandlerError:
    """Return the error for what would end the transaction."""
    return HandlerError(
        f"A handler may not {verb} its session: the transaction also holds the received message. Return to commit, "
        "raise to roll back; `with session.begin_nested():` makes a part that can be undone alone."
    )
