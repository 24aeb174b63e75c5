"""Backends: chosen by a connection string's scheme, or by the type of a connection.

PostgreSQL is the default. The modules of another backend are imported when one of
its connections or strings is met, so that its driver is needed only where it is used.

Invariants: the folders above open databases, borrow connections and learn about addresses here only; a value is written
as a literal, quoted by the database's own rules.
"""

from __future__ import annotations

import os
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from rowbus.database.location import DATABASE_VARIABLE, refuse_alchemy, refuse_scheme
from rowbus.database.postgresql import borrowed, database
from rowbus.database.postgresql.connection import look_up_in_catalog
from rowbus.errors import ConfigurationError
from rowbus.messages.address import DEFAULT_SCHEMA, PostgresAddresses, QueueAddress

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator, Sequence

    from rowbus.database.sessions import AsyncSession, Database, Session
    from rowbus.database.statements import Statement
    from rowbus.messages.address import Addresses

PostgresDatabase = database.Database
"""The one database that has logs, for those who need them."""

_OTHERS: Final = {"mssql": "sqlserver"}
"""Backends beside PostgreSQL, by their scheme, which is also what SQLAlchemy calls their dialect."""

_DRIVERS: Final = {
    "psycopg": QueueAddress.backend,
    "mssql_python": "sqlserver",
    "pymssql": "sqlserver",
    "pyodbc": "sqlserver",
}
"""Backends by the package their connections come from."""


TABLES_KEPT: Final = 1024
"""The number of tables whose bound SQL is kept, about 10 kB each; the least recently used goes first."""


class UserConnection(NamedTuple):
    """The user's own connection: what gives a session on it, for one use at a time, and how names become addresses."""

    session: Callable[[], Session]
    addresses: Addresses


class AsyncBorrowed(NamedTuple):
    """The user's own asynchronous connection; the twin of `UserConnection`."""

    session: Callable[[], Awaitable[AsyncSession]]
    addresses: Addresses
    alone: AbstractAsyncContextManager[object] = nullcontext()


class Backend(Protocol):
    """The offer of the module `database.<backend>.backend` of a backend other than PostgreSQL. No I/O in any of it."""

    def addresses_of(self, dsn: str, schema: str | None) -> Addresses:
        """Return how names become addresses in the database of a connection string."""
        raise NotImplementedError

    def open_database(self, dsn: str) -> Database:
        """Return the database a connection string means."""
        raise NotImplementedError

    def borrow(self, connection: Any, schema: str | None) -> tuple[Callable[[], Session], Addresses]:  # noqa: ANN401 - any library's
        """Return what gives a session on the user's connection, and how names become addresses there."""
        raise NotImplementedError

    def borrow_async(
        self,
        connection: Any,  # noqa: ANN401 - any library's
        schema: str | None,
    ) -> tuple[Callable[[], Awaitable[AsyncSession]], Addresses]:
        """Return the same for an asynchronous connection."""
        raise NotImplementedError


def addresses_of(dsn: str | None, schema: str | None = None) -> Addresses:
    """Return how names become addresses in a database; without a string, in the one ROWBUS_DATABASE names.

    `schema` is that of what is named without one; None: the database's default. No I/O.
    """
    found = dsn or os.environ.get(DATABASE_VARIABLE) or ""
    other = _of_string(found)
    return PostgresAddresses(schema or DEFAULT_SCHEMA) if other is None else other.addresses_of(found, schema)


def open_database(
    dsn: str, *, application_name: str = "rowbus", prepared_statements: bool = True
) -> Database:
    """Return the database a connection string means; raises ConfigurationError if it cannot be read. No I/O.

    `application_name` is what its administrators see, `prepared_statements` whether plans are kept on the server: where
    the database knows such a thing. Its synchronous sessions, those of commands and pages, read every time that a table
    may hold, as the nearest that Python has.
    """
    other = _of_string(dsn)
    if other is not None:
        return other.open_database(dsn)
    return PostgresDatabase(
        dsn,
        application_name=application_name,
        prepared_statements=prepared_statements,
    )


@contextmanager
def inspecting(location: Database) -> Generator[Session]:
    """Open a session of a command that only reads: no function that others put on the role's search path runs in it."""
    with location.session() as session:
        if location.has_logs:  # that is PostgreSQL
            session.run(look_up_in_catalog())
        yield session


def open_postgresql(dsn: str, *, application_name: str = "rowbus") -> PostgresDatabase:
    """Return a PostgreSQL database, for what only PostgreSQL has; raises ConfigurationError for any other. No I/O."""
    if _of_string(dsn) is not None:
        raise ConfigurationError(database.NOT_HERE)
    return PostgresDatabase(dsn, application_name=application_name)


def borrow(connection: object, schema: str | None = None) -> UserConnection:
    """Return the user's synchronous connection as ours to use; raises ConfigurationError when it is no such thing."""
    other = _of_connection(connection)
    if other is not None:
        return UserConnection(*other.borrow(connection, schema))
    return UserConnection(borrowed.borrow(connection), PostgresAddresses(schema or DEFAULT_SCHEMA))


def borrow_async(connection: object, schema: str | None = None) -> AsyncBorrowed:
    """Return the user's asynchronous connection as ours to use; raises as `borrow`."""
    other = _of_connection(connection)
    if other is not None:
        return AsyncBorrowed(*other.borrow_async(connection, schema))
    session, addresses = borrowed.borrow_async(connection), PostgresAddresses(schema or DEFAULT_SCHEMA)
    return AsyncBorrowed(session, addresses, borrowed.alone(connection))


def _of_string(dsn: str) -> Backend | None:
    """Return the backend of a connection string, None for PostgreSQL; raises ConfigurationError for all others."""
    refuse_alchemy(dsn)
    refuse_scheme(dsn, ("postgresql", "postgres", *_OTHERS))
    other = _OTHERS.get(dsn.partition("://")[0].strip().lower())
    return None if other is None else _backend(other)


def backend_of(connection: object) -> str:
    """Return the name of the backend whose sessions give handlers this connection; empty for any other."""
    package, _, rest = type(connection).__module__.partition(".")
    return rest.split(".")[1] if package == "rowbus" and rest.startswith("database.") else ""


def _of_connection(connection: object) -> Backend | None:
    """Return the backend of a connection, None for PostgreSQL (and for what is no connection at all).

    Drivers are known by their package, as is what handlers are given; SQLAlchemy's connections by their dialect.
    """
    package = type(connection).__module__.partition(".")[0]
    known = _DRIVERS.get(package) or backend_of(connection) or _OTHERS.get(_dialect(connection))
    return None if known is None or known == QueueAddress.backend else _backend(known)


def _dialect(connection: Any) -> str:  # noqa: ANN401 - SQLAlchemy's, not imported
    """Return the dialect of one of SQLAlchemy's connections or ORM sessions; empty for others."""
    try:
        bound = connection.get_bind() if hasattr(connection, "get_bind") else connection
    except Exception as error:
        raise ConfigurationError(
            f"The session does not say in which of its databases to send: {error} Give the client its "
            "connection to that of the queues: session.connection(bind_arguments={'mapper': Order})."
        ) from error
    return str(getattr(getattr(bound, "dialect", None), "name", ""))


@lru_cache(maxsize=64)
def backend_class(package: str, backend: str, name: str) -> Any:  # noqa: ANN401 - the caller knows the protocol
    """Return what a backend calls by this name in a package: its module is imported when it is first asked for.

    Raises ConfigurationError where the backend has no such thing.
    """
    module = f"{package}.{backend}"
    try:
        return getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        what = package.rpartition(".")[2].replace("_", " ")
        raise ConfigurationError(
            f"This works on PostgreSQL only; the database given is another, where there are no tables of {what}."
        ) from None


@lru_cache(maxsize=TABLES_KEPT)
def bound_table(package: str, name: str, address: QueueAddress) -> Any:  # noqa: ANN401 - the caller knows the protocol
    """Return a table of an address: its SQL is bound once, however many clients and receivers use it."""
    return backend_class(package, address.backend, name)(address)


def _backend(name: str) -> Backend:
    backend: Any = import_module(f"rowbus.database.{name}.backend")
    found: Backend = backend
    return found


class Scripts(NamedTuple):
    """The writing of statements for one database.

    `script` writes one statement, `definition` those that create something, `transaction` those that belong into one
    transaction.
    """

    script: Callable[[Statement[object]], str]
    definition: Callable[[Sequence[Statement[None]]], str]
    transaction: Callable[[Sequence[Statement[None]]], str]


def scripts_of(where: QueueAddress | Addresses) -> Scripts:
    """Return how the database of an address writes statements. No I/O."""
    scripts: Scripts = backend_class("rowbus.database", f"{where.backend}.script", "SCRIPTS")
    return scripts
