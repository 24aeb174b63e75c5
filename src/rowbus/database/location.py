"""Which database: the one given, else the one in the environment, else the embedded server.

Invariant: a connection string always wins over the embedded server.
"""

from __future__ import annotations

import os

from rowbus.settings import DATABASE_VARIABLE


def resolve_dsn(given: str | None = None) -> str:
    """Return the connection string to use: the one given, else ROWBUS_DATABASE's, else the embedded server's.

    The embedded server is started, which takes about a second, or joined, and runs until this process ends at least.
    Raises EmbeddedServerError when the embedded server is needed and missing or does not start. Blocks.
    """
    if found := given or os.environ.get(DATABASE_VARIABLE):
        return found
    from rowbus.database.embedded import embedded_dsn  # noqa: PLC0415 - nothing of it is loaded when a DSN is given

    return embedded_dsn()
