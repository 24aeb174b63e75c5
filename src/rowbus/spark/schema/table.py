"""Schema `rowbus_spark`: the tables that Rowbus keeps in a database for Spark, and the statements that install them.

Its definitions are the files of `sql/postgresql/definitions/`, run in the order of their names. Invariant: each file
may run again over what it made before, at any time; running all of them is both the installation and the upgrade.
"""

from __future__ import annotations

import hashlib
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from rowbus.database.statements import Statement, load, load_script, names_in, no_rows, raw_source, script

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rowbus.database.ownership import Foreign
    from rowbus.database.statements import Query, Rows

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
