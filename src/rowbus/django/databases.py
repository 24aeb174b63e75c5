"""The database of an alias in DATABASES, as Rowbus's connection string.

Invariant: what is connected to is what Django connects to: the same server, database, role and options.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from django.db import connections

from rowbus import ConfigurationError

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper

_NOT_LIBPQ: Final = frozenset({"context", "cursor_factory", "prepare_threshold", "row_factory", "autocommit"})
"""What Django tells psycopg beside libpq's own parameters."""


def dsn_of(alias: str = "default") -> str:
    """Return the connection string of an alias; raises ConfigurationError where it is not psycopg 3's."""
    wrapper: Any = require_psycopg(connections.create_connection(alias))
    given = wrapper.get_connection_params()
    libpq = {name: value for name, value in given.items() if name not in _NOT_LIBPQ}
    role = wrapper.settings_dict["OPTIONS"].get("assume_role")
    if role:
        libpq["options"] = f"{libpq.get('options', '')} -c role={_escaped(role)}".strip()
    return str(wrapper.Database.conninfo.make_conninfo("", **libpq))


def _escaped(value: str) -> str:
    """Return a value as libpq reads it within `options`."""
    return value.replace("\\", "\\\\").replace(" ", "\\ ")


def require_psycopg(wrapper: BaseDatabaseWrapper) -> BaseDatabaseWrapper:
    """Return a connection of Django's; raises ConfigurationError where it is not to PostgreSQL by psycopg 3."""
    database: Any = getattr(wrapper, "Database", None)
    if wrapper.vendor == "postgresql" and hasattr(database, "conninfo"):
        return wrapper
    raise ConfigurationError(
        f"The database {wrapper.alias!r} of DATABASES has the engine {wrapper.settings_dict['ENGINE']!r}; Rowbus works "
        "in PostgreSQL, by psycopg 3: use django.db.backends.postgresql, and no psycopg2."
    )
