"""The database to use: the one given, else the one in the environment, else the embedded server.

Connection strings hold passwords. An `@` or a `/` in a password that is not percent-encoded ends it early: the rest
of it is looked up in the DNS, shown in errors, or taken for a database's name.

Invariant: a connection string always wins over the embedded server, and no error raised here shows any of it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from typing import Final

from rowbus.errors import ConfigurationError

DATABASE_VARIABLE: Final = "ROWBUS_DATABASE"
_ENCODED: Final = "write @ as %40, / as %2F, : as %3A, ? as %3F, # as %23 and % as %25"
_PASSWORD_PAIR: Final = re.compile(r"(?:^|[\s?&])(?:password|pwd)\s*=\s*[^\s&]", re.IGNORECASE)
TEMPORARY_PREFIX: Final = "rowbus_temporary_"
"""The beginning of the name of each database that is made for a test, and dropped after it."""

_TEMPORARY: Final = re.compile(rf"(?:/|\bdbname\s*=\s*'?){TEMPORARY_PREFIX}[0-9a-f]{{16}}(?:$|[?'\s])")
_PORT: Final = re.compile(r"(?:\[[^\]]*\]|[^:\[\]]*)(?::\d*)?")  # after a host
_USER_INFORMATION: Final = re.compile(r"[^:/@]*:[^@]+@")


def resolve_dsn(given: str | None = None) -> str:
    """Return the connection string to use: the one given, else ROWBUS_DATABASE's, else the embedded server's.

    The embedded server is started, which takes about a second, or joined, and runs until this process ends at least.
    Raises EmbeddedServerError when the embedded server is needed and missing or does not start, and as `named_dsn`.
    Blocks.
    """
    if found := named_dsn(given):
        return found
    from rowbus.database.embedded import embedded_dsn  # noqa: PLC0415 - nothing of it is loaded when a DSN is given

    return embedded_dsn()


def named_dsn(given: str | None = None) -> str | None:
    """Return the connection string given, else ROWBUS_DATABASE's; None where only the embedded server is left.

    Raises ConfigurationError for an empty text, as of a variable that is not set.
    """
    if given is not None and not given.strip():
        raise ConfigurationError("An empty text names no database: give none (None), or one of yours.")
    return given or os.environ.get(DATABASE_VARIABLE) or None


def is_temporary(dsn: str) -> bool:
    """Return whether `rowbus.testing` made the database of a connection string. No I/O."""
    return _TEMPORARY.search(dsn) is not None


def refuse_unescaped(url: str, *, in_options: bool) -> None:
    """Raise ConfigurationError for a URL in which a password may go on after its first `@` or `/`. No I/O.

    Reads as libpq does: what is before an `@` that comes before any `/` is user and password. No other `@` may follow,
    but for one among the options, where `in_options` says that the driver knows all options there are.
    """
    user, at, rest = url.partition("://")[2].partition("@")
    place = rest if at and "/" not in user else f"{user}{at}{rest}"
    place, _, options = place.partition("?")
    if "@" in place or ("@" in options and not in_options):
        raise unescaped()
    if not all(map(_PORT.fullmatch, place.partition("/")[0].split(","))):
        raise ConfigurationError(
            "The database's URL has a port that is no number. If that is a password, its place is before an @: "
            f"{url.partition('://')[0]}://user:password@host/name."
        ) from None


def refuse_alchemy(dsn: str) -> None:
    """Raise ConfigurationError for a URL of SQLAlchemy's, whose scheme names a driver; it shows no more of it."""
    scheme = dsn.partition("://")[0].strip() if "://" in dsn else ""
    database, plus, _ = scheme.partition("+")
    if plus and database.isalnum():
        raise ConfigurationError(
            f"{scheme}:// begins a URL of SQLAlchemy's. Rowbus brings its own driver: write {database}:// and the rest "
            "as it is."
        ) from None


def refuse_scheme(dsn: str, known: Collection[str]) -> None:
    """Raise ConfigurationError for a URL of a database that Rowbus does not know; it shows the scheme alone."""
    scheme = dsn.partition("://")[0].strip().lower() if "://" in dsn else ""
    if scheme.isalnum() and scheme not in known:
        raise ConfigurationError(
            f"{scheme}:// names no database that Rowbus works with: PostgreSQL (postgresql://user@host/name) or SQL "
            "Server (mssql://user@host/name)."
        )


def unescaped() -> ConfigurationError:
    """Return the error for a URL whose user or password is not percent-encoded; it shows nothing of the URL."""
    return ConfigurationError(
        "The database's URL has an @ that is not percent-encoded, so where its password ends and its host begins "
        f"cannot be told. In user, password, host and name, {_ENCODED}. Or leave the password out: PostgreSQL's "
        "clients find it in a password file (PGPASSFILE) or a service file."
    )


def holds_password(dsn: str) -> bool:
    """Say whether a connection string, in either notation, seems to hold a password. Never raises."""
    found = _USER_INFORMATION.match(dsn.partition("://")[2]) if "://" in dsn else None
    return found is not None or _PASSWORD_PAIR.search(dsn) is not None
