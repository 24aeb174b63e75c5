"""Schema `rowbus_spark`: the tables that Rowbus keeps in a database for Spark, their statements, their installer.

Its definitions are the files of `sql/postgresql/definitions/`, run in the order of their names.

Invariants: each file may run again over what it made before, at any time; running all of them is both the installation
and the upgrade; two short queries when the schema is current; never a downgrade; an installation is one transaction.
"""

from __future__ import annotations

import hashlib
import logging
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from rowbus.database import ownership
from rowbus.database.statements import Statement, load, load_script, names_in, no_rows, raw_source, script
from rowbus.errors import ConfigurationError, PermissionDeniedError, StorageError
from rowbus.log.schema import table as log_schema

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rowbus.database.ownership import Foreign
    from rowbus.database.sessions import Session
    from rowbus.database.statements import Query, Rows

logger = logging.getLogger("rowbus.install")

NAME = "rowbus_spark"
VERSION = 2  # of the schema; raised whenever a released definition changes

_FOLDER = "spark/schema/sql/postgresql"
_DEFINITIONS = f"{_FOLDER}/definitions"


class InstalledVersion(NamedTuple):
    """An installed version, and the digest of its definitions."""

    version: int
    digest: str


@cache  # one entry
def digest() -> str:
    """Return a digest of all definitions, which tells texts of one version apart during development."""
    return hashlib.sha256("\0".join(map(raw_source, _files())).encode()).hexdigest()


def definitions() -> Iterator[Statement[None]]:
    """Yield the statements that create or upgrade the schema; run them in one transaction after `lock_schema`."""
    for path in _files():
        failing = f"Failed to install schema rowbus_spark ({path.rpartition('/')[2]})"
        for query in load_script(path, failing=failing):
            yield Statement(query, {}, no_rows)


def text() -> str:
    """Return the whole installation as one script for psql."""
    files = [f"-- {path.rpartition('/')[2]}\n{raw_source(path).strip()}" for path in _files()]
    return "\n\n".join(["begin;", script(lock_schema()), *files, script(record_version()), "commit;"])


def is_writers(foreign: Foreign) -> bool:
    """Return whether it belongs to a role that writes with Spark: a stage, or the right to create one."""
    return foreign.what.startswith((f"table {NAME}.stage_", "the right to create objects"))


def lock_schema() -> Statement[None]:
    """Lock the installation until the transaction ends; waits for other installers."""
    return Statement(_load("lock_schema"), {}, no_rows)


def find_version() -> Statement[InstalledVersion | None]:
    """Return the installed version; fails with `undefined schema` or `undefined table` where none is."""
    return Statement(_load("find_version"), {}, _installed)


def record_version() -> Statement[None]:
    """Record that this version is installed."""
    return Statement(_load("record_version"), {"version": VERSION, "digest": digest()}, no_rows)


def grant_use(role: str) -> Statement[None]:
    """Let a role write with Spark, and receive from queues with it; targets and queues need grants of their own."""
    failing = f"Failed to grant the use of schema rowbus_spark to {role}"
    query = load(f"{_FOLDER}/grant_use.sql", identifiers={"role": role}, failing=failing, prepare=False)
    return Statement(query, {}, no_rows)


def _files() -> list[str]:
    return [f"{_DEFINITIONS}/{name}" for name in names_in(_DEFINITIONS)]


def _load(operation: str) -> Query:
    return load(f"{_FOLDER}/{operation}.sql", failing="Failed to install schema rowbus_spark", prepare=False)


def _installed(rows: Rows, _count: int) -> InstalledVersion | None:
    return InstalledVersion._make(rows[0]) if rows else None


_NOT_THERE = frozenset({"42P01", "3F000"})  # table, schema


def ensure(session: Session) -> bool:
    """Install schema `rowbus_spark`, or upgrade an older version; return whether it did.

    The session must be in no transaction. Raises PermissionDeniedError for a role that may not, ConfigurationError for
    a schema that another role owns, or that has functions of another role: this role would run them.
    """
    _refuse_strangers(session)
    if _is_current(session):
        return False
    try:
        _install(session)
    except PermissionDeniedError as error:
        raise PermissionDeniedError(
            f"{error}. Have the database's owner run what `rowbus schema sql --spark` prints, and grant this role the "
            f"use of schema rowbus_spark.",
            sqlstate=error.sqlstate,
            transient=False,
        ) from error
    logger.info("Installed schema rowbus_spark, version %s", VERSION)
    return True


def _refuse_strangers(session: Session) -> None:
    """Check the owners of the schema before anything in it is read; the database's owner may have made it."""
    foreign = session.run(log_schema.foreign_objects([NAME]))
    found = [each for each in ownership.suspicious(foreign) if not is_writers(each)]
    if found:
        raise ConfigurationError(ownership.refusal(found))


def _install(session: Session) -> None:
    with session.transaction():
        session.run(lock_schema())
        for statement in definitions():
            session.run(statement)
        session.run(record_version())


def is_installed(session: Session) -> bool:
    """Return whether the schema is installed, in any version."""
    return _found(session) is not None


def _is_current(session: Session) -> bool:
    """Return whether the installed version is this one or newer."""
    found = _found(session)
    if found is None or found.version < VERSION:
        return False
    return found.version > VERSION or found.digest == digest()


def _found(session: Session) -> InstalledVersion | None:
    try:
        return session.run(find_version())
    except StorageError as error:
        if error.sqlstate not in _NOT_THERE:
            raise
        return None
