"""What `rowbus.backends` asks of SQL Server.

Invariant: no I/O, and no driver is imported here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.database.sqlserver import borrowed, dsn
from rowbus.database.sqlserver.database import Database
from rowbus.model.sqlserver_address import DEFAULT_SCHEMA, SqlServerAddresses

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from rowbus.database.sqlserver.connection import AsyncSession, Session

OWN_CATALOG = ""
"""The catalog a connection is in, whatever its name: statements then name no catalog, nor do addresses on the wire."""


def addresses_of(url: str, schema: str | None) -> SqlServerAddresses:
    """Return how names become addresses in the catalog of a URL. Raises ConfigurationError if it cannot be read."""
    return SqlServerAddresses(schema or DEFAULT_SCHEMA, dsn.parse(url).catalog)


def open_database(url: str) -> Database:
    """Return the database that a URL means. Raises ConfigurationError if it cannot be read."""
    return Database(url)


def borrow(connection: object, schema: str | None) -> tuple[Callable[[], Session], SqlServerAddresses]:
    """Return what gives a session on the user's connection, and how names become addresses in its catalog."""
    return borrowed.borrow(connection), SqlServerAddresses(schema or DEFAULT_SCHEMA, OWN_CATALOG)


def borrow_async(
    connection: object, schema: str | None
) -> tuple[Callable[[], Awaitable[AsyncSession]], SqlServerAddresses]:
    """Return the same for use from asynchronous code."""
    return borrowed.borrow_async(connection), SqlServerAddresses(schema or DEFAULT_SCHEMA, OWN_CATALOG)
