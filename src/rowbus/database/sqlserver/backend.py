"""SQL Server's implementation of `rowbus.database.backends.Backend`.

Invariant: no I/O but where the catalog of a user's connection must be asked for, which happens when an address is first
needed; no driver is imported here.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from rowbus.database.sqlserver import borrowed, dsn
from rowbus.database.sqlserver.database import Database
from rowbus.messages.address import DEFAULT_DELAYED_SUFFIX
from rowbus.messages.sqlserver_address import DEFAULT_SCHEMA, SqlServerAddress, SqlServerAddresses

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from rowbus.database.sqlserver.async_session import AsyncSession
    from rowbus.database.sqlserver.connection import Session


class BorrowedAddresses:
    """Addresses in the catalog that a user's connection is in, which is found out when the first is made."""

    backend = SqlServerAddress.backend

    def __init__(self, schema: str | None, connection: object) -> None:
        """Take the schema of what is named without one, None for the default. No I/O."""
        self.schema = schema or DEFAULT_SCHEMA
        self._connection = connection

    @property
    def catalog(self) -> str:
        """The catalog of what is named without one."""
        return self._found.catalog

    @cached_property
    def _found(self) -> SqlServerAddresses:
        return SqlServerAddresses(self.schema, borrowed.catalog_of(self._connection))

    def parse(self, text: str) -> SqlServerAddress:
        """Read an address from the wire; see `SqlServerAddress.parse`."""
        return self._found.parse(text)

    def from_user(self, text: str) -> SqlServerAddress:
        """Read an address that a person typed; see `SqlServerAddress.from_user`."""
        return self._found.from_user(text)

    def for_endpoint(self, name: str, *, qualifier: str = "", discriminator: str = "") -> SqlServerAddress:
        """Turn an endpoint's name into an address; see `SqlServerAddress.for_endpoint`."""
        return self._found.for_endpoint(name, qualifier=qualifier, discriminator=discriminator)

    def validate_endpoint_name(self, name: str, *, delayed_suffix: str = DEFAULT_DELAYED_SUFFIX) -> None:
        """Refuse names that are impossible or too long; see `SqlServerAddresses.validate_endpoint_name`."""
        self._found.validate_endpoint_name(name, delayed_suffix=delayed_suffix)


def addresses_of(url: str, schema: str | None) -> SqlServerAddresses:
    """Return how names become addresses in the catalog of a URL. Raises ConfigurationError if it cannot be read."""
    return SqlServerAddresses(schema or DEFAULT_SCHEMA, dsn.parse(url).catalog)


def open_database(url: str) -> Database:
    """Return the database that a URL means. Raises ConfigurationError if it cannot be read."""
    return Database(url)


def borrow(connection: object, schema: str | None) -> tuple[Callable[[], Session], BorrowedAddresses]:
    """Return what gives a session on the user's connection, and how names become addresses in its catalog."""
    return borrowed.borrow(connection), BorrowedAddresses(schema, connection)


def borrow_async(
    connection: object, schema: str | None
) -> tuple[Callable[[], Awaitable[AsyncSession]], BorrowedAddresses]:
    """Return the same for use from asynchronous code."""
    return borrowed.borrow_async(connection), BorrowedAddresses(schema, connection)
