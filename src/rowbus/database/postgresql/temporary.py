"""A database that exists for the length of a block, for tests; empty, or a copy of another.

Invariant: only a database made here is ever dropped.
"""

from __future__ import annotations

import secrets
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from rowbus.database.postgresql.database import Database
from rowbus.database.statements import Statement, load, no_rows

if TYPE_CHECKING:
    from collections.abc import Generator

NAME_PREFIX = "rowbus_temporary_"


@contextmanager
def temporary_database(server: str, template: str | None = None) -> Generator[str]:
    """Create a database on the server of a connection string and give its own string; drop it in the end.

    With `template`, the connection string of another database there that nothing is connected to, it is a copy. The
    role must be allowed to create databases. Raises ConfigurationError, ConnectionLostError, or PermissionDeniedError.
    Sessions left open are ended. Blocks.
    """
    database = Database(server, application_name="rowbus testing")
    name = f"{NAME_PREFIX}{secrets.token_hex(8)}"
    if template is None:
        _run(database, "create_database", name, "Could not create a database for tests")
    else:
        source = str(conninfo_to_dict(template)["dbname"])
        _run(database, "copy_database", name, "Could not copy a database for tests", template=source)
    try:
        yield _with_name(server, name)
    finally:
        _run(database, "drop_database", name, f"Could not drop the database {name}, made for tests")


def _run(database: Database, operation: str, name: str, failing: str, **names: str) -> None:
    path = f"database/sql/postgresql/{operation}.sql"
    query = load(
        path,
        identifiers={"database": name} | {key: str(value) for key, value in names.items()},
        failing=failing,
        prepare=False,
    )
    with database.session() as session:
        session.run(Statement(query, {}, no_rows))


def _with_name(dsn: str, name: str) -> str:
    """Return the connection string of another database on the same server, in the same notation."""
    if "://" in dsn:
        return urlsplit(dsn)._replace(path=f"/{name}").geturl()
    return make_conninfo(dsn, dbname=name)
