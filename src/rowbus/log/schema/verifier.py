"""Compares the event log of a database with what this Rowbus would install.

Invariants: changes nothing, and runs nothing of a schema before it knows that no untrusted role can have changed it;
statements on catalogues only, but for `public_functions`, which calls a function of schema `pgq`: it is for a schema
whose functions are as they should be.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from rowbus.database.ownership import suspicious
from rowbus.database.statements import Statement, load, raw_source, split_script
from rowbus.errors import PermissionDeniedError
from rowbus.log.diagnosis import OLD_GRANTS, OLD_GRANTS_ADVICE
from rowbus.log.schema import table as log_schema
from rowbus.log.schema.definitions import Function, compare, definition, private_names
from rowbus.log.schema.table import SCHEMAS, files

if TYPE_CHECKING:
    from rowbus.database.sessions import Session
    from rowbus.database.statements import Query, Rows
    from rowbus.log.schema.definitions import Definition

_TRIGGER = re.compile(r"^create (?:or replace )?trigger (\w+)", re.MULTILINE)


@cache
def _statements() -> tuple[str, ...]:
    return tuple(text for path in files() for text in split_script(raw_source(path)))


def definitions() -> list[Definition]:
    """Read what this Rowbus would install."""
    return [found for text in _statements() for found in definition(text)]


def private_functions() -> set[str]:
    """Name the functions that this Rowbus takes from PUBLIC."""
    return private_names(_statements())


def functions() -> Statement[list[Function]]:
    """List the functions there are."""
    return Statement(_load("functions"), {"schemas": list(SCHEMAS)}, _read_functions)


def stray_triggers() -> Statement[list[str]]:
    """Describe the triggers and rules on the log's own tables that Rowbus has not made."""
    known = sorted({name for text in _statements() for name in _TRIGGER.findall(text)})
    return Statement(_load("stray_triggers"), {"schemas": list(SCHEMAS), "triggers": known}, _first_column)


def public_functions() -> Statement[list[str]]:
    """List the functions that PUBLIC may execute although privileges are split by role."""
    return Statement(_load("public_functions"), {}, _first_column)


def _load(operation: str) -> Query:
    return load(
        f"log/sql/postgresql/installation/{operation}.sql",
        failing="Failed to verify the event log",
        prepare=False,
    )


def _read_functions(rows: Rows, _count: int) -> list[Function]:
    return [Function._make(row) for row in rows]


def _first_column(rows: Rows, _count: int) -> list[str]:
    return [row[0] for row in rows]


class Verification(NamedTuple):
    """What was found, for people: `differences` an installation mends or an operator must; `warnings` were chosen."""

    differences: list[str]
    warnings: list[str]


def verify(session: Session) -> Verification:
    """Compare the log's schema: owners, version, functions with their rights and paths, tables, triggers, grants."""
    state = session.run(log_schema.state())
    if not state.has_queues:
        return Verification(["it is not installed"], [])
    foreign = [str(found) for found in suspicious(session.run(log_schema.foreign_objects()))]
    if foreign:  # the tables may be views
        return Verification(foreign, [])
    if not state.is_ours:
        return Verification(["PgQ made it; `rowbus log adopt` takes it over"], [])
    by_role = session.run(log_schema.grant_style()) == "new"
    differences = [*_version(session), *_functions(session, by_role=by_role)]
    differences += session.run(log_schema.missing())
    differences += session.run(stray_triggers())
    return Verification(differences, [] if by_role else [f"{OLD_GRANTS}: {OLD_GRANTS_ADVICE}"])


def _version(session: Session) -> list[str]:
    installed = session.run(log_schema.version())
    if installed == log_schema.VERSION:
        return []
    return [f"it has version {installed}, not {log_schema.VERSION}"]


def _functions(session: Session, *, by_role: bool) -> list[str]:
    found = list(
        compare(
            definitions(),
            session.run(functions()),
            private_functions(),
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
        return session.run(public_functions())
    except PermissionDeniedError:
        return []
