"""The user's own connection, whatever library it came through, as a session of ours.

Accepted: psycopg connections, SQLAlchemy connections and ORM sessions over psycopg, sync and async. SQLAlchemy is
recognised by its shape, not imported.

Invariant: the connection stays the user's: nothing is committed, rolled back, closed or configured.
"""

from __future__ import annotations

from typing import Any

import psycopg

from rowbus.database.postgresql.connection import AsyncSession, Session
from rowbus.errors import ConfigurationError


def borrow(connection: Any) -> Session:  # noqa: ANN401 - told apart by its shape
    """Return a session on the user's synchronous connection; raises ConfigurationError when it is not one."""
    if isinstance(connection, psycopg.Connection):
        return Session(connection)
    if _is_orm_session(connection):
        connection = connection.connection()
    driver = getattr(getattr(connection, "connection", None), "driver_connection", None)
    if isinstance(driver, psycopg.Connection):
        return Session(driver)
    raise _unusable(connection, "Client", "psycopg.Connection")


async def borrow_async(connection: Any) -> AsyncSession:  # noqa: ANN401 - told apart by its shape
    """Return a session on the user's asynchronous connection; raises ConfigurationError when it is not one."""
    if isinstance(connection, psycopg.AsyncConnection):
        return AsyncSession(connection)
    if _is_orm_session(connection):
        connection = await connection.connection()
    if hasattr(connection, "get_raw_connection"):
        driver = (await connection.get_raw_connection()).driver_connection
        if isinstance(driver, psycopg.AsyncConnection):
            return AsyncSession(driver)
    raise _unusable(connection, "AsyncClient", "psycopg.AsyncConnection")


def _is_orm_session(connection: object) -> bool:
    return callable(getattr(connection, "connection", None)) and hasattr(connection, "flush")


def _unusable(connection: object, client: str, wanted: str) -> ConfigurationError:
    kind = f"{type(connection).__module__}.{type(connection).__qualname__}"
    return ConfigurationError(
        f"{client} needs a {wanted}, or a SQLAlchemy connection or session over psycopg 3; it was given a {kind}."
    )
