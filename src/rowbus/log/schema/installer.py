"""Installs, upgrades, takes over and removes the event log's schema, safe beside other sessions that do the same.

Invariant: a change is one transaction, which first takes a lock; it fails as a whole and leaves the old schema, and
repeating it changes nothing.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from rowbus.database import ownership
from rowbus.database.statements import run_steps, run_steps_now
from rowbus.errors import ConfigurationError
from rowbus.log.schema import table as log_schema

if TYPE_CHECKING:
    from rowbus.database.sessions import AsyncSession, Session
    from rowbus.database.statements import Steps

MOST_SHOWN = 5  # things named in an error

logger = logging.getLogger("rowbus.install")


class Installation(NamedTuple):
    """The result of an installation."""

    before: int | None
    """The version before; None: there was no log of Rowbus's."""

    grants: str
    """The style of grants: `new`, by role, or `old`, everything to PUBLIC, which an upgrade keeps."""

    notes: list[str]
    """Notes for the operator on the roles pgq_reader, pgq_writer and pgq_admin; for a new log."""

    @property
    def changed(self) -> bool:
        """Whether the schema was missing or older."""
        return self.before != log_schema.VERSION


async def install(session: AsyncSession) -> bool:
    """Install the schema, or upgrade an older one; say whether it was missing or older.

    One transaction. A new log's use is granted by role; an upgrade keeps what was granted. Raises ConfigurationError
    when another product's schema `pgq` is there, or a newer one of ours, or something that another role may change.
    """
    async with session.transaction():
        return (await run_steps(session, _install())).changed


def install_now(session: Session) -> bool:
    """Do what `install` does, on a synchronous session."""
    return install_and_report(session).changed


def install_and_report(session: Session) -> Installation:
    """Do what `install_now` does, and say more about it."""
    with session.transaction():
        return run_steps_now(session, _install())


def adopt_now(session: Session, *, release_dependents: bool = False) -> str:
    """Take over a schema that PgQ's extension, or its plain SQL file, made; return what it was, for people.

    `release_dependents`: also where other extensions depend on PgQ's, as londiste: their objects stay too, and are no
    extension's any more.

    Keeps queues, events, ticks, sequences, positions, open batches, waiting retries, and triggers on other tables.
    One transaction, in which queues can be used but not created, dropped or rotated. Raises ConfigurationError when
    there is nothing to take over, or another extension depends on it; PermissionDeniedError for others than its owner.
    """
    with session.transaction():
        return run_steps_now(session, _adopt(release_dependents=release_dependents))


def uninstall_now(session: Session, *, force: bool = False) -> bool:
    """Remove the schema with everything in it; say whether there was one.

    One transaction. Raises ConfigurationError when queues, or triggers on other tables, would be lost, unless forced.
    """
    with session.transaction():
        return run_steps_now(session, _uninstall(force=force))


def _install() -> Steps[Installation]:
    yield log_schema.lock()
    yield from _refuse_strangers()
    state: log_schema.SchemaState = yield log_schema.state()
    if state.extension or (state.has_queues and not state.is_ours):
        raise ConfigurationError(
            "The schema pgq of this database was made by another product "
            "(PgQ's extension or its SQL file); take it over with `rowbus log adopt`."
        )
    installed: int | None = (yield log_schema.version()) if state.is_ours else None
    _refuse_downgrade(installed)
    yield from _define()
    style: str = yield log_schema.grant_style()
    notes: list[str] = (yield log_schema.role_members()) if installed is None else []
    report = Installation(installed, style, notes)
    if report.changed:
        logger.info("Installed the event log, version %s (before: %s)", log_schema.VERSION, installed)
    return report


def _refuse_strangers() -> Steps[None]:
    found: list[ownership.Foreign] = yield log_schema.foreign_objects()
    if found:
        raise ConfigurationError(ownership.refusal(found))


def _adopt(*, release_dependents: bool) -> Steps[str]:
    yield log_schema.lock()
    yield from _refuse_strangers()
    state: log_schema.SchemaState = yield log_schema.state()
    if not state.has_queues:
        raise ConfigurationError(
            "There is no PgQ in this database to take over; `rowbus log install` makes one."
        )
    if state.is_ours and not state.extension:
        raise ConfigurationError("The event log of this database is Rowbus's already.")
    dependents: list[str] = yield log_schema.dependent_extensions()
    if dependents and not release_dependents:
        raise ConfigurationError(
            f"PgQ cannot be taken over while other extensions depend on it: {', '.join(dependents)}. With "
            "`rowbus log adopt --release-dependents` they cease to be extensions; tables, functions and data stay."
        )
    yield from log_schema.adopt()
    yield from _define()
    origin = f"PgQ's extension, version {state.extension}" if state.extension else "PgQ's plain SQL"
    if dependents:
        origin += f"; no extensions any more: {', '.join(dependents)}"
    logger.info("Took over the event log from %s", origin)
    return origin


def _uninstall(*, force: bool) -> Steps[bool]:
    yield log_schema.lock()
    state: log_schema.SchemaState = yield log_schema.state()
    if not state.is_there:
        return False
    if state.extension:
        raise ConfigurationError(
            "The schema pgq belongs to PgQ's extension; remove it with `drop extension pgq`."
        )
    lost: list[str] = (yield log_schema.uses()) if state.has_queues else []
    if lost and not force:
        raise ConfigurationError(
            f"Removing the event log would lose {_some(lost)}; if you mean it, repeat with --force."
        )
    yield from log_schema.drop()
    logger.info("Removed the event log")
    return True


def _define() -> Steps[None]:
    yield from log_schema.definitions()
    yield log_schema.record_version()


def _some(things: list[str]) -> str:
    shown = ", ".join(things[:MOST_SHOWN])
    more = len(things) - MOST_SHOWN
    return shown if more <= 0 else f"{shown} and {more} more"


def _refuse_downgrade(installed: int | None) -> None:
    if installed is not None and installed > log_schema.VERSION:
        raise ConfigurationError(
            f"The event log of this database has version {installed}, and this Rowbus installs "
            f"{log_schema.VERSION}; upgrade Rowbus."
        )
