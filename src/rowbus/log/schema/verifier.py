"""Compares the event log of a database with what this Rowbus would install.

Invariant: changes nothing, and runs nothing of a schema before it knows that no untrusted role can have changed it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rowbus.database.ownership import suspicious
from rowbus.errors import PermissionDeniedError
from rowbus.log.diagnosis import OLD_GRANTS, OLD_GRANTS_ADVICE
from rowbus.log.schema import table as log_schema
from rowbus.log.schema import verification as log_verification
from rowbus.log.schema.definitions import compare

if TYPE_CHECKING:
    from rowbus.database.sessions import Session


class Verified(NamedTuple):
    """What was found, for people: `differences` an installation mends or an operator must; `warnings` were chosen."""

    differences: list[str]
    warnings: list[str]


def verify(session: Session) -> Verified:
    """Compare the log's schema: owners, version, functions with their rights and paths, tables, triggers, grants."""
    state = session.run(log_schema.state())
    if not state.has_queues:
        return Verified(["it is not installed"], [])
    foreign = [str(found) for found in suspicious(session.run(log_schema.foreign_objects()))]
    if foreign:  # the tables may be views
        return Verified(foreign, [])
    if not state.is_ours:
        return Verified(["PgQ made it; `rowbus log adopt` takes it over"], [])
    by_role = session.run(log_schema.grant_style()) == "new"
    differences = [*_version(session), *_functions(session, by_role=by_role)]
    differences += session.run(log_schema.missing())
    differences += session.run(log_verification.stray_triggers())
    return Verified(differences, [] if by_role else [f"{OLD_GRANTS}: {OLD_GRANTS_ADVICE}"])


def _version(session: Session) -> list[str]:
    installed = session.run(log_schema.version())
    if installed == log_schema.VERSION:
        return []
    return [f"it has version {installed}, not {log_schema.VERSION}"]


def _functions(session: Session, *, by_role: bool) -> list[str]:
    found = list(
        compare(
            log_verification.definitions(),
            session.run(log_verification.functions()),
            log_verification.private_functions(),
            by_role=by_role,
        )
    )
    if by_role and not any("_function_role" in difference for difference in found):
        found += [
            f"function {signature}: every role may execute it"
            for signature in _public(session)
            if not any(difference.startswith(f"function {signature}: ") for difference in found)
        ]
    return found


def _public(session: Session) -> list[str]:
    """List the functions that PUBLIC may execute and one role alone should; only the schema's owner can ask."""
    try:
        return session.run(log_verification.public_functions())
    except PermissionDeniedError:
        return []
