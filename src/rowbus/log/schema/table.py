"""The schema `pgq`: the statements that install it, and those that describe it.

Its definitions are the files below `log/schema/`, taken in the order of `PARTS` and, within a folder, by name; a new
file is picked up as it is. Invariant: each file may run again over what it made before, at any time, and running
all of them is both the installation and the upgrade.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from rowbus.database.ownership import Foreign
from rowbus.database.statements import Statement, load, load_script, names_in, no_rows, raw_source, scalar
from rowbus.log.queries import FOLDER, log_query

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rowbus.database.statements import Query, Rows

VERSION = 3  # of the schema; raised whenever a released definition changes

SCHEMAS = ("pgq", "pgq_coop", "pgq_ext", "pgq_node")

PARTS = (
    "structure",
    "queues",
    "batches",
    "ticks",
    "information",
    "triggers",
    "coop",
    "ext",
    "node",
    "grants",
)

_GENERATED = {"pgq.jsontriga", "pgq.logutriga", "pgq.sqltriga"}  # by schema/triggers/change_triggers.sql
_FUNCTION = re.compile(r"^create or replace function (pgq\w*\.\w+)", re.MULTILINE)
_RELATION = re.compile(
    r"^create (?:(?:table|sequence) if not exists|or replace view) (pgq\w*\.\w+)", re.MULTILINE
)


class SchemaState(NamedTuple):
    """The state of schema `pgq`: `extension` is the version of the extension that owns it, if one does."""

    is_there: bool
    extension: str | None
    is_ours: bool
    has_queues: bool


def files() -> Iterator[str]:
    """Yield the paths of all definitions, in the order in which they run."""
    for part in PARTS:
        folder = f"{FOLDER}/schema/{part}"
        yield from (f"{folder}/{name}" for name in names_in(folder))


def definitions() -> Iterator[Statement[None]]:
    """Yield the statements that make the schema, or make an older one new; to be run in one transaction, locked."""
    for path in files():
        name = path.rpartition("/schema/")[2]
        for query in load_script(path, failing=f"Failed to install the event log ({name})"):
            yield Statement(query, {}, no_rows)


def adopt() -> Iterator[Statement[None]]:
    """Yield the statements that take a schema out of PgQ's extensions; the definitions are to follow at once."""
    for name in names_in(f"{FOLDER}/adopt"):
        failing = f"Failed to take over PgQ's schema ({name})"
        for query in load_script(f"{FOLDER}/adopt/{name}", failing=failing):
            yield Statement(query, {}, no_rows)


def dependent_extensions() -> Statement[list[str]]:
    """List the extensions that keep PgQ's from being dropped."""
    return Statement(_load("dependent_extensions", "Failed to look for extensions"), {}, _first_column)


def uses() -> Statement[list[str]]:
    """Describe what would be lost with the schema: queues, and triggers on other tables."""
    return Statement(_load("uses", "Failed to look for queues"), {}, _first_column)


def drop() -> Iterator[Statement[None]]:
    """Yield the statements that drop the schemas with everything in them, and every trigger that uses them."""
    for query in load_script(f"{FOLDER}/installation/drop.sql", failing="Failed to remove the event log"):
        yield Statement(query, {}, no_rows)


def missing() -> Statement[list[str]]:
    """Describe what of the schema, or of a queue, is not there; only where there is a table of queues."""
    source = text()
    parameters = {
        "functions": sorted(_GENERATED.union(_FUNCTION.findall(source))),
        "relations": sorted(set(_RELATION.findall(source))),
    }
    return Statement(_load("missing", "Failed to verify the event log"), parameters, _first_column)


def foreign_objects(schemas: Sequence[str] = SCHEMAS) -> Statement[list[Foreign]]:
    """Find what is in these schemas, or is one of them, and belongs to a role that this one cannot trust."""
    return _foreign_objects(schemas)


def _foreign_objects(schemas: Sequence[str], *, fails: bool = False) -> Statement[list[Foreign]]:
    path = "database/sql/postgresql/foreign_objects.sql"
    query = load(path, failing="Failed to look for objects of others", prepare=False)
    return Statement(query, {"schemas": list(schemas), "fails": fails}, _foreign)


def guard(schemas: Sequence[str] = SCHEMAS) -> Statement[None]:
    """Fail if there is something in these schemas that belongs to a role that this one cannot trust."""
    query, parameters, _ = _foreign_objects(schemas, fails=True)
    return Statement(query, parameters, no_rows)


def role_members() -> Statement[list[str]]:
    """Describe what is unusual about the roles pgq_reader, pgq_writer and pgq_admin, which are the whole server's."""
    return Statement(_load("role_members", "Failed to look for members of roles"), {}, _first_column)


def grant_style() -> Statement[str]:
    """Say in which style the use of the log is granted: `new`, by role, or `old`; only for a schema that is ours."""
    return Statement(_load("grant_style", "Failed to look for privileges"), {}, scalar)


def set_grants(style: str) -> Statement[None]:
    """Choose the style of grants: `new` separates readers, writers and administrators, `old` grants all to PUBLIC."""
    return Statement(_load("set_grants", "Failed to grant"), {"style": style}, no_rows)


def grant_role(privileges: str, role: str) -> Statement[None]:
    """Make a role a member of pgq_reader, pgq_writer or pgq_admin."""
    path = f"{FOLDER}/installation/grant_role.sql"
    query = load(path, identifiers={"privileges": privileges, "role": role}, failing="Failed to grant")
    return Statement(query, {}, no_rows)


def text() -> str:
    """Return all definitions as one script for psql, each file under its name."""
    parts = [f"-- {path.rpartition('/schema/')[2]}\n{raw_source(path).strip()}" for path in files()]
    return "\n\n".join(parts)


def lock() -> Statement[None]:
    """Wait until no other session changes the schema, and lock it until the end of the transaction."""
    return Statement(_load("lock", "Failed to lock the schema of the event log"), {}, no_rows)


def state() -> Statement[SchemaState]:
    """Describe what there is."""
    return Statement(_load("state", "Failed to look for the schema of the event log"), {}, _state)


def version() -> Statement[int | None]:
    """Return the newest version that was installed here; only for a schema that is ours."""
    return Statement(_load("version", "Failed to read the version of the event log"), {}, scalar)


def record_version() -> Statement[None]:
    """Note that `VERSION` is installed."""
    query = _load("record_version", "Failed to note the version of the event log")
    return Statement(query, {"version": VERSION}, no_rows)


def _load(operation: str, failing: str) -> Query:
    return log_query(f"installation/{operation}", failing)


def _state(rows: Rows, _count: int) -> SchemaState:
    return SchemaState._make(rows[0])


def _foreign(rows: Rows, _count: int) -> list[Foreign]:
    return [Foreign(*row[:3]) for row in rows]


def _first_column(rows: Rows, _count: int) -> list[str]:
    return [row[0] for row in rows]
