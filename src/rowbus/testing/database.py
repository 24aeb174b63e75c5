"""A database for a block of a test.

Invariant: only a database that was made here is dropped.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from rowbus.database.location import resolve_dsn
from rowbus.database.postgresql import database


@contextmanager
def temporary_database(server: str | None = None) -> Generator[str]:
    """Give the connection string of a fresh, empty database, which is dropped when the block ends.

    It is made on the server that `server` (a libpq connection string) points to; none given, on that of
    ROWBUS_DATABASE, else on the embedded server. The role must be allowed to create databases. Sessions still open in
    the end are cut off. Raises ConnectionLostError, PermissionDeniedError, EmbeddedServerError. Blocks.
    """
    with database.temporary_database(resolve_dsn(server)) as dsn:
        yield dsn
