"""SQLAlchemy's engine for one connection of a receiving slot.

A handler's connection lives for thousands of messages, and so does its engine: SQLAlchemy looks at the server once for
each connection, and keeps what it has compiled.

Invariant: an engine never opens a connection: its pool holds the receiver's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import create_engine
from sqlalchemy.dialects import registry
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import StaticPool

from rowbus.sqlalchemy.dialects import Held

if TYPE_CHECKING:
    from sqlalchemy import Engine
    from sqlalchemy.ext.asyncio import AsyncEngine

    from rowbus.sqlalchemy.dialects import Guard

_NAMES: Final = {"postgresql": "rowbus_postgresql", "sqlserver": "rowbus_sqlserver"}
_OPTIONS: Final[dict[str, dict[str, Any]]] = {
    "postgresql": {"use_native_hstore": False},  # it would change how the connection reads values
    "sqlserver": {
        "paramstyle": "qmark",  # the one that the driver need not rewrite
        "enable_pooling": True,  # the dialect would switch off a pool that the program has set up
        "supports_comments": False,  # it would try, and a statement that fails may cost the transaction
    },
}

registry.register(_NAMES["postgresql"], "rowbus.sqlalchemy.dialects", "HeldPsycopg")
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
    assert isinstance(dialect, Held)  # noqa: S101 - engines are made here only
    return dialect.guard
