"""Which database: a backend is chosen by a connection string's scheme, or by the kind of a connection.

PostgreSQL is what everything is that does not say otherwise. The modules of other backends are imported when one of
theirs is asked for, so that their drivers need not be there.

Invariant: whoever is above `tables` opens databases, borrows connections and finds out about addresses here only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rowbus.database.postgresql import borrowed, database
from rowbus.model.address import DEFAULT_SCHEMA
from rowbus.model.addresses import PostgresAddresses

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from rowbus.database.sessions import AsyncSession, Database, Session
    from rowbus.model.addresses import Addresses


PostgresDatabase = database.Database
"""The one database that has logs, for those who need them."""


class Borrowed(NamedTuple):
    """The user's own connection: what gives a session on it, for one use at a time, and how names become addresses."""

    session: Callable[[], Session]
    addresses: Addresses


class AsyncBorrowed(NamedTuple):
    """The user's own asynchronous connection; the twin of `Borrowed`."""

    session: Callable[[], Awaitable[AsyncSession]]
    addresses: Addresses


def addresses_of(dsn: str | None, schema: str | None = None) -> Addresses:
    """Return how names become addresses in a database; without a string, in the one ROWBUS_DATABASE names.

    `schema` is that of what is named without one; None: the database's default. No I/O.
    """
    _ = dsn or os.environ.get(DATABASE_VARIABLE)  # SQL Server's addresses come here
    return PostgresAddresses(schema or DEFAULT_SCHEMA)


def open_database(
    dsn: str, *, application_name: str = "rowbus", prepared_statements: bool = True
) -> Database:
    """Return the database a connection string means; raises ConfigurationError if it cannot be read. No I/O.

    `application_name` is what its administrators see; `prepared_statements`: whether plans are kept on the server.
    """
    return PostgresDatabase(dsn, application_name=application_name, prepared_statements=prepared_statements)


def open_postgresql(dsn: str, *, application_name: str = "rowbus") -> PostgresDatabase:
    """Return a PostgreSQL database, for what only PostgreSQL has; raises ConfigurationError for any other. No I/O."""
    return PostgresDatabase(dsn, application_name=application_name)


def borrow(connection: object, schema: str | None = None) -> Borrowed:
    """Return the user's synchronous connection as ours to use; raises ConfigurationError when it is no such thing."""
    return Borrowed(borrowed.borrow(connection), PostgresAddresses(schema or DEFAULT_SCHEMA))


def borrow_async(connection: object, schema: str | None = None) -> AsyncBorrowed:
    """Return the user's asynchronous connection as ours to use; raises as `borrow`."""
    return AsyncBorrowed(
        borrowed.borrow_async(connection), PostgresAddresses(schema or DEFAULT_SCHEMA)
    )
