"""Installer of the schema `rowbus_spark`, run when Spark first needs it; safe when several processes install at once.

Invariant: two short queries when the schema is current; never a downgrade; an installation is one transaction.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from rowbus.database import ownership
from rowbus.errors import ConfigurationError, PermissionDeniedError, StorageError
from rowbus.log.schema import table as log_schema
from rowbus.spark.schema import table as spark_schema

if TYPE_CHECKING:
    from rowbus.database.sessions import Session

logger = logging.getLogger("rowbus.install")

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
    logger.info("Installed schema rowbus_spark, version %s", spark_schema.VERSION)
    return True


def _refuse_strangers(session: Session) -> None:
    """Check the owners of the schema before anything in it is read; the database's owner may have made it."""
    foreign = session.run(log_schema.foreign_objects([spark_schema.NAME]))
    found = [each for each in ownership.suspicious(foreign) if not spark_schema.is_writers(each)]
    if found:
        raise ConfigurationError(ownership.refusal(found))


def _install(session: Session) -> None:
    with session.transaction():
        session.run(spark_schema.lock_schema())
        for statement in spark_schema.definitions():
            session.run(statement)
        session.run(spark_schema.record_version())


def is_installed(session: Session) -> bool:
    """Return whether the schema is installed, in any version."""
    return _found(session) is not None


def _is_current(session: Session) -> bool:
    """Return whether the installed version is this one or newer."""
    found = _found(session)
    if found is None or found.version < spark_schema.VERSION:
        return False
    return found.version > spark_schema.VERSION or found.digest == spark_schema.digest()


def _found(session: Session) -> spark_schema.InstalledVersion | None:
    try:
        return session.run(spark_schema.find_version())
    except StorageError as error:
        if error.sqlstate not in _NOT_THERE:
            raise
        return None
